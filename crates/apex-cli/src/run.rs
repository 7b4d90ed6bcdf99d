//! `apex run`: starts a program with the shim before its driver, and reports at its end.
//!
//! Whatever is missing on our side, the program runs: without the shim it runs as if apex were absent,
//! without a place on disk it is reported from memory. Only a wrong call of apex itself stops it.

mod accelerators;
mod closing_report;
mod no_session;
mod program;
mod session_folders;

use crate::arguments::{ModeWord, Run, STANDARD_ERROR};
use crate::clocks::Clocks;
use crate::device::{self, Choosing, Driver};
use crate::environment;
use crate::followed_models::FollowedModels;
use crate::frameworks::Variables;
use crate::sharing::{self, Sharing};
use crate::supervise::{Signals, exit_of, has_spare_descriptors, raise_descriptor_limit};
use crate::tune::TuningFile;
use apex_core::knobs::Knobs;
use apex_core::time::wall_nanos;
use apex_core::tuning::Tuning;
use apex_daemon::advice::{Advice, of_session};
use apex_daemon::find;
use apex_daemon::progress::Progress;
use apex_daemon::read::Stored;
use apex_daemon::recording::Recording;
use apex_daemon::schedule::mps::Mps;
use apex_daemon::session::new_id;
use apex_daemon::speech::{hold, say, take_held};
use apex_daemon::summary::{Exit, Kept, Summary};
use apex_daemon::user_setup::{UserSetup, own_executable};
use closing_report::ClosingReport;
use no_session::NoSession;
use session_folders::SessionFolders;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::time::Duration;

pub(crate) fn run(arguments: &Run) -> anyhow::Result<ExitCode> {
    if is_document_alone(arguments) {
        hold();
    }
    let setup = UserSetup::read();
    if !setup.knobs.enabled {
        return Ok(program::run_untouched(&arguments.command));
    }
    setup.recover();
    let started = prepare(arguments, &setup).and_then(|prepared| start(arguments, prepared));
    let Started { child, beside, folders, document } = match started {
        Ok(started) => started,
        Err(reason) => return Ok(reason.carry_on(&arguments.command)),
    };
    let ended = watch(child, beside, arguments.wait)?;
    Ok(close(arguments, &setup, folders, document, ended))
}

/// Whether the document takes the place of all that apex says on standard error.
fn is_document_alone(arguments: &Run) -> bool {
    arguments.json.as_deref() == Some(Path::new(STANDARD_ERROR))
}

/// All that a session needs, before the program starts.
struct Prepared {
    command: Command,
    beside: Beside,
    folders: SessionFolders,
    document: Option<File>,
}

/// What goes on beside the program.
struct Beside {
    signals: Signals,
    recording: Recording,
    models: FollowedModels,
    sharing: Option<Sharing>,
    clocks: Option<Clocks>,
}

/// The files of apex that a session needs.
struct OwnFiles {
    executable: PathBuf,
    shim: PathBuf,
}

fn prepare(arguments: &Run, setup: &UserSetup) -> Result<Prepared, NoSession> {
    let own = own_files(&setup.knobs)?;
    // The loader answers while the folders are made and the models are read.
    let choice = arguments.device.map_or(setup.knobs.device, Into::into);
    let device = device::begin(&setup.knobs, choice, &own.executable);
    let tuning = tuning(arguments.tuning.as_deref())?;
    let document = document(arguments)?;
    let id = new_id(wall_nanos(), std::process::id());
    let folders = SessionFolders::create(arguments.output.as_deref(), setup, &id)?;
    let models = FollowedModels::open(&setup.knobs, &own.executable);
    match equip(arguments, setup, &own, Given { device, models, tuning }, &folders, &id) {
        Ok((command, beside)) => Ok(Prepared { command, beside, folders, document }),
        Err(reason) => {
            folders.discard();
            Err(reason)
        }
    }
}

/// Finds the shim, without which there is no session.
fn own_files(knobs: &Knobs) -> Result<OwnFiles, NoSession> {
    let executable = own_executable().map_err(|error| {
        NoSession::RunsUntouched(format!(
            "apex cannot find its own executable ({error}); the program runs without apex"
        ))
    })?;
    if knobs.real_libcuda.is_none() && !Path::new("/proc/self").exists() {
        say("/proc is hidden here: a driver is found only where APEX_REAL_LIBCUDA names it");
    }
    match find::shim(&executable) {
        Some(shim) => Ok(OwnFiles { executable, shim }),
        None => Err(NoSession::RunsUntouched(format!(
            "{} is not beside {}; {}; the program runs without apex",
            find::SHIM,
            executable.display(),
            find::REMEDY
        ))),
    }
}

fn tuning(path: Option<&Path>) -> Result<Option<Tuning>, NoSession> {
    let read = |path| TuningFile::read(path)?.tuning();
    path.map(read).transpose().map_err(|error| NoSession::CalledWrongly(format!("{error:#}")))
}

/// The file for the document: that it has no place is found out before the program runs.
fn document(arguments: &Run) -> Result<Option<File>, NoSession> {
    let path = arguments.json.as_deref().filter(|_| !is_document_alone(arguments));
    let create = |path: &Path| {
        File::create(path).map_err(|error| {
            NoSession::CalledWrongly(format!("{} cannot be written: {error}", path.display()))
        })
    };
    path.map(create).transpose()
}

/// What a program is given beside the shim.
struct Given {
    device: Choosing,
    models: FollowedModels,
    tuning: Option<Tuning>,
}

/// Makes the command with all that the program is given, and what goes on beside it.
fn equip(
    arguments: &Run,
    setup: &UserSetup,
    own: &OwnFiles,
    given: Given,
    folders: &SessionFolders,
    id: &str,
) -> Result<(Command, Beside), NoSession> {
    let (knobs, session, rings) = (&setup.knobs, folders.session(), folders.rings());
    let Given { device, models, tuning } = given;
    let mut command = program::command(&arguments.command);
    command.envs(shim_variables(arguments, knobs, own, &device.finish(), rings)?);
    // Before any thread is made.
    let signals = Signals::hold().map_err(|error| {
        NoSession::RunsUntouched(format!(
            "signals cannot be read ({error}); the program runs without apex"
        ))
    })?;
    let sharing = Sharing::prepare(arguments, knobs, rings).map_err(NoSession::CalledWrongly)?;
    command.envs(sharing.iter().flat_map(Sharing::variables));
    if let Some(tuning) = tuning {
        apply_tuning(&mut command, &tuning, rings);
    }
    command.envs(accelerators::variables(arguments.fast, setup));
    if let Some(folder) = models.folder() {
        command.env("APEX_MODELS", folder);
    }
    let advises = arguments.mode == ModeWord::Advise;
    if advises {
        command.env("APEX_DETAIL", "1");
    }
    let clocks = session.filter(|_| advises).and_then(Clocks::watch);
    let words = program::texts(&arguments.command);
    let mut recording = Recording::start(rings, session, id, &words);
    recording.predict_with(models.at_hand());
    if knobs.history
        && has_spare_descriptors()
        && let Some(folder) = setup.sessions.own_place()
    {
        recording.remember_in(folder, models.histories());
    }
    recording.read_code_for(Duration::from_secs_f64(knobs.code_seconds.min(3600.0)));
    Ok((command, Beside { signals, recording, models, sharing, clocks }))
}

/// What puts the shim before the driver that is chosen here.
fn shim_variables(
    arguments: &Run,
    knobs: &Knobs,
    own: &OwnFiles,
    driver: &Driver,
    rings: &Path,
) -> Result<Variables, NoSession> {
    let timing = arguments.timing.map_or(knobs.timing, Into::into);
    if let Some(sentence) = driver.sentence() {
        say(&sentence);
    }
    let command = &arguments.command;
    environment::variables(knobs, timing, rings, &own.shim, driver, command).map_err(|error| {
        NoSession::RunsUntouched(format!(
            "{} cannot be prepared ({error}); the program runs without apex",
            rings.display()
        ))
    })
}

/// Leaves the tuning where the program's processes look for it.
fn apply_tuning(command: &mut Command, tuning: &Tuning, rings: &Path) {
    let lines = rings.join("tuning");
    match std::fs::write(&lines, tuning.text()) {
        Ok(()) => {
            command.env("APEX_TUNING", lines);
        }
        Err(error) => say(&format!("the tuning is not applied: {}: {error}", lines.display())),
    }
}

/// A program that runs, and what goes on beside it.
struct Started {
    child: Child,
    beside: Beside,
    folders: SessionFolders,
    document: Option<File>,
}

fn start(arguments: &Run, prepared: Prepared) -> Result<Started, NoSession> {
    let Prepared { mut command, beside, folders, document } = prepared;
    let error = match beside.signals.start(&mut command, arguments.wait) {
        Ok(child) => return Ok(Started { child, beside, folders, document }),
        Err(error) => error,
    };
    let Beside { signals, recording, models, sharing, clocks } = beside;
    // They read and write in the folders.
    drop((recording, models, sharing, clocks));
    folders.discard();
    if program::is_short_of_descriptors(&error) {
        signals.let_go();
        return Err(NoSession::RunsUntouched(format!(
            "no place is left for apex ({error}); the program runs without it"
        )));
    }
    Err(NoSession::NotStarted(error))
}

/// What was recorded, how the GPU was shared, and how to end.
struct Ended {
    summary: Summary,
    shared: Option<String>,
    signals: Signals,
    exit: Exit,
}

/// Stays until the program's end, and if wanted until that of all it has started.
fn watch(mut child: Child, beside: Beside, with_children: bool) -> anyhow::Result<Ended> {
    let Beside { signals, mut recording, mut models, mut sharing, clocks } = beside;
    raise_descriptor_limit();
    let mut look = || {
        let wait = recording.look();
        recording.take_notes().iter().for_each(|sentence| say(sentence));
        if let Some(sharing) = &mut sharing {
            sharing.look();
        }
        models.look().iter().for_each(|sentence| say(sentence));
        wait
    };
    let exit = exit_of(signals.wait(&mut child, &mut look)?);
    // A child of ours too, which would never end.
    drop(clocks);
    if with_children {
        signals.wait_for_orphans(&mut look)?;
    }
    let (shared, mps) = sharing.map(Sharing::finish).unwrap_or_default();
    if let Some(sentence) = &shared {
        recording.note(sentence.clone());
    }
    let (summary, notes) = recording.finish(Some(exit));
    notes.iter().chain(&mps.and_then(Mps::end)).for_each(|sentence| say(sentence));
    Ok(Ended { summary, shared, signals, exit })
}

/// Enters the session into the list, reports, and ends as the program ended.
fn close(
    arguments: &Run,
    setup: &UserSetup,
    mut folders: SessionFolders,
    document: Option<File>,
    ended: Ended,
) -> ExitCode {
    let Ended { summary, shared, signals, exit } = ended;
    let in_place = summary.own.kept == Kept::InPlace;
    if let Some(session) = folders.session().filter(|_| in_place)
        && let Err(error) = Recording::enter(&setup.sessions, session)
    {
        say(&error.to_string());
    }
    let session = folders.release_session();
    let session = session.as_deref();
    let advises = arguments.mode == ModeWord::Advise;
    let advice = if advises { advice(session.filter(|_| in_place)) } else { None };
    let report = ClosingReport { summary: &summary, advice: advice.as_ref(), session };
    if let Some(mut file) = document
        && let Err(error) = file.write_all(report.document(Vec::new()).as_bytes())
    {
        say(&format!("the document is not written: {error}"));
    }
    let alone = is_document_alone(arguments);
    let text = if alone { report.document(take_held()) } else { report.page() };
    let _ = io::stderr().lock().write_all(text.as_bytes());
    // A signal may end this process: it drops nothing.
    drop(folders);
    if !alone {
        let propose = || sharing::proposal(&summary, session?);
        if let Some(sentence) = shared.or_else(propose) {
            say(&sentence);
        }
    }
    signals.end_like(exit)
}

/// What the rules say of a session that was kept.
fn advice(session: Option<&Path>) -> Option<Advice> {
    let Some(session) = session else {
        say("the session is not kept, so there is no advice");
        return None;
    };
    let mut stored = Stored::open(session).map_err(|error| say(&error.to_string())).ok()?;
    let advice = of_session(&mut stored, &mut Progress::on_stderr());
    stored.complaints.iter().for_each(|complaint| say(complaint));
    Some(advice)
}

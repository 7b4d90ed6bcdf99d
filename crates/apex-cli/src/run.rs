//! `apex run`: starts a program with the shim before its driver, and reports at its end.
//!
//! Whatever is missing on our side, the program runs: without the shim it runs as if apex were absent,
//! without a place on disk it is reported from memory. Only a wrong call of apex itself stops it.

use crate::arguments::{ModeWord, Run};
use crate::clocks::Clocks;
use crate::models::Watching;
use crate::place::Place;
use crate::sharing::Sharing;
use crate::supervise::{Signals, exit_of, raise_descriptor_limit};
use crate::tune::TuningFile;
use crate::{device, environment, say, sharing};
use anyhow::Context;
use apex_core::time::wall_nanos;
use apex_daemon::advice::{Advice, of_session, show_top};
use apex_daemon::progress::Progress;
use apex_daemon::read::Stored;
use apex_daemon::recording::Recording;
use apex_daemon::schedule::mps::Mps;
use apex_daemon::session::new_id;
use apex_daemon::show::{Layout, report};
use apex_daemon::summary::Summary;
use apex_daemon::{Error, find, rings_place};
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Called wrongly.
const USAGE: u8 = 2;

pub(crate) fn run(arguments: &Run) -> anyhow::Result<ExitCode> {
    let place = Place::of_this_user();
    if !place.knobs.enabled {
        return Ok(run_untouched(&arguments.command));
    }
    place.recover();
    let executable = std::env::current_exe().context("apex cannot find its own executable")?;
    let Some(shim) = find::shim(&executable) else {
        say(&format!(
            "{} is not beside {}; build it with `cargo build -p apex-shim`; the program runs without apex",
            find::SHIM,
            executable.display()
        ));
        return Ok(run_untouched(&arguments.command));
    };
    let tuning = match arguments.tuning.as_deref().map(|path| TuningFile::read(path)?.tuning()) {
        Some(Err(error)) => {
            say(&format!("{error:#}"));
            return Ok(ExitCode::from(USAGE));
        }
        other => other.and_then(Result::ok),
    };
    let id = new_id(wall_nanos(), std::process::id());
    let elsewhere = arguments.output.as_deref().map(|text| PathBuf::from(expand(text)));
    let session = match place.sessions.create(&id, elsewhere.as_deref()) {
        Ok(directory) => Some(directory),
        Err(error @ Error::Occupied(_)) => {
            say(&error.to_string());
            return Ok(ExitCode::from(USAGE));
        }
        Err(error) => {
            say(&format!("{error}; the session is not kept, the report is still made"));
            None
        }
    };
    // Without a directory of its own a session may still have its rings in memory.
    let beside = session.clone().unwrap_or_else(std::env::temp_dir);
    let rings = match rings_place::create(&place.rings, &beside, &id) {
        Ok(rings) => rings,
        Err(error) => {
            say(&format!(
                "there is no place for the rings ({error}); the program runs without apex"
            ));
            return Ok(run_untouched(&arguments.command));
        }
    };
    let timing = arguments.timing.map_or(place.knobs.timing, Into::into);
    let choice = arguments.device.map_or(place.knobs.device, Into::into);
    let driver = device::choose(&place.knobs, choice, &executable);
    if let Some(sentence) = driver.sentence() {
        say(&sentence);
    }
    let variables = match environment::variables(&place.knobs, timing, &rings, &shim, &driver) {
        Ok(variables) => variables,
        Err(error) => {
            say(&format!(
                "{} cannot be prepared ({error}); the program runs without apex",
                rings.display()
            ));
            return Ok(run_untouched(&arguments.command));
        }
    };
    let mut command = command(&arguments.command);
    command.envs(variables);
    // Before any thread is made.
    let signals = Signals::hold().context("signals cannot be read")?;
    let sharing = match Sharing::prepare(arguments, &place.knobs, &rings) {
        Ok(sharing) => sharing,
        Err(sentence) => {
            say(&sentence);
            for directory in [Some(&rings), session.as_ref()].into_iter().flatten() {
                let _ = std::fs::remove_dir_all(directory);
            }
            return Ok(ExitCode::from(USAGE));
        }
    };
    command.envs(sharing.iter().flat_map(Sharing::variables));
    if let Some(tuning) = tuning {
        let lines = rings.join("tuning");
        match std::fs::write(&lines, tuning.text()) {
            Ok(()) => {
                command.env("APEX_TUNING", lines);
            }
            Err(error) => say(&format!("the tuning is not applied: {}: {error}", lines.display())),
        }
    }
    let models = Watching::open(&place.knobs, &executable);
    if let Some(folder) = models.folder() {
        command.env("APEX_MODELS", folder);
    }
    let advises = arguments.mode == ModeWord::Advise;
    if advises {
        command.env("APEX_DETAIL", "1");
    }
    let clocks = session.as_deref().filter(|_| advises).and_then(Clocks::watch);
    let mut recording =
        Recording::start(&rings, session.as_deref(), &id, &words(&arguments.command));
    recording.predict_with(models.at_hand());
    let beside = Beside { recording, models, sharing };
    let (summary, code) = watch(signals, command, beside, &rings, session.as_deref())?;
    drop(clocks);
    let Some((summary, shared, end)) = summary else { return Ok(code) };
    if let Some(session) = &session
        && let Err(error) = Recording::enter(&place.sessions, session)
    {
        say(&error.to_string());
    }
    let advice = if advises { advice(session.as_deref()) } else { None };
    show(&summary, advice.as_ref(), session.as_deref(), arguments.json);
    if !arguments.json {
        let propose = || sharing::proposal(&summary, session.as_deref()?);
        if let Some(sentence) = shared.or_else(propose) {
            say(&sentence);
        }
    }
    Ok(end())
}

/// What was recorded, how the GPU was shared, and how to end.
type Ended = Option<(Summary, Option<String>, Box<dyn FnOnce() -> ExitCode>)>;

/// What goes on beside the program.
struct Beside {
    recording: Recording,
    models: Watching,
    sharing: Option<Sharing>,
}

/// Starts the program and stays until its end. Without a summary it could not be started.
fn watch(
    signals: Signals,
    mut command: Command,
    beside: Beside,
    rings: &Path,
    session: Option<&Path>,
) -> anyhow::Result<(Ended, ExitCode)> {
    let Beside { mut recording, mut models, mut sharing } = beside;
    let mut child = match signals.start(&mut command) {
        Ok(child) => child,
        Err(error) => {
            drop(recording);
            for directory in [Some(rings), session].into_iter().flatten() {
                let _ = std::fs::remove_dir_all(directory);
            }
            return Ok((None, not_started(command.get_program(), &error)));
        }
    };
    raise_descriptor_limit();
    let status = signals.wait(&mut child, || {
        let wait = recording.look();
        recording.take_notes().iter().for_each(|sentence| say(sentence));
        if let Some(sharing) = &mut sharing {
            sharing.look();
        }
        models.look().iter().for_each(|sentence| say(sentence));
        wait
    })?;
    let exit = exit_of(status);
    let (shared, mps) = sharing.map(Sharing::finish).unwrap_or_default();
    if let Some(sentence) = &shared {
        recording.note(sentence.clone());
    }
    let (summary, notes) = recording.finish(Some(exit));
    notes.iter().chain(&mps.and_then(Mps::end)).for_each(|sentence| say(sentence));
    let end = Box::new(move || signals.end_like(exit));
    Ok((Some((summary, shared, end)), ExitCode::SUCCESS))
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

fn show(summary: &Summary, advice: Option<&Advice>, session: Option<&Path>, json: bool) {
    let stderr = io::stderr();
    let place = session.map(|path| path.display().to_string());
    let text = if json {
        let mut document = serde_json::to_value(summary).unwrap_or_default();
        if let (Some(fields), Some(advice)) = (document.as_object_mut(), advice) {
            let advice = serde_json::to_value(advice).unwrap_or_default();
            fields.insert("advice".into(), advice);
        }
        serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
    } else {
        let layout = layout(&stderr);
        let place = place.as_deref();
        let top = advice.map(|advice| show_top(advice, place.unwrap_or_default(), layout.width));
        report(summary, place, layout) + &top.unwrap_or_default()
    };
    let _ = stderr.lock().write_all(text.as_bytes());
}

/// The layout for a stream: a terminal's own width, and colour unless the user refuses it.
pub(crate) fn layout(stream: &impl IsTerminal) -> Layout {
    let terminal = stream.is_terminal();
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let width = ratatui::crossterm::terminal::size().map_or(120, |(columns, _)| columns.into());
    Layout { width: if terminal { width } else { 120 }, colour: terminal && !refused }
}

/// Becomes the program, without apex.
fn run_untouched(words: &[OsString]) -> ExitCode {
    let mut command = command(words);
    let error = command.exec();
    not_started(command.get_program(), &error)
}

fn command(words: &[OsString]) -> Command {
    let mut command = Command::new(words.first().cloned().unwrap_or_default());
    command.args(words.iter().skip(1));
    command
}

/// What shells answer.
fn not_started(program: &OsStr, error: &io::Error) -> ExitCode {
    let program = program.to_string_lossy();
    if error.kind() == io::ErrorKind::NotFound {
        say(&format!("{program} is not found; check its name and PATH"));
        ExitCode::from(127)
    } else {
        say(&format!("{program} cannot be executed: {error}"));
        ExitCode::from(126)
    }
}

fn words(command: &[OsString]) -> Vec<String> {
    command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// `%h` becomes the host's name, `%p` the process id, `%%` a per cent sign.
fn expand(text: &str) -> String {
    let mut expanded = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            expanded.push(letter);
            continue;
        }
        match letters.next() {
            Some('h') => {
                let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
                expanded.push_str(host.trim());
            }
            Some('p') => expanded.push_str(&std::process::id().to_string()),
            Some('%') => expanded.push('%'),
            Some(other) => expanded.extend(['%', other]),
            None => expanded.push('%'),
        }
    }
    expanded
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn macros_in_a_directory_are_expanded() {
        assert_eq!(expand("job-%p"), format!("job-{}", std::process::id()));
        assert_eq!(expand("100%%-%x%"), "100%-%x%");
    }
}

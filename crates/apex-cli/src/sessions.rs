//! The verbs that look at kept sessions: report, export, graph, diff, check, list.

use crate::arguments::{Check, Diff, Export, Graph, Keep, List, Report};
use crate::layout::layout;
use crate::pages::shown;
use crate::pages::{print_page, print_text};
use anyhow::{Context, bail};
use apex_core::printable::printable;
use apex_daemon::Error;
use apex_daemon::advice::{of_session, show as show_advice};
use apex_daemon::check::{of_sessions, show as show_check};
use apex_daemon::diff::{compare, show as show_difference};
use apex_daemon::export::{Format, export as export_to};
use apex_daemon::graph::draw;
use apex_daemon::progress::Progress;
use apex_daemon::read::Stored;
use apex_daemon::session::Listed;
use apex_daemon::show::{bytes, exit_words, nanos, report as text_report, table};
use apex_daemon::speech::say;
use apex_daemon::summary::Summary;
use apex_daemon::user_setup::UserSetup;
use apex_policy::advise::check::Verdict;
use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::process::ExitCode;

pub(crate) fn report(arguments: &Report) -> anyhow::Result<ExitCode> {
    let setup = UserSetup::read();
    setup.recover();
    let mut stored = Stored::open(&setup.sessions.find(arguments.session.as_deref())?)?;
    if arguments.advice {
        return advice(&mut stored, arguments.json);
    }
    let summary = stored.summary(&mut Progress::on_stderr());
    stored.complaints.iter().for_each(|complaint| say(complaint));
    let layout = layout(&std::io::stdout());
    let page = if arguments.json {
        serde_json::to_string_pretty(&summary)? + "\n"
    } else if let Some(by) = arguments.by {
        table(&shown(&summary), by.into(), arguments.limit, layout)
    } else {
        let place = stored.directory.display().to_string();
        // Of one that has not ended a part may lie elsewhere.
        let ended = stored.record.ended_unix_ns.is_some();
        text_report(&shown(&summary), ended.then_some(&*printable(&place)), layout)
    };
    print_page(page.as_bytes())
}

fn advice(stored: &mut Stored, json: bool) -> anyhow::Result<ExitCode> {
    let advice = of_session(stored, &mut Progress::on_stderr());
    stored.complaints.iter().for_each(|complaint| say(complaint));
    let page = if json {
        serde_json::to_string_pretty(&advice)? + "\n"
    } else {
        show_advice(&shown(&advice), layout(&std::io::stdout()).width)
    };
    print_page(page.as_bytes())
}

pub(crate) fn export(arguments: &Export) -> anyhow::Result<ExitCode> {
    let setup = UserSetup::read();
    setup.recover();
    let mut stored = Stored::open(&setup.sessions.find(arguments.session.as_deref())?)?;
    let format: Format = arguments.format.into();
    let mut progress = Progress::on_stderr();
    let written = match &arguments.output {
        Some(path) => {
            let file = File::create(path)
                .with_context(|| format!("{} cannot be written", path.display()))?;
            let mut out = BufWriter::new(file);
            export_to(&mut stored, format, &mut out, &mut progress).and_then(|()| out.flush())
        }
        None if format.is_binary() && std::io::stdout().is_terminal() => {
            bail!("this format is not text; name a file with -o FILE");
        }
        None => {
            let mut out = BufWriter::new(std::io::stdout());
            export_to(&mut stored, format, &mut out, &mut progress).and_then(|()| out.flush())
        }
    };
    drop(progress);
    stored.complaints.iter().for_each(|complaint| say(complaint));
    match written {
        // Whoever reads may have seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(error).context("the export was not finished"),
        Ok(()) => Ok(ExitCode::SUCCESS),
    }
}

pub(crate) fn graph(arguments: &Graph) -> anyhow::Result<ExitCode> {
    let setup = UserSetup::read();
    setup.recover();
    let mut stored = Stored::open(&setup.sessions.find(arguments.session.as_deref())?)?;
    let summary = stored.summary(&mut Progress::on_stderr());
    stored.complaints.iter().for_each(|complaint| say(complaint));
    let drawn = draw(&summary, arguments.number, arguments.format.into());
    let picture = drawn.map_err(anyhow::Error::msg)?;
    let Some(path) = &arguments.output else { return print_page(picture.as_bytes()) };
    std::fs::write(path, picture)
        .with_context(|| format!("{} cannot be written", path.display()))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn diff(arguments: &Diff) -> anyhow::Result<ExitCode> {
    let setup = UserSetup::read();
    setup.recover();
    let summary = |name: &str| -> anyhow::Result<Summary> {
        let mut stored = Stored::open(&setup.sessions.find(Some(name))?)?;
        let summary = stored.summary(&mut Progress::on_stderr());
        stored.complaints.iter().for_each(|complaint| say(complaint));
        Ok(if arguments.json { summary } else { shown(&summary) })
    };
    let difference = compare(&summary(&arguments.before)?, &summary(&arguments.after)?);
    let page = if arguments.json {
        serde_json::to_string_pretty(&difference)? + "\n"
    } else {
        show_difference(&difference, 20, layout(&std::io::stdout()).width)
    };
    print_page(page.as_bytes())
}

/// Exit codes of a check beside 0 and 1: it could not be made, and it does not decide.
const NOT_CHECKED: u8 = 2;
const INCONCLUSIVE: u8 = 3;

pub(crate) fn check(arguments: &Check) -> ExitCode {
    // Whoever reads the exit code must not take a missing session for a slower one.
    compare_with_baseline(arguments).unwrap_or_else(|error| {
        say(&format!("{error:#}"));
        ExitCode::from(NOT_CHECKED)
    })
}

fn compare_with_baseline(arguments: &Check) -> anyhow::Result<ExitCode> {
    let setup = UserSetup::read();
    setup.recover();
    let mut baseline = Stored::open(&setup.sessions.find(Some(&arguments.baseline))?)?;
    let mut session = Stored::open(&setup.sessions.find(arguments.session.as_deref())?)?;
    let tolerance = arguments.tolerance / 100.0;
    let mut progress = Progress::on_stderr();
    let (document, verdict) = of_sessions(&mut baseline, &mut session, tolerance, &mut progress);
    drop(progress);
    for stored in [&baseline, &session] {
        stored.complaints.iter().for_each(|complaint| say(complaint));
    }
    let page = if arguments.json {
        serde_json::to_string_pretty(&document)? + "\n"
    } else {
        printable(&show_check(&document, 20, layout(&std::io::stdout()).width)).into_owned()
    };
    print_page(page.as_bytes())?;
    Ok(match verdict {
        Verdict::Fine => ExitCode::SUCCESS,
        Verdict::Regression => ExitCode::FAILURE,
        Verdict::Inconclusive => ExitCode::from(INCONCLUSIVE),
    })
}

pub(crate) fn list(arguments: &List) -> anyhow::Result<ExitCode> {
    let setup = UserSetup::read();
    setup.recover();
    if let Some(change) = &arguments.change {
        let (session, pinned) = match change {
            Keep::Pin { session } => (session, true),
            Keep::Unpin { session } => (session, false),
        };
        let directory = setup.sessions.pin(session, pinned)?;
        let what = if pinned { "stays until it is unpinned" } else { "goes with the oldest" };
        say(&format!("{} {what}", directory.display()));
        return Ok(ExitCode::SUCCESS);
    }
    let sessions = setup.sessions.listed();
    if arguments.json {
        return print_page((serde_json::to_string_pretty(&sessions)? + "\n").as_bytes());
    }
    if sessions.is_empty() {
        match setup.sessions.directory() {
            Some(directory) => say(&format!("no session is kept in {}", directory.display())),
            None => say(&Error::Nowhere.to_string()),
        }
        return Ok(ExitCode::SUCCESS);
    }
    let header = line(["session", "end", "duration", "size", "kept", "command"].map(String::from));
    let page: String = std::iter::once(header).chain(sessions.iter().map(row)).collect();
    print_text(&page)
}

fn row(session: &Listed) -> String {
    let Listed { entry, running, duration_ns, bytes: size, pinned } = session;
    let end = if *running { "running".into() } else { exit_words(entry.exit) };
    let duration = duration_ns.map_or("-".into(), |duration| nanos(duration as f64));
    let kept = if *pinned { "pinned" } else { "-" };
    line([
        entry.id.clone(),
        end,
        duration,
        bytes(*size),
        kept.into(),
        entry.command.join(" ").replace('\n', "\\n"),
    ])
}

fn line([id, end, duration, size, kept, command]: [String; 6]) -> String {
    format!("{id:<26} {end:<20} {duration:>9} {size:>9} {kept:<6} {command}\n")
}

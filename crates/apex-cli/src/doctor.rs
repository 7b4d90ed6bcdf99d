//! `apex doctor`: what a session needs here, and the remedy for what is missing.

use crate::arguments::Doctor;
use crate::layout::coloured;
use crate::pages::print_page;
use crate::real_driver::real_driver;
use apex_core::printable::printable;
use apex_daemon::doctor::{Check, Machine, Verdict, examine};
use apex_daemon::find;
use apex_daemon::palette::Tone;
use apex_daemon::summary::SCHEMA;
use apex_daemon::user_setup::{UserSetup, own_executable};
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn doctor(arguments: &Doctor) -> anyhow::Result<ExitCode> {
    let setup = UserSetup::read();
    let executable = own_executable()?;
    let checks = examine(&Machine {
        root: Path::new("/"),
        lookup: &|name| std::env::var(name).ok(),
        driver: setup.knobs.real_libcuda.clone().or_else(real_driver),
        shim: find::shim(&executable),
        softgpu: find::library(&executable, find::SOFTGPU),
        sessions: setup.sessions.directory(),
    });
    let page = if arguments.json {
        let document = serde_json::json!({"schema": SCHEMA, "checks": checks});
        serde_json::to_string_pretty(&document)? + "\n"
    } else {
        let colour = coloured(&std::io::stdout());
        checks.iter().map(|check| line(check, colour)).collect()
    };
    print_page(page.as_bytes())?;
    let failed = checks.iter().any(|check| check.verdict == Verdict::Fail);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn line(check: &Check, colour: bool) -> String {
    let (verdict, tone) = match check.verdict {
        Verdict::Ok => ("ok", Tone::Good),
        Verdict::Warn => ("warn", Tone::Warning),
        Verdict::Fail => ("FAIL", Tone::Bad),
    };
    let verdict = tone.paint(&format!("{verdict:<5}"), colour);
    let remedy = check.remedy.as_ref().map_or(String::new(), |text| format!("\n{:23}{text}", ""));
    // Paths and names stand in both.
    format!("{verdict} {:<16} {}{}\n", check.name, printable(&check.found), printable(&remedy))
}

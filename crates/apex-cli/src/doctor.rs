//! `apex doctor`: what a session needs here, and the remedy for what is missing.

use crate::arguments::Doctor;
use crate::place::Place;
use crate::{environment, print_page};
use apex_daemon::doctor::{Check, Machine, Verdict, examine};
use apex_daemon::find;
use apex_daemon::summary::SCHEMA;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn doctor(arguments: &Doctor) -> anyhow::Result<ExitCode> {
    let place = Place::of_this_user();
    let executable = std::env::current_exe()?;
    let checks = examine(&Machine {
        root: Path::new("/"),
        lookup: &|name| std::env::var(name).ok(),
        driver: place.knobs.real_libcuda.clone().or_else(environment::real_driver),
        shim: find::shim(&executable),
        softgpu: find::library(&executable, find::SOFTGPU),
        sessions: place.sessions.directory(),
    });
    let page = if arguments.json {
        let document = serde_json::json!({"schema": SCHEMA, "checks": checks});
        serde_json::to_string_pretty(&document)? + "\n"
    } else {
        checks.iter().map(line).collect()
    };
    print_page(page.as_bytes())?;
    let failed = checks.iter().any(|check| check.verdict == Verdict::Fail);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn line(check: &Check) -> String {
    let verdict = match check.verdict {
        Verdict::Ok => "ok",
        Verdict::Warn => "warn",
        Verdict::Fail => "FAIL",
    };
    let remedy = check.remedy.as_ref().map_or(String::new(), |text| format!("\n{:23}{text}", ""));
    format!("{verdict:<5} {:<16} {}{remedy}\n", check.name, check.found)
}

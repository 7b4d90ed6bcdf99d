//! `apex dashboard`: the page of what runs and of what ran, until it is told to stop.

use crate::arguments::Dashboard as Arguments;
use anyhow::Context;
use apex_daemon::schedule::place;
use apex_daemon::speech::say;
use apex_daemon::user_setup::UserSetup;
use apex_dashboard::{Certificate, Dashboard, Places};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

pub(crate) fn dashboard(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let setup = UserSetup::read();
    setup.recover();
    let gate = place(setup.knobs.gate.clone(), |name| std::env::var_os(name).map(PathBuf::from));
    let places = Places { sessions: setup.sessions, rings: setup.rings_places, gate };
    let listen = arguments.listen;
    let certificate = arguments.certificate.clone().zip(arguments.key.clone());
    let certificate = certificate.map(|(chain, key)| Certificate { chain, key });
    let dashboard = Dashboard::bind(listen, certificate.as_ref(), places).with_context(|| {
        format!("the dashboard cannot listen at {listen} (--listen names another address)")
    })?;
    #[cfg(feature = "otlp")]
    let dashboard = pushing(dashboard, arguments);
    let link = dashboard.link();
    if !listen.ip().is_loopback() && certificate.is_none() {
        say(
            "whoever sees the traffic can read what the page shows: it is not encrypted (--certificate)",
        );
    }
    say(&format!("the dashboard is at {link} until Ctrl-C"));
    if arguments.open {
        open(&link);
    }
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).context("signals cannot be read")?;
    let stop = dashboard.stop();
    let wait = move || signals.forever().next().into_iter().for_each(|_| stop.now());
    std::thread::Builder::new().name("apex-signals".into()).spawn(wait)?;
    dashboard.serve()?;
    Ok(ExitCode::SUCCESS)
}

/// The same dashboard, which also pushes its metrics where that is asked for.
#[cfg(feature = "otlp")]
fn pushing(mut dashboard: Dashboard, arguments: &Arguments) -> Dashboard {
    if let Some(collector) = arguments.otlp.clone() {
        let every = std::time::Duration::from_secs(arguments.otlp_seconds);
        dashboard.push(apex_dashboard::Push { collector, every });
    }
    dashboard
}

/// Shows a link in the user's browser, whichever that is; without one the link is on the terminal.
fn open(link: &str) {
    let browser = Command::new("xdg-open")
        .arg(link)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if browser.is_err() {
        say("no browser is found (xdg-open): open the link yourself");
    }
}

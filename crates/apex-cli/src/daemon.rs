//! `apex daemon`: one controller for all programs of a machine, and MPS if wanted, until it is told to stop.
//!
//! It is needed only where several users share a GPU, or where containers do: it owns the pages, so that a
//! class is what its configuration grants. Programs find it by its directory (`APEX_GATE`). It collects nothing: each
//! program's own `apex run` does, and answers what the program can only guess.

use crate::arguments::Daemon;
use anyhow::{Context, bail};
use apex_core::gate_page::Files;
use apex_daemon::schedule::grants::{self, Config, Grants};
use apex_daemon::schedule::keeper::{Order, daemon_lock, keep};
use apex_daemon::schedule::mps::Mps;
use apex_daemon::schedule::{place, prepare};
use apex_daemon::speech::say;
use apex_daemon::user_setup::knobs;
use apex_policy::schedule::policy;
use nix::unistd::{Gid, Group, chown};
use std::fs::{OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

pub(crate) fn daemon(arguments: &Daemon) -> anyhow::Result<ExitCode> {
    let knobs = knobs().clone();
    let config = match &arguments.config {
        Some(path) => grants::read(path).map_err(anyhow::Error::msg)?,
        None => Config {
            policy: knobs.policy.clone().unwrap_or(Config::default().policy),
            ..Config::default()
        },
    };
    policy(&config.policy).map_err(anyhow::Error::msg)?;
    let grants = if arguments.config.is_some() {
        Grants::listed(&config.allow).map_err(anyhow::Error::msg)?
    } else {
        Grants::OfUser(nix::unistd::Uid::effective().as_raw())
    };
    let named = arguments.directory.clone().or(knobs.gate);
    let directory = place(named, |name| std::env::var_os(name).map(PathBuf::from));
    let group = config.group.as_deref().map(group).transpose()?;
    prepare(&directory)
        .with_context(|| format!("{} cannot hold the pages", directory.display()))?;
    let lock = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o644)
        .open(daemon_lock(&directory))?;
    // Whoever looks whether there is a daemon holds it for a moment.
    let since = Instant::now();
    while lock.try_lock().is_err() {
        if since.elapsed() > Duration::from_secs(1) {
            bail!("another daemon keeps {} already", directory.display());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    open_to(&directory, &config, group)?;
    let mps = match arguments.mps.then(|| Mps::start(&directory)) {
        Some(Ok(mps)) => Some(mps),
        Some(Err(sentence)) => bail!(sentence),
        None => None,
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, stop.clone()).context("signals cannot be read")?;
    }
    let mode = if mps.is_some() { "with MPS" } else { "without MPS" };
    say(&format!(
        "scheduling by {} in {}, {mode}; programs come with apex run --class, those of other users with APEX_GATE too",
        config.policy,
        directory.display()
    ));
    let (policy, log) = (config.policy, knobs.schedule_log);
    let order = Order { directory, policy, grants, mps: mps.is_some(), is_daemon: true, log };
    keep(&order, &stop, |sentence| say(&sentence));
    if let Some(sentence) = mps.and_then(Mps::end) {
        say(&sentence);
    }
    say("scheduling has ended; every gate is open");
    Ok(ExitCode::SUCCESS)
}

fn group(name: &str) -> anyhow::Result<Gid> {
    match Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid),
        _ => bail!("there is no group {name}"),
    }
}

/// Makes the pages of the GPUs beforehand, and gives them to the group: programs of other users may write
/// about themselves, and only read what was decided.
fn open_to(directory: &Path, config: &Config, group: Option<Gid>) -> anyhow::Result<()> {
    let gpus = if config.gpus.is_empty() { gpus_of_driver() } else { config.gpus.clone() };
    let (programs, settings, entry) =
        if group.is_some() { (0o660, 0o640, 0o750) } else { (0o600, 0o600, 0o700) };
    for gpu in gpus {
        let files = Files::of(directory, &plain(&gpu));
        files.create(programs, settings)?;
        if group.is_some() {
            for path in [files.programs(), files.settings()] {
                chown(&path, None, group).with_context(|| path.display().to_string())?;
            }
        }
    }
    if group.is_some() {
        chown(directory, None, group).with_context(|| directory.display().to_string())?;
    }
    std::fs::set_permissions(directory, Permissions::from_mode(entry))?;
    Ok(())
}

/// UUIDs of the GPUs that NVIDIA's driver knows.
fn gpus_of_driver() -> Vec<String> {
    let folders = std::fs::read_dir("/proc/driver/nvidia/gpus").into_iter().flatten().flatten();
    folders
        .filter_map(|folder| std::fs::read_to_string(folder.path().join("information")).ok())
        .filter_map(|text| {
            let line = text.lines().find(|line| line.starts_with("GPU UUID"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        })
        .collect()
}

/// A UUID as pages are named: only its digits.
fn plain(uuid: &str) -> String {
    let digits = uuid.strip_prefix("GPU-").unwrap_or(uuid).chars();
    digits.filter(char::is_ascii_hexdigit).collect::<String>().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn a_uuid_is_read_with_and_without_its_dress() {
        assert_eq!(plain("GPU-B3f1c0de-0a"), "b3f1c0de0a");
        assert_eq!(plain("b3f1c0de0a"), "b3f1c0de0a");
    }
}

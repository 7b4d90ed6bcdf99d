//! `apex demo`: what apex does, in a minute, on any machine.
//!
//! It starts this command again as a user would, with a program that lies in it, and shows each command line with what
//! it printed. How programs share a GPU is shown by the simulator: the software GPU has no queue that two programs share.
//! Nothing is kept: the sessions go with the demo.

mod program;

pub(crate) use program::program;

use anyhow::{Context, Result, bail};
use apex_bench::child::in_scratch;
use apex_daemon::scratch::Scratch;
use apex_daemon::user_setup::own_executable;
use std::io::Write;
use std::process::{Command, ExitCode, Stdio};

/// The name under which the command starts its own program.
pub(crate) const PROGRAM: &str = "demo-program";

/// What is shown: a title, and commands. `apex` among their words is this command.
const PARTS: &[(&str, &[&[&str]])] = &[
    (
        "1. A slow program, unchanged, under apex: where its time goes, and what to do about it",
        &[&["run", "--mode", "advise", "--", "apex", PROGRAM]],
    ),
    (
        "2. The same program made faster from outside: apex tries what cannot change its results",
        &[
            &["tune", "--only", "block", "--rounds", "1", "--", "apex", PROGRAM],
            &["run", "--tuning", "apex-tuning.json", "--", "apex", PROGRAM],
        ],
    ),
    (
        "3. One program answers requests, another trains, on one simulated H200: as it is, and under apex",
        &[
            &["sim", "--seconds", "5", "--policy", "none", "--mode", "timeslice", "gpu-bound"],
            &["sim", "--seconds", "5", "gpu-bound"],
        ],
    ),
];

/// Shows everything.
pub(crate) fn demo() -> Result<ExitCode> {
    let scratch = Scratch::new().context("there is no place for temporary files")?;
    let apex = own_executable()?;
    let mut out = std::io::stdout();
    for (title, commands) in PARTS {
        writeln!(out, "{title}\n")?;
        for words in *commands {
            writeln!(out, "$ apex {}", words.join(" "))?;
            let mut command: Command = in_scratch(&scratch, &apex);
            let is_apex = |word: &&str| *word == "apex";
            let words = words
                .iter()
                .map(|word| if is_apex(word) { apex.as_os_str() } else { word.as_ref() });
            command
                .args(words)
                .current_dir(scratch.path())
                .stdin(Stdio::null())
                .stderr(std::io::stdout());
            command.env("APEX_STATE", scratch.path().join("state"));
            let status = command.status().context("apex cannot start itself")?;
            if !status.success() {
                bail!("this command of the demo ended with {status}; apex doctor may say why");
            }
            writeln!(out)?;
        }
    }
    writeln!(out, "Now yours: apex run -- CMD, then apex run --mode advise -- CMD")?;
    Ok(ExitCode::SUCCESS)
}

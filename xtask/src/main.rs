//! The project's own chores, so that two commands do everything on a fresh machine.
//!
//! `cargo xtask demo` builds apex and runs a CUDA program under it; `cargo xtask test` installs what
//! the tests need (into `target/`, nothing else is touched) and runs all of them; `cargo xtask tidy`
//! holds the rules no compiler knows; `cargo xtask docs` renews the pages that come from tables.

#![forbid(unsafe_code)]

mod cudart;
mod demo;
mod docs;
mod run;
mod test;
mod tidy;

use anyhow::{Result, bail};
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask demo    builds apex and runs a CUDA program under it
cargo xtask test    installs what the tests need and runs all of them
cargo xtask tidy    checks crate arrows, module headers, generated pages
cargo xtask docs    renews the generated pages
cargo xtask bundle  builds what travels to a GPU machine into device-bundle/";

fn main() -> ExitCode {
    match chore(std::env::args().nth(1).as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn chore(name: Option<&str>) -> Result<()> {
    match name {
        Some("demo") => demo::demo(),
        Some("test") => test::test(),
        Some("tidy") => tidy::tidy(),
        Some("docs") => docs::renew(),
        Some("bundle") => demo::bundle(),
        None | Some("help" | "--help" | "-h") => {
            println!("{HELP}");
            Ok(())
        }
        Some(other) => bail!("there is no chore {other:?}\n{HELP}"),
    }
}

//! The project's own chores, so that two commands do everything on a fresh machine.
//!
//! `cargo xtask demo` builds apex and runs a CUDA program under it; `cargo xtask test` installs what
//! the tests need (into `target/`, nothing else is touched) and runs all of them; `cargo xtask tidy`
//! holds the rules no compiler knows; `cargo xtask docs` renews the pages that come from tables; `cargo xtask package`
//! makes what users install; `cargo xtask frameworks` shows what runs without a GPU.

#![forbid(unsafe_code)]

mod browser;
mod cudart;
mod demo;
mod docs;
mod frameworks;
mod package;
mod packages;
mod results;
mod run;
mod sources;
mod test;
mod tidy;

use anyhow::{Result, bail};
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask demo    builds apex and runs a CUDA program under it
cargo xtask test    installs what the tests need and runs all of them
cargo xtask tidy    checks crate arrows, module circles and headers, unsafe, generated pages
cargo xtask docs    renews the generated pages
cargo xtask package builds a tarball and a Python wheel in target/package/archives
cargo xtask bundle  builds what travels to a GPU machine into device-bundle/
cargo xtask frameworks [NAME…]
                    installs frameworks from PyPI, runs them on the software GPU, keeps a table in results/";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match chore(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn chore(words: &[String]) -> Result<()> {
    match words.first().map(String::as_str) {
        Some("demo") => demo::demo(),
        Some("test") => test::test(),
        Some("tidy") => tidy::tidy(),
        Some("docs") => docs::renew(),
        Some("package") => package::package(&words[1..]),
        Some("bundle") => demo::bundle(),
        Some("frameworks") => frameworks::frameworks(&words[1..]),
        None | Some("help" | "--help" | "-h") => {
            println!("{HELP}");
            Ok(())
        }
        Some(other) => bail!("there is no chore {other:?}\n{HELP}"),
    }
}

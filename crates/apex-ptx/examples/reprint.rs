//! Reads PTX files, checks that print and parse agree, and prints the last one again.
//!
//! `cargo run -p apex-ptx --release --example reprint -- file.ptx..`: one line per file on
//! standard error, with the times; the text of the last file on standard output, for ptxas.

use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let mut failed = false;
    let mut printed = String::new();
    for path in std::env::args().skip(1) {
        match reprint(&path) {
            Ok(text) => printed = text,
            Err(message) => {
                eprintln!("{path}: {message}");
                failed = true;
            }
        }
    }
    print!("{printed}");
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn reprint(path: &str) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let start = Instant::now();
    let module = apex_ptx::parse(&text).map_err(|error| error.to_string())?;
    let parsed_in = start.elapsed();
    let printed = module.to_string();
    let printed_in = start.elapsed() - parsed_in;
    let again = apex_ptx::parse(&printed).map_err(|error| format!("printed text: {error}"))?;
    if again.without_lines() != module.without_lines() {
        return Err("the printed text has another meaning".to_string());
    }
    eprintln!(
        "{path}: {} bytes, parsed in {parsed_in:.1?}, printed in {printed_in:.1?}",
        text.len()
    );
    Ok(printed)
}

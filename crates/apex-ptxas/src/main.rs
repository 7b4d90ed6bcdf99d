//! `ptxas` for the software GPU: reads PTX, checks it, and writes it as the output file.
//!
//! It takes the command line of NVIDIA's assembler. What only steers how machine code is made is accepted and has no
//! effect. The output ends with a NUL: callers hand its bytes to the driver, which takes a text by its end.
#![forbid(unsafe_code)]

mod arguments;

use arguments::{Arguments, HELP, Wanted};
use std::ffi::OsString;
use std::process::ExitCode;

/// What ptxas ends with when it refuses a text or its own arguments.
const REFUSED: u8 = 255;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let done = match Arguments::read(&words) {
        Ok(Wanted::Version) => {
            print!("{}", apex_ptxas::version_text());
            Ok(())
        }
        Ok(Wanted::Help) => {
            print!("{HELP}");
            Ok(())
        }
        Ok(Wanted::Assembly(arguments)) => assemble(&arguments),
        Err(sentence) => Err(fatal(&sentence)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(log) => {
            eprint!("{log}");
            ExitCode::from(REFUSED)
        }
    }
}

fn assemble(arguments: &Arguments) -> Result<(), String> {
    let name = arguments.input.to_string_lossy();
    let bytes = std::fs::read(&arguments.input)
        .map_err(|error| fatal(&format!("Could not open input file '{name}': {error}")))?;
    let text = String::from_utf8_lossy(&bytes);
    let architecture = arguments.architecture.as_deref();
    let module = apex_ptxas::check(&text, architecture).map_err(|refusal| refusal.log(&name))?;
    if arguments.is_verbose {
        eprint!("{}", apex_ptxas::report(&module, architecture));
    }
    let mut output = text.trim_end_matches('\0').to_owned();
    if let Some(registers) = arguments.registers {
        apex_ptx::ask_registers(&mut output, registers);
    }
    output.push('\0');
    std::fs::write(&arguments.output, output).map_err(|error| {
        let file = arguments.output.to_string_lossy();
        fatal(&format!("Could not write output file '{file}': {error}"))
    })
}

fn fatal(sentence: &str) -> String {
    format!("ptxas fatal   : {sentence}\n")
}

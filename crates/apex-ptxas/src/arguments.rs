//! The command line of ptxas, as far as it matters where no machine code is made.
//!
//! An option begins with `-`; its value stands behind `=`, or in the next word where the option is in [`WITH_VALUE`].
//! The one word that is left is the input.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// What is wanted of the program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The version, and nothing else.
    Version,
    /// A line on how it is called.
    Help,
    /// A text checked and handed on.
    Assembly(Arguments),
}

/// What to assemble.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub(crate) input: PathBuf,
    pub(crate) output: PathBuf,
    pub(crate) architecture: Option<String>,
    /// The most registers that a thread may have.
    pub(crate) registers: Option<u32>,
    pub(crate) is_verbose: bool,
}

pub(crate) const HELP: &str = "\
ptxas [OPTIONS] FILE.ptx -o FILE
apex's assembler for the software GPU: checks PTX and hands it on.
  -o, --output-file FILE   where to (elf.o)
  -arch, --gpu-name ARCH   the device, such as sm_90
  --maxrregcount N         the most registers a thread may have
  -v, --verbose            tells registers and memory of each kernel
  -V, --version            tells the version
Further options of ptxas are accepted and have no effect.
";

/// Options whose value may be the next word.
const WITH_VALUE: &[&str] = &[
    "-arch",
    "--gpu-name",
    "-gpu-name",
    "--arch",
    "-o",
    "--output-file",
    "-output-file",
    "-O",
    "--opt-level",
    "-opt-level",
    "-maxrregcount",
    "--maxrregcount",
    "-m",
    "--machine",
    "-e",
    "--entry",
    "-dlcm",
    "-dscm",
    "--def-load-cache",
    "--def-store-cache",
    "-optf",
    "--options-file",
    "-fmad",
    "--fmad",
    "-Ofc",
    "--Ofast-compile",
    "--regAllocOptLevel",
    "-regAllocOptLevel",
    "-split-compile",
    "--split-compile",
    "-maxntid",
    "--maxntid",
    "-minnctapersm",
    "--minnctapersm",
    "--device-function-maxrregcount",
    "-device-function-maxrregcount",
];

impl Arguments {
    /// Reads the words behind the program's name.
    pub(crate) fn read(words: &[OsString]) -> Result<Wanted, String> {
        let mut inputs = Vec::new();
        let mut output = PathBuf::from("elf.o");
        let mut architecture = None;
        let mut is_verbose = false;
        let mut registers = None;
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let text = word.to_string_lossy();
            if !text.starts_with('-') {
                inputs.push(PathBuf::from(word));
                continue;
            }
            let (option, mut value) = match text.split_once('=') {
                Some((option, value)) => (option.to_owned(), Some(OsStr::new(value).to_owned())),
                None => (text.into_owned(), None),
            };
            if value.is_none() && WITH_VALUE.contains(&option.as_str()) {
                let next = words.next().cloned();
                value = Some(next.ok_or(format!("Option '{option}' needs a value"))?);
            }
            match (option.as_str(), value) {
                ("-V" | "--version" | "-version", _) => return Ok(Wanted::Version),
                ("-h" | "--help" | "-help", _) => return Ok(Wanted::Help),
                ("-v" | "--verbose" | "-verbose", _) => is_verbose = true,
                ("-o" | "--output-file" | "-output-file", Some(value)) => output = value.into(),
                ("-arch" | "--arch" | "-gpu-name" | "--gpu-name", Some(value)) => {
                    architecture = Some(value.to_string_lossy().into_owned());
                }
                ("-maxrregcount" | "--maxrregcount", Some(value)) => {
                    let most = value.to_string_lossy().parse();
                    registers = Some(most.map_err(|_| format!("'{option}' takes a number"))?);
                }
                _ => {}
            }
        }
        match <[PathBuf; 1]>::try_from(inputs) {
            Ok([input]) => Ok(Wanted::Assembly(Arguments {
                input,
                output,
                architecture,
                registers,
                is_verbose,
            })),
            Err(inputs) if inputs.is_empty() => Err("No input file is named".into()),
            Err(inputs) => Err(format!("{} input files are named; name one", inputs.len())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Wanted, String> {
        Arguments::read(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    fn check(line: &str, output: &str, architecture: Option<&str>, is_verbose: bool) {
        let expected = Arguments {
            input: "in.ptx".into(),
            output: output.into(),
            architecture: architecture.map(str::to_owned),
            registers: line.contains("maxrregcount").then_some(32),
            is_verbose,
        };
        assert_eq!(read(line), Ok(Wanted::Assembly(expected)), "{line}");
    }

    #[test]
    fn the_command_lines_of_callers_are_read() {
        // Triton, XLA, a user.
        check(
            "-lineinfo --fmad=false -v --regAllocOptLevel=2 --opt-level 0 --gpu-name=sm_90a in.ptx -o out.o",
            "out.o",
            Some("sm_90a"),
            true,
        );
        check("in.ptx -o out --gpu-name sm_80 --warn-on-spills -c", "out", Some("sm_80"), false);
        check("-arch=sm_75 -O3 --maxrregcount=32 in.ptx", "elf.o", Some("sm_75"), false);
        check("-Ofc mid -m 64 in.ptx --output-file=x", "x", None, false);
    }

    #[test]
    fn what_cannot_be_done_is_said() {
        assert_eq!(read("--version"), Ok(Wanted::Version));
        assert_eq!(read("--help"), Ok(Wanted::Help));
        assert_eq!(read("-v"), Err("No input file is named".into()));
        assert_eq!(read("a b"), Err("2 input files are named; name one".into()));
        assert_eq!(read("in.ptx -o"), Err("Option '-o' needs a value".into()));
    }
}

//! Whether a text is PTX that the software GPU can be given, and if not, why.
//!
//! Only what is certain is refused: a text that does not parse, a version that nobody here has seen, a target newer
//! than the device that was named. An instruction that is not known passes; its kernel is refused when it is loaded.

use crate::NEWEST_PTX;
use apex_ptx::parse;
use apex_ptx::tree::Module;

/// Why a text is not taken, and on which line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The line, from 1; none where the text as a whole is meant.
    pub line: Option<u32>,
    /// What is wrong.
    pub message: String,
}

impl Refusal {
    /// The refusal in ptxas's own form, which callers search.
    pub fn log(&self, file: &str) -> String {
        let Some(line) = self.line else { return format!("ptxas fatal   : {}\n", self.message) };
        format!(
            "ptxas {file}, line {line}; error   : {}\n\
             ptxas fatal   : Ptx assembly aborted due to errors\n",
            self.message
        )
    }
}

/// Reads a text that is to run on `architecture` (`sm_90a`), if one is named.
pub fn check(text: &str, architecture: Option<&str>) -> Result<Module, Refusal> {
    version(text)?;
    let module =
        parse(text).map_err(|error| Refusal { line: Some(error.line), message: error.message })?;
    target(&module, architecture)?;
    Ok(module)
}

/// Callers ask which PTX is the newest with a text of nothing but a version of the future.
fn version(text: &str) -> Result<(), Refusal> {
    let Some((line, rest)) = text
        .lines()
        .enumerate()
        .find_map(|(nth, line)| Some((nth, line.trim().strip_prefix(".version")?)))
    else {
        return Ok(());
    };
    let number = rest.trim().trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let parsed = number
        .split_once('.')
        .and_then(|(major, minor)| Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?)));
    if parsed.is_none_or(|version| version <= NEWEST_PTX) {
        return Ok(());
    }
    let (major, minor) = NEWEST_PTX;
    Err(Refusal {
        line: Some(line as u32 + 1),
        message: format!("Unsupported .version {number}; current version is '{major}.{minor}'"),
    })
}

fn target(module: &Module, architecture: Option<&str>) -> Result<(), Refusal> {
    let (Some(target), Some(architecture)) = (module.target.first(), architecture) else {
        return Ok(());
    };
    match (number(target), number(architecture)) {
        (Some(wanted), Some(given)) if wanted > given => Err(Refusal {
            line: None,
            message: format!(
                "Program with .target '{target}' cannot be compiled to architecture '{architecture}'"
            ),
        }),
        _ => Ok(()),
    }
}

/// 90 for `sm_90a`, `compute_90` and the like.
fn number(architecture: &str) -> Option<u32> {
    let (_, number) = architecture.rsplit_once('_')?;
    number.trim_end_matches(|letter: char| !letter.is_ascii_digit()).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: &str =
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n";

    fn refused(text: &str, architecture: Option<&str>, expected: &str) {
        let log = check(text, architecture).unwrap_err().log("k.ptx");
        assert!(log.starts_with(expected), "{log}");
    }

    #[test]
    fn a_kernel_for_this_or_an_older_device_is_taken() {
        for architecture in [None, Some("sm_80"), Some("sm_90a"), Some("sm_120")] {
            assert_eq!(check(KERNEL, architecture).unwrap().functions().count(), 1);
        }
    }

    #[test]
    fn refusals_have_the_form_that_callers_read() {
        let newer = "ptxas fatal   : Program with .target 'sm_80' cannot be compiled to architecture 'sm_75'";
        refused(KERNEL, Some("sm_75"), newer);
        refused(
            ".version 99.99",
            Some("sm_90"),
            "ptxas k.ptx, line 1; error   : Unsupported .version 99.99; current version is '9.4'",
        );
        refused(&format!("{KERNEL}nonsense"), None, "ptxas k.ptx, line 5; error   : ");
        refused("", None, "ptxas k.ptx, line 1; error   : ");
    }
}

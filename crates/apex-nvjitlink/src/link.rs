//! One link in progress: PTX texts are gathered from what is added, and become one at the end.
//!
//! What an input is, its content tells: a text that this library gave out as machine code comes back as such. A text
//! that is alone is handed on unchanged; several are linked on the tree. What stays unresolved is left to the driver,
//! which knows the functions that it provides.

use apex_ptx::container;
use apex_ptx::tree::Module;

/// Why something is not done: a result of nvJitLink, and a sentence for the log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) result: Result,
    pub(crate) sentence: String,
}

/// The results of nvJitLink that are given here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Result {
    Success = 0,
    MissingArchitecture = 2,
    InvalidInput = 3,
    Ptx = 4,
    Internal = 6,
    UnrecognizedInput = 8,
    NullInput = 10,
}

/// A link in progress or done.
#[derive(Debug, Default)]
pub(crate) struct Link {
    /// `sm_90` and the like.
    architecture: String,
    is_verbose: bool,
    /// The most registers that a thread may have, where an option says so.
    registers: Option<u32>,
    texts: Vec<(String, Module)>,
    linked: Option<String>,
    pub(crate) errors: String,
    pub(crate) told: String,
}

impl Link {
    /// Reads the options. Those that steer how machine code is made have no effect.
    pub(crate) fn new(options: &[String]) -> (Link, std::result::Result<(), Refusal>) {
        let mut link = Link::default();
        for option in options {
            let most = option.strip_prefix("-maxrregcount=").and_then(|most| most.parse().ok());
            link.registers = most.or(link.registers);
            if let Some(architecture) = option.trim_start_matches('-').strip_prefix("arch=") {
                link.architecture = architecture.to_owned();
            }
            link.is_verbose |=
                matches!(option.as_str(), "-verbose" | "-Xptxas=-v" | "-Xptxas=--verbose");
        }
        let refusal = Refusal {
            result: Result::MissingArchitecture,
            sentence: "-arch=sm_NN is missing".into(),
        };
        let done = if link.architecture.is_empty() { Err(refusal) } else { Ok(()) };
        (link, done)
    }

    /// Takes what an input holds.
    pub(crate) fn add(&mut self, bytes: &[u8], name: &str) -> std::result::Result<(), Refusal> {
        for text in self.texts_of(bytes, name)? {
            let module = apex_ptxas::check(&text, Some(&self.architecture)).map_err(|refusal| {
                Refusal { result: Result::Ptx, sentence: refusal.log(name).trim_end().to_owned() }
            })?;
            if self.is_verbose {
                self.told.push_str(&apex_ptxas::report(&module, Some(&self.architecture)));
            }
            self.texts.push((text, module));
        }
        Ok(())
    }

    fn texts_of(&self, bytes: &[u8], name: &str) -> std::result::Result<Vec<String>, Refusal> {
        let refuse =
            |result, what: &str| Err(Refusal { result, sentence: format!("{name}: {what}") });
        let is_library = bytes.starts_with(b"!<arch>");
        if let Some(inside) = container::begin(bytes) {
            let mut texts = container::texts(&bytes[inside..]);
            if is_library {
                // The device runtime has PTX for the newest chip, which an older one leaves alone.
                texts.retain(|(architecture, _)| *architecture <= self.capability());
            }
            let texts = container::best(texts, self.capability());
            return match texts.is_empty() && !is_library {
                false => Ok(texts),
                true => {
                    refuse(Result::UnrecognizedInput, "holds no PTX, which the software GPU needs")
                }
            };
        }
        if is_library {
            // Machine code that no PTX asks for links to nothing.
            return Ok(Vec::new());
        }
        if bytes.starts_with(b"\x7fELF") {
            return refuse(
                Result::UnrecognizedInput,
                "is machine code; the software GPU needs PTX",
            );
        }
        let text = &bytes[..bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len())];
        match core::str::from_utf8(text) {
            Ok(text) if text.contains(".version") => Ok(vec![text.to_owned()]),
            _ => refuse(
                Result::UnrecognizedInput,
                "is no PTX; code for link-time optimisation (LTO-IR) is not linked for the software GPU",
            ),
        }
    }

    fn capability(&self) -> u32 {
        let digits: String = self.architecture.chars().filter(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(u32::MAX)
    }

    /// Makes one text of all.
    pub(crate) fn complete(&mut self) -> std::result::Result<(), Refusal> {
        let refuse = |sentence: String| Refusal { result: Result::InvalidInput, sentence };
        let mut linked = match self.texts.as_slice() {
            [] => return Err(refuse("there is nothing to link".into())),
            [(text, _)] => text.clone(),
            several => {
                let modules: Vec<Module> =
                    several.iter().map(|(_, module)| module.clone()).collect();
                let linked = apex_ptx::link(&modules).map_err(|error| refuse(error.to_string()))?;
                linked.module.to_string()
            }
        };
        if let Some(registers) = self.registers {
            apex_ptx::ask_registers(&mut linked, registers);
        }
        self.linked = Some(linked);
        Ok(())
    }

    /// The text of the whole link, once it is complete.
    pub(crate) fn linked(&self) -> std::result::Result<&str, Refusal> {
        let refusal = || Refusal {
            result: Result::Internal,
            sentence: "nvJitLinkComplete was not called, or failed".into(),
        };
        self.linked.as_deref().ok_or_else(refusal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

    fn started() -> Link {
        let (link, done) = Link::new(&["-arch=sm_90".into(), "-verbose".into()]);
        assert_eq!(done, Ok(()));
        link
    }

    fn refused(link: &mut Link, bytes: &[u8], expected: Result, word: &str) {
        let refusal = link.add(bytes, "input").unwrap_err();
        assert_eq!(refusal.result, expected);
        assert!(refusal.sentence.contains(word), "{}", refusal.sentence);
    }

    #[test]
    fn one_text_is_handed_on_and_two_are_linked() {
        let mut link = started();
        let kernel = format!(
            "{HEAD}.extern .func helper();\n.visible .entry k() {{ call helper; ret; }}\n\0"
        );
        link.add(kernel.as_bytes(), "kernel").unwrap();
        link.complete().unwrap();
        assert_eq!(link.linked().unwrap(), kernel.trim_end_matches('\0'));
        assert!(link.told.contains("Used 8 registers"), "{}", link.told);

        let helper = format!("{HEAD}.visible .func helper() {{ ret; }}\n");
        link.add(helper.as_bytes(), "helper").unwrap();
        link.complete().unwrap();
        let whole = apex_ptx::parse(link.linked().unwrap()).unwrap();
        let bodies = whole.functions().filter(|function| function.body.is_some());
        assert_eq!(bodies.count(), 2);
        link.add(helper.as_bytes(), "again").unwrap();
        assert!(link.complete().unwrap_err().sentence.contains("helper is defined twice"));
    }

    #[test]
    fn registers_that_are_asked_for_stand_in_the_result() {
        let options = ["-arch=sm_90", "-maxrregcount=38", "-lineinfo"].map(str::to_owned);
        let mut link = Link::new(&options).0;
        link.add(format!("{HEAD}.visible .entry k() {{ ret; }}").as_bytes(), "kernel").unwrap();
        link.complete().unwrap();
        assert!(link.linked().unwrap().contains("maxrregcount 38"));
    }

    #[test]
    fn a_library_gives_what_runs_here_and_leaves_the_rest() {
        let of = |architecture: u32, name: &str| {
            let text = format!("{HEAD}.visible .func {name}() {{ ret; }}\n")
                .replace("sm_80", &format!("sm_{architecture}"));
            let mut library = b"!<arch>\n".to_vec();
            library.extend(container::of_texts(&[text], architecture));
            library
        };
        let mut link = started();
        assert_eq!(link.add(&of(121, "newer"), "libcudadevrt.a"), Ok(()));
        assert_eq!(link.texts.len(), 0);
        assert_eq!(link.add(&of(80, "older"), "libolder.a"), Ok(()));
        assert_eq!(link.texts.len(), 1);
    }

    #[test]
    fn what_is_no_ptx_is_refused_by_name() {
        let mut link = started();
        refused(&mut link, b"\x7fELF rest", Result::UnrecognizedInput, "machine code");
        refused(&mut link, b"\x7f\x4e\x43\xed\0\x01", Result::UnrecognizedInput, "LTO-IR");
        refused(&mut link, b"", Result::UnrecognizedInput, "input: is no PTX");
        refused(&mut link, b".version 99.99", Result::Ptx, "current version is '9.4'");
        assert_eq!(link.add(b"!<arch>\n", "libcudadevrt.a"), Ok(()));
        assert_eq!(link.complete().unwrap_err().result, Result::InvalidInput);
        assert_eq!(link.linked().unwrap_err().result, Result::Internal);
        assert_eq!(Link::new(&[]).1.unwrap_err().result, Result::MissingArchitecture);
    }
}

//! `apex lower`: brings the PTX of a file down to an older chip, and says what becomes of it.

use crate::arguments::Lower;
use anyhow::{Context, Result, bail};
use apex_core::printable::printable;
use apex_cuda::image::{ImageKind, identify};
use apex_daemon::speech::say;
use apex_policy::amounts::counted;
use apex_ptx::container;
use apex_ptx::lower::{Goal, LowerError, Lowered, Target, lower, newest_ptx};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What an ELF file begins with.
const ELF: &[u8] = b"\x7fELF";

/// Says what each text becomes; exit code 1 where one cannot be brought down.
pub(crate) fn lower_file(asked: &Lower) -> Result<ExitCode> {
    let Some(target) = Target::named(&asked.target) else {
        bail!("{} is no target: say sm_90, for example", printable(&asked.target));
    };
    let name = asked.file.display();
    let bytes = std::fs::read(&asked.file).with_context(|| format!("{name} cannot be read"))?;
    let texts = texts_of(&bytes).with_context(|| name.to_string())?;
    let goal = Goal { target, version: newest_ptx(asked.driver) };
    let mut written = Vec::new();
    let mut page = String::new();
    for (nth, text) in texts.iter().enumerate() {
        let _ = write!(page, "PTX {} of {}", nth + 1, texts.len());
        let lowered = lower(text, goal);
        page.push_str(&said(&lowered, goal));
        written.extend(lowered.ok().map(|lowered| lowered.text));
    }
    crate::pages::print_page(page.as_bytes())?;
    if written.len() < texts.len() {
        return Ok(ExitCode::FAILURE);
    }
    if let Some(output) = &asked.output {
        for (nth, text) in written.iter().enumerate() {
            let path = numbered(output, nth, written.len());
            std::fs::write(&path, text)
                .with_context(|| format!("{} cannot be written", path.display()))?;
            say(&format!("{} is written", path.display()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Every PTX of a file, whatever the file is.
fn texts_of(bytes: &[u8]) -> Result<Vec<String>> {
    let kind = identify(bytes).map(|image| image.kind);
    if kind == Some(ImageKind::Ptx) {
        return Ok(vec![String::from_utf8_lossy(bytes).into_owned()]);
    }
    let found = container::texts_anywhere(bytes);
    if found.is_empty() {
        if kind == Some(ImageKind::Cubin) {
            bail!(
                "it is machine code of one chip, which no other chip runs: only PTX can be brought down. \
                 Build it with PTX, as in nvcc -gencode arch=compute_XX,code=compute_XX"
            );
        }
        if bytes.starts_with(ELF) || kind.is_some() {
            bail!("there is no PTX in it: only machine code, or no code for a GPU at all");
        }
        bail!("it is neither PTX nor a fatbin nor a program");
    }
    Ok(found.into_iter().map(|(_, text)| text).collect())
}

/// What became of one text, in words.
fn said(lowered: &Result<Lowered, LowerError>, goal: Goal) -> String {
    let version = |(major, minor): (u32, u32)| format!("PTX {major}.{minor}");
    match lowered {
        Ok(Lowered { was, changes, text }) => {
            let mut said = format!(", {}, {}", printable(&was.0), version(was.1));
            let now = apex_ptx::parse(text).ok();
            let now = now.map(|module| (module.target[0].clone(), module.version));
            match now.filter(|now| now != was) {
                None => said.push_str(": runs as it is\n"),
                Some((target, now)) => {
                    let _ = write!(said, " to {target}, {}", version(now));
                    said.push_str(if changes.is_empty() {
                        ": nothing else changes\n"
                    } else {
                        "\n"
                    });
                }
            }
            for change in changes {
                let (feature, count) = (change.feature, change.count);
                let _ = writeln!(
                    said,
                    "  {} ({}, first in line {}): {}; {}",
                    feature.name,
                    counted(u64::from(count), "time", "times"),
                    change.line,
                    feature.how,
                    feature.exact.words()
                );
            }
            said
        }
        Err(LowerError::Refused(refused)) => {
            let mut said = format!(" does not run on {}:\n", goal.target);
            for one in refused {
                let _ = writeln!(said, "  {}", printable(&one.to_string()));
            }
            said
        }
        Err(error) => format!(" cannot be read: {}\n", printable(&error.to_string())),
    }
}

/// Where a text is written: with its number before the extension, where there are several.
fn numbered(output: &Path, nth: usize, count: usize) -> PathBuf {
    if count == 1 {
        return output.to_owned();
    }
    let stem = output.file_stem().unwrap_or_default().to_string_lossy();
    let end = output.extension().map(|end| format!(".{}", end.to_string_lossy()));
    output.with_file_name(format!("{stem}-{}{}", nth + 1, end.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEWER: &str = ".version 8.7\n.target sm_120\n.address_size 64\n.visible .entry k() {\n\
                         .reg .b64 %d;\nadd.rn.f32x2 %d, %d, %d;\nret;\n}\n";
    const GOAL: Goal = Goal { target: Target { number: 90, is_own: false }, version: (9, 0) };

    #[test]
    fn what_becomes_of_a_text_is_said() {
        let said_of = |text: &str| said(&lower(text, GOAL), GOAL);
        let words = said_of(NEWER);
        assert!(words.starts_with(", sm_120, PTX 8.7 to sm_90, PTX 8.7\n  add, sub"), "{words}");
        assert!(
            words.contains("(1 time, first in line 6)") && words.contains("same bits"),
            "{words}"
        );
        let older = NEWER.replace("sm_120", "sm_80").replace("add.rn.f32x2 %d, %d, %d;", "");
        assert_eq!(said_of(&older), ", sm_80, PTX 8.7: runs as it is\n");
        let never = NEWER.replace("add.rn.f32x2 %d, %d, %d", "tcgen05.fence::before_thread_sync");
        let words = said_of(&never);
        assert!(words.contains("line 6: `tcgen05.fence"), "{words}");
        assert!(said_of("no PTX").contains("cannot be read"));
    }

    #[test]
    fn texts_are_found_in_every_kind_of_file() {
        assert_eq!(texts_of(NEWER.as_bytes()).unwrap(), [NEWER]);
        let fatbin = container::of_texts(&[NEWER.to_owned()], 120);
        assert_eq!(texts_of(&fatbin).unwrap(), [NEWER]);
        let program = [ELF, &[0; 500], &fatbin, b"rest", &fatbin].concat();
        assert_eq!(texts_of(&program).unwrap(), [NEWER, NEWER]);
        let error = texts_of(b"\x7fELF and nothing").unwrap_err().to_string();
        assert!(error.contains("no PTX"), "{error}");
        assert!(texts_of(b"words").unwrap_err().to_string().contains("neither"));
    }

    #[test]
    fn several_texts_are_numbered() {
        let name = |nth, count| numbered(Path::new("a/k.ptx"), nth, count);
        assert_eq!(name(0, 1), Path::new("a/k.ptx"));
        assert_eq!(name(1, 2), Path::new("a/k-2.ptx"));
    }
}

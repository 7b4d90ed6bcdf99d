//! Which forms of a kernel won or lost in earlier processes.
//!
//! What was found holds for the text of the kernel, the device and the driver; of each form stands there what is written
//! into it. So a later process makes the winners at once, and does not try again what has lost. The form itself is
//! compiled anew, for variables lie elsewhere in each process; the driver keeps compiled code by itself.

use apex_core::kept::Kept;
use std::sync::OnceLock;

/// First word of a file; the number rises with the form, and with what the passes do.
pub(super) const MAGIC: &str = "apex-specialised-1";

/// Where it is kept; nowhere unless somebody says.
static KEPT: OnceLock<Kept> = OnceLock::new();

/// From now on winners and losers are kept there.
pub(super) fn keep_in(kept: Kept) {
    KEPT.set(kept).ok();
}

/// A form of which it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Past {
    pub(super) has_won: bool,
    /// Medians in nanoseconds.
    pub(super) original_ns: u64,
    pub(super) rewritten_ns: u64,
    /// Threads of a block and dynamic shared memory of the launch that it was made for.
    pub(super) threads: u32,
    pub(super) shared: u32,
    /// What is written into it.
    pub(super) numbers: Vec<Option<u64>>,
}

impl Past {
    fn line(&self) -> String {
        let Past { original_ns, rewritten_ns, threads, shared, .. } = self;
        let word = if self.has_won { "won" } else { "lost" };
        let number = |number: &Option<u64>| number.map_or("-".to_owned(), |it| format!("{it:x}"));
        let numbers: Vec<String> = self.numbers.iter().map(number).collect();
        format!("{word} {original_ns} {rewritten_ns} {threads} {shared} {}\n", numbers.join(" "))
    }

    fn read(line: &str) -> Option<Past> {
        let mut words = line.split(' ');
        let has_won = match words.next()? {
            "won" => true,
            "lost" => false,
            _ => return None,
        };
        let mut next = || words.next()?.parse::<u64>().ok();
        let (original_ns, rewritten_ns) = (next()?, next()?);
        let (threads, shared) = (u32::try_from(next()?).ok()?, u32::try_from(next()?).ok()?);
        let number = |word: &str| match word {
            "-" => Some(None),
            digits => u64::from_str_radix(digits, 16).ok().map(Some),
        };
        let numbers = words.map(number).collect::<Option<_>>()?;
        Some(Past { has_won, original_ns, rewritten_ns, threads, shared, numbers })
    }
}

/// What earlier processes found of a kernel whose calls have so many numbers.
pub(super) fn recall(name: &str, text: &str, numbers: usize) -> Vec<Past> {
    let found = KEPT.get().and_then(|kept| kept.get(name, text)).unwrap_or_default();
    found.lines().filter_map(Past::read).filter(|past| past.numbers.len() == numbers).collect()
}

/// Keeps what is known now.
pub(super) fn remember(name: &str, text: &str, all: &[Past]) {
    if let Some(kept) = KEPT.get() {
        let lines: String = all.iter().map(Past::line).collect();
        // Without a disk the next process finds out again.
        let _ = kept.put(name, text, &lines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_back_as_it_was() {
        let won = Past {
            has_won: true,
            original_ns: 7_000,
            rewritten_ns: 5_000,
            threads: 256,
            shared: 48,
            numbers: vec![Some(0x1_0001_0100), None, Some(u64::MAX), Some(0)],
        };
        for past in [Past { has_won: false, original_ns: 0, ..won.clone() }, won] {
            assert_eq!(Past::read(past.line().trim_end()), Some(past));
        }
        for wrong in ["", "won", "draw 1 2 3 4 5", "won 1 2 3 4 x", "won 1 2 3 -4 5", "lost 1 2 3"]
        {
            assert_eq!(Past::read(wrong), None, "{wrong}");
        }
    }
}

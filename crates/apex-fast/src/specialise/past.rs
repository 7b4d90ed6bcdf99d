//! Which forms of a kernel won or lost in earlier processes.
//!
//! What was found holds for the text of the kernel, the device and the driver; of each form stands there what is written
//! into it. So a later process makes the winners at once, goes on with what was not decided, and does not try again what has
//! lost. The form itself is compiled anew, for variables lie elsewhere in each process; the driver keeps compiled code by
//! itself. Which kernels of an image are known stands in a file of its own, so that code which nobody knows costs nothing.

use apex_core::kept::Kept;
use apex_policy::specialise::Earlier;
use std::sync::OnceLock;

/// First word of a file; the number rises with the form, and with what the passes do.
pub(super) const MAGIC: &str = "apex-specialised-1";

/// Where it is kept; nowhere unless somebody says.
static KEPT: OnceLock<Kept> = OnceLock::new();

/// From now on winners and losers are kept there.
pub(super) fn keep_in(kept: Kept) {
    KEPT.set(kept).ok();
}

/// How a form stood when a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stood {
    Won,
    Lost,
    /// It came often, and was not decided.
    Open,
}

/// A form of which it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Past {
    pub(super) stood: Stood,
    /// Its bits were found equal to the original's.
    pub(super) is_equal: bool,
    /// Calls of the kernel, nanoseconds of both forms where they are known, and what making it ready took.
    pub(super) earlier: Earlier,
    /// Threads of a block and dynamic shared memory of the launch that it was made for.
    pub(super) threads: u32,
    pub(super) shared: u32,
    /// What is written into it.
    pub(super) numbers: Vec<Option<u64>>,
}

impl Past {
    fn line(&self) -> String {
        let Past { earlier, threads, shared, .. } = self;
        let word = match self.stood {
            Stood::Won => "won",
            Stood::Lost => "lost",
            Stood::Open => "open",
        };
        let number = |number: &Option<u64>| number.map_or("-".to_owned(), |it| format!("{it:x}"));
        let numbers: Vec<String> = self.numbers.iter().map(number).collect();
        let (equal, told) = (u32::from(self.is_equal), told(earlier));
        format!("{word} {equal} {threads} {shared} {told} {}\n", numbers.join(" "))
    }

    fn read(line: &str) -> Option<Past> {
        let mut words = line.split(' ');
        let stood = match words.next()? {
            "won" => Stood::Won,
            "lost" => Stood::Lost,
            "open" => Stood::Open,
            _ => return None,
        };
        let mut next = || words.next()?.parse::<u32>().ok();
        let (is_equal, threads, shared) = (next()? == 1, next()?, next()?);
        let earlier = read_told(&mut words, stood == Stood::Won)?;
        let number = |word: &str| match word {
            "-" => Some(None),
            digits => u64::from_str_radix(digits, 16).ok().map(Some),
        };
        let numbers = words.map(number).collect::<Option<_>>()?;
        Some(Past { stood, is_equal, earlier, threads, shared, numbers })
    }
}

fn told(earlier: &Earlier) -> String {
    let Earlier { calls, original_ns, rewritten_ns, cost_ns, .. } = earlier;
    format!("{calls} {original_ns} {rewritten_ns} {cost_ns}")
}

fn read_told<'a>(words: &mut impl Iterator<Item = &'a str>, has_won: bool) -> Option<Earlier> {
    let mut next = || words.next()?.parse::<u64>().ok();
    let (calls, original_ns, rewritten_ns, cost_ns) = (next()?, next()?, next()?, next()?);
    Some(Earlier { has_won, calls, original_ns, rewritten_ns, cost_ns })
}

/// What earlier processes found of a kernel whose calls have so many numbers.
pub(super) fn recall(name: &str, text: &str, numbers: usize) -> Vec<Past> {
    let found = KEPT.get().and_then(|kept| kept.get(name, text)).unwrap_or_default();
    found.lines().filter_map(Past::read).filter(|past| past.numbers.len() == numbers).collect()
}

/// Keeps what is known now.
pub(super) fn remember(name: &str, text: &str, all: &[Past]) {
    let lines: String = all.iter().map(Past::line).collect();
    put(name, text, &lines);
}

/// The kernels of an image of which forms are known that won or were not decided.
pub(super) fn kernels(machine: &str, image: u64) -> Vec<(String, Earlier)> {
    let name = format!("kernels-{machine}");
    let found = KEPT.get().and_then(|kept| kept.get(&name, &format!("{image:016x}")));
    let read = |line: &str| {
        let mut words = line.split(' ');
        let (kernel, word) = (words.next()?.to_owned(), words.next()?);
        Some((kernel, read_told(&mut words, word == "won")?))
    };
    found.unwrap_or_default().lines().filter_map(read).collect()
}

/// Keeps that forms of a kernel are known, or that none are worth anything.
pub(super) fn name_kernel(machine: &str, image: u64, kernel: &str, best: Option<Earlier>) {
    if !is_kept() || kernel.contains(char::is_whitespace) {
        return;
    }
    let mut all = kernels(machine, image);
    all.retain(|(known, _)| known != kernel);
    all.extend(best.map(|best| (kernel.to_owned(), best)));
    let line = |(kernel, earlier): &(String, Earlier)| {
        let word = if earlier.has_won { "won" } else { "open" };
        format!("{kernel} {word} {}\n", told(earlier))
    };
    let lines: String = all.iter().map(line).collect();
    put(&format!("kernels-{machine}"), &format!("{image:016x}"), &lines);
}

/// Whether anything is kept at all.
pub(super) fn is_kept() -> bool {
    KEPT.get().is_some()
}

fn put(name: &str, text: &str, lines: &str) {
    if let Some(kept) = KEPT.get() {
        // Without a disk the next process finds out again.
        let _ = kept.put(name, text, lines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_back_as_it_was() {
        let earlier = Earlier {
            has_won: true,
            calls: 300,
            original_ns: 7_000,
            rewritten_ns: 5_000,
            cost_ns: 40_000_000,
        };
        let won = Past {
            stood: Stood::Won,
            is_equal: false,
            earlier,
            threads: 256,
            shared: 48,
            numbers: vec![Some(0x1_0001_0100), None, Some(u64::MAX), Some(0)],
        };
        let earlier = Earlier { has_won: false, ..earlier };
        let open = Past { stood: Stood::Open, is_equal: true, earlier, ..won.clone() };
        for past in [Past { stood: Stood::Lost, ..open.clone() }, open, won] {
            assert_eq!(Past::read(past.line().trim_end()), Some(past));
        }
        let wrong =
            ["", "won", "draw 1 2 3 4 5 6 7 8", "won 1 2 3 4 5 6 7 x", "open 1 2 -3 4 5 6 7 8"];
        for wrong in wrong {
            assert_eq!(Past::read(wrong), None, "{wrong}");
        }
    }
}

//! What is said of a program: its class, its promise, and what its kernels press on.
//!
//! The words stand in command lines, environment variables and configuration files; they are read here, once.

use std::fmt;
use std::str::FromStr;

/// What a program is to the scheduler. A later one goes before an earlier one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// Takes what the others leave: training, batch jobs.
    Batch = 0,
    /// Yields to latency-critical programs, goes before batch work.
    #[default]
    Normal = 1,
    /// Answers requests: nothing of the others may stand long before its bursts.
    Latency = 2,
}

impl Class {
    /// Every class with its word.
    pub const WORDS: [(Class, &'static str); 3] =
        [(Class::Batch, "batch"), (Class::Normal, "normal"), (Class::Latency, "latency")];

    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        Class::WORDS[self as usize].1
    }

    /// The class of a number on the page.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Class> {
        Class::WORDS.get(usize::from(code)).map(|(class, _)| *class)
    }
}

impl FromStr for Class {
    type Err = String;

    fn from_str(word: &str) -> Result<Class, String> {
        let found = Class::WORDS.iter().find(|(_, name)| *name == word);
        found
            .map(|(class, _)| *class)
            .ok_or_else(|| format!("`{word}` is no class; there are latency, normal and batch"))
    }
}

impl fmt::Display for Class {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.word())
    }
}

/// What a program's kernels press on. Blocks that compute hold a multiprocessor whole; others share one and end one after
/// the other, so that a waiting kernel gets in sooner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Bottleneck {
    /// Not known.
    #[default]
    Unknown = 0,
    /// Arithmetic.
    Compute = 1,
    /// Device memory.
    Memory = 2,
}

/// A promise to the users of a latency-critical program: this part of its bursts ends within the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sla {
    /// The part of bursts that must hold the limit, between 0 and 1.
    pub quantile: f32,
    /// The limit, from a burst's begin to its end.
    pub limit_ns: u64,
}

impl FromStr for Sla {
    type Err = String;

    /// `p95=10ms`, `p99=800us`, `p99.9=1.5s`.
    fn from_str(text: &str) -> Result<Sla, String> {
        let wrong = || format!("`{text}` is no promise; write one like p95=10ms");
        let (percentile, limit) = text.split_once('=').ok_or_else(wrong)?;
        let percent: f32 = percentile
            .strip_prefix('p')
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(wrong)?;
        let digits = limit.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let unit = match &limit[digits.len()..] {
            "ns" => 1.0,
            "us" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            _ => return Err(wrong()),
        };
        let amount: f64 = digits.parse().map_err(|_| wrong())?;
        let nanos = amount * unit;
        if !(percent > 0.0 && percent < 100.0 && (1e3..=3.6e12).contains(&nanos)) {
            return Err(format!(
                "`{text}` is out of range: a percentile between 0 and 100, a time from 1us to 1 hour"
            ));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked above"
        )]
        Ok(Sla { quantile: percent / 100.0, limit_ns: nanos as u64 })
    }
}

impl fmt::Display for Sla {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "p{}={}us", self.quantile * 100.0, self.limit_ns / 1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_read_and_ordered() {
        for (class, word) in Class::WORDS {
            assert_eq!(word.parse(), Ok(class));
            assert_eq!(Class::from_code(class as u8), Some(class));
        }
        assert!(Class::Latency > Class::Normal && Class::Normal > Class::Batch);
        assert!("urgent".parse::<Class>().is_err());
        assert_eq!(Class::from_code(3), None);
    }

    #[test]
    fn promises_are_read_or_refused() {
        let check = |text: &str, limit_ns| {
            assert_eq!(text.parse::<Sla>().ok().map(|sla| sla.limit_ns), limit_ns, "{text}");
        };
        check("p95=10ms", Some(10_000_000));
        check("p99.9=1.5s", Some(1_500_000_000));
        check("p50=250us", Some(250_000));
        for wrong in [
            "p95",
            "95=10ms",
            "p95=10",
            "p95=ms",
            "p0=1ms",
            "p100=1ms",
            "p95=1ns",
            "p95=-1ms",
            "pNaN=1ms",
            "p95=NaNms",
        ] {
            check(wrong, None);
        }
        assert_eq!("p95=10ms".parse::<Sla>().unwrap().to_string(), "p95=10000us");
    }
}

//! What programs allocated and freed, as text: one line for each step.
//!
//! `program,microseconds,block,bytes`; no bytes mean that the block was freed. Blocks are numbered, for addresses say
//! nothing outside their process.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A size class: eight to each doubling, so that sizes of one class differ by an eighth at most.
pub type Class = u8;

/// How many there are.
pub const CLASSES: usize = 256;

/// The smallest size that has a class of its own.
const LEAST_BITS: u32 = 8;

/// The class of a size.
#[must_use]
pub fn class_of(bytes: u64) -> Class {
    let bytes = bytes.max(1 << LEAST_BITS);
    let bits = bytes.ilog2();
    let eighth = (bytes >> (bits - 3)) as u32 & 7;
    ((bits - LEAST_BITS) * 8 + eighth).min(CLASSES as u32 - 1) as Class
}

/// One allocation or free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// When, from the program's first step on.
    pub time_us: u64,
    /// Which block.
    pub block: u64,
    /// Its bytes; nothing where it is freed.
    pub bytes: u64,
}

/// All steps of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// What the program is called.
    pub program: String,
    /// In the order of time.
    pub steps: Vec<Step>,
}

impl Trace {
    /// Reads traces, in the order of their programs' names.
    ///
    /// # Errors
    ///
    /// Which line cannot be understood.
    pub fn read(text: &str) -> Result<Vec<Trace>, String> {
        let mut all: BTreeMap<&str, Vec<Step>> = BTreeMap::new();
        for (nth, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
            let wrong =
                || format!("line {} is no `program,microseconds,block,bytes`: {line}", nth + 1);
            let mut words = line.split(',');
            let program = words.next().filter(|name| !name.is_empty()).ok_or_else(wrong)?;
            let mut number = || words.next()?.parse().ok();
            let step = (|| Some(Step { time_us: number()?, block: number()?, bytes: number()? }))();
            all.entry(program).or_default().push(step.ok_or_else(wrong)?);
        }
        let traces = all.into_iter();
        Ok(traces.map(|(program, steps)| Trace { program: program.into(), steps }).collect())
    }

    /// The same as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for Step { time_us, block, bytes } in &self.steps {
            let _ = writeln!(text, "{},{time_us},{block},{bytes}", self.program);
        }
        text
    }

    /// Classes of the allocations, in their order.
    pub fn classes(&self) -> impl Iterator<Item = Class> + '_ {
        self.steps.iter().filter(|step| step.bytes > 0).map(|step| class_of(step.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_a_class_differ_by_an_eighth_at_most() {
        let mut before = (0, 0);
        for bytes in (1..40)
            .map(|bits| 1_u64 << bits)
            .flat_map(|size| [size, size + size / 16, size * 2 - 1])
        {
            let class = class_of(bytes);
            assert!(class >= before.0);
            if class > before.0 {
                before = (class, bytes);
            }
            assert!(bytes <= 511 || bytes <= before.1 + before.1 / 8, "{bytes} and {}", before.1);
        }
        assert_eq!((class_of(0), class_of(256), class_of(u64::MAX)), (0, 0, 255));
    }

    #[test]
    fn what_is_written_is_read() {
        let step = |time_us, block, bytes| Step { time_us, block, bytes };
        let one = Trace { program: "one".into(), steps: vec![step(0, 1, 512), step(7, 1, 0)] };
        let two = Trace { program: "two".into(), steps: vec![step(3, 9, 1)] };
        let text = format!("{}{}", two.text(), one.text());
        assert_eq!(Trace::read(&text), Ok(vec![one.clone(), two]));
        assert_eq!(one.classes().collect::<Vec<_>>(), [8]);
        for wrong in ["one,1,2", "one,1,2,x", ",1,2,3", "word"] {
            assert!(Trace::read(wrong).unwrap_err().starts_with("line 1 is no"), "{wrong}");
        }
    }
}

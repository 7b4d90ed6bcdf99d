//! Compares what a launch wrote with what it should have written.
//!
//! Outputs start poisoned (or as zeros, where the kernel adds), and lie before a guard that nobody may
//! write. Every element is looked at: one that is still poison where all must be written is a fault, and so
//! is a touched guard. The values of short outputs are all compared with the reference, and of long ones the
//! first, the last and some between.

use super::kernel::{Argument, Expected, Number, Output, Reference};
use super::point::Point;
use super::prepared::GUARD;
use std::fmt;

/// Elements up to which all are compared.
const ALL: u64 = 4_096;
/// Elements compared at each end, and between, of a longer output.
const ENDS: u64 = 64;
const BETWEEN: u64 = 512;

/// What a launch wrote; made by [`super::Prepared::outputs`].
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// # let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
/// # let ground = apex_exec::zoo::Ground::new(&executor)?;
/// # let kernels: Vec<_> = apex_exec::zoo::kernels().filter(|kernel| kernel.name == "integer_mix").collect();
/// # let scale = apex_exec::zoo::Scale::Small;
/// # let point = apex_exec::zoo::points(&kernels, &ground.target(), scale, Some(1), 1).remove(0);
/// let mut outputs = ground.prepare(&point)?.outputs()?;
/// assert_eq!(outputs.verdict().fault, None);
/// outputs.words[0][0] ^= 1;
/// assert!(outputs.verdict().fault.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Outputs {
    /// What was launched.
    pub point: Point,
    /// The words of each output, its guard at the end.
    pub words: Vec<Vec<u32>>,
}

/// Whether outputs are as they should be.
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// # let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
/// # let ground = apex_exec::zoo::Ground::new(&executor)?;
/// # let kernels: Vec<_> = apex_exec::zoo::kernels().filter(|kernel| kernel.name == "integer_mix").collect();
/// # let scale = apex_exec::zoo::Scale::Small;
/// # let point = apex_exec::zoo::points(&kernels, &ground.target(), scale, Some(1), 1).remove(0);
/// assert!(ground.prepare(&point)?.check()?.compared > 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Values compared with the reference.
    pub compared: u64,
    /// The first that is wrong.
    pub fault: Option<Fault>,
}

/// A wrong element.
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// # let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
/// # let ground = apex_exec::zoo::Ground::new(&executor)?;
/// # let kernels: Vec<_> = apex_exec::zoo::kernels().filter(|kernel| kernel.name == "tiny").collect();
/// # let scale = apex_exec::zoo::Scale::Small;
/// # let point = apex_exec::zoo::points(&kernels, &ground.target(), scale, Some(1), 1).remove(0);
/// let mut outputs = ground.prepare(&point)?.outputs()?;
/// outputs.words[0][0] = 5;
/// let fault = outputs.verdict().fault.unwrap();
/// assert_eq!(fault.to_string(), "tiny, output 0, element 0: 5 instead of Exact(0)");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// The kernel's entry.
    pub entry: String,
    /// Which output, counted among the outputs.
    pub output: usize,
    /// Which element.
    pub index: u64,
    /// What is there and what should be.
    pub sentence: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { entry, output, index, sentence } = self;
        write!(formatter, "{entry}, output {output}, element {index}: {sentence}")
    }
}

impl Outputs {
    /// Compares with the reference.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// # let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// # let ground = apex_exec::zoo::Ground::new(&executor)?;
    /// # let kernels: Vec<_> = apex_exec::zoo::kernels().filter(|kernel| kernel.name == "tiny").collect();
    /// # let scale = apex_exec::zoo::Scale::Small;
    /// # let point = apex_exec::zoo::points(&kernels, &ground.target(), scale, Some(1), 1).remove(0);
    /// assert_eq!(ground.prepare(&point)?.outputs()?.verdict().fault, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn verdict(&self) -> Verdict {
        let mut compared = 0;
        let outputs = (self.point.kernel.arguments)(&self.point);
        let outputs = outputs.iter().filter_map(|argument| match argument {
            Argument::Output(output) => Some(output),
            _ => None,
        });
        for (place, (output, words)) in outputs.zip(&self.words).enumerate() {
            let fault = |(index, sentence)| Fault {
                entry: self.point.entry(),
                output: place,
                index,
                sentence,
            };
            if let Err(wrong) = self.judge(place, output, words, &mut compared) {
                return Verdict { compared, fault: Some(fault(wrong)) };
            }
        }
        Verdict { compared, fault: None }
    }

    fn judge(
        &self,
        place: usize,
        output: &Output,
        words: &[u32],
        compared: &mut u64,
    ) -> Result<(), (u64, String)> {
        let Output { number, len, adds, whole } = *output;
        if words.len() != (len + GUARD) * number.words() {
            return Err((0, format!("{} words instead of {len} elements", words.len())));
        }
        let before = if adds { 0 } else { u32::MAX };
        let untouched = |index: usize| {
            let first = index * number.words();
            words[first..first + number.words()].iter().all(|&word| word == before)
        };
        if let Some(index) = (len..len + GUARD).find(|&index| !untouched(index)) {
            return Err((index as u64, "written, and lies behind the output".into()));
        }
        if let Some(index) = (0..len).find(|&index| whole && untouched(index)) {
            return Err((index as u64, "not written".into()));
        }
        let all = match self.point.kernel.reference {
            Reference::Whole(reference) => Some(reference(&self.point, place)),
            Reference::Each(_) => None,
        };
        for index in chosen(len as u64) {
            let expected = match (&all, &self.point.kernel.reference) {
                (Some(all), _) => all.get(index as usize).copied().unwrap_or(Expected::Untouched),
                (None, Reference::Each(reference)) => reference(&self.point, place, index),
                (None, Reference::Whole(_)) => Expected::Untouched,
            };
            *compared += 1;
            let found = Found::read(number, words, index as usize);
            if !found.is(expected, before) {
                return Err((index, format!("{found} instead of {expected:?}")));
            }
        }
        Ok(())
    }
}

/// An element as it was found.
enum Found {
    Word(u32),
    Float(f32),
    Double(f64),
}

impl Found {
    fn read(number: Number, words: &[u32], index: usize) -> Found {
        match number {
            Number::U32 => Found::Word(words[index]),
            Number::F32 => Found::Float(f32::from_bits(words[index])),
            Number::F64 => {
                let (low, high) = (u64::from(words[2 * index]), u64::from(words[2 * index + 1]));
                Found::Double(f64::from_bits(high << 32 | low))
            }
        }
    }

    fn is(&self, expected: Expected, before: u32) -> bool {
        let near = |found: f64, value: f64, within: f64| (found - value).abs() <= within;
        match (self, expected) {
            (Found::Word(word), Expected::Exact(value)) => *word == value,
            (Found::Word(word), Expected::Untouched) => *word == before,
            (Found::Float(float), Expected::Near { value, within }) => {
                near((*float).into(), value, within)
            }
            (Found::Double(double), Expected::Near { value, within }) => {
                near(*double, value, within)
            }
            (Found::Float(float), Expected::Untouched) => float.to_bits() == before,
            _ => false,
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::Word(word) => write!(formatter, "{word}"),
            Found::Float(float) => write!(formatter, "{float}"),
            Found::Double(double) => write!(formatter, "{double}"),
        }
    }
}

/// Which elements are compared: all, or both ends and some between in equal parts of the output, at a place
/// in its part that changes from part to part.
fn chosen(len: u64) -> Vec<u64> {
    if len <= ALL {
        return (0..len).collect();
    }
    let part = len / BETWEEN;
    let between = (0..BETWEEN).map(|place| place * part + place * 7_919 % part);
    (0..ENDS).chain(between).chain(len - ENDS..len).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_outputs_are_compared_at_both_ends_and_between() {
        let places = chosen(1_000_003);
        assert_eq!(places.len() as u64, 2 * ENDS + BETWEEN);
        assert!(places.contains(&0) && places.contains(&1_000_002));
        assert!(places.iter().all(|&place| place < 1_000_003));
        assert_eq!(chosen(3), [0, 1, 2]);
    }

    #[test]
    fn not_a_number_is_near_nothing() {
        let expected = Expected::Near { value: 1.0, within: 1e9 };
        assert!(!Found::Float(f32::NAN).is(expected, u32::MAX));
        assert!(Found::Float(2.0).is(expected, u32::MAX));
    }
}

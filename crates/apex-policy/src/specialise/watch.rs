//! What stays the same in the calls of one kernel.
//!
//! A number that takes many values, such as the step of a time loop, is left out of account; calls are counted by the
//! others. What came often enough is proposed once. A kernel whose calls never repeat is given up, so that looking at it
//! ends.

/// A number with more values than these is left out of account.
const MOST_VALUES: usize = 4;
/// Calls after which what came so often is proposed: as many again are expected, and a compilation takes as long as
/// thousands of launches.
const OFTEN: u32 = 24;
/// Calls that are looked at.
const MOST_CALLS: u32 = 2_048;
/// Proposals for one kernel.
const MOST_PROPOSED: usize = 4;
/// Different calls that are counted at one time.
const MOST_KINDS: usize = 16;

/// What a call means for its kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Nothing yet.
    More,
    /// It came often: these numbers are worth to be written into the kernel, `None` for one that is left out.
    Often(Vec<Option<u64>>),
    /// Enough was seen: calls need not be told any more.
    Enough,
}

/// The calls of one kernel.
#[derive(Clone, Debug)]
pub struct Watch {
    /// The values of each number so far; none any more for one that is left out of account.
    values: Vec<Option<Vec<u64>>>,
    kinds: Vec<Kind>,
    calls: u32,
    proposed: usize,
}

#[derive(Clone, Debug)]
struct Kind {
    numbers: Vec<Option<u64>>,
    calls: u32,
    is_proposed: bool,
}

impl Watch {
    /// Calls of so many numbers.
    #[must_use]
    pub fn new(numbers: usize) -> Watch {
        let values = vec![Some(Vec::new()); numbers];
        Watch { values, kinds: Vec::new(), calls: 0, proposed: 0 }
    }

    /// A call with these numbers.
    pub fn seen(&mut self, numbers: &[u64]) -> Seen {
        self.calls += 1;
        let mut is_new = false;
        for (values, number) in self.values.iter_mut().zip(numbers) {
            let Some(known) = values else { continue };
            if !known.contains(number) {
                known.push(*number);
                if known.len() > MOST_VALUES {
                    *values = None;
                    is_new = true;
                }
            }
        }
        if is_new {
            // Calls that differed in it alone are the same now; they are counted anew.
            self.kinds.retain(|kind| kind.is_proposed);
        }
        if self.calls > MOST_CALLS
            || self.proposed == MOST_PROPOSED
            || self.values.iter().all(Option::is_none)
        {
            return Seen::Enough;
        }
        let told: Vec<Option<u64>> = self
            .values
            .iter()
            .zip(numbers)
            .map(|(values, it)| values.as_ref().map(|_| *it))
            .collect();
        let Some(kind) = self.kinds.iter_mut().find(|kind| kind.numbers == told) else {
            if self.kinds.len() < MOST_KINDS {
                self.kinds.push(Kind { numbers: told, calls: 1, is_proposed: false });
            }
            return Seen::More;
        };
        kind.calls += 1;
        if kind.calls < OFTEN || kind.is_proposed {
            return Seen::More;
        }
        kind.is_proposed = true;
        self.proposed += 1;
        Seen::Often(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposals(calls: impl Iterator<Item = Vec<u64>>) -> (Vec<Vec<Option<u64>>>, Option<usize>) {
        let (mut watch, mut found) = (None, Vec::new());
        for (nth, numbers) in calls.enumerate() {
            match watch.get_or_insert_with(|| Watch::new(numbers.len())).seen(&numbers) {
                Seen::More => {}
                Seen::Often(numbers) => found.push(numbers),
                Seen::Enough => return (found, Some(nth)),
            }
        }
        (found, None)
    }

    #[test]
    fn what_repeats_is_proposed_once() {
        let (found, _) = proposals((0..200).map(|_| vec![256, 7, 1000]));
        assert_eq!(found, [[Some(256), Some(7), Some(1000)]]);
    }

    #[test]
    fn a_number_that_counts_is_left_out() {
        let (found, _) = proposals((0..200).map(|step| vec![256, step, 1000]));
        assert_eq!(found, [[Some(256), None, Some(1000)]]);
    }

    #[test]
    fn several_calls_in_turn_are_proposed_each() {
        let (found, _) = proposals((0..300).map(|nth| vec![256, nth % 3]));
        assert_eq!(found.len(), 3);
        assert!(found.iter().all(|numbers| numbers[1].is_some()));
    }

    #[test]
    fn calls_that_never_repeat_are_given_up() {
        let (found, ended) = proposals((0..10_000).map(|nth| vec![nth, nth * 3]));
        assert!(found.is_empty());
        assert_eq!(ended, Some(MOST_VALUES));
        // Four values each, and no two calls the same within reach.
        let (found, ended) = proposals(
            (0..10_000).map(|nth| vec![nth % 4, nth / 4 % 4, nth / 16 % 4, nth / 64 % 4]),
        );
        assert!(found.is_empty());
        assert_eq!(ended, Some(MOST_CALLS as usize));
    }
}

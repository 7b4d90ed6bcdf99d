//! Where a piece of waiting launches ends.
//!
//! A loop of few launches ends after a power of two of its turns, and its turns are counted from the same launch on
//! wherever the queue came upon them. Anything else ends where its own words say so, as in
//! a store that finds equal stretches of files: whatever came before, the end is at the same launch. So the pieces of a
//! program's step are few and come again in every step.

/// Launches in a piece at most. A graph of 100 takes 0.73 µs a kernel, one of 1,000 takes 0.72.
pub const MOST: usize = 128;
/// Launches in a loop at most that are counted as its turns.
const LONGEST_TURN: usize = 32;
/// Launches before the words may end a piece: one of 10 takes 0.86 µs a kernel.
const LEAST_BY_WORDS: usize = 8;
/// One word in so many ends a piece: pieces have about 40 launches.
const ENDS: u64 = 32;

/// How many of the waiting words, from the first on, make a piece. `is_all` says that the program waits for them, so
/// that no more will come. `None` where the end is not in sight.
#[must_use]
pub fn cut(words: &[u64], is_all: bool) -> Option<usize> {
    let words = &words[..words.len().min(MOST)];
    if let Some((turn, run)) = turns(words) {
        // More may stand behind so many.
        if is_all && run == words.len() && run < MOST {
            return Some(run);
        }
        let first = least_rotation(&words[..turn]);
        if first > 0 {
            return Some(first);
        }
        let powers = std::iter::successors(Some(turn), |length| length.checked_mul(2));
        return powers.take_while(|&length| length <= run).last();
    }
    let by_words = (LEAST_BY_WORDS..words.len()).find(|&nth| ends(words[nth - 1], words[nth]));
    match by_words {
        Some(end) => Some(end),
        None if is_all || words.len() == MOST => Some(words.len()),
        None => None,
    }
}

/// The length of the shortest turn that the words repeat from the first on, and how far they do.
fn turns(words: &[u64]) -> Option<(usize, usize)> {
    (1..=LONGEST_TURN.min(words.len() / 2)).find_map(|turn| {
        let same = words.iter().zip(&words[turn..]).take_while(|(word, later)| word == later);
        let run = turn + same.count();
        (run >= 2 * turn && run >= LEAST_BY_WORDS).then_some((turn, run))
    })
}

/// Where a turn is thought to begin: the rotation of it that comes first by the order of words.
fn least_rotation(turn: &[u64]) -> usize {
    let rotated = |begin: usize| turn[begin..].iter().chain(&turn[..begin]);
    (1..turn.len())
        .fold(0, |least, begin| if rotated(begin).lt(rotated(least)) { begin } else { least })
}

/// Whether a piece ends before `next`, of two words that follow each other.
fn ends(word: u64, next: u64) -> bool {
    let mixed = (word.rotate_left(23) ^ next).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32).is_multiple_of(ENDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(count: u64, seed: u64) -> Vec<u64> {
        (0..count).map(|nth| (nth ^ seed).wrapping_mul(0x2545_f491_4f6c_dd1d)).collect()
    }

    #[test]
    fn a_loop_ends_after_a_power_of_two_of_its_turns() {
        assert_eq!(cut(&[7; 100], false), Some(64));
        assert_eq!(cut(&[7; 300], false), Some(128));
        let looped: Vec<u64> = [3, 5, 9].into_iter().cycle().take(100).collect();
        assert_eq!(cut(&looped, false), Some(96));
        // The program waits, but the loop goes on behind what is looked at.
        let looped: Vec<u64> = [3, 5, 9].into_iter().cycle().take(200).collect();
        assert_eq!(cut(&looped, true), Some(96));
    }

    #[test]
    fn turns_begin_at_the_same_launch_wherever_they_are_come_upon() {
        let looped: Vec<u64> = [9, 3, 5, 3, 7].into_iter().cycle().take(200).collect();
        for begin in 0..20 {
            let mut at = begin;
            let mut sizes = Vec::new();
            while at + 20 < looped.len() {
                let length = cut(&looped[at..], false).expect("a loop");
                sizes.push((at % 5, length));
                at += length;
            }
            let whole: Vec<_> = sizes.iter().filter(|(_, length)| *length >= 10).collect();
            assert!(!whole.is_empty() && whole.iter().all(|(phase, _)| *phase == 1), "{sizes:?}");
            assert!(sizes.len() - whole.len() <= 1, "{sizes:?}");
        }
    }

    #[test]
    fn the_last_launches_before_a_wait_are_a_piece() {
        assert_eq!(cut(&[7; 19], true), Some(19));
        assert_eq!(cut(&words(5, 2), true), Some(5));
        assert_eq!(cut(&words(5, 2), false), None);
        assert_eq!(cut(&[], false), None);
    }

    /// The property that makes pieces come again: from wherever one begins, it ends at one of the same places.
    #[test]
    fn pieces_end_at_the_same_launches_wherever_they_begin() {
        let step: Vec<u64> = words(2_000, 3);
        let ends_from = |mut at: usize| {
            let mut found = std::collections::BTreeSet::new();
            while let Some(length) = cut(&step[at..], false) {
                at += length;
                found.insert(at);
            }
            found
        };
        let first = ends_from(0);
        assert!(first.len() > 20, "{}", first.len());
        for begin in [1, 5, 17, 40, 99] {
            let other = ends_from(begin);
            let common = other.intersection(&first).count();
            assert!(common * 10 >= other.len() * 8, "from {begin}: {common} of {}", other.len());
        }
    }
}

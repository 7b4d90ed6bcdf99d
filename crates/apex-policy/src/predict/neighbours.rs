//! Remembers some measured launches of one kernel, to answer for launches like them.
//!
//! The kernel's line knows how time grows with work. What it cannot know (a block size that wastes lanes, a stride
//! that defeats the caches) shows in launches that were alike: the same arguments in another grid, the same grid
//! with another size. Likeness is the distance between logarithms of sides, shared memory and arguments, so a
//! doubling of anything counts one. The daemon keeps these; inside a program the line must do.

use super::question::{INTEGERS, Question};
use super::scale::counted;

/// What launches are compared by.
pub type Signature = [f32; 7 + INTEGERS];

/// The place of a launch among others of its kernel.
#[must_use]
pub fn signature(question: &Question<'_>) -> Signature {
    let mut signature = [0.0; 7 + INTEGERS];
    let sides = question.shape.grid.iter().chain(&question.shape.block);
    let small = sides.chain([&question.dynamic_shared]).map(|side| *side as f32);
    let integers = question.arguments.integers.iter().map(|value| *value as f32);
    signature.iter_mut().zip(small.chain(integers)).for_each(|(to, from)| *to = counted(from));
    signature
}

/// What launches like it took, as log2 over the bound.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Near {
    /// The nearest one.
    pub nearest: f32,
    /// Its distance; 0 with no launch at all.
    pub distance: f32,
    /// The nearest few, the nearer the heavier.
    pub mean: f32,
}

/// Launches that are remembered of one kernel.
const REMEMBERED: usize = 128;
/// Launches that are asked.
const ASKED: usize = 4;

/// Measured launches of one kernel; when there are many, the oldest is forgotten.
#[derive(Clone, Debug, Default)]
pub struct Neighbours {
    entries: Vec<(Signature, f32)>,
    next: usize,
}

impl Neighbours {
    /// Takes in a measured launch. One that is remembered already is moved towards what was measured now.
    pub fn observe(&mut self, signature: &Signature, over_bound: f32) {
        if !over_bound.is_finite() {
            return;
        }
        if let Some((_, known)) = self.entries.iter_mut().find(|(known, _)| known == signature) {
            *known += 0.25 * (over_bound - *known);
        } else if self.entries.len() < REMEMBERED {
            self.entries.push((*signature, over_bound));
        } else {
            self.entries[self.next] = (*signature, over_bound);
            self.next = (self.next + 1) % REMEMBERED;
        }
    }

    /// What launches like this one took.
    #[must_use]
    pub fn near(&self, signature: &Signature) -> Near {
        let mut best = [(f32::INFINITY, 0.0); ASKED];
        for (known, over_bound) in &self.entries {
            let distance: f32 = known.iter().zip(signature).map(|(a, b)| (a - b).abs()).sum();
            if distance < best[ASKED - 1].0 {
                best[ASKED - 1] = (distance, *over_bound);
                best.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
            }
        }
        if best[0].0.is_infinite() {
            return Near::default();
        }
        let (mut sum, mut weights) = (0.0, 0.0);
        for (distance, over_bound) in best.iter().filter(|(distance, _)| distance.is_finite()) {
            let weight = 1.0 / (0.1 + distance * distance);
            sum += weight * over_bound;
            weights += weight;
        }
        Near { nearest: best[0].1, distance: best[0].0, mean: sum / weights }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(place: f32) -> Signature {
        let mut signature = Signature::default();
        signature[2] = place;
        signature
    }

    #[test]
    fn the_nearest_answer_and_the_nearer_count_more() {
        let mut near = Neighbours::default();
        assert_eq!(near.near(&at(1.0)), Near::default());
        for place in 0..10 {
            near.observe(&at(place as f32), place as f32);
        }
        let found = near.near(&at(4.2));
        assert_eq!(found.nearest, 4.0);
        assert!((found.distance - 0.2).abs() < 1e-5 && (found.mean - 4.2).abs() < 0.3, "{found:?}");
    }

    #[test]
    fn memory_is_bounded_and_a_repeat_is_one() {
        let mut near = Neighbours::default();
        for _ in 0..50 {
            near.observe(&at(1.0), 2.0);
        }
        assert_eq!(near.entries.len(), 1);
        for place in 0..1_000 {
            near.observe(&at(place as f32), 0.0);
        }
        assert_eq!(near.entries.len(), REMEMBERED);
        assert_eq!(near.near(&at(999.0)).distance, 0.0);
        near.observe(&at(5.0), f32::NAN);
        assert!(near.near(&at(5.0)).mean.is_finite());
    }
}

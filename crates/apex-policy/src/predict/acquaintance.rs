//! How much is known of a kernel, by how often it was measured.

use super::features::{COUNT, HISTORY_COUNT};

/// From so many launches on a kernel learns its own likeness.
pub const TELLING: usize = 3;
/// From so many launches on it no longer learns anew with each of them.
pub const MANY: usize = 12;
/// How much is known of a kernel: intervals are widened by different factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquaintance {
    /// Never measured.
    Unseen,
    /// Measured once or twice: too little for the kernel to learn from.
    First,
    /// Measured three times or more, but too few for its costs to be believed closely.
    Few,
    /// Measured six times or more, but fewer than [`MANY`].
    Several,
    /// Measured so many times or more.
    Some,
    /// Measured thirty times or more.
    Known,
}

impl Acquaintance {
    /// All, in the order of the factors in a file.
    pub const ALL: [Acquaintance; 6] = [
        Acquaintance::Unseen,
        Acquaintance::First,
        Acquaintance::Few,
        Acquaintance::Several,
        Acquaintance::Some,
        Acquaintance::Known,
    ];

    /// By the number of measured times.
    #[must_use]
    pub fn of(measured: u32) -> Acquaintance {
        const FEW: u32 = TELLING as u32;
        const SEVERAL: u32 = 2 * FEW;
        const SOME: u32 = MANY as u32;
        match measured {
            0 => Acquaintance::Unseen,
            1..FEW => Acquaintance::First,
            FEW..SEVERAL => Acquaintance::Few,
            SEVERAL..SOME => Acquaintance::Several,
            SOME..30 => Acquaintance::Some,
            _ => Acquaintance::Known,
        }
    }

    /// By the history among the features.
    #[must_use]
    pub fn seen_in(features: &[f32; COUNT]) -> Acquaintance {
        Acquaintance::of((features[HISTORY_COUNT].exp2() - 1.0).round() as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acquaintance_grows_with_measurements() {
        assert_eq!(Acquaintance::of(0), Acquaintance::Unseen);
        assert_eq!(Acquaintance::of(2), Acquaintance::First);
        assert_eq!(Acquaintance::of(3), Acquaintance::Few);
        assert_eq!(Acquaintance::of(5), Acquaintance::Few);
        assert_eq!(Acquaintance::of(6), Acquaintance::Several);
        assert_eq!(Acquaintance::of(11), Acquaintance::Several);
        assert_eq!(Acquaintance::of(12), Acquaintance::Some);
        assert_eq!(Acquaintance::of(30), Acquaintance::Known);
    }
}

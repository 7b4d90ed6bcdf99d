//! Names of chips, and which version of PTX a driver reads.

use core::fmt;

/// A chip as `.target` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Target {
    /// Compute capability times ten: 90.
    pub number: u32,
    /// Of this very chip (`sm_90a`) or of its family (`sm_120f`): what only they have may be used.
    pub is_own: bool,
}

/// What is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Goal {
    /// The chip that the text shall run on.
    pub target: Target,
    /// The newest version of PTX that its compiler reads.
    pub version: (u32, u32),
}

impl Target {
    /// `sm_90`, `compute_90`, `sm_120f`.
    #[must_use]
    pub fn named(name: &str) -> Option<Target> {
        let rest = name.strip_prefix("sm_").or_else(|| name.strip_prefix("compute_"))?;
        let digits = rest.strip_suffix(['a', 'f']).unwrap_or(rest);
        let number = digits.parse().ok().filter(|number| (10..1000).contains(number))?;
        Some(Target { number, is_own: digits.len() < rest.len() })
    }

    /// The chip of a device of this compute capability.
    #[must_use]
    pub fn of_device(major: u32, minor: u32) -> Target {
        Target { number: 10 * major + minor, is_own: true }
    }

    /// Its name without a letter: `sm_90`.
    #[must_use]
    pub fn plain_name(self) -> String {
        format!("sm_{}", self.number)
    }

    /// Whether a text for `other` runs here.
    #[must_use]
    pub fn runs(self, other: Target) -> bool {
        if other.is_own { other.number == self.number } else { other.number <= self.number }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "sm_{}{}", self.number, if self.is_own { "a" } else { "" })
    }
}

/// Releases of CUDA, as `cuDriverGetVersion` counts them, with the newest PTX that each reads.
#[rustfmt::skip]
const RELEASES: [(u32, (u32, u32)); 22] = [
    (11000, (7, 0)), (11010, (7, 1)), (11020, (7, 2)), (11030, (7, 3)), (11040, (7, 4)), (11050, (7, 5)),
    (11060, (7, 6)), (11070, (7, 7)), (11080, (7, 8)), (12000, (8, 0)), (12010, (8, 1)), (12020, (8, 2)),
    (12030, (8, 3)), (12040, (8, 4)), (12050, (8, 5)), (12060, (8, 5)), (12070, (8, 6)), (12080, (8, 7)),
    (12090, (8, 8)), (13000, (9, 0)), (13010, (9, 1)), (13020, (9, 2)),
];

/// The newest PTX that a driver of this version reads.
#[must_use]
pub fn newest_ptx(driver_version: u32) -> (u32, u32) {
    let known = RELEASES.iter().rev().find(|(release, _)| *release <= driver_version);
    known.map_or((7, 0), |(_, version)| *version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_runs_on_its_chip_and_on_later_ones() {
        let named = |name| Target::named(name).unwrap();
        let check = |text, chip, runs| assert_eq!(named(chip).runs(named(text)), runs, "{text}");
        check("sm_90", "sm_90", true);
        check("compute_80", "sm_90", true);
        check("sm_120", "sm_90", false);
        check("sm_90a", "sm_90", true);
        check("sm_90a", "sm_100", false);
        check("sm_120f", "sm_120", true);
        assert_eq!(Target::named("sm_"), None);
        assert_eq!(Target::named("gfx90"), None);
        assert_eq!(named("sm_120f").to_string(), "sm_120a");
    }

    #[test]
    fn a_driver_reads_what_its_release_brought() {
        assert_eq!(newest_ptx(13_000), (9, 0));
        assert_eq!(newest_ptx(12_085), (8, 7));
        assert_eq!(newest_ptx(99_000), (9, 2));
        assert_eq!(newest_ptx(10_020), (7, 0));
    }
}

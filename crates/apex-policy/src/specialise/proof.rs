//! Whether a form whose bits might be others has shown that they are not.
//!
//! A compiler may fuse a product with a sum in one form and not in the other. So such a form runs only after both have run
//! on the same bytes and every byte that they wrote was equal. What was written must be able to tell: sums of small whole numbers are the same fused or not. A comparison costs two launches
//! and is made where these are a small share of the program's time so far.

/// Calls between two comparisons where the first could not tell: what they read is to differ.
const APART: u64 = 16;
/// Words with some of their lowest eight bits set that must have been written: only such words show how a sum was rounded.
const LEAST_TELLING: u64 = 16;
/// Comparisons that tell nothing, after which the form is given up.
const MOST_SILENT: u32 = 4;
/// Share of the program's time that comparisons may take, in per cent.
const PERCENT: u64 = 1;
/// Launches of the kernel that a comparison takes; the third is for copies and for looking.
const LAUNCHES: u64 = 3;

/// What a comparison found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Words that differ.
    pub differing: u64,
    /// Written words that can tell.
    pub telling: u64,
}

/// How it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proven {
    /// It is not known yet.
    Open,
    /// The bits are equal.
    Equal,
    /// They are not.
    Differs,
    /// What the kernel writes cannot tell.
    Silent,
}

/// What is wanted of the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Nothing.
    Nothing,
    /// How long the original takes.
    Time,
    /// A comparison.
    Comparison,
}

/// Comparisons of a form with the original.
#[derive(Clone, Debug, Default)]
pub struct Proof {
    /// Nanoseconds of the original, once known.
    original: Option<u64>,
    is_equal: bool,
    silent: u32,
    differs: bool,
    is_under_way: bool,
    /// Calls so far, and the first that may be compared.
    calls: u64,
    next: u64,
}

impl Proof {
    /// A call that the form would fit. Comparisons have taken `spent` of the program's `elapsed` nanoseconds.
    pub fn wanted(&mut self, elapsed: u64, spent: u64) -> Wanted {
        self.calls += 1;
        if self.verdict() != Proven::Open || self.is_under_way || self.calls < self.next {
            return Wanted::Nothing;
        }
        match self.cost() {
            None => Wanted::Time,
            Some(cost) if spent.saturating_add(cost) <= elapsed / 100 * PERCENT => {
                Wanted::Comparison
            }
            Some(_) => Wanted::Nothing,
        }
    }

    /// Nanoseconds of a comparison.
    #[must_use]
    pub fn cost(&self) -> Option<u64> {
        Some(self.original?.saturating_mul(LAUNCHES))
    }

    /// The original took so many nanoseconds.
    pub fn took(&mut self, nanos: u64) {
        self.original = Some(self.original.map_or(nanos, |before| before.min(nanos)));
    }

    /// A comparison has begun.
    pub fn begun(&mut self) {
        self.is_under_way = true;
    }

    /// No comparison could begin; another call is waited for.
    pub fn put_off(&mut self) {
        self.next = self.calls + APART;
    }

    /// A comparison has ended.
    pub fn found(&mut self, finding: Finding) -> Proven {
        self.is_under_way = false;
        self.put_off();
        if finding.differing > 0 {
            self.differs = true;
        } else if finding.telling < LEAST_TELLING {
            self.silent += 1;
        } else {
            self.is_equal = true;
        }
        self.verdict()
    }

    /// How it stands.
    #[must_use]
    pub fn verdict(&self) -> Proven {
        match self {
            Proof { differs: true, .. } => Proven::Differs,
            Proof { is_equal: true, .. } => Proven::Equal,
            Proof { silent: MOST_SILENT.., .. } => Proven::Silent,
            _ => Proven::Open,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const SAME: Finding = Finding { differing: 0, telling: 100 };
    const SILENT: Finding = Finding { differing: 0, telling: 0 };

    /// Calls until a comparison is wanted.
    fn calls(proof: &mut Proof) -> u64 {
        (1..1_000).find(|_| proof.wanted(SECOND, 0) == Wanted::Comparison).expect("one is wanted")
    }

    fn timed() -> Proof {
        let mut proof = Proof::default();
        assert_eq!(proof.wanted(SECOND, 0), Wanted::Time);
        proof.took(100_000);
        proof
    }

    #[test]
    fn equal_bits_prove_it() {
        let mut proof = timed();
        assert_eq!(calls(&mut proof), 1);
        proof.begun();
        assert_eq!(proof.wanted(SECOND, 0), Wanted::Nothing);
        assert_eq!(proof.found(SILENT), Proven::Open);
        assert_eq!(calls(&mut proof), APART);
        proof.begun();
        assert_eq!(proof.found(SAME), Proven::Equal);
        assert_eq!(proof.wanted(SECOND, 0), Wanted::Nothing);
    }

    #[test]
    fn one_word_that_differs_is_enough() {
        let mut proof = timed();
        assert_eq!(proof.found(SILENT), Proven::Open);
        assert_eq!(proof.found(Finding { differing: 1, ..SAME }), Proven::Differs);
        assert_eq!(proof.found(SAME), Proven::Differs);
    }

    #[test]
    fn what_cannot_tell_proves_nothing() {
        let mut proof = timed();
        for nth in 1..=MOST_SILENT {
            let stands = if nth < MOST_SILENT { Proven::Open } else { Proven::Silent };
            assert_eq!(proof.found(SILENT), stands);
        }
    }

    #[test]
    fn a_long_kernel_waits_until_it_is_a_small_share() {
        let mut proof = timed();
        proof.took(50_000);
        assert_eq!(proof.cost(), Some(150_000));
        assert_eq!(proof.wanted(10_000_000, 0), Wanted::Nothing);
        assert_eq!(proof.wanted(15_000_000, 1), Wanted::Nothing);
        assert_eq!(proof.wanted(15_000_000, 0), Wanted::Comparison);
    }
}

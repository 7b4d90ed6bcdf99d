//! What an mbarrier is: one word in shared memory.
//!
//! Arrivals still missing (bits 0 to 19), arrivals per phase (20 to 39), bytes still missing
//! (40 to 60, signed) and the phase (61 to 63). Both tiers change it, so it stands here. Blocks of
//! a cluster are run by one worker, so no two threads of the host change a word at once.

/// Bits of a count of arrivals.
pub(crate) const COUNT: u64 = (1 << 20) - 1;
/// Bits of a count of bytes.
pub(crate) const BYTES: u64 = (1 << 21) - 1;

/// Where the arrivals of a phase begin in the word.
pub(crate) const EXPECTED_AT: u32 = 20;
/// Where the missing bytes begin.
pub(crate) const BYTES_AT: u32 = 40;
/// Where the phase begins.
pub(crate) const PHASE_AT: u32 = 61;

/// The fields of the word.
#[derive(Clone, Copy)]
pub(crate) struct Word {
    /// Arrivals that are missing.
    pub(crate) missing: u64,
    /// Arrivals of a phase.
    pub(crate) expected: u64,
    /// Bytes that are missing.
    pub(crate) bytes: i64,
    /// The phase, modulo 8.
    pub(crate) phase: u64,
}

impl Word {
    /// Out of the word.
    pub(crate) fn of(bits: u64) -> Word {
        let bytes = (bits >> BYTES_AT & BYTES) as i64;
        Word {
            missing: bits & COUNT,
            expected: bits >> EXPECTED_AT & COUNT,
            bytes: bytes << 43 >> 43,
            phase: bits >> PHASE_AT,
        }
    }

    /// Into the word.
    pub(crate) fn bits(self) -> u64 {
        self.missing
            | self.expected << EXPECTED_AT
            | (self.bytes as u64 & BYTES) << BYTES_AT
            | self.phase << PHASE_AT
    }

    /// After a change: a phase is over when nothing is missing.
    pub(crate) fn settled(mut self) -> Word {
        if self.missing == 0 && self.bytes == 0 {
            self.phase = (self.phase + 1) & 7;
            self.missing = self.expected;
        }
        self
    }

    /// After so many arrivals.
    pub(crate) fn arrived(mut self, count: u64) -> Word {
        self.missing = self.missing.saturating_sub(count);
        self.settled()
    }
}

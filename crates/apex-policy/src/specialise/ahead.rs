//! Whether a program may wait, while it loads code, for forms of it that earlier runs know.
//!
//! Programs often launch hundreds of times within a millisecond and then wait. What is compiled only then comes too late
//! for all of these launches. So what is expected to be gained in a run is put against what making it ready has cost.

/// Of a form that has won all of its gain is expected; of one that was not decided this share of its kernel's time, in
/// per cent: the mean of a first trial with 38 programs on an H200 was 6.5.
const HOPED_PERCENT: u64 = 5;
/// What is believed to be the cost of a form that was never made, in nanoseconds.
const BELIEVED_COST_NS: u64 = 10_000_000;
/// A form is made beside the program where it is expected to earn its cost in so many runs.
const RUNS: u64 = 4;
/// What a process waits at most for all its forms, in nanoseconds.
const MOST_NS: u64 = 200_000_000;

/// What an earlier run knows of a kernel's form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Earlier {
    /// It has won.
    pub has_won: bool,
    /// Launches of the kernel in a run.
    pub calls: u64,
    /// Nanoseconds of a launch of the original, and of the form where it has won; 0 where it is not known.
    pub original_ns: u64,
    /// As above.
    pub rewritten_ns: u64,
    /// Nanoseconds that making it ready took; 0 where it was never made.
    pub cost_ns: u64,
}

impl Earlier {
    /// What a run is expected to gain.
    #[must_use]
    pub fn expected_ns(&self) -> u64 {
        let took = self.calls.saturating_mul(self.original_ns);
        match self.has_won {
            true => took.saturating_sub(self.calls.saturating_mul(self.rewritten_ns)),
            false => took / 100 * HOPED_PERCENT,
        }
    }

    fn cost_ns(&self) -> u64 {
        if self.cost_ns > 0 { self.cost_ns } else { BELIEVED_COST_NS }
    }

    /// Whether to make it at all before a program has shown that it needs it.
    #[must_use]
    pub fn is_worth_making(&self) -> bool {
        self.expected_ns().saturating_mul(RUNS) > self.cost_ns()
    }

    /// Whether to wait for it, where `waited` nanoseconds went into others.
    #[must_use]
    pub fn is_worth_waiting(&self, waited: u64) -> bool {
        self.expected_ns() > self.cost_ns() && waited.saturating_add(self.cost_ns()) <= MOST_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_waits_for_what_it_gains_from() {
        let won = Earlier {
            has_won: true,
            calls: 1_000,
            original_ns: 100_000,
            rewritten_ns: 80_000,
            cost_ns: 5_000_000,
        };
        assert_eq!(won.expected_ns(), 20_000_000);
        assert!(won.is_worth_waiting(0));
        assert!(!won.is_worth_waiting(MOST_NS));
        assert!(!Earlier { calls: 200, ..won }.is_worth_waiting(0));
        // Of one that is not decided less is hoped for.
        let open = Earlier { has_won: false, ..won };
        assert_eq!(open.expected_ns(), 5_000_000);
        assert!(!open.is_worth_waiting(0) && open.is_worth_making());
        assert!(Earlier { calls: 10_000, ..open }.is_worth_waiting(0));
        // Of one that was never made the cost is believed.
        let new = Earlier { cost_ns: 0, ..open };
        assert!(!new.is_worth_waiting(0) && new.is_worth_making());
        assert!(!Earlier { calls: 100, ..new }.is_worth_making());
        assert!(Earlier { calls: 10_000, ..new }.is_worth_waiting(0));
        // What was never timed promises nothing.
        assert!(!Earlier { original_ns: 0, rewritten_ns: 0, ..won }.is_worth_waiting(0));
    }
}

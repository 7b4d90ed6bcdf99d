//! What a rule answers with.
//!
//! Weight is the share of the program's time that a finding concerns, gain the share of that which the change
//! saves; their product is what findings are sorted by and what a user may hope for.

/// The least share of the program's time that a change is worth.
pub const LEAST_SAVING: f64 = 0.01;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing to change.
    Good,
    /// Worth knowing.
    Note,
    /// Worth changing.
    Warning,
    /// Change this first.
    Critical,
}

impl Severity {
    /// By the share of the program's time that is expected to be saved.
    #[must_use]
    pub fn of_saving(saving: f64) -> Severity {
        match saving {
            saving if saving >= 0.10 => Severity::Critical,
            saving if saving >= 0.02 => Severity::Warning,
            _ => Severity::Note,
        }
    }

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Severity::Good => "good",
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        }
    }
}

/// Where the numbers of a gain come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Arithmetic of the launch on this device.
    Exact,
    /// An assumption, which the finding names.
    Model,
    /// Times of this session.
    Measured,
}

impl Basis {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Basis::Exact => "exact",
            Basis::Model => "model",
            Basis::Measured => "measured",
        }
    }
}

/// The share of the time concerned that a change saves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    /// What to expect.
    pub expected: f64,
    /// At least.
    pub low: f64,
    /// At most.
    pub high: f64,
    /// Where it comes from.
    pub basis: Basis,
}

impl Gain {
    /// Nothing to gain.
    pub const NONE: Gain = Gain { expected: 0.0, low: 0.0, high: 0.0, basis: Basis::Exact };

    /// Somewhere between two bounds; the middle is expected.
    #[must_use]
    pub fn between(low: f64, high: f64, basis: Basis) -> Gain {
        Gain::about(f64::midpoint(low, high), low, high, basis)
    }

    /// From nothing up to a bound.
    #[must_use]
    pub fn up_to(high: f64, basis: Basis) -> Gain {
        Gain::between(0.0, high, basis)
    }

    /// An expectation with its interval. All are kept from 0 to 1 and in order.
    #[must_use]
    pub fn about(expected: f64, low: f64, high: f64, basis: Basis) -> Gain {
        let share = |number: f64| if number.is_finite() { number.clamp(0.0, 1.0) } else { 0.0 };
        let (low, high) = (share(low), share(high).max(share(low)));
        Gain { expected: share(expected).clamp(low, high), low, high, basis }
    }
}

/// A launch shape that is recommended instead of the one seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Threads of a block now.
    pub threads: u32,
    /// Threads of a block that are recommended.
    pub better_threads: u32,
}

/// One thing that a rule found.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The rule's name.
    pub rule: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// The kernel concerned; none for the program as a whole.
    pub kernel: Option<String>,
    /// What was seen.
    pub what: String,
    /// The limiter and its number.
    pub why: String,
    /// What to do.
    pub action: String,
    /// What that saves of the time concerned.
    pub gain: Gain,
    /// The time concerned as a share of the program's.
    pub weight: f64,
    /// The block size to take instead, where that is the advice.
    pub change: Option<Change>,
    /// The GPU that it is about, where the program ran on the software GPU and its times say nothing of that.
    pub holds_for: Option<String>,
}

impl Finding {
    /// A finding about the program; its severity follows from what it saves.
    #[must_use]
    pub fn of(rule: &'static str, weight: f64, gain: Gain) -> Finding {
        let weight = if weight.is_finite() { weight.clamp(0.0, 1.0) } else { 0.0 };
        Finding {
            rule,
            severity: Severity::of_saving(weight * gain.expected),
            kernel: None,
            what: String::new(),
            why: String::new(),
            action: String::new(),
            gain,
            weight,
            change: None,
            holds_for: None,
        }
    }

    /// With its three sentences.
    #[must_use]
    pub fn saying(self, what: String, why: String, action: String) -> Finding {
        Finding { what, why, action, ..self }
    }

    /// About one kernel.
    #[must_use]
    pub fn about(self, kernel: &str) -> Finding {
        Finding { kernel: Some(kernel.to_owned()), ..self }
    }

    /// About a GPU on which the program did not run.
    #[must_use]
    pub fn only_for(self, gpu: &str) -> Finding {
        let severity = self.severity.min(Severity::Note);
        Finding { holds_for: Some(gpu.to_owned()), severity, ..self }
    }

    /// The share of the program's time that is expected to be saved.
    #[must_use]
    pub fn saving(&self) -> f64 {
        if self.holds_for.is_some() { 0.0 } else { self.weight * self.gain.expected }
    }

    /// Whether following it is worth a user's while: it saves time, or keeps the program from failing.
    #[must_use]
    pub fn is_worth_it(&self) -> bool {
        let matters_beside_time = self.severity > Severity::of_saving(self.saving());
        matters_beside_time || self.saving() >= LEAST_SAVING
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_is_a_share_within_its_interval() {
        let gain = Gain::about(2.0, -1.0, 0.5, Basis::Measured);
        assert_eq!((gain.expected, gain.low, gain.high), (0.5, 0.0, 0.5));
        assert_eq!(Gain::up_to(0.4, Basis::Exact).expected, 0.2);
        assert_eq!(Gain::about(f64::NAN, 0.0, f64::NAN, Basis::Model).expected, 0.0);
    }

    #[test]
    fn what_saves_next_to_nothing_is_not_worth_it() {
        let of = |weight| Finding::of("x", weight, Gain::between(1.0, 1.0, Basis::Exact));
        assert!(of(0.01).is_worth_it() && !of(0.009).is_worth_it());
        assert!(!Finding { severity: Severity::Good, ..of(0.0) }.is_worth_it());
        let leak = Finding { severity: Severity::Warning, ..of(0.0) };
        assert!(leak.is_worth_it(), "it will fail, however little time it takes");
        let elsewhere = of(0.5).only_for("H200");
        assert!(elsewhere.saving() == 0.0 && !elsewhere.is_worth_it());
    }

    #[test]
    fn severity_follows_the_saving() {
        let gain = |high| Gain::between(high, high, Basis::Exact);
        assert_eq!(Finding::of("x", 0.5, gain(0.5)).severity, Severity::Critical);
        assert_eq!(Finding::of("x", 0.5, gain(0.05)).severity, Severity::Warning);
        assert_eq!(Finding::of("x", 0.01, gain(0.5)).severity, Severity::Note);
        assert_eq!(Finding::of("x", f64::INFINITY, gain(0.5)).weight, 0.0);
    }
}

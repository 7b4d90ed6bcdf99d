//! Decides which launches are timed on the GPU, so that timing stays cheap and every kernel is seen.
//!
//! Each configuration (kernel and shape) is timed a few times when it is young, from its second launch
//! on (the first one pays for loading the code), then at doubling distances up to one in about a thousand.
//! Over that stands a budget: the time spent on timing may be no more than a share of the program's
//! time so far. Young configurations may overdraw it a little, so that a short program is measured too.

/// Launches of each configuration still to be let pass. A configuration is known by the low bits of
/// its hash; two that share them share their distances, nothing worse.
#[derive(Clone, Debug)]
#[repr(C)] // What every launch reads comes first, beside what its owner keeps before it.
pub struct SamplingPlan {
    /// Launches not to be looked at, and how often was looked.
    away: u32,
    looks: u32,
    wait: [u16; SLOTS],
    timed: [u8; SLOTS],
}

const SLOTS: usize = 4096;
/// Timings of a young configuration before the distances grow.
const YOUNG: u8 = 4;
const MOST_APART: u16 = 64;
/// Launches of a thread that are all looked at.
const ALL_SEEN: u32 = 4096;
/// Launches until a configuration that could not be afforded is considered again.
const PUT_OFF: u16 = 16;
/// Ticks that young configurations may spend beyond the budget: about a millisecond in all.
const OVERDRAFT: u64 = 1 << 21;

impl Default for SamplingPlan {
    fn default() -> SamplingPlan {
        SamplingPlan { away: 0, looks: 0, wait: [0; SLOTS], timed: [0; SLOTS] }
    }
}

impl SamplingPlan {
    /// Whether this launch is passed over unseen. A thread's first launches are all looked at; later one in
    /// sixteen or so, at irregular distances, so that no loop of the program falls into step with ours. A
    /// look at an irregular distance is a branch the processor cannot foresee: with one in four, timing cost
    /// every launch 6 ns more.
    #[inline(always)]
    pub fn looks_away(&mut self) -> bool {
        if self.away > 0 {
            self.away -= 1;
            return true;
        }
        self.looks = self.looks.saturating_add(1);
        if self.looks > ALL_SEEN {
            self.away = self.looks.wrapping_mul(0x9e37_79b9) >> 27;
        }
        false
    }

    /// Lets up to `most` launches pass unseen at once; how many.
    #[inline(always)]
    pub fn look_away(&mut self, most: u32) -> u32 {
        let passing = self.away.min(most);
        self.away -= passing;
        passing
    }

    /// Whether this launch is one to time. Counts the launch.
    #[inline(always)]
    pub fn is_due(&mut self, configuration: u64) -> bool {
        let slot = configuration as usize & (SLOTS - 1);
        if self.wait[slot] > 0 {
            self.wait[slot] -= 1;
            return false;
        }
        if self.timed[slot] == 0 {
            self.timed[slot] = 1;
            return false;
        }
        true
    }

    /// A launch that was due has been timed, or could not be: either way the next one is further off.
    pub fn advance(&mut self, configuration: u64) {
        let slot = configuration as usize & (SLOTS - 1);
        let timed = self.timed[slot];
        self.timed[slot] = timed.saturating_add(1);
        if timed >= YOUNG {
            self.wait[slot] = 1_u16
                .checked_shl(u32::from(timed - YOUNG) + 1)
                .unwrap_or(MOST_APART)
                .min(MOST_APART);
        }
    }

    /// A launch that was due could not be afforded: the question is asked again a little later.
    pub fn put_off(&mut self, configuration: u64) {
        self.wait[configuration as usize & (SLOTS - 1)] = PUT_OFF;
    }

    /// Whether the configuration has been timed only a few times yet.
    #[must_use]
    pub fn is_young(&self, configuration: u64) -> bool {
        self.timed[configuration as usize & (SLOTS - 1)] <= YOUNG
    }
}

/// Whether another timing fits the budget of `percent` per cent of the program's ticks so far.
#[must_use]
pub fn is_affordable(elapsed: u64, spent: u64, percent: f64, young: bool) -> bool {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a length of time; a float above u64 saturates"
    )]
    let earned = (elapsed as f64 * percent / 100.0) as u64;
    let overdraft = if young && percent > 0.0 { OVERDRAFT } else { 0 };
    spent <= earned.saturating_add(overdraft)
}

/// What two events around a launch on a stream that had run dry tell of its kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleTime {
    /// Nanoseconds that it took at most.
    pub at_most: u64,
    /// It may have been over before the second event was recorded, and then took far less.
    pub hidden: bool,
}

/// Of the nanoseconds between the events, `launch` were spent in the launch's call and `recording` on recording the
/// events. A GPU begins the kernel when its call is nearly over, so the call is taken off. The software GPU
/// may run all of it within the call, on a thread that takes the caller's processor: nothing is taken off there.
#[must_use]
pub fn idle_time(elapsed: u64, launch: u64, recording: u64, on_software_gpu: bool) -> IdleTime {
    let after_call = elapsed.saturating_sub(launch);
    let at_most = if on_software_gpu { elapsed } else { after_call };
    IdleTime { at_most, hidden: after_call <= recording }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_ran_within_its_call_keeps_its_time() {
        // A kernel of 1 ms whose thread took the caller's processor: the call lasted as long.
        let found = idle_time(1_010_000, 1_005_000, 4_500, true);
        assert!(found.at_most >= 1_000_000, "{found:?} is no bound from above");
        // On a GPU the call comes before the kernel.
        let found = idle_time(1_010_000, 5_000, 4_500, false);
        assert_eq!(found, IdleTime { at_most: 1_005_000, hidden: false });
        assert!(idle_time(9_000, 5_000, 4_500, false).hidden, "over before the second event");
    }

    fn timed_launches(launches: u32) -> Vec<u32> {
        let mut plan = SamplingPlan::default();
        (1..=launches)
            .filter(|_| {
                let due = plan.is_due(77);
                if due {
                    plan.advance(77);
                }
                due
            })
            .collect()
    }

    #[test]
    fn young_configurations_are_timed_at_once_then_at_doubling_distances() {
        assert_eq!(timed_launches(40), [2, 3, 4, 5, 8, 13, 22, 39]);
    }

    #[test]
    fn a_loop_of_any_length_is_seen_whole() {
        for length in 1..=64_usize {
            let mut plan = SamplingPlan::default();
            let mut seen = vec![0_u32; length];
            (0..800_000).for_each(|nth| seen[nth % length] += u32::from(!plan.looks_away()));
            let (least, most) = (seen.iter().min().unwrap(), seen.iter().max().unwrap());
            assert!(*least > 0 && *most < 2 * least + 100, "{length}: {least} to {most}");
        }
    }

    #[test]
    fn launches_let_pass_at_once_are_as_many_as_one_by_one() {
        let looks = |together: u32| {
            let mut plan = SamplingPlan::default();
            let (mut launches, mut looks) = (0, 0);
            while launches < 500_000 {
                launches += plan.look_away(together) + 1;
                looks += u32::from(!plan.looks_away());
            }
            looks
        };
        assert!(looks(7).abs_diff(looks(0)) <= 2, "{} and {}", looks(7), looks(0));
    }

    #[test]
    fn old_configurations_are_timed_ever_less_often() {
        let timed = timed_launches(100_000);
        assert!((1520..1560).contains(&timed.len()), "{}", timed.len());
        let apart = timed.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert_eq!(apart, Some(u32::from(MOST_APART) + 1));
    }

    #[test]
    fn what_cannot_be_afforded_is_put_off() {
        let mut plan = SamplingPlan::default();
        plan.is_due(5);
        assert!(plan.is_due(5));
        plan.put_off(5);
        let waited = (0..1000).take_while(|_| !plan.is_due(5)).count();
        assert_eq!(waited, usize::from(PUT_OFF));
        assert!(plan.is_young(5));
    }

    #[test]
    fn configurations_do_not_share_their_youth() {
        let mut plan = SamplingPlan::default();
        assert!(!plan.is_due(1));
        assert!(!plan.is_due(2));
        assert!(plan.is_due(1));
        assert!(plan.is_young(1));
    }

    #[test]
    fn the_budget_holds_and_the_young_overdraw_it_a_little() {
        assert!(is_affordable(1_000_000_000, 4_000_000, 0.5, false));
        assert!(!is_affordable(1_000_000_000, 6_000_000, 0.5, false));
        assert!(is_affordable(1_000_000_000, 6_000_000, 0.5, true));
        assert!(!is_affordable(1_000_000_000, 8_000_000, 0.5, true));
        assert!(is_affordable(0, 1_000_000, 0.5, true));
        assert!(!is_affordable(1_000_000_000, 1, 0.0, true));
    }
}

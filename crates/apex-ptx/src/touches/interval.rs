//! Ranges of whole numbers, as registers hold them.
//!
//! A range stands for a register if for each value that the register may have it holds a number with the same low bits.
//! So sums and products need no care for overflow; whoever asks how a register compares first asks for its [`View`].

/// Whole numbers from `low` to `high`. Where `low` is above `high` there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) low: i64,
    pub(super) high: i64,
    /// It may be far wider than what the register holds.
    pub(super) is_wild: bool,
}

/// How an instruction reads a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct View {
    pub(super) bits: u32,
    pub(super) signed: bool,
}

impl View {
    pub(super) const WIDE: View = View { bits: 64, signed: true };

    /// The least and the greatest number. Unsigned numbers of 64 bits end where signed ones do.
    pub(super) fn ends(self) -> (i64, i64) {
        match (self.bits, self.signed) {
            (64.., true) => (i64::MIN, i64::MAX),
            (64.., false) => (0, i64::MAX),
            (bits, true) => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
            (bits, false) => (0, (1 << bits) - 1),
        }
    }
}

impl Interval {
    pub(super) const NOTHING_KNOWN: Interval =
        Interval { low: i64::MIN, high: i64::MAX, is_wild: true };

    pub(super) fn exact(value: i64) -> Interval {
        Interval { low: value, high: value, is_wild: false }
    }

    pub(super) fn of(low: i64, high: i64) -> Interval {
        Interval { low, high, is_wild: false }
    }

    /// Everything that a register of such a view may hold.
    pub(super) fn all(view: View) -> Interval {
        if view.bits >= 64 {
            return Interval::NOTHING_KNOWN;
        }
        let (low, high) = view.ends();
        Interval { low, high, is_wild: true }
    }

    pub(super) fn is_exact(self) -> bool {
        self.low == self.high
    }

    fn wild_as(mut self, others: &[Interval]) -> Interval {
        self.is_wild |= others.iter().any(|other| other.is_wild);
        self
    }

    /// The values as an instruction of this view reads them; `None` for unsigned 64 bits that may be 2^63 or more.
    pub(super) fn seen(self, view: View) -> Option<Interval> {
        let (least, greatest) = view.ends();
        if self.low >= least && self.high <= greatest {
            return Some(self);
        }
        if view.bits >= 64 {
            return None;
        }
        let turn = 1_i128 << view.bits;
        let down = (i128::from(self.low) - i128::from(least)).div_euclid(turn) * turn;
        let (low, high) = (i128::from(self.low) - down, i128::from(self.high) - down);
        if high <= i128::from(greatest) {
            return Some(Interval { low: low as i64, high: high as i64, ..self });
        }
        Some(Interval::all(view))
    }

    pub(super) fn hull(self, other: Interval) -> Interval {
        Interval::of(self.low.min(other.low), self.high.max(other.high)).wild_as(&[self, other])
    }

    pub(super) fn plus(self, other: Interval) -> Interval {
        match (self.low.checked_add(other.low), self.high.checked_add(other.high)) {
            (Some(low), Some(high)) => Interval::of(low, high).wild_as(&[self, other]),
            _ => Interval::NOTHING_KNOWN,
        }
    }

    pub(super) fn minus(self, other: Interval) -> Interval {
        match (self.low.checked_sub(other.high), self.high.checked_sub(other.low)) {
            (Some(low), Some(high)) => Interval::of(low, high).wild_as(&[self, other]),
            _ => Interval::NOTHING_KNOWN,
        }
    }

    /// `None` where a product is beyond 64 bits.
    pub(super) fn times(self, other: Interval) -> Option<Interval> {
        if self.low >= 0 && other.low >= 0 {
            let (low, high) =
                (self.low.checked_mul(other.low)?, self.high.checked_mul(other.high)?);
            return Some(Interval::of(low, high).wild_as(&[self, other]));
        }
        corners(self, other, i64::checked_mul)
    }

    /// Quotients rounded towards zero; `None` where nothing is known of them.
    pub(super) fn over(self, other: Interval) -> Option<Interval> {
        if other.low <= 0 { None } else { corners(self, other, i64::checked_div) }
    }

    /// What is left by a division by `other`.
    pub(super) fn rest(self, other: Interval) -> Option<Interval> {
        if other.low <= 0 {
            return None;
        }
        if self.low >= 0 && self.high < other.low {
            return Some(self.wild_as(&[other]));
        }
        if self.is_exact() && other.is_exact() {
            return Some(Interval::exact(self.low % other.low).wild_as(&[self, other]));
        }
        let most = other.high - 1;
        let low = if self.low >= 0 { 0 } else { -most };
        let high = if self.low >= 0 { most.min(self.high) } else { most };
        // A rest is bounded whatever the dividend is.
        Some(Interval { low, high, is_wild: other.is_wild })
    }

    pub(super) fn and(self, other: Interval) -> Option<Interval> {
        if self.is_exact() && other.is_exact() {
            return Some(Interval::exact(self.low & other.low).wild_as(&[self, other]));
        }
        match (self.low >= 0, other.low >= 0) {
            (true, true) => {
                let is_wild = if self.high <= other.high { self.is_wild } else { other.is_wild };
                Some(Interval { low: 0, high: self.high.min(other.high), is_wild })
            }
            (true, false) => Some(Interval { low: 0, ..self }),
            (false, true) => Some(Interval { low: 0, ..other }),
            (false, false) => None,
        }
    }

    /// Addresses with their low bits cleared by a mask that sets all others.
    pub(super) fn aligned(self, mask: i64) -> Interval {
        Interval { low: self.low & mask, ..self }
    }

    /// Both, of numbers that are not negative: `or` and `xor` are no more than the sum, nor than all bits set.
    pub(super) fn joined(self, other: Interval, is_or: bool) -> Option<Interval> {
        if self.is_exact() && other.is_exact() {
            let value = if is_or { self.low | other.low } else { self.low ^ other.low };
            return Some(Interval::exact(value).wild_as(&[self, other]));
        }
        if self.low < 0 || other.low < 0 {
            return None;
        }
        let bits = 64 - (self.high.max(0) | other.high.max(0)).leading_zeros();
        let filled = if bits >= 63 { i64::MAX } else { (1 << bits) - 1 };
        let high = self.high.saturating_add(other.high).min(filled);
        let low = if is_or { self.low.max(other.low) } else { 0 };
        Some(Interval::of(low, high).wild_as(&[self, other]))
    }

    pub(super) fn shifted_right(self, other: Interval) -> Option<Interval> {
        if other.low < 0 {
            return None;
        }
        // Beyond the width all bits are the sign's.
        let (near, far) = (other.low.min(63), other.high.min(63));
        let low = (self.low >> near).min(self.low >> far);
        let high = (self.high >> near).max(self.high >> far);
        Some(Interval::of(low, high).wild_as(&[self, other]))
    }

    pub(super) fn shifted_left(self, other: Interval, bits: u32) -> Option<Interval> {
        if other.low < 0 || other.high >= i64::from(bits) || other.high > 62 {
            return None;
        }
        self.times(Interval::of(1 << other.low, 1 << other.high).wild_as(&[other]))
    }

    /// The upper half of products of two numbers of so many bits.
    pub(super) fn upper_half(self, other: Interval, bits: u32) -> Option<Interval> {
        if self.low < 0 || other.low < 0 {
            return None;
        }
        let half = |a: i64, b: i64| ((i128::from(a) * i128::from(b)) >> bits) as i64;
        Some(
            Interval::of(half(self.low, other.low), half(self.high, other.high))
                .wild_as(&[self, other]),
        )
    }

    pub(super) fn least(self, other: Interval) -> Interval {
        Interval::of(self.low.min(other.low), self.high.min(other.high)).wild_as(&[self, other])
    }

    pub(super) fn most(self, other: Interval) -> Interval {
        Interval::of(self.low.max(other.low), self.high.max(other.high)).wild_as(&[self, other])
    }
}

/// The range of something that is monotone in both, from its values at the four corners.
fn corners(a: Interval, b: Interval, of: impl Fn(i64, i64) -> Option<i64>) -> Option<Interval> {
    let values = [of(a.low, b.low)?, of(a.low, b.high)?, of(a.high, b.low)?, of(a.high, b.high)?];
    let low = values.into_iter().min()?;
    let high = values.into_iter().max()?;
    Some(Interval::of(low, high).wild_as(&[a, b]))
}

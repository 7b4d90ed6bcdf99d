//! What a register may hold: a number, numbers from one to another, or any.
//!
//! A register of so many bits holds numbers modulo 2^bits, and the instruction alone says whether they have a sign. So
//! a range is kept modulo 2^bits, and looked at as signed or unsigned where it is used: `[-1, 254]` is one range, which
//! unsigned eyes see as any number.

/// What a register may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    /// It was not written yet on any way seen so far.
    Nothing,
    /// From the first to the second, modulo 2^bits. The first is below 2^bits; it is below zero only where the range
    /// goes beyond 2^bits - 1.
    Within(i128, i128),
    /// Any number.
    Any,
}

/// How an instruction looks at a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) bits: u32,
    pub(super) signed: bool,
}

fn modulus(bits: u32) -> i128 {
    1 << bits
}

impl Value {
    /// Numbers from one to another, modulo 2^bits.
    pub(super) fn within(low: i128, high: i128, bits: u32) -> Value {
        let Some(span) = high.checked_sub(low) else { return Value::Any };
        if span < 0 || span >= modulus(bits) - 1 && span > 0 {
            return Value::Any;
        }
        let low = low.rem_euclid(modulus(bits));
        match low + span {
            high if high < modulus(bits) => Value::Within(low, high),
            high => Value::Within(low - modulus(bits), high - modulus(bits)),
        }
    }

    /// One number, modulo 2^bits.
    pub(super) fn exact(number: i128, bits: u32) -> Value {
        Value::within(number, number, bits)
    }

    /// The number, if it can be one only.
    pub(super) fn number(self) -> Option<i128> {
        match self {
            Value::Within(low, high) if low == high => Some(low),
            _ => None,
        }
    }

    /// As an instruction of this form sees it: least and greatest.
    pub(super) fn seen(self, form: Form) -> (i128, i128) {
        let half = modulus(form.bits) / 2;
        let whole = if form.signed { (-half, half - 1) } else { (0, modulus(form.bits) - 1) };
        let Value::Within(low, high) = self else { return whole };
        let Value::Within(low, high) = Value::within(low, high, form.bits) else { return whole };
        if !form.signed {
            return if low >= 0 { (low, high) } else { whole };
        }
        match (low, high) {
            (low, high) if low >= -half && high < half => (low, high),
            (low, high) if low >= half => (low - modulus(form.bits), high - modulus(form.bits)),
            _ => whole,
        }
    }

    /// Any that is in one or the other.
    pub(super) fn or(self, other: Value, bits: u32) -> Value {
        let ((low, high), (other_low, other_high)) = match (self, other) {
            (Value::Nothing, value) | (value, Value::Nothing) => return value,
            (Value::Any, _) | (_, Value::Any) => return Value::Any,
            (Value::Within(a, b), Value::Within(c, d)) => ((a, b), (c, d)),
        };
        // The other range may lie on either side of this one: the shorter way round counts.
        let both = |turn: i128| (low.min(other_low + turn), high.max(other_high + turn));
        let (low, high) = [both(0), both(modulus(bits)), both(-modulus(bits))]
            .into_iter()
            .min_by_key(|(low, high)| high - low)
            .unwrap_or(both(0));
        Value::within(low, high, bits)
    }

    /// As near to zero as it can be written: products of small negative numbers stay small.
    fn near_zero(self, bits: u32) -> Option<(i128, i128)> {
        let Value::Within(low, high) = self else { return None };
        let other = (low - modulus(bits), high - modulus(bits));
        let size = |(low, high): (i128, i128)| low.abs().max(high.abs());
        Some(if size(other) < size((low, high)) { other } else { (low, high) })
    }
}

pub(super) fn sum(a: Value, b: Value, bits: u32) -> Value {
    match (a, b) {
        (Value::Within(a, b), Value::Within(c, d)) => Value::within(a + c, b + d, bits),
        _ => Value::Any,
    }
}

pub(super) fn difference(a: Value, b: Value, bits: u32) -> Value {
    match (a, b) {
        (Value::Within(a, b), Value::Within(c, d)) => Value::within(a - d, b - c, bits),
        _ => Value::Any,
    }
}

/// Least and greatest of the products of two ranges; `None` where they are too large to be written.
fn corners(a: (i128, i128), b: (i128, i128)) -> Option<(i128, i128)> {
    let all = [
        a.0.checked_mul(b.0)?,
        a.0.checked_mul(b.1)?,
        a.1.checked_mul(b.0)?,
        a.1.checked_mul(b.1)?,
    ];
    Some((*all.iter().min()?, *all.iter().max()?))
}

/// The low half of a product, which is the same for both signs.
pub(super) fn product(a: Value, b: Value, bits: u32) -> Value {
    let found = a.near_zero(bits).zip(b.near_zero(bits)).and_then(|(a, b)| corners(a, b));
    found.map_or(Value::Any, |(low, high)| Value::within(low, high, bits))
}

/// A product as wide as both factors together.
pub(super) fn wide_product(a: Value, b: Value, form: Form) -> Value {
    let found = corners(a.seen(form), b.seen(form));
    found.map_or(Value::Any, |(low, high)| Value::within(low, high, 2 * form.bits))
}

/// The high half of a product.
pub(super) fn high_product(a: Value, b: Value, form: Form) -> Value {
    let found = corners(a.seen(form), b.seen(form));
    let bits = form.bits;
    found.map_or(Value::Any, |(low, high)| Value::within(low >> bits, high >> bits, bits))
}

pub(super) fn quotient(a: Value, b: Value, form: Form) -> Value {
    let (low, high) = a.seen(form);
    match b.seen(form) {
        // Towards zero, for both signs; what a division by zero gives is nobody's business.
        (by, same) if by == same && by > 0 => Value::within(low / by, high / by, form.bits),
        _ => Value::Any,
    }
}

pub(super) fn remainder(a: Value, b: Value, form: Form) -> Value {
    let (low, high) = a.seen(form);
    match b.seen(form) {
        (by, same) if by == same && by > 0 => {
            let (least, most) = match (low, high) {
                (low, high) if low == high || low >= 0 && low / by == high / by => {
                    (low % by, high % by)
                }
                (low, _) if low >= 0 => (0, by - 1),
                _ => (1 - by, by - 1),
            };
            Value::within(least, most, form.bits)
        }
        _ => Value::Any,
    }
}

/// Bits that stand in both.
pub(super) fn and(a: Value, b: Value, bits: u32) -> Value {
    let form = Form { bits, signed: false };
    let ((a_low, a_high), (b_low, b_high)) = (a.seen(form), b.seen(form));
    if a_low == a_high && b_low == b_high {
        return Value::exact(a_low & b_low, bits);
    }
    Value::within(0, a_high.min(b_high), bits)
}

/// Whether a comparison holds; `None` where it may be so or so.
pub(super) fn holds(word: &str, a: (i128, i128), b: (i128, i128)) -> Option<bool> {
    let below = |(a_low, a_high): (i128, i128), (b_low, b_high): (i128, i128)| match () {
        () if a_high < b_low => Some(true),
        () if a_low >= b_high => Some(false),
        () => None,
    };
    let equal = match () {
        () if a.0 == a.1 && a == b => Some(true),
        () if a.1 < b.0 || b.1 < a.0 => Some(false),
        () => None,
    };
    match word {
        "eq" => equal,
        "ne" => equal.map(|equal| !equal),
        "lt" | "lo" => below(a, b),
        "gt" | "hi" => below(b, a),
        "ge" | "hs" => below(a, b).map(|below| !below),
        "le" | "ls" => below(b, a).map(|below| !below),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const U8: Form = Form { bits: 8, signed: false };
    const S8: Form = Form { bits: 8, signed: true };

    /// Every operation on every pair of some ranges of 8 bits holds what the numbers themselves give.
    #[test]
    fn no_number_is_lost() {
        let ends = [0, 1, 5, 127, 128, 200, 255];
        let mut ranges = vec![Value::Any];
        for low in ends {
            for span in [0, 1, 40, 200] {
                ranges.push(Value::within(low, low + span, 8));
            }
        }
        let inside = |value: Value| -> Vec<u8> {
            match value {
                Value::Within(low, high) => {
                    let step = 1 + (high - low) as usize / 30;
                    (low..=high).step_by(step).chain([high]).map(|number| number as u8).collect()
                }
                _ => (0..=255).step_by(9).chain([255]).map(|number| number as u8).collect(),
            }
        };
        let has = |value: Value, number: u8| match value {
            Value::Within(low, high) => (i128::from(number) - low).rem_euclid(256) <= high - low,
            _ => true,
        };
        for &a in &ranges {
            for &b in &ranges {
                let (either, added, less) = (a.or(b, 8), sum(a, b, 8), difference(a, b, 8));
                let (times, masked) = (product(a, b, 8), and(a, b, 8));
                let (q, r, high) =
                    (quotient(a, b, U8), remainder(a, b, U8), high_product(a, b, S8));
                let (sq, sr) = (quotient(a, b, S8), remainder(a, b, S8));
                let orders = ["eq", "ne", "lt", "le", "gt", "ge"].map(|word| {
                    (word, holds(word, a.seen(S8), b.seen(S8)), holds(word, a.seen(U8), b.seen(U8)))
                });
                for x in inside(a) {
                    assert!(has(either, x));
                    for y in inside(b) {
                        let (sx, sy) = (x as i8, y as i8);
                        assert!(has(added, x.wrapping_add(y)), "{a:?} + {b:?}: {x} {y}");
                        assert!(has(less, x.wrapping_sub(y)), "{a:?} - {b:?}: {x} {y}");
                        assert!(has(times, x.wrapping_mul(y)), "{a:?} * {b:?}: {x} {y}");
                        assert!(has(masked, x & y), "{a:?} & {b:?}: {x} {y}");
                        let product = i16::from(sx) * i16::from(sy);
                        assert!(has(high, (product >> 8) as u8), "{a:?} hi {b:?}: {x} {y}");
                        if let (Some(divided), Some(left)) = (x.checked_div(y), x.checked_rem(y)) {
                            assert!(has(q, divided) && has(r, left), "{a:?} / {b:?}: {x} {y}");
                            assert!(has(sq, sx.wrapping_div(sy) as u8), "{a:?} / {b:?}");
                            assert!(has(sr, sx.wrapping_rem(sy) as u8), "{a:?} % {b:?}");
                        }
                        for (word, signed, unsigned) in orders {
                            let plain = |order: core::cmp::Ordering| match word {
                                "eq" => order.is_eq(),
                                "ne" => order.is_ne(),
                                "lt" => order.is_lt(),
                                "le" => order.is_le(),
                                "gt" => order.is_gt(),
                                _ => order.is_ge(),
                            };
                            assert!(signed.is_none_or(|said| said == plain(sx.cmp(&sy))));
                            assert!(unsigned.is_none_or(|said| said == plain(x.cmp(&y))));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn ranges_are_as_narrow_as_they_can_be_said() {
        assert_eq!(Value::exact(-1, 8).number(), Some(255));
        assert_eq!(Value::within(-1, 254, 8), Value::Any);
        assert_eq!(Value::within(-1, 100, 8).seen(S8), (-1, 100));
        assert_eq!(Value::within(-1, 100, 8).seen(U8), (0, 255));
        assert_eq!(Value::exact(5, 8).or(Value::exact(-1, 8), 8), Value::Within(-1, 5));
        assert_eq!(product(Value::exact(-3, 64), Value::exact(-4, 64), 64).number(), Some(12));
    }
}

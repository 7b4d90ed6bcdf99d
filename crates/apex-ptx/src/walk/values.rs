//! What a register holds in each lane, and what integers become.

use super::step::{Comparison, Form, Operation};

/// Lanes of a warp.
pub(super) const LANES: usize = 32;

/// One number for each lane.
pub(super) type Lanes = [u64; LANES];

/// The bits of a width.
#[inline]
fn cut(value: u64, bits: u32) -> u64 {
    if bits >= 64 { value } else { value & ((1 << bits) - 1) }
}

/// A number as its form says.
#[inline]
pub(super) fn wide(value: u64, form: Form) -> i128 {
    let value = cut(value, form.bits);
    if !form.signed || form.bits >= 64 {
        return if form.signed { i128::from(value.cast_signed()) } else { i128::from(value) };
    }
    let shift = 64 - form.bits;
    i128::from((value << shift).cast_signed() >> shift)
}

fn each(of: impl Fn(usize) -> u64, form: Form) -> Lanes {
    std::array::from_fn(|lane| cut(of(lane), form.to_bits))
}

/// The result of an operation. What is not known of the operands is nonsense here, and stays unknown.
pub(super) fn computed(operation: Operation, form: Form, from: &[Lanes; 4]) -> Lanes {
    let [a, b, c, d] = from;
    let low = |lanes: &Lanes, lane: usize| cut(lanes[lane], form.bits);
    // Sums, products and bits are the same for both signs unless they grow wider.
    let grown = |lanes: &Lanes, lane: usize| wide(lanes[lane], form) as u64;
    match operation {
        Operation::Move => each(|at| grown(a, at), form),
        Operation::Add => each(|at| a[at].wrapping_add(b[at]), form),
        Operation::Subtract => each(|at| a[at].wrapping_sub(b[at]), form),
        Operation::Multiply => each(|at| grown(a, at).wrapping_mul(grown(b, at)), form),
        Operation::MultiplyHigh => {
            each(|at| (wide(a[at], form).wrapping_mul(wide(b[at], form)) >> form.bits) as u64, form)
        }
        Operation::MultiplyAdd => {
            each(|at| grown(a, at).wrapping_mul(grown(b, at)).wrapping_add(c[at]), form)
        }
        Operation::And => each(|at| a[at] & b[at], form),
        Operation::Or => each(|at| a[at] | b[at], form),
        Operation::Xor => each(|at| a[at] ^ b[at], form),
        Operation::Not => each(|at| !a[at], form),
        Operation::Negative => each(|at| a[at].wrapping_neg(), form),
        Operation::ShiftLeft => {
            each(|at| if b[at] < u64::from(form.bits) { a[at] << b[at] } else { 0 }, form)
        }
        Operation::ShiftRight => {
            each(|at| (wide(a[at], form) >> b[at].min(u64::from(form.bits))) as u64, form)
        }
        Operation::Least => each(|at| wide(a[at], form).min(wide(b[at], form)) as u64, form),
        Operation::Most => each(|at| wide(a[at], form).max(wide(b[at], form)) as u64, form),
        Operation::Quotient => {
            each(|at| wide(a[at], form).checked_div(wide(b[at], form)).unwrap_or(0) as u64, form)
        }
        Operation::Remainder => {
            each(|at| wide(a[at], form).checked_rem(wide(b[at], form)).unwrap_or(0) as u64, form)
        }
        Operation::Select => each(|at| if c[at] & 1 != 0 { a[at] } else { b[at] }, form),
        Operation::Extract => each(
            |at| {
                let (start, length) = (b[at].min(63), c[at].min(64) as u32);
                cut(low(a, at) >> start, length)
            },
            form,
        ),
        Operation::Insert => each(
            |at| {
                let mask = cut(u64::MAX, d[at].min(64) as u32) << c[at].min(63);
                b[at] & !mask | a[at] << c[at].min(63) & mask
            },
            form,
        ),
        Operation::Funnel => each(|at| (low(b, at) << 32 | low(a, at)) << (c[at] & 31) >> 32, form),
        Operation::Ones => each(|at| u64::from(low(a, at).count_ones()), form),
    }
}

/// Whether a comparison holds.
#[inline]
pub(super) fn holds(comparison: Comparison, a: i128, b: i128) -> bool {
    match comparison {
        Comparison::Equal => a == b,
        Comparison::Unequal => a != b,
        Comparison::Less => a < b,
        Comparison::LessOrEqual => a <= b,
        Comparison::Greater => a > b,
        Comparison::GreaterOrEqual => a >= b,
    }
}

/// After how many more turns a comparison first says something else, where one turn brings its operands `apart`, the
/// first less the second, nearer or further by `step`.
pub(super) fn turns_until_other(comparison: Comparison, apart: i128, step: i128) -> Option<u64> {
    let now = holds(comparison, apart, 0);
    if step == 0 {
        return None;
    }
    // The first turn at which the distance reaches or passes zero.
    let reach = |target: i128| {
        let way = target - apart;
        (way != 0 && (way > 0) == (step > 0)).then(|| (way.abs() + step.abs() - 1) / step.abs())
    };
    let equal = || (-apart % step == 0).then(|| -apart / step).filter(|turns| *turns > 0);
    let found = match (comparison, now) {
        (Comparison::Equal, true) | (Comparison::Unequal, false) => Some(1),
        (Comparison::Equal, false) | (Comparison::Unequal, true) => equal(),
        (Comparison::Less, true) | (Comparison::GreaterOrEqual, false) => reach(0),
        (Comparison::Less, false) | (Comparison::GreaterOrEqual, true) => reach(-1),
        (Comparison::Greater, true) | (Comparison::LessOrEqual, false) => reach(0),
        (Comparison::Greater, false) | (Comparison::LessOrEqual, true) => reach(1),
    };
    found.and_then(|turns| u64::try_from(turns.max(1)).ok())
}

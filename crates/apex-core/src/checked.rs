//! Counters as they lie in a file that a program may write over: a value with a check above it.
//!
//! Who reads one believes it only if the check holds. Zero has the check zero, because a fresh file is all zeros.

/// Bits of a counter's value; its check lies above.
const BITS: u32 = 48;

/// A counter as it lies in the file, where `place` tells it from others.
#[inline]
pub(crate) fn counted(count: u64, place: usize) -> u64 {
    let count = count & ((1 << BITS) - 1);
    count | check(count, place) << BITS
}

/// The value of a counter, if its check holds.
#[inline]
pub(crate) fn counter(found: u64, place: usize) -> Option<u64> {
    let count = found & ((1 << BITS) - 1);
    (found >> BITS == check(count, place)).then_some(count)
}

/// Sixteen bits over a value and its place.
#[inline]
fn check(count: u64, place: usize) -> u64 {
    count.wrapping_mul(0x9e37_79b9_7f4a_7c15 + 2 * place as u64) >> BITS
}

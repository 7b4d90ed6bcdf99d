//! Numbers as PTX means them, where the host's own arithmetic is not enough.
//!
//! Everything here takes and gives bits or plain host numbers and touches no state: the
//! rounding of the processor is never changed, because the threads that run kernels
//! belong to the driver and to the program.

pub(crate) mod approx;
pub(crate) mod format;
pub(crate) mod soft;

pub(crate) use format::{Format, narrow, widen};

/// The NaN that f32 instructions give.
pub(crate) const NAN_F32: u32 = 0x7fff_ffff;

/// f32 with every NaN the canonical one.
///
/// On bits: the bits of a NaN mean nothing to the compiler, which takes a choice between
/// one NaN and another for no choice at all.
#[inline(always)]
pub(crate) fn canonical(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 { NAN_F32 } else { bits })
}

/// Subnormal to zero of its sign.
#[inline(always)]
pub(crate) fn flush(x: f32) -> f32 {
    let bits = x.to_bits();
    if bits & 0x7f80_0000 == 0 { f32::from_bits(bits & 0x8000_0000) } else { x }
}

/// Clamps to [0, 1]; NaN becomes 0.
#[inline(always)]
pub(crate) fn saturate(x: f32) -> f32 {
    // The comparison is written so that NaN and -0 fall to +0.
    let low = if x > 0.0 { x } else { 0.0 };
    if low > 1.0 { 1.0 } else { low }
}

/// The same for f64.
#[inline(always)]
pub(crate) fn saturate64(x: f64) -> f64 {
    let low = if x > 0.0 { x } else { 0.0 };
    if low > 1.0 { 1.0 } else { low }
}

//! Video instructions: arithmetic on bytes and halves of 32-bit registers.

use super::context::Context;
use super::file::lanes_of;
use super::ternary::part;
use crate::code::{Compare, Ty, Video, VideoOp, VideoSecond};

/// Executes one.
pub(crate) fn video(x: &Context, it: &Video) {
    for lane in lanes_of(x.mask()) {
        let [a, b, c] = [it.a, it.b, it.c].map(|src| x.get(src, lane) as u32);
        let result = if it.parts == 1 { scalar(it, a, b, c) } else { parts(it, a, b, c) };
        x.set(it.dst, lane, result.into());
    }
}

/// Position and bits of a scalar selector.
fn field(selector: u16) -> (u32, u32) {
    match selector {
        0..=3 => (u32::from(selector) * 8, 8),
        4 | 5 => ((u32::from(selector) - 4) * 16, 16),
        _ => (0, 32),
    }
}

fn chosen(word: u32, selector: u16, ty: Ty) -> i64 {
    let (position, bits) = field(selector);
    if bits == 32 {
        return if ty.signed() { (word as i32).into() } else { word.into() };
    }
    part(word, position, bits, ty.signed()).into()
}

fn limited(value: i64, bits: u32, signed: bool) -> i64 {
    if signed {
        value.clamp(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        value.clamp(0, (1 << bits) - 1)
    }
}

fn compared(compare: Option<Compare>, a: i64, b: i64) -> bool {
    match compare {
        Some(Compare::Ne | Compare::Neu) => a != b,
        Some(Compare::Lt | Compare::Ltu) => a < b,
        Some(Compare::Le | Compare::Leu) => a <= b,
        Some(Compare::Gt | Compare::Gtu) => a > b,
        Some(Compare::Ge | Compare::Geu) => a >= b,
        _ => a == b,
    }
}

fn first(it: &Video, a: i64, b: i64, c: i64, bits: u32) -> i64 {
    match it.op {
        VideoOp::Add => a + b,
        VideoOp::Sub => a - b,
        VideoOp::Absdiff => (a - b).abs(),
        VideoOp::Min => a.min(b),
        VideoOp::Max => a.max(b),
        // Halves round away from zero.
        VideoOp::Avrg => (a + b + i64::from(a + b >= 0)) >> 1,
        VideoOp::Set => compared(it.compare, a, b).into(),
        VideoOp::Shl | VideoOp::Shr => {
            let mask = i64::from(bits - 1);
            let count = if it.extra == 1 { b & mask } else { b.clamp(0, bits.into()) };
            if it.op == VideoOp::Shl { a << count } else { a >> count }
        }
        VideoOp::Mad => {
            // A product of unsigned words needs one bit more than an i64 has.
            let (a, b, c) = (i128::from(a), i128::from(b), i128::from(c));
            let product = if it.extra & 1 << 5 != 0 { -(a * b) } else { a * b };
            let addend = if it.extra & 1 << 6 != 0 { -c } else { c };
            let sum = product + addend + i128::from(it.extra & 1 << 4 != 0);
            let sum = sum >> (it.extra & 15);
            if it.sat { sum.clamp(i64::MIN.into(), i64::MAX.into()) as i64 } else { sum as i64 }
        }
    }
}

fn scalar(it: &Video, a: u32, b: u32, c: u32) -> u32 {
    let [to, left, right] = it.types;
    let signed = to.signed();
    let (position, bits) = field(it.selectors[0]);
    let whole = |word: u32| if signed { i64::from(word as i32) } else { i64::from(word) };
    let (x, y) = (chosen(a, it.selectors[1], left), chosen(b, it.selectors[2], right));
    let mut result = first(it, x, y, whole(c), 32);
    if it.sat {
        // Hardware takes a word that goes into a part as unsigned, so that what is below zero
        // becomes the part's largest.
        let low = if bits < 32 && signed { 0 } else { i64::MIN };
        result = if result < low { i64::MAX } else { result };
        result = limited(result, bits, signed);
    }
    let mask = if bits == 32 { u32::MAX } else { (1 << bits) - 1 };
    match it.second {
        None => result as u32,
        Some(VideoSecond::Merge) => c & !(mask << position) | (result as u32 & mask) << position,
        Some(VideoSecond::Add) => (result as u32).wrapping_add(c),
        Some(VideoSecond::Min) => compared_as(it.op, signed, result).min(whole(c)) as u32,
        Some(VideoSecond::Max) => compared_as(it.op, signed, result).max(whole(c)) as u32,
    }
}

/// A result as the second operation compares it, as hardware does: a difference without sign
/// is never negative; an unsigned sum with its highest bit set is above every word.
fn compared_as(op: VideoOp, signed: bool, result: i64) -> i64 {
    let word = result as u32;
    match op {
        VideoOp::Absdiff => word.into(),
        VideoOp::Add | VideoOp::Sub if !signed && (word as i32) < 0 => i64::from(word) | 1 << 32,
        _ if signed => (word as i32).into(),
        _ => word.into(),
    }
}

/// On two halves or four bytes; the selectors pick from `a` (low) and `b` (high) together.
fn parts(it: &Video, a: u32, b: u32, c: u32) -> u32 {
    let count = u32::from(it.parts);
    let bits = 32 / count;
    let [to, left, right] = it.types;
    let pick = |selector: u16, index: u32, ty: Ty| {
        let digit = u32::from(selector >> (4 * index) & 15);
        let word = if digit % (2 * count) < count { a } else { b };
        i64::from(part(word, digit % count * bits, bits, ty.signed()))
    };
    let mask = if bits == 32 { u32::MAX } else { (1 << bits) - 1 };
    let mut merged = c;
    let mut sum = c;
    for index in 0..count {
        if it.selectors[0] >> index & 1 == 0 {
            continue;
        }
        let x = pick(it.selectors[1], index, left);
        let y = pick(it.selectors[2], index, right);
        let mut result = first(it, x, y, 0, bits);
        if it.sat {
            result = limited(result, bits, to.signed());
        }
        merged = merged & !(mask << (index * bits)) | (result as u32 & mask) << (index * bits);
        sum = sum.wrapping_add(result as u32);
    }
    if it.second == Some(VideoSecond::Add) { sum } else { merged }
}

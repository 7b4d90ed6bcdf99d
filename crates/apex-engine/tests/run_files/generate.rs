//! Inputs of run files: special values in all combinations, then random ones.
//!
//! The same, to the bit, as in `tests/device/run_files.py`, which runs the files on
//! hardware; both check themselves against one known answer.

/// xorshift64*: small, and the same in every language.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1))
    }

    pub(crate) fn next(&mut self) -> u64 {
        let mut x = self.0;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.0 = x;
        x.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

/// A type as directives name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Type {
    pub(crate) name: &'static str,
    pub(crate) bits: u32,
    /// Bits of exponent and mantissa of floats.
    pub(crate) float: Option<(u32, u32)>,
    /// The type of both halves.
    half: Option<&'static str>,
}

const fn integer(name: &'static str, bits: u32) -> Type {
    Type { name, bits, float: None, half: None }
}

const fn float(name: &'static str, exponent: u32, mantissa: u32) -> Type {
    Type { name, bits: 1 + exponent + mantissa, float: Some((exponent, mantissa)), half: None }
}

const fn pair(name: &'static str, half: &'static str) -> Type {
    Type { name, bits: 32, float: None, half: Some(half) }
}

const TYPES: [Type; 22] = [
    float("f16", 5, 10),
    float("bf16", 8, 7),
    float("f32", 8, 23),
    float("tf32", 8, 23),
    float("f64", 11, 52),
    pair("f16x2", "f16"),
    pair("bf16x2", "bf16"),
    pair("u16x2", "u16"),
    pair("s16x2", "s16"),
    integer("b8", 8),
    integer("u8", 8),
    integer("s8", 8),
    integer("b16", 16),
    integer("u16", 16),
    integer("s16", 16),
    integer("b32", 32),
    integer("u32", 32),
    integer("s32", 32),
    integer("b64", 64),
    integer("u64", 64),
    integer("s64", 64),
    integer("count", 32),
];

impl Type {
    pub(crate) fn named(name: &str) -> Result<Type, String> {
        let found = TYPES.iter().find(|each| each.name == name);
        found.copied().ok_or_else(|| format!("no type is called {name}"))
    }

    /// The type of both halves, for packed types.
    pub(crate) fn half(self) -> Option<Type> {
        self.half.and_then(|name| Type::named(name).ok())
    }

    fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    fn signed(self) -> bool {
        self.name.starts_with('s')
    }
}

/// How the values of an input are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Given,
    Iota,
    Ordinary,
    Whole,
    Bits,
    Mixed,
    /// As mixed, with 1 for 0.
    Nonzero,
}

impl Kind {
    pub(crate) fn named(name: &str) -> Result<Kind, String> {
        Ok(match name {
            "given" => Kind::Given,
            "iota" => Kind::Iota,
            "ordinary" => Kind::Ordinary,
            "whole" => Kind::Whole,
            "bits" => Kind::Bits,
            "mixed" => Kind::Mixed,
            "nonzero" => Kind::Nonzero,
            _ => return Err(format!("no kind of input is called {name}")),
        })
    }

    /// True for inputs that walk through combinations of special values together.
    pub(crate) fn combined(self) -> bool {
        matches!(self, Kind::Mixed | Kind::Nonzero)
    }
}

/// One input to make.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    pub(crate) ty: Type,
    pub(crate) kind: Kind,
    pub(crate) count: usize,
    pub(crate) seed: u64,
    pub(crate) given: Vec<u64>,
    /// Its number among the combined inputs.
    pub(crate) place: u32,
}

/// The values of an input; `combined` are the types of the file's combined inputs.
///
/// Number k of them changes to the next special value every n^k elements. n is the greatest
/// for which all combinations fill at most three quarters; the rest is random, ordinary
/// numbers at even places and random bits at odd ones.
pub(crate) fn generate(input: &Input, combined: &[Type]) -> Vec<u64> {
    let mut random = Random::new(input.seed);
    let own = specials(input.ty);
    let steps = steps(input.count, combined);
    let combinations = steps.pow(u32::try_from(combined.len()).unwrap_or(0));
    let value = |at: usize| match input.kind {
        Kind::Given => input.given[at % input.given.len()],
        Kind::Iota => at as u64 & input.ty.mask(),
        Kind::Ordinary => ordinary(input.ty, &mut random),
        Kind::Whole => whole(input.ty, &mut random),
        Kind::Bits => bits(input.ty, &mut random),
        Kind::Mixed | Kind::Nonzero => {
            let value = if at < combinations {
                own[at / steps.pow(input.place) % steps % own.len()]
            } else if at.is_multiple_of(2) {
                ordinary(input.ty, &mut random)
            } else {
                bits(input.ty, &mut random)
            };
            if value == 0 && input.kind == Kind::Nonzero { 1 } else { value }
        }
    };
    (0..input.count).map(value).collect()
}

/// How many special values of each combined input are walked through.
fn steps(count: usize, combined: &[Type]) -> usize {
    let longest = combined.iter().map(|ty| specials(*ty).len()).max().unwrap_or(1);
    let inputs = u32::try_from(combined.len()).unwrap_or(0);
    let mut steps = 1;
    while steps < longest && (steps + 1usize).pow(inputs) * 4 <= count * 3 {
        steps += 1;
    }
    steps
}

/// A float between about 1/16 and 16, or a whole number up to 100.
fn ordinary(ty: Type, random: &mut Random) -> u64 {
    if let Some(half) = ty.half() {
        let low = ordinary(half, random);
        return low | ordinary(half, random) << 16;
    }
    let draw = random.next();
    if let Some((exponent_bits, mantissa_bits)) = ty.float {
        let bias = (1u64 << (exponent_bits - 1)) - 1;
        let exponent = bias - 4 + (draw >> 60 & 7);
        let mantissa = draw >> 4 & ((1 << mantissa_bits) - 1);
        let sign = (draw >> 63) << (exponent_bits + mantissa_bits);
        return sign | exponent << mantissa_bits | mantissa;
    }
    let value = (draw >> 33) % 201;
    value.wrapping_sub(if ty.signed() { 100 } else { 0 }) & ty.mask()
}

/// A whole number from -8 to 7 (unsigned: 0 to 15): sums and products of few are exact.
fn whole(ty: Type, random: &mut Random) -> u64 {
    if let Some(half) = ty.half() {
        let low = whole(half, random);
        return low | whole(half, random) << 16;
    }
    let draw = random.next() >> 60;
    let Some((exponent_bits, mantissa_bits)) = ty.float else {
        return draw.wrapping_sub(if ty.signed() { 8 } else { 0 }) & ty.mask();
    };
    let magnitude = draw.abs_diff(8);
    if magnitude == 0 {
        return 0;
    }
    let power = magnitude.ilog2();
    let bias = (1u64 << (exponent_bits - 1)) - 1;
    let mantissa = (magnitude << mantissa_bits >> power) & ((1 << mantissa_bits) - 1);
    let sign = u64::from(draw < 8) << (exponent_bits + mantissa_bits);
    sign | (bias + u64::from(power)) << mantissa_bits | mantissa
}

fn bits(ty: Type, random: &mut Random) -> u64 {
    random.next() >> (64 - ty.bits)
}

/// The values of a type that go wrong first, the most telling ones in front.
fn specials(ty: Type) -> Vec<u64> {
    if let Some(half) = ty.half() {
        let half = specials(half);
        let packed = |(at, low): (usize, &u64)| low | half[(at + 3) % half.len()] << 16;
        return half.iter().enumerate().map(packed).collect();
    }
    match ty.name {
        "f32" | "tf32" => F32.to_vec(),
        "f64" => F64.to_vec(),
        "f16" => F16.to_vec(),
        "bf16" => BF16.to_vec(),
        "count" => COUNTS.to_vec(),
        _ => integers(ty),
    }
}

fn integers(ty: Type) -> Vec<u64> {
    let top = 1u64 << (ty.bits - 1);
    let below = |value: u64| value.wrapping_neg();
    let width = u64::from(ty.bits);
    let mut values = vec![1, below(1), top, top - 1, 0, 2, below(2), top + 1, 3, 7, 10, below(10)];
    values.extend([width, width - 1, 0x5555_5555_5555_5555, 0x80, 0x7F, 0xFF, 0x100, below(0x80)]);
    values.extend([below(0x81), 0x7FFF, 0x8000, 0xFFFF, 0x10000, below(0x8001)]);
    values.push(0x1234_5678_9ABC_DEF0);
    if ty.bits == 64 {
        values.extend([1 << 31, (1 << 31) - 1, (1 << 32) - 1, 1 << 32, below((1 << 31) + 1)]);
        values.push((1 << 53) + 1);
    }
    values.iter().map(|value| value & ty.mask()).collect()
}

#[rustfmt::skip]
const F32: [u64; 48] = [
    0x3f80_0000, 0x7f80_0000, 0x8000_0000, 0x7fc0_0000, 0x0000_0001, 0xff7f_ffff, 0xff80_0000,
    0x0000_0000, 0xbf80_0000, 0x0080_0000, 0x807f_ffff, 0x3f80_0001, 0xbf7f_ffff, 0x3fc0_0000,
    0x7f80_0001, 0xffc1_2345, 0x3f00_0000, 0x4020_0000, 0xbf00_0000, 0x4b80_0001, 0x4f00_0000,
    0xcf00_0000, 0x4f80_0000, 0x5f00_0000, 0xdf00_0000, 0x5f80_0000, 0x4eff_ffff, 0x4300_0000,
    0x42ff_0000, 0xc300_8000, 0x437f_0000, 0x437f_8000, 0x46ff_fe00, 0x477f_e000, 0x477f_efff,
    0x477f_f000, 0x3300_0000, 0x3300_0001, 0x3880_0000, 0x387f_e000, 0x43e0_0000, 0x43e8_0000,
    0x3c00_0000, 0x4760_0000, 0x4768_0000, 0x3780_0000, 0x7eff_ffff, 0xc120_0000,
];

#[rustfmt::skip]
const F64: [u64; 41] = [
    0x3ff0_0000_0000_0000, 0x7ff0_0000_0000_0000, 0x8000_0000_0000_0000, 0x7ff8_0000_0000_0000,
    0x0000_0000_0000_0001, 0xffef_ffff_ffff_ffff, 0xfff0_0000_0000_0000, 0x0000_0000_0000_0000,
    0xbff0_0000_0000_0000, 0x0010_0000_0000_0000, 0x800f_ffff_ffff_ffff, 0x3ff0_0000_0000_0001,
    0xbfef_ffff_ffff_ffff, 0x3ff8_0000_0000_0000, 0x7ff0_0000_0000_0001, 0x3fe0_0000_0000_0000,
    0x4004_0000_0000_0000, 0xbfe0_0000_0000_0000, 0x41e0_0000_0000_0000, 0xc1e0_0000_0000_0000,
    0x41df_ffff_ffc0_0000, 0x41ef_ffff_ffe0_0000, 0x41f0_0000_0000_0000, 0x43e0_0000_0000_0000,
    0xc3e0_0000_0000_0000, 0x43f0_0000_0000_0000, 0x47ef_ffff_e000_0000, 0x47ef_ffff_efff_ffff,
    0x47ef_ffff_f000_0000, 0x3690_0000_0000_0000, 0x3690_0000_0000_0001, 0x380f_ffff_ffff_ffff,
    0x40ef_fc00_0000_0000, 0x40ef_fe00_0000_0000, 0x3e60_0000_0000_0000, 0x3ff0_0000_1000_0000,
    0x3ff0_0000_3000_0000, 0x36a0_0000_0000_0000, 0x4030_0000_0000_0000, 0x4340_0000_0000_0001,
    0xc08f_4000_0000_0000,
];

#[rustfmt::skip]
const F16: [u64; 30] = [
    0x3c00, 0x7c00, 0x8000, 0x7e00, 0x0001, 0xfbff, 0xfc00, 0x0000, 0xbc00, 0x0400, 0x83ff, 0x3c01,
    0xbbff, 0x3e00, 0x7c01, 0xfe12, 0x3800, 0x4100, 0xb800, 0x7bff, 0x5bf8, 0x5c00, 0xd800, 0x5800,
    0x57f8, 0x7800, 0x6800, 0xe801, 0x2c00, 0x1400,
];

#[rustfmt::skip]
const BF16: [u64; 30] = [
    0x3f80, 0x7f80, 0x8000, 0x7fc0, 0x0001, 0xff7f, 0xff80, 0x0000, 0xbf80, 0x0080, 0x807f, 0x3f81,
    0xbf7f, 0x3fc0, 0x7f81, 0xffd2, 0x3f00, 0x4020, 0xbf00, 0x4300, 0x437f, 0x4380, 0x4f00, 0xcf00,
    0x4f80, 0x5f00, 0xdf00, 0x5f80, 0x3300, 0x4b80,
];

#[rustfmt::skip]
const COUNTS: [u64; 20] = [
    0x0, 0x1, 0x1f, 0x20, 0x21, 0x10, 0xf, 0x11, 0x3f, 0x40, 0x41, 0x8, 0x18, 0xff, 0x100,
    0xffff_ffff, 0x8000_0000, 0x7, 0x1e, 0x22,
];

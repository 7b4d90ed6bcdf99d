//! What all samples need, and samples of flat images without coarser levels, which most programs ask for.
//!
//! The sums are those of [`super`], in the same order; what only other samples need is not asked for each
//! lane again. Types of texels that are rare here are left to it.

use crate::code::{self, Geometry, LANES, TextureOp, Ty};
use crate::interpret::context::Context;
use crate::interpret::file::{Scratch, lanes_of, wide};
use crate::interpret::memory::peek;
use crate::texture::{AddressMode, Channel, Filter, Image, Texture};

wide! {
/// Samples for all lanes; false, with nothing done, where it is none of these.
pub(super) fn sample(x: &Context, it: &code::Texture, texture: &Texture) -> bool {
    let image = &texture.image;
    let flat = it.op == TextureOp::Sample && it.geometry == Geometry::D2;
    if !flat || it.coordinate != Ty::F32 || texture.last_level() != 0 || texture.srgb {
        return false;
    }
    // SAFETY: `texel` gives places within the image by its own measures; missing pages are the guard's affair.
    let float = |at| unsafe { f64::from(f32::from_bits(peek(at))) };
    // SAFETY: as above.
    let whole = |at| unsafe { f64::from(peek::<u8>(at)) };
    let part = |at| whole(at) / 255.0;
    match (image.channel, image.bits, image.channels, texture.normalized_float) {
        (Channel::Float, 32, 1, _) => lanes::<1>(x, it, texture, 4, float),
        (Channel::Float, 32, 2, _) => lanes::<2>(x, it, texture, 4, float),
        (Channel::Float, 32, 4, _) => lanes::<4>(x, it, texture, 4, float),
        (Channel::Unsigned, 8, 1, true) => lanes::<1>(x, it, texture, 1, part),
        (Channel::Unsigned, 8, 4, true) => lanes::<4>(x, it, texture, 1, part),
        (Channel::Unsigned, 8, 1, false) => lanes::<1>(x, it, texture, 1, whole),
        (Channel::Unsigned, 8, 4, false) => lanes::<4>(x, it, texture, 1, whole),
        _ => return false,
    }
    true
}
}

/// The lanes that take part, for texels of `CHANNELS` channels of `bytes` each.
#[inline(always)]
fn lanes<const CHANNELS: usize>(
    x: &Context,
    it: &code::Texture,
    texture: &Texture,
    bytes: u64,
    read: impl Fn(u64) -> f64,
) {
    let mut scratch = [(); 2].map(|()| Scratch::<u32>::new());
    let [first, second] = &mut scratch;
    let places = [
        x.file().cells::<u32>(it.coordinates[0], first),
        x.file().cells::<u32>(it.coordinates[1], second),
    ];
    let mut out = [[0_u32; LANES]; 4];
    let texel = |[column, row]: [Option<u32>; 2]| -> [f64; 4] {
        let (Some(column), Some(row)) = (column, row) else {
            return texture.border.map(f64::from);
        };
        let at = texture.image.data
            + u64::from(row) * texture.image.row_bytes
            + u64::from(column) * bytes * CHANNELS as u64;
        let mut value = [0.0; 4];
        for (channel, value) in value.iter_mut().enumerate().take(CHANNELS) {
            *value = read(at + channel as u64 * bytes);
        }
        value
    };
    for lane in lanes_of(x.mask()) {
        let at = places.map(|place| f32::from_bits(place[lane]));
        let value = match texture.filter {
            Filter::Point => texel(std::array::from_fn(|axis| {
                index(
                    texture,
                    axis,
                    scaled(texture, at[axis], size(texture, axis)).floor() as i64,
                    size(texture, axis),
                )
            })),
            Filter::Linear => mixed(texture, at, texel),
        };
        let bits = result(it.ty, texture, &texture.image, value);
        for (out, bits) in out.iter_mut().zip(bits) {
            out[lane] = bits;
        }
    }
    for (dst, out) in it.dsts.iter().zip(&out) {
        if let Some(dst) = dst {
            x.file().put(*dst, x.mask(), out);
        }
    }
}

/// Between the four neighbours.
#[inline(always)]
fn mixed(
    texture: &Texture,
    at: [f32; 2],
    texel: impl Fn([Option<u32>; 2]) -> [f64; 4],
) -> [f64; 4] {
    let mut neighbours = [[None; 2]; 2];
    let mut weight = [0f64; 2];
    for axis in 0..2 {
        let position = scaled(texture, at[axis], size(texture, axis)) - 0.5;
        let (base, size) = (position.floor(), size(texture, axis));
        // 8 bits of fraction, as the hardware has.
        weight[axis] = f64::from(((position - base) * 256.0).round() / 256.0);
        neighbours[axis] = [0, 1].map(|n| index(texture, axis, base as i64 + n, size));
    }
    let mut sum = [0f64; 4];
    for corner in 0..4 {
        let upper = [corner & 1, corner >> 1];
        let part = |axis: usize| if upper[axis] == 1 { weight[axis] } else { 1.0 - weight[axis] };
        let share = part(0) * part(1);
        if share == 0.0 {
            continue;
        }
        let value = texel([neighbours[0][upper[0]], neighbours[1][upper[1]]]);
        for channel in 0..4 {
            sum[channel] += share * value[channel];
        }
    }
    sum
}

fn size(texture: &Texture, axis: usize) -> u32 {
    if axis == 0 { texture.image.width } else { texture.image.height }
}

/// A coordinate in texels.
#[inline(always)]
pub(super) fn scaled(texture: &Texture, value: f32, size: u32) -> f32 {
    let value = if value.is_finite() { value } else { 0.0 };
    let value = if texture.normalized { value * size as f32 } else { value };
    value.clamp(-1e9, 1e9)
}

/// Index of a texel on an axis, or `None` outside with a border.
#[inline(always)]
pub(super) fn index(texture: &Texture, axis: usize, index: i64, size: u32) -> Option<u32> {
    let size = i64::from(size.max(1));
    let mode = match texture.address[axis] {
        AddressMode::Wrap | AddressMode::Mirror if !texture.normalized => AddressMode::Clamp,
        mode => mode,
    };
    let within = match mode {
        AddressMode::Wrap => index.rem_euclid(size),
        AddressMode::Mirror => {
            let around = index.rem_euclid(2 * size);
            if around < size { around } else { 2 * size - 1 - around }
        }
        AddressMode::Clamp => index.clamp(0, size - 1),
        AddressMode::Border if (0..size).contains(&index) => index,
        AddressMode::Border => return None,
    };
    Some(within as u32)
}

/// The bits of a result.
#[inline(always)]
pub(super) fn result(ty: Ty, texture: &Texture, image: &Image, value: [f64; 4]) -> [u32; 4] {
    let floats = image.channel == Channel::Float || texture.normalized_float && image.bits < 32;
    value.map(|value| match (ty, floats) {
        (_, true) => (value as f32).to_bits(),
        // f64 holds every 32-bit integer; the bits are the integer's whatever type reads them.
        (_, false) if value < 0.0 => value as i32 as u32,
        (_, false) => value as u32,
    })
}

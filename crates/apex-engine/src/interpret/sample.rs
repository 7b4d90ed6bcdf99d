//! Textures and surfaces.
//!
//! Filtering follows the CUDA guide: weights have 8 bits of fraction. Results are four
//! channels; those a texel lacks are 0.

mod flat;

use super::atomic::{combine, update};
use super::context::{Context, Outcome};
use super::file::lanes_of;
use super::memory::{peek, poke};
use crate::code::{self, AtomOp, Geometry, LANES, SurfaceClamp, TextureOp, TextureQuery, Ty};
use crate::fault::Fault;
use crate::number::format::{f16_to_f32, f32_to_f16};
use crate::texture::{AddressMode, Channel, Filter, Image, Surface, Texture};
use flat::{index, result};

/// Executes `tex`, `tld4`, `txq`, `suld`, `sust`, `sured` or `suq`.
pub(crate) fn texture(x: &Context, it: &code::Texture) -> Outcome {
    if sampled_flat(x, it) {
        return Ok(());
    }
    for lane in lanes_of(x.mask()) {
        let handle = x.get(it.handle, lane);
        if handle == 0 || !handle.is_multiple_of(8) {
            return Err(x.bad_address(lane, handle, 8, None));
        }
        match it.op {
            TextureOp::SurfaceLoad
            | TextureOp::SurfaceStore
            | TextureOp::SurfaceStoreFormatted
            | TextureOp::SurfaceReduce(_) => surface(x, it, lane, handle)?,
            TextureOp::Query(query) => {
                // SAFETY: a handle is the address of a descriptor that the driver keeps alive.
                let value = unsafe { answer(query, handle) };
                if let Some(Some(dst)) = it.dsts.first() {
                    x.set(*dst, lane, value.into());
                }
            }
            _ => {
                let place = std::ptr::with_exposed_provenance::<Texture>(handle as usize);
                // SAFETY: as above.
                let texture = unsafe { &*place };
                let texel = sample(x, it, lane, texture);
                for (dst, channel) in it.dsts.iter().zip(texel) {
                    if let Some(dst) = dst {
                        x.set(*dst, lane, channel.into());
                    }
                }
            }
        }
    }
    Ok(())
}

/// Samples for all lanes by the short way, where they name one texture and it serves; else false.
fn sampled_flat(x: &Context, it: &code::Texture) -> bool {
    let handle = x.get(it.handle, x.mask().trailing_zeros() as usize % LANES);
    let same = |lane| x.get(it.handle, lane) == handle;
    let samples = it.op == TextureOp::Sample && handle != 0 && handle.is_multiple_of(8);
    if !samples || !lanes_of(x.mask()).all(same) {
        return false;
    }
    let place = std::ptr::with_exposed_provenance::<Texture>(handle as usize);
    // SAFETY: a handle is the address of a descriptor that the driver keeps alive.
    flat::sample(x, it, unsafe { &*place })
}

/// # Safety
/// The handle is a texture's or a surface's.
unsafe fn answer(query: TextureQuery, handle: u64) -> u32 {
    // SAFETY: the caller's; both kinds of descriptor begin with an image, and only a texture
    // is asked about what only it has.
    let (image, texture) = unsafe {
        let address = handle as usize;
        let image = &*std::ptr::with_exposed_provenance::<Image>(address);
        (image, std::ptr::with_exposed_provenance::<Texture>(address))
    };
    match query {
        TextureQuery::Width => image.width,
        TextureQuery::Height => image.height,
        TextureQuery::Depth | TextureQuery::ArraySize => image.depth,
        // SAFETY: as above.
        TextureQuery::NumMipmapLevels => unsafe { (*texture).last_level() as u32 + 1 },
        // SAFETY: as above.
        TextureQuery::NormalizedCoords => unsafe { (*texture).normalized.into() },
        TextureQuery::NumSamples => 1,
        // The numbers of the ISA's opaque types follow OpenCL's.
        TextureQuery::ChannelOrder => match image.channels {
            1 => 0x10b0,
            2 => 0x10b2,
            _ => 0x10b5,
        },
        TextureQuery::ChannelDataType => match (image.channel, image.bits) {
            (Channel::Signed, 8) => 0x10d7,
            (Channel::Signed, 16) => 0x10d8,
            (Channel::Signed, _) => 0x10d9,
            (Channel::Unsigned, 8) => 0x10da,
            (Channel::Unsigned, 16) => 0x10db,
            (Channel::Unsigned, _) => 0x10dc,
            (Channel::Float, 16) => 0x10dd,
            (Channel::Float, _) => 0x10de,
        },
    }
}

/// Coordinates within one level: the slice is set for layers and faces.
#[derive(Clone, Copy)]
struct Point {
    at: [f32; 3],
    /// Dimensions that are filtered.
    dimensions: usize,
    slice: u32,
}

fn sample(x: &Context, it: &code::Texture, lane: usize, texture: &Texture) -> [u32; 4] {
    let base = &texture.image;
    if it.coordinate != Ty::F32 {
        return fetch(x, it, lane, texture);
    }
    let coordinate = |index: usize| {
        it.coordinates.get(index).map_or(0.0, |&src| f32::from_bits(x.get(src, lane) as u32))
    };
    // The layer is an integer even where the others are floats.
    let layer = || it.coordinates.first().map_or(0, |&src| x.get(src, lane) as u32);
    let point = match it.geometry {
        Geometry::D1 => Point { at: [coordinate(0), 0.0, 0.0], dimensions: 1, slice: 0 },
        Geometry::D2 => Point { at: [coordinate(0), coordinate(1), 0.0], dimensions: 2, slice: 0 },
        Geometry::D3 => {
            Point { at: [coordinate(0), coordinate(1), coordinate(2)], dimensions: 3, slice: 0 }
        }
        Geometry::A1d => Point {
            at: [coordinate(1), 0.0, 0.0],
            dimensions: 1,
            slice: layer().min(base.depth.saturating_sub(1)),
        },
        Geometry::A2d => Point {
            at: [coordinate(1), coordinate(2), 0.0],
            dimensions: 2,
            slice: layer().min(base.depth.saturating_sub(1)),
        },
        Geometry::Cube => cube([coordinate(0), coordinate(1), coordinate(2)], 0),
        Geometry::Acube => {
            let cubes = (base.depth / 6).saturating_sub(1);
            cube([coordinate(1), coordinate(2), coordinate(3)], layer().min(cubes))
        }
    };
    let extra = |index: usize| {
        it.extra.get(index).map_or(0.0, |&src| f32::from_bits(x.get(src, lane) as u32))
    };
    if it.op == TextureOp::Gather {
        let component = it.extra.first().map_or(0, |&src| x.get(src, lane)) as usize & 3;
        return gather(texture, base, point, component, it.ty);
    }
    let level = match it.op {
        TextureOp::SampleLevel => extra(0) + texture.level_bias,
        TextureOp::SampleGrad => {
            let size = [base.width as f32, base.height as f32, base.depth as f32];
            let count = it.extra.len() / 2;
            let length = |first: usize| {
                let squares = (0..count.min(3)).map(|axis| {
                    let scale = if texture.normalized { size[axis] } else { 1.0 };
                    (extra(first + axis) * scale).powi(2)
                });
                squares.sum::<f32>().sqrt()
            };
            length(0).max(length(count)).log2() + texture.level_bias
        }
        _ => 0.0,
    };
    let last = texture.last_level() as f32;
    let level = if level.is_nan() { 0.0 } else { level };
    let level = level
        .clamp(texture.level_least, texture.level_most.max(texture.level_least))
        .clamp(0.0, last);
    if texture.level_filter == Filter::Point || level.fract() == 0.0 {
        let image = texture.level((level + 0.5).floor().min(last) as usize);
        return result(it.ty, texture, image, filtered(texture, image, point, it.ty));
    }
    let (fine, coarse) = (texture.level(level as usize), texture.level(level as usize + 1));
    let weight = (level.fract() * 256.0).round() / 256.0;
    let a = filtered(texture, fine, point, it.ty);
    let b = filtered(texture, coarse, point, it.ty);
    let mixed = std::array::from_fn(|n| a[n] * f64::from(1.0 - weight) + b[n] * f64::from(weight));
    result(it.ty, texture, fine, mixed)
}

/// Integer coordinates: one texel, unfiltered.
fn fetch(x: &Context, it: &code::Texture, lane: usize, texture: &Texture) -> [u32; 4] {
    let coordinate =
        |index: usize| it.coordinates.get(index).map_or(0, |&src| x.get(src, lane) as i32);
    let level = match it.op {
        TextureOp::SampleLevel => it.extra.first().map_or(0, |&src| x.get(src, lane) as usize),
        _ => 0,
    };
    let image = texture.level(level);
    let at: [i64; 3] = match it.geometry {
        Geometry::A1d => [coordinate(1).into(), 0, coordinate(0).into()],
        Geometry::A2d => [coordinate(1).into(), coordinate(2).into(), coordinate(0).into()],
        _ => [0, 1, 2].map(|n| coordinate(n).into()),
    };
    let size = [image.width, image.height, image.depth].map(i64::from);
    let inside = (0..3).all(|axis| at[axis] >= 0 && at[axis] < size[axis]);
    if !inside && texture.address.contains(&AddressMode::Border) {
        return result(it.ty, texture, image, texture.border.map(f64::from));
    }
    let at: [u32; 3] = std::array::from_fn(|axis| at[axis].clamp(0, size[axis] - 1) as u32);
    result(it.ty, texture, image, texel(texture, image, at, it.ty))
}

/// The face of a direction, and where on it, in coordinates from 0 to 1.
fn cube([x, y, z]: [f32; 3], layer: u32) -> Point {
    let (ax, ay, az) = (x.abs(), y.abs(), z.abs());
    // Of equal lengths hardware takes the later axis.
    let (face, s, t, major) = if az >= ax && az >= ay {
        if z >= 0.0 { (4, x, -y, az) } else { (5, -x, -y, az) }
    } else if ay >= ax {
        if y >= 0.0 { (2, x, z, ay) } else { (3, x, -z, ay) }
    } else if x >= 0.0 {
        (0, -z, -y, ax)
    } else {
        (1, z, -y, ax)
    };
    let at = [(s / major + 1.0) / 2.0, (t / major + 1.0) / 2.0, 0.0];
    Point { at, dimensions: 2, slice: layer * 6 + face }
}

/// A coordinate in texels.
fn scaled(texture: &Texture, point: Point, axis: usize, size: u32) -> f32 {
    flat::scaled(texture, point.at[axis], size)
}

fn at_or_border(texture: &Texture, image: &Image, point: Point, at: [i64; 3], ty: Ty) -> [f64; 4] {
    let size = [image.width, image.height, image.depth];
    let mut place = [0, 0, point.slice];
    for axis in 0..point.dimensions {
        match index(texture, axis, at[axis], size[axis]) {
            Some(found) => place[axis] = found,
            None => return texture.border.map(f64::from),
        }
    }
    texel(texture, image, place, ty)
}

/// The four texels of `tld4`, counter-clockwise from the lower left.
fn gather(texture: &Texture, image: &Image, point: Point, component: usize, ty: Ty) -> [u32; 4] {
    let corner: [i64; 2] = std::array::from_fn(|axis| {
        let size = if axis == 0 { image.width } else { image.height };
        (scaled(texture, point, axis, size) - 0.5).floor() as i64
    });
    let one = |x: i64, y: i64| {
        let at = [corner[0] + x, corner[1] + y, 0];
        result(ty, texture, image, at_or_border(texture, image, point, at, ty))[component]
    };
    [one(0, 1), one(1, 1), one(1, 0), one(0, 0)]
}

fn filtered(texture: &Texture, image: &Image, point: Point, ty: Ty) -> [f64; 4] {
    let size = [image.width, image.height, image.depth];
    if texture.filter == Filter::Point {
        let at =
            std::array::from_fn(|axis| scaled(texture, point, axis, size[axis]).floor() as i64);
        return at_or_border(texture, image, point, at, ty);
    }
    let mut base = [0i64; 3];
    let mut weight = [0f64; 3];
    for axis in 0..point.dimensions {
        let position = scaled(texture, point, axis, size[axis]) - 0.5;
        base[axis] = position.floor() as i64;
        // 8 bits of fraction, as the hardware has.
        weight[axis] = f64::from(((position - position.floor()) * 256.0).round() / 256.0);
    }
    let mut sum = [0f64; 4];
    for corner in 0..1usize << point.dimensions {
        let mut at = base;
        let mut share = 1.0;
        for axis in 0..point.dimensions {
            let upper = corner >> axis & 1;
            at[axis] += upper as i64;
            share *= if upper == 1 { weight[axis] } else { 1.0 - weight[axis] };
        }
        if share == 0.0 {
            continue;
        }
        let value = at_or_border(texture, image, point, at, ty);
        for channel in 0..4 {
            sum[channel] += share * value[channel];
        }
    }
    sum
}

/// A texel's channels as numbers; integers as they are.
fn texel(texture: &Texture, image: &Image, at: [u32; 3], _ty: Ty) -> [f64; 4] {
    let place = image.data
        + u64::from(at[2]) * image.slice_bytes
        + u64::from(at[1]) * image.row_bytes
        + u64::from(at[0]) * u64::from(image.texel_bytes());
    let mut out = [0.0; 4];
    for channel in 0..image.channels.min(4) {
        let at = place + u64::from(channel * image.bits / 8);
        // SAFETY: within the image by its own measures; missing pages are the guard's affair.
        let bits: u32 = unsafe {
            match image.bits {
                8 => peek::<u8>(at).into(),
                16 => peek::<u16>(at).into(),
                _ => peek(at),
            }
        };
        let value = match (image.channel, image.bits) {
            (Channel::Float, 16) => f16_to_f32(bits as u16).into(),
            (Channel::Float, _) => f32::from_bits(bits).into(),
            (Channel::Unsigned, _) => f64::from(bits),
            (Channel::Signed, 8) => f64::from(bits as i8),
            (Channel::Signed, 16) => f64::from(bits as i16),
            (Channel::Signed, _) => f64::from(bits as i32),
        };
        let value =
            if texture.normalized_float && image.bits < 32 { normal(image, value) } else { value };
        out[channel as usize] =
            if texture.srgb && channel < 3 && image.bits == 8 { linear(value) } else { value };
    }
    out
}

/// Integers as fractions of the largest.
fn normal(image: &Image, value: f64) -> f64 {
    match image.channel {
        Channel::Unsigned => value / f64::from((1u32 << image.bits) - 1),
        Channel::Signed => (value / f64::from((1u32 << (image.bits - 1)) - 1)).max(-1.0),
        Channel::Float => value,
    }
}

/// From sRGB.
fn linear(value: f64) -> f64 {
    if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
}

/// A place in a surface, or `None` outside.
fn surface_place(
    x: &Context,
    it: &code::Texture,
    lane: usize,
    image: &Image,
    bytes: u32,
) -> Option<u64> {
    let coordinate = |index: usize| {
        it.coordinates.get(index).map_or(0, |&src| i64::from(x.get(src, lane) as i32))
    };
    let [column, row, slice] = match it.geometry {
        Geometry::D1 => [coordinate(0), 0, 0],
        Geometry::D2 => [coordinate(0), coordinate(1), 0],
        Geometry::A1d => [coordinate(1), 0, coordinate(0)],
        Geometry::A2d => [coordinate(1), coordinate(2), coordinate(0)],
        Geometry::D3 | Geometry::Cube | Geometry::Acube => {
            [coordinate(0), coordinate(1), coordinate(2)]
        }
    };
    // `sust.p` counts texels, the others bytes.
    let formatted = it.op == TextureOp::SurfaceStoreFormatted;
    let texel = i64::from(image.texel_bytes());
    let offset = if formatted { column * texel } else { column };
    let width = i64::from(image.width) * texel;
    let [mut offset, mut row, mut slice] = [offset, row, slice];
    let limits =
        [width - i64::from(bytes), i64::from(image.height) - 1, i64::from(image.depth) - 1];
    if it.clamp == SurfaceClamp::Clamp {
        offset = offset.clamp(0, limits[0].max(0));
        row = row.clamp(0, limits[1]);
        slice = slice.clamp(0, limits[2]);
    }
    let inside = [offset, row, slice].iter().zip(limits).all(|(&at, limit)| at >= 0 && at <= limit);
    inside.then(|| {
        image.data + slice as u64 * image.slice_bytes + row as u64 * image.row_bytes + offset as u64
    })
}

fn surface(x: &Context, it: &code::Texture, lane: usize, handle: u64) -> Outcome {
    let place = std::ptr::with_exposed_provenance::<Surface>(handle as usize);
    // SAFETY: a handle is the address of a descriptor that the driver keeps alive.
    let image = unsafe { &(*place).image };
    let element = it.ty.bits() / 8;
    let count = it.dsts.len().max(it.srcs.len()) as u32;
    let formatted = it.op == TextureOp::SurfaceStoreFormatted;
    let bytes = if formatted { image.texel_bytes() } else { element * count };
    let Some(at) = surface_place(x, it, lane, image, bytes) else {
        if it.clamp == SurfaceClamp::Trap {
            let place = x.place(Some(lane));
            return x.fail(Fault::IllegalAddress { place, address: None, bytes, access: None });
        }
        for dst in it.dsts.iter().flatten() {
            x.set(*dst, lane, 0);
        }
        return Ok(());
    };
    if !at.is_multiple_of(u64::from(element.min(8))) && !formatted {
        let place = x.place(Some(lane));
        return x.fail(Fault::MisalignedAddress { place, address: at, bytes: element });
    }
    match it.op {
        TextureOp::SurfaceLoad => {
            for (index, dst) in it.dsts.iter().enumerate() {
                let at = at + u64::from(element) * index as u64;
                // SAFETY: inside the image, as just checked.
                let value: u64 = unsafe {
                    match element {
                        1 => peek::<u8>(at).into(),
                        2 => peek::<u16>(at).into(),
                        4 => peek::<u32>(at).into(),
                        _ => peek(at),
                    }
                };
                if let Some(dst) = dst {
                    x.set(*dst, lane, value);
                }
            }
        }
        TextureOp::SurfaceStore => {
            for (index, &src) in it.srcs.iter().enumerate() {
                let (at, value) = (at + u64::from(element) * index as u64, x.get(src, lane));
                // SAFETY: as above.
                unsafe {
                    match element {
                        1 => poke(at, value as u8),
                        2 => poke(at, value as u16),
                        4 => poke(at, value as u32),
                        _ => poke(at, value),
                    }
                }
            }
        }
        TextureOp::SurfaceStoreFormatted => {
            for (channel, &src) in it.srcs.iter().enumerate().take(image.channels as usize) {
                let at = at + u64::from(image.bits / 8) * channel as u64;
                store_channel(image, at, x.get(src, lane) as u32);
            }
        }
        TextureOp::SurfaceReduce(op) => {
            let value = it.srcs.first().map_or(0, |&src| x.get(src, lane));
            let op = if op == AtomOp::Cas { AtomOp::Exch } else { op };
            // SAFETY: as above, and aligned.
            unsafe { update(at, element, |old| combine(op, it.ty, old, value, 0, false)) };
        }
        _ => {}
    }
    Ok(())
}

/// A channel of `sust.p`: floats become the surface's own format, integers are clamped to it.
fn store_channel(image: &Image, at: u64, bits: u32) {
    let value = match (image.channel, image.bits) {
        (Channel::Float, 16) => f32_to_f16(f32::from_bits(bits)).into(),
        (Channel::Unsigned, 8 | 16) => bits.min((1 << image.bits) - 1),
        (Channel::Signed, 8 | 16) => {
            let limit = 1i32 << (image.bits - 1);
            (bits as i32).clamp(-limit, limit - 1) as u32
        }
        _ => bits,
    };
    // SAFETY: inside the image, as the caller checked.
    unsafe {
        match image.bits {
            8 => poke(at, value as u8),
            16 => poke(at, value as u16),
            _ => poke(at, value),
        }
    }
}

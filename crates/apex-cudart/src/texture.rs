//! Texture and surface objects: the runtime's descriptions in the driver's words.
//!
//! The runtime's description of a resource grew at its end in CUDA 13, so a program
//! of CUDA 12 is read and answered only as far as its struct goes.

use apex_cuda::Driver;
use apex_cuda::types::{
    CUDA_RESOURCE_DESC, CUDA_RESOURCE_VIEW_DESC, CUDA_TEXTURE_DESC, CUarray, CUsurfObject,
    CUtexObject,
};

use crate::array::{channels, descriptor, driver_format, is_integer};
use crate::border::{Answer, check, get, put, wanted};
use crate::context::current;
use crate::errors::{Error, cudaErrorInvalidValue};
use crate::layouts::Channels;
use crate::version::is_12;

/// `cudaResourceType`, and the driver's.
const ARRAY: u32 = 0;
const MIPMAPPED: u32 = 1;
const LINEAR: u32 = 2;
const PITCHED: u32 = 3;

/// The beginning of `cudaResourceDesc`: what both CUDA 12 and 13 have. An array's
/// handle stands where an address does.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resource {
    kind: u32,
    address: u64,
    channels: Channels,
    /// The bytes of linear memory; the width, height and pitch of rows.
    sizes: [usize; 3],
}

/// Where CUDA 13 has flags.
const FLAGS_OFFSET: usize = 136;
const RESOURCE_BYTES_13: usize = 144;

/// `CUDA_RESOURCE_DESC`.
#[repr(C)]
#[derive(Clone, Copy)]
struct DriverResource {
    kind: u32,
    address: u64,
    format: u32,
    channels: u32,
    sizes: [usize; 3],
    reserved: [u64; 11],
    flags: u32,
}

/// `cudaTextureDesc`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Texture {
    address_modes: [u32; 3],
    filter: u32,
    read_mode: u32,
    is_srgb: i32,
    border: [f32; 4],
    is_normalised: i32,
    max_anisotropy: u32,
    mipmap_filter: u32,
    mipmap_bias: f32,
    min_level: f32,
    max_level: f32,
    no_trilinear_optimisation: i32,
    is_seamless: i32,
}

/// `CUDA_TEXTURE_DESC`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct DriverTexture {
    address_modes: [u32; 3],
    filter: u32,
    flags: u32,
    max_anisotropy: u32,
    mipmap_filter: u32,
    mipmap_bias: f32,
    min_level: f32,
    max_level: f32,
    border: [f32; 4],
    reserved: [i32; 12],
}

/// `CUDA_RESOURCE_VIEW_DESC`, and `cudaResourceViewDesc` of CUDA 13. CUDA 12's ends
/// before what is reserved.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct View {
    format: u32,
    extent: [usize; 3],
    /// First and last level, first and last layer.
    range: [u32; 4],
    reserved: [u32; 16],
}

const VIEW_BYTES_12: usize = 48;

/// The driver's flags of a texture.
const READ_AS_INTEGER: u32 = 0x01;
const NORMALISED_COORDINATES: u32 = 0x02;
const SRGB: u32 = 0x10;
const NO_TRILINEAR_OPTIMISATION: u32 = 0x20;
const SEAMLESS: u32 = 0x40;
/// `cudaReadModeElementType`: elements are read as they are.
const ELEMENTS: u32 = 0;
const NORMALISED_FLOAT: u32 = 1;

const _: () = {
    assert!(size_of::<DriverResource>() == size_of::<CUDA_RESOURCE_DESC>());
    assert!(size_of::<DriverTexture>() == size_of::<CUDA_TEXTURE_DESC>());
    assert!(size_of::<View>() == size_of::<CUDA_RESOURCE_VIEW_DESC>());
    assert!(size_of::<Resource>() == 64);
    assert!(size_of::<Texture>() == 72);
};

/// # Safety
///
/// `given` is null or a resource's description as the program's CUDA has it.
unsafe fn to_driver(given: *const Resource) -> Result<DriverResource, Error> {
    // SAFETY: the caller vouches for it; the flags are read only where there are any.
    let (resource, flags) = unsafe {
        let resource = get(given)?;
        let flags = if is_12() { 0 } else { given.byte_add(FLAGS_OFFSET).cast::<u32>().read() };
        (resource, flags)
    };
    let (format, count) = match resource.kind {
        ARRAY | MIPMAPPED => (0, 0),
        LINEAR | PITCHED => driver_format(resource.channels)?,
        _ => return Err(cudaErrorInvalidValue),
    };
    let sizes = match resource.kind {
        LINEAR => [resource.sizes[0], 0, 0],
        PITCHED => resource.sizes,
        _ => [0; 3],
    };
    Ok(DriverResource {
        kind: resource.kind,
        address: resource.address,
        format,
        channels: count,
        sizes,
        reserved: [0; 11],
        flags,
    })
}

/// # Safety
///
/// `out` is null or has room for a description of the program's CUDA.
unsafe fn put_resource(out: *mut Resource, found: &DriverResource) -> Answer {
    let channels = match found.kind {
        LINEAR | PITCHED => channels(found.format, found.channels),
        _ => Channels::default(),
    };
    let out = wanted(out)?;
    // SAFETY: the caller vouches for the room.
    unsafe {
        if !is_12() {
            out.cast::<u8>().write_bytes(0, RESOURCE_BYTES_13);
            out.byte_add(FLAGS_OFFSET).cast::<u32>().write(found.flags);
        }
        let DriverResource { kind, address, sizes, .. } = *found;
        put(out, Resource { kind, address, channels, sizes })
    }
}

/// Whether what a texture reads are integers: then alone reading elements as they are
/// has to be said.
fn reads_integers(driver: &Driver, resource: &DriverResource) -> Result<bool, Error> {
    let handle = resource.address as usize;
    let array: CUarray = match resource.kind {
        ARRAY => core::ptr::with_exposed_provenance_mut(handle),
        MIPMAPPED => {
            let mipmapped = core::ptr::with_exposed_provenance_mut(handle);
            let mut level = core::ptr::null_mut();
            // SAFETY: the program gave the handle as that of a mipmapped array.
            check(unsafe { (driver.cuMipmappedArrayGetLevel)(&raw mut level, mipmapped, 0) })?;
            level
        }
        _ => return Ok(is_integer(resource.format)),
    };
    Ok(is_integer(descriptor(driver, array)?.format))
}

fn texture_to_driver(texture: &Texture, reads_integers: bool) -> DriverTexture {
    let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
    DriverTexture {
        address_modes: texture.address_modes,
        filter: texture.filter,
        flags: flag(texture.read_mode == ELEMENTS && reads_integers, READ_AS_INTEGER)
            | flag(texture.is_normalised != 0, NORMALISED_COORDINATES)
            | flag(texture.is_srgb != 0, SRGB)
            | flag(texture.no_trilinear_optimisation != 0, NO_TRILINEAR_OPTIMISATION)
            | flag(texture.is_seamless != 0, SEAMLESS),
        max_anisotropy: texture.max_anisotropy,
        mipmap_filter: texture.mipmap_filter,
        mipmap_bias: texture.mipmap_bias,
        min_level: texture.min_level,
        max_level: texture.max_level,
        border: texture.border,
        reserved: [0; 12],
    }
}

fn texture_from_driver(found: &DriverTexture, reads_integers: bool) -> Texture {
    let has = |flag: u32| i32::from(found.flags & flag != 0);
    let is_promoted = reads_integers && has(READ_AS_INTEGER) == 0;
    Texture {
        address_modes: found.address_modes,
        filter: found.filter,
        read_mode: if is_promoted { NORMALISED_FLOAT } else { ELEMENTS },
        is_srgb: has(SRGB),
        border: found.border,
        is_normalised: has(NORMALISED_COORDINATES),
        max_anisotropy: found.max_anisotropy,
        mipmap_filter: found.mipmap_filter,
        mipmap_bias: found.mipmap_bias,
        min_level: found.min_level,
        max_level: found.max_level,
        no_trilinear_optimisation: has(NO_TRILINEAR_OPTIMISATION),
        is_seamless: has(SEAMLESS),
    }
}

/// # Safety
///
/// The handle is the program's.
unsafe fn texture_resource(driver: &Driver, object: CUtexObject) -> Result<DriverResource, Error> {
    let mut found = core::mem::MaybeUninit::<DriverResource>::zeroed();
    // SAFETY: zeros are a description, and the driver's has the same layout.
    unsafe {
        check((driver.cuTexObjectGetResourceDesc)(found.as_mut_ptr().cast(), object))?;
        Ok(found.assume_init())
    }
}

runtime! {
    fn cudaCreateTextureObject(
        out: *mut CUtexObject,
        resource: *const Resource,
        texture: *const Texture,
        view: *const View,
    ) {
        let driver = current()?;
        let resource = to_driver(resource)?;
        let texture = texture_to_driver(&get(texture)?, reads_integers(driver, &resource)?);
        let mut own_view = View::default();
        let view = if view.is_null() {
            core::ptr::null()
        } else {
            let own: *mut u8 = (&raw mut own_view).cast();
            own.copy_from_nonoverlapping(view.cast(), VIEW_BYTES_12);
            (&raw const own_view).cast()
        };
        let (resource, texture) = ((&raw const resource).cast(), (&raw const texture).cast());
        check((driver.cuTexObjectCreate)(wanted(out)?, resource, texture, view))
    }

    fn cudaDestroyTextureObject(object: CUtexObject) {
        let driver = current()?;
        if object == 0 {
            return Ok(());
        }
        check((driver.cuTexObjectDestroy)(object))
    }

    fn cudaGetTextureObjectResourceDesc(out: *mut Resource, object: CUtexObject) {
        put_resource(out, &texture_resource(current()?, object)?)
    }

    fn cudaGetTextureObjectTextureDesc(out: *mut Texture, object: CUtexObject) {
        let driver = current()?;
        let reads_integers = reads_integers(driver, &texture_resource(driver, object)?)?;
        let mut found = DriverTexture::default();
        check((driver.cuTexObjectGetTextureDesc)((&raw mut found).cast(), object))?;
        put(out, texture_from_driver(&found, reads_integers))
    }

    fn cudaGetTextureObjectResourceViewDesc(out: *mut View, object: CUtexObject) {
        let mut found = View::default();
        check((current()?.cuTexObjectGetResourceViewDesc)((&raw mut found).cast(), object))?;
        let bytes = if is_12() { VIEW_BYTES_12 } else { size_of::<View>() };
        let from: *const u8 = (&raw const found).cast();
        wanted(out)?.cast::<u8>().copy_from_nonoverlapping(from, bytes);
        Ok(())
    }

    fn cudaCreateSurfaceObject(out: *mut CUsurfObject, resource: *const Resource) {
        let driver = current()?;
        let resource = to_driver(resource)?;
        check((driver.cuSurfObjectCreate)(wanted(out)?, (&raw const resource).cast()))
    }

    fn cudaDestroySurfaceObject(object: CUsurfObject) {
        let driver = current()?;
        if object == 0 {
            return Ok(());
        }
        check((driver.cuSurfObjectDestroy)(object))
    }

    fn cudaGetSurfaceObjectResourceDesc(out: *mut Resource, object: CUsurfObject) {
        let mut found = core::mem::MaybeUninit::<DriverResource>::zeroed();
        check((current()?.cuSurfObjectGetResourceDesc)(found.as_mut_ptr().cast(), object))?;
        put_resource(out, &found.assume_init())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_texture_goes_to_the_driver_and_back() {
        let texture = Texture {
            address_modes: [1, 2, 3],
            filter: 1,
            read_mode: NORMALISED_FLOAT,
            is_srgb: 1,
            border: [0.5; 4],
            is_normalised: 1,
            max_level: 3.0,
            is_seamless: 1,
            ..Texture::default()
        };
        let there = texture_to_driver(&texture, true);
        assert_eq!(there.flags, NORMALISED_COORDINATES | SRGB | SEAMLESS);
        assert_eq!(texture_from_driver(&there, true), texture);
    }

    #[test]
    fn only_integers_are_read_as_integers() {
        let texture = Texture::default();
        assert_eq!(texture_to_driver(&texture, true).flags, READ_AS_INTEGER);
        assert_eq!(texture_to_driver(&texture, false).flags, 0);
        let there = texture_to_driver(&texture, false);
        assert_eq!(texture_from_driver(&there, false).read_mode, ELEMENTS);
    }
}

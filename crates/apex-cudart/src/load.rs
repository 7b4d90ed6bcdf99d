//! Gives a registered image to the driver.
//!
//! A wrapper of version 1 holds a whole program and is loaded as it is. One of
//! version 2 was made by nvcc's device linker from relocatable units: its third word
//! points to a list of their fatbins. Where they hold machine code, nvcc linked it
//! already and it is in the wrapper's own image; where they hold PTX, that image is
//! empty and the units are linked here, through the driver. nvcc always adds
//! `libcudadevrt`, whose PTX is for the newest devices only: in a link of PTX, a unit
//! that has none for this device is left out.

use core::ffi::c_void;
use core::ptr::null_mut;

use apex_cuda::Driver;
use apex_cuda::types::{CUjitInputType, CUlibrary, CUlinkState};

use crate::border::check;
use crate::errors::{Error, cudaErrorInvalidKernelImage, cudaErrorNoKernelImageForDevice};

const WRAPPER_MAGIC: u32 = 0x4662_43b1;
const CONTAINER_MAGIC: u32 = 0xba55_ed50;
/// The version of a wrapper with a list of relocatable units.
const RELOCATABLE: u32 = 2;
const INPUT_FATBIN: CUjitInputType = 2;

/// `__fatBinC_Wrapper_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Wrapper {
    magic: u32,
    version: u32,
    data: *const Container,
    /// In version 2, the fatbins of the units, ended by a null pointer.
    units: *const *const Container,
}

/// The header of a fatbin.
#[repr(C)]
#[derive(Clone, Copy)]
struct Container {
    magic: u32,
    version: u16,
    header_bytes: u16,
    bytes: u64,
}

/// The beginning of an entry of a fatbin.
#[repr(C)]
#[derive(Clone, Copy)]
struct Entry {
    kind: u16,
    version: u16,
    header_bytes: u32,
    bytes: u64,
    compressed_bytes: u32,
    options_offset: u32,
    minor: u16,
    major: u16,
    architecture: u32,
}

const PTX: u16 = 1;
const MACHINE_CODE: u16 = 2;

/// One unit of a relocatable program.
#[derive(Clone, Copy)]
struct Unit {
    container: *const Container,
    bytes: usize,
    /// The oldest architecture that it has PTX for.
    ptx: Option<u32>,
    has_machine_code: bool,
}

/// Loads the code behind a wrapper as a library.
///
/// # Safety
///
/// `wrapper` is null or what a program gave to `__cudaRegisterFatBinary`, and a
/// context is current.
pub(crate) unsafe fn load(driver: &Driver, wrapper: *const c_void) -> Result<CUlibrary, Error> {
    if wrapper.is_null() {
        return Err(cudaErrorInvalidKernelImage);
    }
    // SAFETY: the caller vouches for the wrapper; only a wrapper of version 2 has units.
    unsafe {
        let parts = wrapper.cast::<Wrapper>().read_unaligned();
        if parts.magic != WRAPPER_MAGIC {
            return Err(cudaErrorInvalidKernelImage);
        }
        if parts.version == RELOCATABLE && is_empty(parts.data) && !parts.units.is_null() {
            return link(driver, parts.units);
        }
        library(driver, wrapper)
    }
}

/// # Safety
///
/// `container` is null or begins a fatbin.
unsafe fn is_empty(container: *const Container) -> bool {
    // SAFETY: the caller vouches for what is not null.
    container.is_null() || unsafe { container.read_unaligned() }.bytes == 0
}

/// # Safety
///
/// `image` is one that the driver takes.
unsafe fn library(driver: &Driver, image: *const c_void) -> Result<CUlibrary, Error> {
    let mut library = null_mut();
    let none = null_mut();
    // SAFETY: the caller vouches for the image; there are no options to read.
    check(unsafe {
        (driver.cuLibraryLoadData)(
            &raw mut library,
            image,
            none,
            null_mut(),
            0,
            none,
            null_mut(),
            0,
        )
    })?;
    Ok(library)
}

/// # Safety
///
/// `units` is a list of fatbins that ends with a null pointer.
unsafe fn link(driver: &Driver, units: *const *const Container) -> Result<CUlibrary, Error> {
    // SAFETY: the caller vouches for the list.
    let mut units = unsafe { described(units) }?;
    if units.iter().any(|unit| !unit.has_machine_code) {
        let newest = architecture(driver)?;
        units.retain(|unit| unit.ptx.is_some_and(|oldest| oldest <= newest));
    }
    if units.is_empty() {
        return Err(cudaErrorNoKernelImageForDevice);
    }
    let mut link = null_mut();
    // SAFETY: there are no options to read; the link is destroyed below, once.
    unsafe {
        check((driver.cuLinkCreate_v2)(0, null_mut(), null_mut(), &raw mut link))?;
        let linked = link_units(driver, link, &units);
        let _ = (driver.cuLinkDestroy)(link);
        linked
    }
}

/// The current device's architecture, as fatbins number it.
fn architecture(driver: &Driver) -> Result<u32, Error> {
    let mut device = 0;
    let mut capability = [0, 0];
    // SAFETY: all can be written.
    unsafe {
        check((driver.cuCtxGetDevice)(&raw mut device))?;
        for (value, attribute) in capability.iter_mut().zip([75, 76]) {
            check((driver.cuDeviceGetAttribute)(value, attribute, device))?;
        }
    }
    Ok((10 * capability[0] + capability[1]).max(0) as u32)
}

/// What is in each fatbin of a list; empty ones are left out.
///
/// # Safety
///
/// As for [`link`].
unsafe fn described(units: *const *const Container) -> Result<Vec<Unit>, Error> {
    let mut described = Vec::new();
    for index in 0.. {
        // SAFETY: the caller vouches for the list up to its end, and a fatbin says its
        // own length.
        unsafe {
            let container = units.add(index).read_unaligned();
            if container.is_null() {
                break;
            }
            let Container { magic, header_bytes, bytes, .. } = container.read_unaligned();
            if magic != CONTAINER_MAGIC {
                return Err(cudaErrorInvalidKernelImage);
            }
            if bytes > 0 {
                let bytes = usize::from(header_bytes) + bytes as usize;
                let whole = core::slice::from_raw_parts(container.cast::<u8>(), bytes);
                let (ptx, has_machine_code) = contents(&whole[usize::from(header_bytes)..]);
                described.push(Unit { container, bytes, ptx, has_machine_code });
            }
        }
    }
    Ok(described)
}

/// The oldest architecture that entries have PTX for, and whether there is machine code.
fn contents(mut entries: &[u8]) -> (Option<u32>, bool) {
    let (mut ptx, mut has_machine_code) = (None, false);
    while entries.len() >= size_of::<Entry>() {
        // SAFETY: there are as many bytes, and any bytes are an entry.
        let entry = unsafe { entries.as_ptr().cast::<Entry>().read_unaligned() };
        match entry.kind {
            PTX => {
                ptx = Some(ptx.map_or(entry.architecture, |old: u32| old.min(entry.architecture)))
            }
            MACHINE_CODE => has_machine_code = true,
            _ => {}
        }
        let bytes = u64::from(entry.header_bytes).saturating_add(entry.bytes);
        match entries.get(usize::try_from(bytes).unwrap_or(usize::MAX)..) {
            Some(rest) if bytes > 0 => entries = rest,
            _ => break,
        }
    }
    (ptx, has_machine_code)
}

/// # Safety
///
/// `link` is a link in progress, and the units are the program's.
unsafe fn link_units(
    driver: &Driver,
    link: CUlinkState,
    units: &[Unit],
) -> Result<CUlibrary, Error> {
    let (mut image, mut bytes) = (null_mut(), 0);
    // SAFETY: the caller vouches for link and units. The driver has copied the image
    // when it has loaded it.
    unsafe {
        for unit in units {
            let (data, name) = (unit.container.cast_mut().cast(), c"relocatable unit".as_ptr());
            let none = null_mut();
            let add = driver.cuLinkAddData_v2;
            check(add(link, INPUT_FATBIN, data, unit.bytes, name, 0, none, null_mut()))?;
        }
        check((driver.cuLinkComplete)(link, &raw mut image, &raw mut bytes))?;
        library(driver, image)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry without content.
    fn entry(kind: u16, architecture: u32) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..2].copy_from_slice(&kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&64_u32.to_le_bytes());
        bytes[28..32].copy_from_slice(&architecture.to_le_bytes());
        bytes
    }

    #[test]
    fn entries_are_told_apart() {
        assert_eq!(contents(&[]), (None, false));
        assert_eq!(contents(&entry(PTX, 90)), (Some(90), false));
        let both = [entry(MACHINE_CODE, 75), entry(PTX, 121), entry(PTX, 100)].concat();
        assert_eq!(contents(&both), (Some(100), true));
    }

    #[test]
    fn what_is_cut_off_or_says_nonsense_ends_the_walk() {
        assert_eq!(contents(&entry(PTX, 90)[..31]), (None, false));
        let mut huge = entry(PTX, 90);
        huge[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(contents(&huge), (Some(90), false));
        let mut still = entry(PTX, 90);
        still[4..8].fill(0);
        assert_eq!(contents(&still), (Some(90), false));
    }
}

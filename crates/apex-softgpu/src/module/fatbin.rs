//! The PTX inside what a program hands to the driver.
//!
//! A fatbin holds code for several architectures; machine code is of no use here, so
//! the PTX of the best architecture is taken: the newest that the device has, else
//! the oldest there is. A relocatable program has one PTX text per unit, all of which
//! are taken together. `apex_ptx::container` reads the containers.

use apex_cuda::image::{ImageKind, bytes_at, identify};
use apex_cuda::types::*;
use apex_ptx::container;

const WRAPPER_MAGIC: u32 = 0x4662_43b1;
const WITH_PRELINKED: u32 = 2;
const PRELINKED_AT_MOST: usize = 1 << 16;

/// The PTX texts of an image, for a device of that capability.
///
/// # Safety
///
/// `image` is null or what the driver's loading functions accept.
pub(crate) unsafe fn texts_at(
    image: *const c_void,
    capability: (u32, u32),
) -> Result<Vec<String>, CUresult> {
    if image.is_null() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller vouches for `image`; a wrapper is as long as its magic says.
    unsafe {
        // Byte by byte: a text may be shorter than the magic.
        let magic = WRAPPER_MAGIC.to_le_bytes();
        let is_wrapper = (0..4).all(|at| image.cast::<u8>().add(at).read() == magic[at]);
        if is_wrapper && image.cast::<u32>().add(1).read_unaligned() == WITH_PRELINKED {
            let list = image.cast::<*const *const c_void>().add(2).read_unaligned();
            if !list.is_null() {
                return prelinked(list, capability);
            }
        }
        let (kind, bytes) = bytes_at(image).ok_or(CUDA_ERROR_INVALID_IMAGE)?;
        texts_of(kind, bytes, capability)
    }
}

/// The PTX texts of an image that a slice holds whole.
pub(crate) fn texts_in(bytes: &[u8], capability: (u32, u32)) -> Result<Vec<String>, CUresult> {
    let image = identify(bytes).ok_or(CUDA_ERROR_INVALID_IMAGE)?;
    texts_of(image.kind, &bytes[..image.length], capability)
}

/// The PTX texts of the first container anywhere inside a file.
pub(crate) fn texts_inside(bytes: &[u8], capability: (u32, u32)) -> Result<Vec<String>, CUresult> {
    match container::begin(bytes) {
        Some(start) => texts_in(&bytes[start..], capability),
        None => Err(CUDA_ERROR_INVALID_IMAGE),
    }
}

/// The texts of all units of a relocatable program.
///
/// # Safety
///
/// `list` is a list of containers, ended by null.
unsafe fn prelinked(
    list: *const *const c_void,
    capability: (u32, u32),
) -> Result<Vec<String>, CUresult> {
    let mut texts = Vec::new();
    for nth in 0..PRELINKED_AT_MOST {
        // SAFETY: the caller vouches for the list up to its null.
        let container = unsafe { list.add(nth).read() };
        if container.is_null() {
            break;
        }
        // SAFETY: as above.
        let (kind, bytes) = unsafe { bytes_at(container) }.ok_or(CUDA_ERROR_INVALID_IMAGE)?;
        match texts_of(kind, bytes, capability) {
            Ok(found) => texts.extend(found),
            // A unit of machine code alone, as the device runtime library has.
            Err(CUDA_ERROR_NO_BINARY_FOR_GPU) => {}
            Err(error) => return Err(error),
        }
    }
    if texts.is_empty() { Err(CUDA_ERROR_NO_BINARY_FOR_GPU) } else { Ok(texts) }
}

fn texts_of(
    kind: ImageKind,
    bytes: &[u8],
    capability: (u32, u32),
) -> Result<Vec<String>, CUresult> {
    match kind {
        ImageKind::Ptx => Ok(vec![String::from_utf8_lossy(bytes).into_owned()]),
        ImageKind::Fatbin => best(container::texts(bytes), capability),
        ImageKind::Cubin => Err(CUDA_ERROR_NO_BINARY_FOR_GPU),
        ImageKind::Wrapper => Err(CUDA_ERROR_INVALID_IMAGE),
    }
}

/// The texts of the best architecture.
fn best(
    mut texts: Vec<(u32, String)>,
    (major, minor): (u32, u32),
) -> Result<Vec<String>, CUresult> {
    if crate::settings::settings().softgpu_strict {
        texts.retain(|(architecture, _)| *architecture <= 10 * major + minor);
    }
    let chosen = container::best(texts, 10 * major + minor);
    if chosen.is_empty() { Err(CUDA_ERROR_NO_BINARY_FOR_GPU) } else { Ok(chosen) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry_bytes(kind: u16, architecture: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[0..2].copy_from_slice(&kind.to_le_bytes());
        bytes[2..4].copy_from_slice(&0x101_u16.to_le_bytes());
        bytes[4..8].copy_from_slice(&64_u32.to_le_bytes());
        let padded = payload.len().next_multiple_of(8);
        bytes[8..16].copy_from_slice(&(padded as u64).to_le_bytes());
        bytes[16..20].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        bytes[28..32].copy_from_slice(&architecture.to_le_bytes());
        bytes.extend_from_slice(payload);
        bytes.resize(64 + padded, 0);
        bytes
    }

    fn container(entries: &[Vec<u8>]) -> Vec<u8> {
        let inside = entries.concat();
        let mut bytes = 0xba55_ed50_u32.to_le_bytes().to_vec();
        bytes.extend_from_slice(&[1, 0, 16, 0]);
        bytes.extend_from_slice(&(inside.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&inside);
        bytes
    }

    fn check(entries: &[Vec<u8>], capability: (u32, u32), expected: Result<&[&str], CUresult>) {
        let found = texts_in(&container(entries), capability);
        let expected = expected.map(|texts| texts.iter().map(|&text| text.to_owned()).collect());
        assert_eq!(found, expected);
    }

    #[test]
    fn the_best_architecture_is_taken() {
        let plain = |architecture, text: &str| entry_bytes(1, architecture, text.as_bytes());
        let all = [plain(75, "seven"), plain(90, "nine"), plain(120, "twelve")];
        check(&all, (9, 0), Ok(&["nine"]));
        check(&all, (8, 9), Ok(&["seven"]));
        check(&all, (12, 0), Ok(&["twelve"]));
        check(&all[1..], (7, 5), Ok(&["nine"]));
        check(&[plain(90, "first"), plain(90, "second")], (9, 0), Ok(&["first", "second"]));
    }

    #[test]
    fn machine_code_alone_is_no_binary() {
        let code = entry_bytes(2, 90, b"\x7fELF");
        check(std::slice::from_ref(&code), (9, 0), Err(CUDA_ERROR_NO_BINARY_FOR_GPU));
        check(&[], (9, 0), Err(CUDA_ERROR_NO_BINARY_FOR_GPU));
        check(&[code, entry_bytes(1, 90, b"text")], (9, 0), Ok(&["text"]));
    }
}

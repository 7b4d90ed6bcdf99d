//! Recognises the code that a program hands to the driver, and gives it an identity.
//!
//! `cuModuleLoadData` and `cuLibraryLoadData` are given an address and no length, so
//! the length is found in the bytes themselves: in the section table of an ELF
//! cubin, in the header of a fatbin, at the NUL of PTX text. `measure` asks for
//! as many leading bytes as it needs next and never more than the form it has
//! recognised so far must have; therefore the same code serves slices and bare
//! addresses. What is not recognised is `None`: the driver is asked all the same.

use core::ffi::{CStr, c_void};

/// The forms of code that the driver takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageKind {
    /// An ELF file of machine code for one architecture.
    Cubin,
    /// A container of cubins and PTX for several architectures.
    Fatbin,
    /// The small record `__fatBinC_Wrapper_t` that points to a fatbin.
    Wrapper,
    /// PTX text.
    Ptx,
}

/// A recognised image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Image {
    /// Its form.
    pub kind: ImageKind,
    /// Its length in bytes; that of PTX without its NUL.
    pub length: usize,
    /// Its identity, see [`hash`].
    pub hash: u64,
}

/// Recognises the image that begins a slice; `None` for anything else and for an
/// image that the slice does not hold whole.
pub fn identify(bytes: &[u8]) -> Option<Image> {
    match measure(bytes) {
        Measure::Known(kind, length) => {
            bytes.get(..length).map(|image| Image { kind, length, hash: hash(image) })
        }
        Measure::Text => ptx(bytes.split(|&byte| byte == 0).next()?),
        Measure::Needs(_) | Measure::Unknown => None,
    }
}

/// Recognises the image at an address. A wrapper is followed to its fatbin, so the
/// answer is never [`ImageKind::Wrapper`].
///
/// # Safety
///
/// `address` is null or what the driver's loading functions accept: readable as far
/// as the form found there says, and not written meanwhile.
pub unsafe fn identify_at(address: *const c_void) -> Option<Image> {
    // SAFETY: the caller vouches for `address`.
    let (kind, bytes) = unsafe { bytes_at(address) }?;
    match kind {
        ImageKind::Ptx => ptx(bytes),
        _ => Some(Image { kind, length: bytes.len(), hash: hash(bytes) }),
    }
}

/// The bytes of the image at an address, found as [`identify_at`] does.
///
/// # Safety
///
/// As for [`identify_at`]; the bytes are those of the program, for as long as it
/// keeps them.
pub unsafe fn bytes_at<'a>(address: *const c_void) -> Option<(ImageKind, &'a [u8])> {
    let mut start = address.cast::<u8>();
    let mut wrapped = false;
    let mut length = 1;
    loop {
        if start.is_null() {
            return None;
        }
        // SAFETY: `length` is 1 or what `measure` found the form to have at least.
        let bytes = unsafe { core::slice::from_raw_parts(start, length) };
        match measure(bytes) {
            Measure::Needs(more) => length = more,
            Measure::Known(ImageKind::Wrapper, _) if !wrapped => {
                let data = word(bytes, 8)?;
                start = core::ptr::with_exposed_provenance(usize::try_from(data).ok()?);
                wrapped = true;
                length = 1;
            }
            Measure::Known(kind, length) if kind != ImageKind::Wrapper => {
                // SAFETY: the form says that the image is as long.
                return Some((kind, unsafe { core::slice::from_raw_parts(start, length) }));
            }
            Measure::Text => {
                // SAFETY: the driver reads text up to its NUL, so there is one.
                let text = unsafe { CStr::from_ptr(start.cast()) }.to_bytes();
                return is_ptx(text).then_some((ImageKind::Ptx, text));
            }
            Measure::Known(..) | Measure::Unknown => return None,
        }
    }
}

/// A 64-bit identity of the bytes, the same in every process.
///
/// Up to [`WHOLE_LIMIT`] every byte counts. Of a longer image its length, both ends
/// and 64 blocks evenly spaced between count: it lies in a file that is mapped but
/// not read, and touching all its pages would slow the start of the program.
pub fn hash(bytes: &[u8]) -> u64 {
    let mut state = mix(bytes.len() as u64 ^ 0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9);
    if bytes.len() <= WHOLE_LIMIT {
        return absorb(state, bytes);
    }
    state = absorb(state, &bytes[..END_BYTES]);
    let stride = (bytes.len() - 2 * END_BYTES) / BLOCKS;
    for block in 0..BLOCKS {
        let start = END_BYTES + block * stride;
        state = absorb(state, &bytes[start..start + BLOCK_BYTES]);
    }
    absorb(state, &bytes[bytes.len() - END_BYTES..])
}

/// The longest image that is hashed whole.
pub const WHOLE_LIMIT: usize = 4 << 20;
const END_BYTES: usize = 64 << 10;
const BLOCKS: usize = 64;
const BLOCK_BYTES: usize = 4 << 10;

/// No image is longer: a larger number is garbage that looks like a header.
const LENGTH_LIMIT: u64 = 16 << 30;

const ELF_MAGIC: [u8; 4] = *b"\x7fELF";
const FATBIN_MAGIC: [u8; 4] = 0xba55_ed50_u32.to_le_bytes();
const WRAPPER_MAGIC: [u8; 4] = 0x4662_43b1_u32.to_le_bytes();
const WRAPPER_BYTES: usize = 24;
const ELF_HEADER_BYTES: usize = 64;
const ELF_CLASS_64: u8 = 2;
const ELF_MACHINE_CUDA: u16 = 190;
const SECTION_HEADER_BYTES: u64 = 64;
const SEGMENT_HEADER_BYTES: u64 = 56;
/// A section of this type has a size but no bytes in the file.
const SECTION_NO_BITS: u32 = 8;

/// What leading bytes say about the whole.
enum Measure {
    /// The form and its length.
    Known(ImageKind, usize),
    /// The form needs at least so many leading bytes, more than were given.
    Needs(usize),
    /// Perhaps PTX; it ends where text ends.
    Text,
    /// None of the forms.
    Unknown,
}

fn measure(bytes: &[u8]) -> Measure {
    let Some(&first) = bytes.first() else { return Measure::Needs(1) };
    if begins_text(first) {
        return Measure::Text;
    }
    let magics = [ELF_MAGIC, FATBIN_MAGIC, WRAPPER_MAGIC];
    let given = bytes.len().min(4);
    let Some(magic) = magics.into_iter().find(|magic| magic[..given] == bytes[..given]) else {
        return Measure::Unknown;
    };
    if given < 4 {
        return Measure::Needs(given + 1);
    }
    let measured = match magic {
        ELF_MAGIC => measure_elf(bytes),
        FATBIN_MAGIC => measure_fatbin(bytes),
        _ => need(bytes, WRAPPER_BYTES).map(|()| (ImageKind::Wrapper, WRAPPER_BYTES as u64)),
    };
    match measured {
        Ok((kind, length)) if length <= LENGTH_LIMIT => Measure::Known(kind, length as usize),
        Ok(_) => Measure::Unknown,
        Err(measure) => measure,
    }
}

fn measure_fatbin(bytes: &[u8]) -> Result<(ImageKind, u64), Measure> {
    need(bytes, 16)?;
    let header = u64::from(half(bytes, 6).ok_or(Measure::Unknown)?);
    let size = word(bytes, 8).ok_or(Measure::Unknown)?;
    let length = header.checked_add(size).ok_or(Measure::Unknown)?;
    if header < 16 { Err(Measure::Unknown) } else { Ok((ImageKind::Fatbin, length)) }
}

/// The end of whatever lies furthest: a section, a segment, or one of the two tables.
fn measure_elf(bytes: &[u8]) -> Result<(ImageKind, u64), Measure> {
    need(bytes, ELF_HEADER_BYTES)?;
    let field = |offset| u64::from(half(bytes, offset).unwrap_or(0));
    if bytes[4] != ELF_CLASS_64 || field(18) != u64::from(ELF_MACHINE_CUDA) {
        return Err(Measure::Unknown);
    }
    let segments = table(bytes, 32, field(54), field(56), SEGMENT_HEADER_BYTES)?;
    let sections = table(bytes, 40, field(58), field(60), SECTION_HEADER_BYTES)?;
    let mut end = segments.end.max(sections.end).max(ELF_HEADER_BYTES as u64);
    if end > LENGTH_LIMIT {
        return Err(Measure::Unknown);
    }
    need(bytes, end as usize)?;
    for start in sections.step_by(SECTION_HEADER_BYTES as usize) {
        let start = start as usize;
        let kind = word(bytes, start + 4).ok_or(Measure::Unknown)? as u32;
        if kind != SECTION_NO_BITS {
            end = end.max(extent(bytes, start + 24, start + 32)?);
        }
    }
    for start in segments.step_by(SEGMENT_HEADER_BYTES as usize) {
        let start = start as usize;
        end = end.max(extent(bytes, start + 8, start + 32)?);
    }
    Ok((ImageKind::Cubin, end))
}

/// Where a table of `count` headers lies, whose offset stands at `offset_at`.
fn table(
    bytes: &[u8],
    offset_at: usize,
    entry_bytes: u64,
    count: u64,
    expected_entry_bytes: u64,
) -> Result<core::ops::Range<u64>, Measure> {
    if count == 0 {
        return Ok(0..0);
    }
    let start = word(bytes, offset_at).ok_or(Measure::Unknown)?;
    let end = start.checked_add(entry_bytes * count).ok_or(Measure::Unknown)?;
    if entry_bytes != expected_entry_bytes { Err(Measure::Unknown) } else { Ok(start..end) }
}

/// The end of a part whose offset and size stand at the given places.
fn extent(bytes: &[u8], offset_at: usize, size_at: usize) -> Result<u64, Measure> {
    let offset = word(bytes, offset_at).ok_or(Measure::Unknown)?;
    let size = word(bytes, size_at).ok_or(Measure::Unknown)?;
    offset.checked_add(size).ok_or(Measure::Unknown)
}

fn need(bytes: &[u8], length: usize) -> Result<(), Measure> {
    if bytes.len() < length { Err(Measure::Needs(length)) } else { Ok(()) }
}

fn ptx(text: &[u8]) -> Option<Image> {
    is_ptx(text).then(|| Image { kind: ImageKind::Ptx, length: text.len(), hash: hash(text) })
}

/// PTX begins with blanks or comments, then its version; a byte-order mark is let pass.
fn is_ptx(text: &[u8]) -> bool {
    let mut rest = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    loop {
        rest = rest.trim_ascii_start();
        if rest.starts_with(b"//") {
            let end = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
            rest = &rest[end..];
        } else if rest.starts_with(b"/*") {
            let Some(end) = rest[2..].windows(2).position(|pair| pair == b"*/") else {
                return false;
            };
            rest = &rest[end + 4..];
        } else {
            return rest.starts_with(b".version");
        }
    }
}

fn begins_text(first: u8) -> bool {
    first.is_ascii_whitespace() || matches!(first, b'.' | b'/' | 0xef)
}

fn half(bytes: &[u8], offset: usize) -> Option<u16> {
    let field = bytes.get(offset..)?.first_chunk()?;
    Some(u16::from_le_bytes(*field))
}

fn word(bytes: &[u8], offset: usize) -> Option<u64> {
    let field = bytes.get(offset..)?.first_chunk()?;
    Some(u64::from_le_bytes(*field))
}

fn absorb(mut state: u64, bytes: &[u8]) -> u64 {
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        state = mix(state ^ u64::from_le_bytes(*word), 0xd6e8_feb8_6659_fd93);
    }
    let mut last = [0; 8];
    last[..tail.len()].copy_from_slice(tail);
    mix(state ^ u64::from_le_bytes(last), 0xa076_1d64_78bd_642f)
}

/// Folds the 128-bit product, so that every bit of the input reaches every bit of the state.
fn mix(value: u64, factor: u64) -> u64 {
    let product = u128::from(value) * u128::from(factor);
    (product as u64) ^ (product >> 64) as u64 ^ value.rotate_left(29)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cubin with one section of bytes, one without, and the section table last.
    fn cubin() -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..4].copy_from_slice(&ELF_MAGIC);
        bytes[4] = ELF_CLASS_64;
        bytes[18..20].copy_from_slice(&ELF_MACHINE_CUDA.to_le_bytes());
        bytes[58..60].copy_from_slice(&64_u16.to_le_bytes());
        bytes[60..62].copy_from_slice(&2_u16.to_le_bytes());
        bytes.extend([7; 100]);
        bytes[40..48].copy_from_slice(&164_u64.to_le_bytes());
        bytes.extend(section(1, 64, 100));
        bytes.extend(section(SECTION_NO_BITS, 64, 1 << 20));
        bytes
    }

    fn section(kind: u32, offset: u64, size: u64) -> [u8; 64] {
        let mut header = [0; 64];
        header[4..8].copy_from_slice(&kind.to_le_bytes());
        header[24..32].copy_from_slice(&offset.to_le_bytes());
        header[32..40].copy_from_slice(&size.to_le_bytes());
        header
    }

    fn fatbin(payload: usize) -> Vec<u8> {
        let mut bytes = FATBIN_MAGIC.to_vec();
        bytes.extend([1, 0, 16, 0]);
        bytes.extend((payload as u64).to_le_bytes());
        bytes.extend((0..payload).map(|index| index as u8));
        bytes
    }

    fn check(bytes: &[u8], expected: Option<(ImageKind, usize)>) {
        let found = identify(bytes).map(|image| (image.kind, image.length));
        assert_eq!(found, expected, "{:x?}", &bytes[..bytes.len().min(32)]);
    }

    #[test]
    fn images_are_recognised() {
        check(&cubin(), Some((ImageKind::Cubin, 292)));
        check(&fatbin(40), Some((ImageKind::Fatbin, 56)));
        check(b".version 8.0\n.target sm_90", Some((ImageKind::Ptx, 26)));
        check(b"// a\n/* b */ .version 8.0\0rest", Some((ImageKind::Ptx, 25)));
        let mut trailing = fatbin(40);
        trailing.extend([0; 100]);
        check(&trailing, Some((ImageKind::Fatbin, 56)));
    }

    #[test]
    fn garbage_is_not() {
        check(b"", None);
        check(b"\0", None);
        check(b"   ", None);
        check(b"/* open", None);
        check(b"// .version", None);
        check(b"hello", None);
        check(&[0xff; 200], None);
        let mut endless = fatbin(8);
        endless[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
        check(&endless, None);
        let mut far = cubin();
        far[40..48].copy_from_slice(&(u64::MAX - 8).to_le_bytes());
        check(&far, None);
        let mut other_machine = cubin();
        other_machine[18] = 62;
        check(&other_machine, None);
    }

    #[test]
    fn truncated_images_are_not() {
        for image in [cubin(), fatbin(40)] {
            for length in 0..image.len() {
                check(&image[..length], None);
            }
        }
    }

    #[test]
    fn an_address_is_enough() {
        for image in [cubin(), fatbin(40), b".version 8.0\0".to_vec()] {
            // SAFETY: each vector holds a whole image.
            assert_eq!(unsafe { identify_at(image.as_ptr().cast()) }, identify(&image));
        }
        // SAFETY: null is answered without being read.
        assert_eq!(unsafe { identify_at(core::ptr::null()) }, None);
        // SAFETY: the first byte settles it.
        assert_eq!(unsafe { identify_at([0_u8].as_ptr().cast()) }, None);
    }

    #[test]
    fn a_wrapper_is_followed_once() {
        let image = fatbin(40);
        let mut wrapper = WRAPPER_MAGIC.to_vec();
        wrapper.extend(1_u32.to_le_bytes());
        wrapper.extend((image.as_ptr().expose_provenance() as u64).to_le_bytes());
        wrapper.extend([0; 8]);
        check(&wrapper, Some((ImageKind::Wrapper, 24)));
        // SAFETY: the wrapper points to a whole fatbin.
        assert_eq!(unsafe { identify_at(wrapper.as_ptr().cast()) }, identify(&image));

        let itself = wrapper.as_ptr().expose_provenance() as u64;
        wrapper[8..16].copy_from_slice(&itself.to_le_bytes());
        // SAFETY: the wrapper points to itself, which is readable.
        assert_eq!(unsafe { identify_at(wrapper.as_ptr().cast()) }, None);
    }

    #[test]
    fn the_hash_tells_images_apart() {
        let mut image = vec![0; 1000];
        let plain = hash(&image);
        for index in [0, 500, 999] {
            image[index] = 1;
            assert_ne!(hash(&image), plain);
            image[index] = 0;
        }
        assert_ne!(hash(&image[..999]), plain);
    }

    #[test]
    fn long_images_are_sampled_at_both_ends_and_between() {
        let mut image = vec![0_u8; WHOLE_LIMIT + (1 << 20)];
        let plain = hash(&image);
        let last = image.len() - 1;
        for index in [0, END_BYTES, last] {
            image[index] = 1;
            assert_ne!(hash(&image), plain, "{index}");
            image[index] = 0;
        }
        image.push(0);
        assert_ne!(hash(&image), plain, "length");
    }
}

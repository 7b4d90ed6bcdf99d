//! Recognises the code that a program hands to the driver, and gives it an identity.
//!
//! `cuModuleLoadData` and `cuLibraryLoadData` are given an address and no length, so
//! the length is found in the bytes themselves: in the section table of an ELF
//! cubin, in the header of a fatbin, at the NUL of PTX text. What a header claims is
//! believed as a number only: bytes are copied from wherever they lie ([`Bytes`]), a
//! piece at a time, and an image that is not there to its end has no identity. What is
//! not recognised is `None`: the driver is asked all the same.

use crate::foreign;
use core::ffi::{CStr, c_void};
use std::fs::File;
use std::os::unix::fs::FileExt;

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
    let (kind, length) = measure(&bytes)?;
    image_of(&bytes, kind, length)
}

/// Recognises the image that begins a file.
pub fn identify_file(file: &File) -> Option<Image> {
    let (kind, length) = measure(file)?;
    image_of(file, kind, length)
}

/// Recognises the image at an address, which may be any. A wrapper is followed to its
/// fatbin, so the answer is never [`ImageKind::Wrapper`].
pub fn identify_at(address: *const c_void) -> Option<Image> {
    let (memory, kind, length) = locate(address)?;
    image_of(&memory, kind, length)
}

/// Where the image at an address lies itself: a wrapper is followed to its fatbin.
pub fn place_of(address: *const c_void) -> Option<u64> {
    let (Memory(start), ..) = locate(address)?;
    Some(start)
}

/// A copy of the image at an address, unless it is longer than `most`.
pub fn copy_at(address: *const c_void, most: usize) -> Option<(ImageKind, Vec<u8>)> {
    let (memory, kind, length) = locate(address)?;
    let length = usize::try_from(length).ok().filter(|&length| length <= most)?;
    let mut copy = vec![0; length];
    (memory.read(0, &mut copy) == length).then_some((kind, copy))
}

/// What one entry of a fatbin is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// PTX text; other entries are machine code.
    pub is_ptx: bool,
    /// Its architecture: 90 for `sm_90`.
    pub architecture: u32,
}

/// Which code an image has, told by its headers alone: a fatbin may be large, and its code is not touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offer {
    /// A text, with its first piece: target and version stand in it.
    Text(Vec<u8>),
    /// The entries of a fatbin, up to the first that was enough.
    Entries(Vec<Entry>),
}

/// Says of an entry that the others need not be looked at.
pub type IsEnough<'a> = &'a dyn Fn(&Entry) -> bool;

/// Which code the image at an address has; `None` where that cannot be told, as of a cubin.
pub fn offer_at(address: *const c_void, enough: IsEnough<'_>) -> Option<Offer> {
    let (memory, kind, length) = locate(address)?;
    offer_of(&memory, kind, length, enough)
}

/// Which code the image has that begins a slice.
pub fn offer(bytes: &[u8], enough: IsEnough<'_>) -> Option<Offer> {
    let (kind, length) = measure(&bytes)?;
    offer_of(&bytes, kind, length, enough)
}

/// Which code the image has that begins a file.
pub fn offer_in(file: &File, enough: IsEnough<'_>) -> Option<Offer> {
    let (kind, length) = measure(file)?;
    offer_of(file, kind, length, enough)
}

fn offer_of(
    bytes: &impl Bytes,
    kind: ImageKind,
    length: u64,
    enough: IsEnough<'_>,
) -> Option<Offer> {
    match kind {
        ImageKind::Ptx => {
            let mut head = vec![0; length.min(HEAD_BYTES) as usize];
            let there = bytes.read(0, &mut head);
            head.truncate(there);
            Some(Offer::Text(head))
        }
        ImageKind::Fatbin => Some(Offer::Entries(entries(bytes, length, enough))),
        ImageKind::Cubin | ImageKind::Wrapper => None,
    }
}

/// The header of a text, with the remarks before it, is shorter.
const HEAD_BYTES: u64 = 16 << 10;
/// No fatbin has more entries.
const MOST_ENTRIES: usize = 1 << 16;
const ENTRY_PTX: u16 = 1;

fn entries(bytes: &impl Bytes, length: u64, enough: IsEnough<'_>) -> Vec<Entry> {
    let mut found = Vec::new();
    let Some(mut at) = bytes.array::<8>(0).and_then(|head| half(&head, 6)).map(u64::from) else {
        return found;
    };
    while at < length && found.len() < MOST_ENTRIES {
        let Some(head) = bytes.array::<32>(at) else { break };
        let (Some(kind), Some(size), Some(body)) = (half(&head, 0), word(&head, 4), word(&head, 8))
        else {
            break;
        };
        let Some(architecture) = word(&head, 24).map(|both| (both >> 32) as u32) else { break };
        let entry = Entry { is_ptx: kind == ENTRY_PTX, architecture };
        found.push(entry);
        if enough(&entry) {
            break;
        }
        let size = u64::from(size as u32);
        match size.checked_add(body).and_then(|whole| at.checked_add(whole)) {
            Some(next) if size >= 32 => at = next,
            _ => break,
        }
    }
    found
}

/// The bytes of the image at an address, found as [`identify_at`] does. For a driver, which
/// reads no more of them than it needs.
///
/// # Safety
///
/// `address` is null or what the driver's loading functions accept; the bytes are those of
/// the program, for as long as it keeps them, and as many as the form found there says.
pub unsafe fn bytes_at<'a>(address: *const c_void) -> Option<(ImageKind, &'a [u8])> {
    let (Memory(start), kind, length) = locate(address)?;
    let start = core::ptr::with_exposed_provenance(usize::try_from(start).ok()?);
    // SAFETY: the caller vouches for as many bytes as the form says.
    Some((kind, unsafe { core::slice::from_raw_parts(start, usize::try_from(length).ok()?) }))
}

/// Where the image at an address lies, a wrapper followed once, and how long it says it is.
fn locate(address: *const c_void) -> Option<(Memory, ImageKind, u64)> {
    let mut memory = Memory(address.expose_provenance() as u64);
    let mut found = measure(&memory)?;
    if found.0 == ImageKind::Wrapper {
        memory = Memory(u64::from_le_bytes(memory.array(8)?));
        found = measure(&memory)?;
    }
    let (kind, length) = found;
    (kind != ImageKind::Wrapper).then_some((memory, kind, length))
}

/// Bytes that may end anywhere.
trait Bytes {
    /// Copies from `offset` on; how many bytes there were, up to the end of `into`.
    fn read(&self, offset: u64, into: &mut [u8]) -> usize;

    /// A few bytes, if they are all there.
    fn array<const N: usize>(&self, offset: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        (self.read(offset, &mut bytes) == N).then_some(bytes)
    }
}

impl Bytes for &[u8] {
    fn read(&self, offset: u64, into: &mut [u8]) -> usize {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.len());
        let there = into.len().min(self.len() - start);
        into[..there].copy_from_slice(&self[start..start + there]);
        there
    }
}

impl Bytes for File {
    fn read(&self, offset: u64, into: &mut [u8]) -> usize {
        let mut done = 0;
        while done < into.len() {
            match self.read_at(&mut into[done..], offset.saturating_add(done as u64)) {
                Ok(more) if more > 0 => done += more,
                _ => break,
            }
        }
        done
    }
}

/// Memory of this process from an address on.
struct Memory(u64);

impl Bytes for Memory {
    fn read(&self, offset: u64, into: &mut [u8]) -> usize {
        foreign::read(self.0.wrapping_add(offset), into)
    }
}

fn image_of(bytes: &impl Bytes, kind: ImageKind, length: u64) -> Option<Image> {
    let hash = hash_of(bytes, length)?;
    Some(Image { kind, length: usize::try_from(length).ok()?, hash })
}

/// A 64-bit identity of the bytes, the same in every process.
///
/// Up to [`WHOLE_LIMIT`] every byte counts. Of a longer image its length, both ends
/// and 64 blocks evenly spaced between count: it lies in a file that is mapped but
/// not read, and touching all its pages would slow the start of the program.
pub fn hash(bytes: &[u8]) -> u64 {
    hash_of(&bytes, bytes.len() as u64).unwrap_or(0) // A slice is there to its end.
}

fn hash_of(bytes: &impl Bytes, length: u64) -> Option<u64> {
    let mut state = mix(length ^ 0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9);
    if length <= WHOLE_LIMIT as u64 {
        return absorb(state, bytes, 0, length);
    }
    state = absorb(state, bytes, 0, END_BYTES)?;
    let stride = (length - 2 * END_BYTES) / BLOCKS;
    for block in 0..BLOCKS {
        state = absorb(state, bytes, END_BYTES + block * stride, BLOCK_BYTES)?;
    }
    absorb(state, bytes, length - END_BYTES, END_BYTES)
}

/// The longest image that is hashed whole.
pub const WHOLE_LIMIT: usize = 4 << 20;
const END_BYTES: u64 = 64 << 10;
const BLOCKS: u64 = 64;
const BLOCK_BYTES: u64 = 4 << 10;
/// So much is copied at once: a multiple of the words that are hashed.
const PIECE: usize = 64 << 10;

/// No image is longer: a larger number is garbage that looks like a header.
const LENGTH_LIMIT: u64 = 16 << 30;
/// No text is longer: its end is searched for byte by byte.
const TEXT_LIMIT: u64 = 1 << 30;

const ELF_MAGIC: [u8; 4] = *b"\x7fELF";
const FATBIN_MAGIC: [u8; 4] = 0xba55_ed50_u32.to_le_bytes();
const WRAPPER_MAGIC: [u8; 4] = 0x4662_43b1_u32.to_le_bytes();
const WRAPPER_BYTES: u64 = 24;
const ELF_HEADER_BYTES: usize = 64;
const ELF_CLASS_64: u8 = 2;
const ELF_MACHINE_CUDA: u16 = 190;
const SECTION_HEADER_BYTES: usize = 64;
const SEGMENT_HEADER_BYTES: usize = 56;
/// A section of this type has a size but no bytes in the file.
const SECTION_NO_BITS: u32 = 8;

/// The form that begins here and the length it claims.
fn measure(bytes: &impl Bytes) -> Option<(ImageKind, u64)> {
    let [first] = bytes.array(0)?;
    let (kind, length) = if begins_text(first) {
        (ImageKind::Ptx, measure_text(bytes)?)
    } else {
        match bytes.array(0)? {
            ELF_MAGIC => (ImageKind::Cubin, measure_elf(bytes)?),
            FATBIN_MAGIC => (ImageKind::Fatbin, measure_fatbin(bytes)?),
            WRAPPER_MAGIC => (ImageKind::Wrapper, WRAPPER_BYTES),
            _ => return None,
        }
    };
    (length <= LENGTH_LIMIT).then_some((kind, length))
}

/// PTX ends at its NUL, or where its bytes end. Its version stands in its first piece.
fn measure_text(bytes: &impl Bytes) -> Option<u64> {
    let mut piece = vec![0; PIECE];
    let mut length = 0;
    while length <= TEXT_LIMIT {
        let there = bytes.read(length, &mut piece);
        let end = CStr::from_bytes_until_nul(&piece[..there]).map(CStr::count_bytes).ok();
        let text = &piece[..end.unwrap_or(there)];
        if length == 0 && !is_ptx(text) {
            return None;
        }
        length += text.len() as u64;
        if text.len() < PIECE {
            return Some(length);
        }
    }
    None
}

fn measure_fatbin(bytes: &impl Bytes) -> Option<u64> {
    let head: [u8; 16] = bytes.array(0)?;
    let header = u64::from(half(&head, 6)?);
    if header < head.len() as u64 { None } else { header.checked_add(word(&head, 8)?) }
}

/// The end of whatever lies furthest: a section, a segment, or one of the two tables.
fn measure_elf(bytes: &impl Bytes) -> Option<u64> {
    let head: [u8; ELF_HEADER_BYTES] = bytes.array(0)?;
    if head[4] != ELF_CLASS_64 || half(&head, 18)? != ELF_MACHINE_CUDA {
        return None;
    }
    let sections = Table { offset_at: 40, sizes_at: 58, entry_bytes: SECTION_HEADER_BYTES };
    let segments = Table { offset_at: 32, sizes_at: 54, entry_bytes: SEGMENT_HEADER_BYTES };
    let (mut end, headers) = sections.read(bytes, &head)?;
    for header in headers.chunks_exact(SECTION_HEADER_BYTES) {
        if word(header, 4)? as u32 != SECTION_NO_BITS {
            end = end.max(extent(header, 24, 32)?);
        }
    }
    let (segments_end, headers) = segments.read(bytes, &head)?;
    end = end.max(segments_end).max(ELF_HEADER_BYTES as u64);
    for header in headers.chunks_exact(SEGMENT_HEADER_BYTES) {
        end = end.max(extent(header, 8, 32)?);
    }
    Some(end)
}

/// A table of headers: where the file's own header has its offset, and the size and number of its entries.
struct Table {
    offset_at: usize,
    sizes_at: usize,
    entry_bytes: usize,
}

impl Table {
    /// Its end in the file, and its entries: at most 4 MiB, because their number has sixteen bits.
    fn read(&self, bytes: &impl Bytes, head: &[u8]) -> Option<(u64, Vec<u8>)> {
        let count = half(head, self.sizes_at + 2)?;
        if count == 0 {
            return Some((0, Vec::new()));
        }
        if usize::from(half(head, self.sizes_at)?) != self.entry_bytes {
            return None;
        }
        let start = word(head, self.offset_at)?;
        let mut entries = vec![0; self.entry_bytes * usize::from(count)];
        let end = start.checked_add(entries.len() as u64)?;
        (bytes.read(start, &mut entries) == entries.len()).then_some((end, entries))
    }
}

/// The end of a part whose offset and size stand at the given places.
fn extent(header: &[u8], offset_at: usize, size_at: usize) -> Option<u64> {
    word(header, offset_at)?.checked_add(word(header, size_at)?)
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

/// Folds a stretch into the state; nothing if not all of it is there.
fn absorb(mut state: u64, bytes: &impl Bytes, start: u64, length: u64) -> Option<u64> {
    let mut buffer = vec![0; PIECE.min(length as usize)];
    let (mut done, mut last) = (0, [0; 8]);
    while done < length {
        let piece = &mut buffer[..PIECE.min((length - done) as usize)];
        if bytes.read(start + done, piece) < piece.len() {
            return None;
        }
        done += piece.len() as u64;
        let (words, tail) = piece.as_chunks::<8>();
        for word in words {
            state = mix(state ^ u64::from_le_bytes(*word), 0xd6e8_feb8_6659_fd93);
        }
        // Only the last piece has one.
        last[..tail.len()].copy_from_slice(tail);
    }
    Some(mix(state ^ u64::from_le_bytes(last), 0xa076_1d64_78bd_642f))
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
    fn a_fatbin_offers_its_entries() {
        let entry = |kind: u16, architecture: u32, body: u64| {
            let mut bytes = [0; 64].to_vec();
            bytes[0..2].copy_from_slice(&kind.to_le_bytes());
            bytes[4..8].copy_from_slice(&64_u32.to_le_bytes());
            bytes[8..16].copy_from_slice(&body.to_le_bytes());
            bytes[28..32].copy_from_slice(&architecture.to_le_bytes());
            bytes.extend(vec![7; body as usize]);
            bytes
        };
        let inside = [entry(2, 80, 8), entry(1, 120, 24), entry(2, 90, 0)].concat();
        let mut bytes = FATBIN_MAGIC.to_vec();
        bytes.extend([1, 0, 16, 0]);
        bytes.extend((inside.len() as u64).to_le_bytes());
        bytes.extend(&inside);
        let of = |architecture, is_ptx| Entry { is_ptx, architecture };
        let all = vec![of(80, false), of(120, true), of(90, false)];
        assert_eq!(offer(&bytes, &|_| false), Some(Offer::Entries(all.clone())));
        let some = Offer::Entries(all[..2].to_vec());
        assert_eq!(offer_at(bytes.as_ptr().cast(), &|entry| entry.is_ptx), Some(some));
        assert_eq!(offer(&cubin(), &|_| false), None);
        let text = b".version 8.7\n.target sm_120\n";
        assert_eq!(offer(text, &|_| false), Some(Offer::Text(text.to_vec())));
        for at in 0..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] ^= 0xff;
            let _ = offer(&broken, &|_| false);
        }
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
            assert_eq!(identify_at(image.as_ptr().cast()), identify(&image));
        }
        assert_eq!(identify_at(core::ptr::null()), None);
        assert_eq!(identify_at(core::ptr::without_provenance(8)), None);
        assert_eq!(identify_at([0_u8].as_ptr().cast()), None);
    }

    #[test]
    fn a_wrapper_is_followed_once() {
        let image = fatbin(40);
        let mut wrapper = WRAPPER_MAGIC.to_vec();
        wrapper.extend(1_u32.to_le_bytes());
        wrapper.extend((image.as_ptr().expose_provenance() as u64).to_le_bytes());
        wrapper.extend([0; 8]);
        check(&wrapper, Some((ImageKind::Wrapper, 24)));
        assert_eq!(identify_at(wrapper.as_ptr().cast()), identify(&image));

        let itself = wrapper.as_ptr().expose_provenance() as u64;
        wrapper[8..16].copy_from_slice(&itself.to_le_bytes());
        assert_eq!(identify_at(wrapper.as_ptr().cast()), None);
        wrapper[8..16].copy_from_slice(&8_u64.to_le_bytes());
        assert_eq!(identify_at(wrapper.as_ptr().cast()), None);
    }

    /// A copy of the bytes behind which nothing can be read.
    fn at_the_edge(bytes: &[u8]) -> *const c_void {
        const PAGE: usize = 4096;
        let held = bytes.len().next_multiple_of(PAGE);
        // SAFETY: a fresh mapping with a page to spare, which is given up again; the bytes fit before it.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let start = libc::mmap(core::ptr::null_mut(), held + PAGE, access, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(start.add(held), PAGE, libc::PROT_NONE), 0);
            let place = start.cast::<u8>().add(held - bytes.len());
            place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            place.cast_const().cast()
        }
    }

    #[test]
    fn what_a_header_claims_need_not_be_there() {
        assert_eq!(identify_at(at_the_edge(&fatbin(4000))), identify(&fatbin(4000)));
        for claimed in [4001, 1 << 20, 1 << 32, LENGTH_LIMIT - 16, 1 << 63, u64::MAX] {
            let mut longer = fatbin(4000);
            longer[8..16].copy_from_slice(&claimed.to_le_bytes());
            assert_eq!(identify_at(at_the_edge(&longer)), None, "{claimed}");
        }
        for table_at in [1 << 20, LENGTH_LIMIT, u64::MAX] {
            let mut far = cubin();
            far[40..48].copy_from_slice(&table_at.to_le_bytes());
            assert_eq!(identify_at(at_the_edge(&far)), None, "{table_at}");
        }
        let mut many = cubin();
        many[60..62].copy_from_slice(&u16::MAX.to_le_bytes());
        assert_eq!(identify_at(at_the_edge(&many)), None);
        let text = b".version 8.0\n";
        assert_eq!(identify_at(at_the_edge(text)), identify(text), "a text without its NUL");
        assert_eq!(identify_at(at_the_edge(b"/")), None);
    }

    #[test]
    fn a_copy_is_the_image_alone_and_within_its_limit() {
        let mut image = fatbin(400);
        image.extend([9; 50]);
        let copy = copy_at(image.as_ptr().cast(), 416);
        assert_eq!(copy, Some((ImageKind::Fatbin, image[..416].to_vec())));
        assert_eq!(copy_at(image.as_ptr().cast(), 415), None);
    }

    #[test]
    fn a_file_has_the_identity_of_its_bytes() {
        use std::io::Write;
        let path = std::env::temp_dir().join(format!("apex-image-{}", std::process::id()));
        for bytes in [cubin(), fatbin(70_000), b".version 8.0\0rest".to_vec(), b"no".to_vec()] {
            File::create(&path).and_then(|mut file| file.write_all(&bytes)).unwrap();
            assert_eq!(identify_file(&File::open(&path).unwrap()), identify(&bytes));
        }
        std::fs::remove_file(path).unwrap();
    }

    /// Tunings name code by these numbers: they must not change.
    #[test]
    fn identities_stay_what_they_are() {
        for (length, expected) in [
            (0, 0x5c12_06ea_283f_e06a),
            (1, 0x35ab_6585_8ba5_aaba),
            (1_003, 0x0402_9f8c_a78a_8446),
            (65_536, 0x649d_cfaf_2679_7b51),
            (200_001, 0xe6a6_93f3_ff51_fc7a),
            (WHOLE_LIMIT, 0xf273_e586_0977_89b6),
            (WHOLE_LIMIT + 1, 0x4993_fd58_ca47_cf14),
            (5_000_003, 0x7398_708a_be44_5ea2),
        ] {
            let ramp: Vec<u8> = (0..length).map(|nth| (nth % 251) as u8).collect();
            assert_eq!(hash(&ramp), expected, "{length}");
        }
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
        for index in [0, END_BYTES as usize, last] {
            image[index] = 1;
            assert_ne!(hash(&image), plain, "{index}");
            image[index] = 0;
        }
        image.push(0);
        assert_ne!(hash(&image), plain, "length");
    }
}

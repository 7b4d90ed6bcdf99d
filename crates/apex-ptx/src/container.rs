//! The PTX texts and the machine code inside a fatbin, each with the architecture it was compiled for.
//!
//! Containers come from programs' files: nothing in them is trusted, and what cannot be read is passed over. Both are
//! packed with LZ4 or zstd, or not at all.

use std::io::Read;

const CONTAINER_MAGIC: u64 = 0xba55_ed50;
const KIND_PTX: u64 = 1;
const KIND_CUBIN: u64 = 2;
const ENTRY_VERSION: u16 = 0x101;
const LEAST_HEADER: u64 = 64;
const LZ4: u64 = 0x2000;
const ZSTD: u64 = 0x8000;
/// No PTX text is longer: a larger number is garbage.
const TEXT_LIMIT: u64 = 1 << 28;

/// Architecture (90 for `compute_90`) and text of every PTX in one container, or in several one after the other.
pub fn texts(bytes: &[u8]) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    each_entry(bytes, &mut |entry, kind| {
        if kind == KIND_PTX {
            found.extend(text(entry));
        }
    });
    found
}

/// Calls `visit` with every entry of the containers and its kind.
fn each_entry<'a>(bytes: &'a [u8], visit: &mut impl FnMut(&'a [u8], u64)) {
    let mut rest = bytes;
    while number::<4>(rest, 0) == Some(CONTAINER_MAGIC) {
        let (Some(header), Some(size)) = (number::<2>(rest, 6), number::<8>(rest, 8)) else {
            break;
        };
        let end = header.saturating_add(size).min(rest.len() as u64) as usize;
        let Some(mut inside) = rest.get(header as usize..end) else { break };
        while let Some((kind, length)) = entry(inside) {
            visit(&inside[..length], kind);
            inside = &inside[length..];
        }
        if end == 0 {
            break;
        }
        rest = &rest[end..];
    }
}

/// The texts of what a device runs of a container. Where it has machine code for the device, that is what runs, and only
/// texts of the same architecture say the same: a program may have other code for each. Else the driver compiles the
/// newest text that the device understands.
pub fn running(bytes: &[u8], device: u32) -> Vec<String> {
    let texts = texts(bytes);
    let machine = machine_code(bytes).into_iter().filter(|&one| one / 10 == device / 10);
    let chosen = match machine.filter(|&one| one <= device).max() {
        Some(machine) => Some(machine),
        None => texts.iter().map(|(one, _)| *one).filter(|&one| one <= device).max(),
    };
    texts.into_iter().filter_map(|(one, text)| (Some(one) == chosen).then_some(text)).collect()
}

/// Calls `visit` with each cubin for an architecture, 90 for `sm_90`, until it wants no more.
pub fn cubins(bytes: &[u8], architecture: u32, visit: &mut dyn FnMut(&[u8]) -> bool) {
    let mut wants = true;
    each_entry(bytes, &mut |entry, kind| {
        let is_wanted = || number::<4>(entry, 28) == Some(u64::from(architecture));
        if wants && kind == KIND_CUBIN && is_wanted() {
            wants = unpacked(entry).is_none_or(|(_, cubin)| visit(&cubin));
        }
    });
}

/// The architectures of all machine code.
fn machine_code(bytes: &[u8]) -> Vec<u32> {
    let mut found = Vec::new();
    each_entry(bytes, &mut |entry, kind| {
        if kind == KIND_CUBIN {
            found.extend(number::<4>(entry, 28).map(|architecture| architecture as u32));
        }
    });
    found
}

/// Every PTX in the containers anywhere inside a file: an executable has them in a section of its own.
pub fn texts_anywhere(bytes: &[u8]) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while let Some(start) = begin(rest) {
        rest = &rest[start..];
        let size = number::<8>(rest, 8).zip(number::<2>(rest, 6));
        let length = size.map_or(0, |(size, header)| size.saturating_add(header));
        let whole = usize::try_from(length).ok().filter(|&length| length <= rest.len());
        // Four bytes may look like the beginning of one by chance.
        let Some(length) = whole.filter(|&length| length > 16) else {
            rest = &rest[4..];
            continue;
        };
        found.extend(texts(&rest[..length]));
        rest = &rest[length..];
    }
    found
}

/// One container with texts, each for this architecture.
pub fn of_texts(texts: &[String], architecture: u32) -> Vec<u8> {
    let mut inside = Vec::new();
    for text in texts {
        // Ended by a NUL, as the entries of the compiler's containers are.
        let padded = (text.len() + 1).next_multiple_of(8);
        let mut header = [0; LEAST_HEADER as usize];
        header[0..2].copy_from_slice(&(KIND_PTX as u16).to_le_bytes());
        header[2..4].copy_from_slice(&ENTRY_VERSION.to_le_bytes());
        header[4..8].copy_from_slice(&(LEAST_HEADER as u32).to_le_bytes());
        header[8..16].copy_from_slice(&(padded as u64).to_le_bytes());
        header[28..32].copy_from_slice(&architecture.to_le_bytes());
        inside.extend_from_slice(&header);
        inside.extend_from_slice(text.as_bytes());
        inside.resize(inside.len() + padded - text.len(), 0);
    }
    let mut container = (CONTAINER_MAGIC as u32).to_le_bytes().to_vec();
    container.extend_from_slice(&[1, 0, 16, 0]);
    container.extend_from_slice(&(inside.len() as u64).to_le_bytes());
    container.extend_from_slice(&inside);
    container
}

/// Where the first container begins inside the bytes of a file.
pub fn begin(bytes: &[u8]) -> Option<usize> {
    let magic = (CONTAINER_MAGIC as u32).to_le_bytes();
    bytes.windows(magic.len()).position(|window| window == magic)
}

/// The texts of the best architecture for a device: the newest that it has, else the oldest there is.
pub fn best(texts: Vec<(u32, String)>, device: u32) -> Vec<String> {
    let architectures = || texts.iter().map(|(architecture, _)| *architecture);
    let chosen =
        architectures().filter(|&one| one <= device).max().or_else(|| architectures().min());
    let of_chosen = |(architecture, text)| (Some(architecture) == chosen).then_some(text);
    texts.into_iter().filter_map(of_chosen).collect()
}

/// The kind of the entry that begins the bytes, if it is one, and how long it is.
fn entry(bytes: &[u8]) -> Option<(u64, usize)> {
    let (kind, header) = (number::<2>(bytes, 0)?, number::<4>(bytes, 4)?);
    let length = usize::try_from(header.checked_add(number::<8>(bytes, 8)?)?).ok()?;
    (header >= LEAST_HEADER && length <= bytes.len()).then_some((kind, length))
}

/// Architecture and text of an entry that is one.
fn text(entry: &[u8]) -> Option<(u32, String)> {
    let (architecture, bytes) = unpacked(entry)?;
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    Some((architecture, String::from_utf8_lossy(&bytes[..end]).into_owned()))
}

/// Architecture and bytes of an entry.
fn unpacked(entry: &[u8]) -> Option<(u32, Vec<u8>)> {
    let header = number::<4>(entry, 4)?;
    let (packed, flags) = (number::<4>(entry, 16)?, number::<8>(entry, 40)?);
    let (architecture, unpacked) = (number::<4>(entry, 28)? as u32, number::<8>(entry, 56)?);
    Some((architecture, unpack(&entry[header as usize..], packed, flags, unpacked)?))
}

fn unpack(payload: &[u8], packed: u64, flags: u64, unpacked: u64) -> Option<Vec<u8>> {
    if flags & (LZ4 | ZSTD) == 0 {
        return Some(payload.to_vec());
    }
    if unpacked > TEXT_LIMIT {
        return None;
    }
    let packed = payload.get(..usize::try_from(packed).ok()?)?;
    if flags & ZSTD != 0 {
        let mut text = Vec::new();
        let decoder = ruzstd::decoding::StreamingDecoder::new(packed).ok()?;
        decoder.take(unpacked).read_to_end(&mut text).ok()?;
        return Some(text);
    }
    let mut text = vec![0; unpacked as usize];
    let length = lz4_flex::block::decompress_into(packed, &mut text).ok()?;
    text.truncate(length);
    Some(text)
}

/// A little-endian number of `BYTES` bytes.
fn number<const BYTES: usize>(bytes: &[u8], offset: usize) -> Option<u64> {
    let field = bytes.get(offset..offset.checked_add(BYTES)?)?;
    let mut whole = [0; 8];
    whole[..BYTES].copy_from_slice(field);
    Some(u64::from_le_bytes(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(kind: u16, architecture: u32, flags: u64, payload: &[u8], whole: u64) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[0..2].copy_from_slice(&kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&64_u32.to_le_bytes());
        let padded = payload.len().next_multiple_of(8);
        bytes[8..16].copy_from_slice(&(padded as u64).to_le_bytes());
        bytes[16..20].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        bytes[28..32].copy_from_slice(&architecture.to_le_bytes());
        bytes[40..48].copy_from_slice(&flags.to_le_bytes());
        bytes[56..64].copy_from_slice(&whole.to_le_bytes());
        bytes.extend_from_slice(payload);
        bytes.resize(64 + padded, 0);
        bytes
    }

    fn container(parts: &[Vec<u8>]) -> Vec<u8> {
        let inside = parts.concat();
        let mut bytes = (CONTAINER_MAGIC as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(&[1, 0, 16, 0]);
        bytes.extend_from_slice(&(inside.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&inside);
        bytes
    }

    #[test]
    fn every_text_is_found_with_its_architecture() {
        // A block of LZ4 that says: so many literals and nothing else; a frame of zstd with one raw block.
        let mut lz4 = vec![4 << 4];
        lz4.extend_from_slice(b"four");
        let mut zstd = vec![0x28, 0xb5, 0x2f, 0xfd, 0x20, 4, 1 | 4 << 3, 0, 0];
        zstd.extend_from_slice(b"zstd");
        let parts = [
            part(2, 90, 0, b"\x7fELF", 0),
            part(1, 75, 0, b"plain", 0),
            part(1, 80, LZ4, &lz4, 4),
            part(1, 90, ZSTD, &zstd, 4),
            part(1, 90, ZSTD, b"no", 4),
        ];
        let both = [container(&parts[..2]), container(&parts[2..])].concat();
        let expected = [(75, "plain"), (80, "four"), (90, "zstd")];
        assert_eq!(texts(&both), expected.map(|(number, text)| (number, text.to_owned())));
        assert!(texts(b"").is_empty() && texts(b"something else").is_empty());
    }

    #[test]
    fn a_text_counts_only_where_it_says_what_runs() {
        let both = container(&[
            part(2, 80, 0, b"\x7fELF", 0),
            part(1, 75, 0, b"old", 0),
            part(1, 80, 0, b"same", 0),
            part(1, 90, 0, b"new", 0),
        ]);
        assert_eq!(running(&both, 86), ["same"], "machine code of the same family runs");
        assert_eq!(running(&both, 75), ["old"]);
        assert_eq!(running(&both, 90), ["new"]);
        assert_eq!(running(&both, 120), ["new"]);
        let other = container(&[part(2, 90, 0, b"\x7fELF", 0), part(1, 80, 0, b"other", 0)]);
        assert!(running(&other, 90).is_empty(), "what runs was compiled for another architecture");
        assert_eq!(running(&other, 80), ["other"]);
    }

    #[test]
    fn broken_containers_never_panic() {
        let whole = container(&[part(1, 90, 0, b".version 8.0", 0)]);
        for at in 0..whole.len() {
            let _ = texts(&whole[..at]);
            let mut broken = whole.clone();
            broken[at] ^= 0xff;
            let _ = texts(&broken);
        }
        let mut empty = whole;
        empty[6..16].fill(0);
        assert!(texts(&empty).is_empty(), "a container of no bytes ends the search");
    }
}

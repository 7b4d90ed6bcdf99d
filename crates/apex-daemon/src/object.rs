//! Where in an executable or a library lies what a program saw in its memory.
//!
//! The linker puts the segments of a file into memory as far apart as their addresses say, from the lowest on. So a
//! distance from the beginning in memory, the file's headers and nothing else give the place in the file.

use std::fs::File;
use std::os::unix::fs::FileExt;

const HEADER: usize = 64;
const SEGMENT: usize = 56;
/// A segment that is put into memory.
const LOADED: u32 = 1;
const PAGE: u64 = 4096;

/// The place in a file of what lies `within` bytes from its beginning in memory; none if it is no file of 64-bit ELF or
/// no segment has that.
pub(crate) fn place_in_file(file: &File, within: u64) -> Option<u64> {
    let mut head = [0; HEADER];
    file.read_exact_at(&mut head, 0).ok()?;
    if head[..5] != *b"\x7fELF\x02" || number::<2>(&head, 54)? != SEGMENT as u64 {
        return None;
    }
    let (start, count) = (number::<8>(&head, 32)?, number::<2>(&head, 56)?);
    let mut table = vec![0; SEGMENT * count as usize];
    file.read_exact_at(&mut table, start).ok()?;
    let segments =
        table.chunks_exact(SEGMENT).filter(|one| number::<4>(one, 0) == Some(u64::from(LOADED)));
    let segments: Vec<(u64, u64, u64)> = segments
        .filter_map(|one| {
            Some((number::<8>(one, 16)?, number::<8>(one, 8)?, number::<8>(one, 32)?))
        })
        .collect();
    let lowest = segments.iter().map(|(address, ..)| address / PAGE * PAGE).min()?;
    let wanted = lowest.checked_add(within)?;
    segments.iter().find_map(|&(address, place, bytes)| {
        let inside = wanted.checked_sub(address).filter(|inside| *inside < bytes)?;
        place.checked_add(inside)
    })
}

fn number<const BYTES: usize>(bytes: &[u8], offset: usize) -> Option<u64> {
    let field = bytes.get(offset..offset.checked_add(BYTES)?)?;
    let mut whole = [0; 8];
    whole[..BYTES].copy_from_slice(field);
    Some(u64::from_le_bytes(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_memory_is_found_in_the_file() {
        // This program's own read-only data, as the kernel has mapped it.
        static MARK: [u8; 40] = *b"what lies in a file lies in its memory..";
        let address = std::hint::black_box(&MARK).as_ptr() as u64;
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let own = std::env::current_exe().unwrap();
        let first = maps.lines().find(|line| line.ends_with(&*own.to_string_lossy())).unwrap();
        let begin = u64::from_str_radix(first.split('-').next().unwrap(), 16).unwrap();
        let file = File::open(own).unwrap();
        let place = place_in_file(&file, address - begin).unwrap();
        let mut read = [0; 40];
        file.read_exact_at(&mut read, place).unwrap();
        assert_eq!(read, MARK);
        assert_eq!(place_in_file(&file, 1 << 40), None);
    }

    #[test]
    fn what_is_no_object_has_no_places() {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &[0x7f, b'E', b'L', b'F', 2, 255, 255, 255]).unwrap();
        assert_eq!(place_in_file(&file, 0), None);
        std::io::Write::write_all(&mut file, &[0xff; 200]).unwrap();
        assert_eq!(place_in_file(&file, 0), None);
    }
}

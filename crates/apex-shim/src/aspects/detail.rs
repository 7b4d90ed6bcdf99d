//! What advice needs beyond a plain record: the pointers that launches pass, and what uploads contain.
//!
//! Off unless it is asked for (`APEX_DETAIL`), and then not on the way of a launch. Where it is on, a launch takes a lock and an upload a system call and an allocation: a program is looked at closely
//! then, and its report says what that cost.
//!
//! The program's memory is read as memory that may not be there ([`foreign`]): a driver accepts addresses as
//! the host's that only the device can read, and two kernels that share a name and an unknown image may differ
//! in their parameters.

use crate::aspects::moments::Copied;
use crate::state::{
    extras::{self, Extra},
    kernels::Named,
    lock::{Lock, locked},
    process::guard,
    thread,
};
use apex_core::KernelId;
use apex_core::event::{CallId, Direction, Event, Head, POINTERS, What};
use apex_core::time;
use apex_cuda::foreign::{self, Piece};
use apex_cuda::types::c_void;
use std::collections::HashMap;

/// Sizes of each kernel's parameters.
static SIZES: Lock<Option<HashMap<u32, Vec<u32>>>> = Lock::new(None);

/// A kernel got its number: its parameters are known from here on.
pub(crate) fn named(named: &Named) {
    if named.is_new
        && extras::has(Extra::Detail)
        && let Some(mut sizes) = locked(&SIZES)
    {
        let parameters = named.facts.parameters.chunks_exact(2);
        let of = parameters.map(|pair| u32::try_from(pair[1]).unwrap_or(0));
        sizes.get_or_insert_default().insert(named.number, of.collect());
    }
}

/// A launch has been recorded: notes the pointers among its arguments, which are null or a list of places.
#[cold]
pub(crate) fn launched(kernel: KernelId, ended: u64, arguments: *mut *mut c_void) {
    if arguments.is_null() {
        return;
    }
    guard(|| {
        let mut pointers = [0; POINTERS];
        {
            let Some(sizes) = locked(&SIZES) else { return };
            let Some(sizes) = sizes.as_ref().and_then(|all| all.get(&kernel.0)) else { return };
            find_pointers(arguments as u64, sizes, &mut pointers);
        }
        push(ended, What::Passed { kernel, pointers });
    });
}

/// A copy has been made: notes a digest of the bytes of an upload. Called before the upload itself is recorded; the
/// clock puts them in order.
#[inline(always)]
pub(crate) fn copied(copied: &Copied) {
    if copied.direction == Direction::HostToDevice && extras::has(Extra::Detail) {
        uploaded(copied);
    }
}

#[cold]
fn uploaded(&Copied { to, from, bytes, .. }: &Copied) {
    if let Some((digest, whole)) = digest(from, bytes) {
        push(time::ticks(), What::Contents { to, bytes, digest, whole });
    }
}

fn push(start: u64, what: What) {
    let Some(thread) = thread::current() else { return };
    let head = Head {
        call: CallId(u16::MAX),
        result: 0,
        start,
        ticks: 0,
        device: thread.device,
        context: thread.context_id,
        stream: 0,
    };
    thread.writer.push(&Event { head, what });
}

/// Most words of a launch's arguments that are looked at: by-value structs can be large.
const MOST_WORDS: usize = 128;

fn find_pointers(arguments: u64, sizes: &[u32], found: &mut [u64; POINTERS]) {
    let mut places = vec![0; 8 * sizes.len()];
    if foreign::read(arguments, &mut places) < places.len() {
        return;
    }
    let mut left = MOST_WORDS;
    let mut pieces = Vec::with_capacity(sizes.len());
    for (place, &size) in words(&places).zip(sizes) {
        let looked_at = left.min(size as usize / 8);
        if place == 0 {
            break;
        }
        // Its address need not be aligned.
        pieces.push(Piece { address: place, bytes: 8 * looked_at });
        left -= looked_at;
    }
    let mut values = vec![0; 8 * (MOST_WORDS - left)];
    if !foreign::gather(&pieces, &mut values) {
        return;
    }
    let mut count = 0;
    for value in words(&values) {
        if can_be_address(value) && !found[..count].contains(&value) {
            found[count] = value;
            count += 1;
        }
        if count == POINTERS {
            return;
        }
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word))
}

/// Device memory lies above the first megabytes and in the lower half of the address space.
fn can_be_address(value: u64) -> bool {
    (1 << 24..1 << 47).contains(&value)
}

/// Uploads up to so many bytes are looked at whole; of longer ones as many, spread evenly.
const WHOLE: u64 = 64 << 10;
const PIECES: u64 = 64;

/// A digest of memory of this process, and whether all of it was looked at.
fn digest(from: u64, bytes: u64) -> Option<(u64, bool)> {
    let whole = bytes <= WHOLE;
    let piece = |address: u64, bytes: u64| Piece { address, bytes: bytes as usize };
    let pieces = if whole {
        vec![piece(from, bytes)]
    } else {
        let length = WHOLE / PIECES;
        let apart = (bytes - length) / (PIECES - 1);
        (0..PIECES).map(|nth| piece(from.wrapping_add(nth * apart), length)).collect()
    };
    let mut buffer = vec![0_u8; bytes.min(WHOLE) as usize];
    foreign::gather(&pieces, &mut buffer).then(|| (fold(&buffer), whole))
}

fn fold(bytes: &[u8]) -> u64 {
    let mut digest = bytes.len() as u64;
    for word in bytes.chunks(8) {
        let mut whole = [0; 8];
        whole[..word.len()].copy_from_slice(word);
        digest = (digest ^ u64::from_le_bytes(whole)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        digest ^= digest >> 29;
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bytes_have_equal_digests_and_bad_addresses_none() {
        let mut large: Vec<u8> = (0..200_000_u32).map(|nth| nth as u8).collect();
        let of = |bytes: &[u8]| digest(bytes.as_ptr() as u64, bytes.len() as u64);
        assert_eq!(of(&large), of(&large.clone()));
        assert_eq!(of(&large).map(|(_, whole)| whole), Some(false));
        assert_eq!(of(&large[..100]).map(|(_, whole)| whole), Some(true));
        let before = of(&large[..100]);
        large[99] ^= 1;
        assert_ne!(of(&large[..100]), before);
        assert_eq!(digest(16, 100), None);
    }

    #[test]
    fn pointers_are_found_among_other_arguments() {
        let (a, by, mut both) = (0x7f00_1000_0000_u64, 2.5_f64, [7_u64, 0x7f00_2000_0000, 3]);
        let mut places: [*mut c_void; 3] = [
            (&raw const a).cast_mut().cast(),
            (&raw const by).cast_mut().cast(),
            both.as_mut_ptr().cast(),
        ];
        let mut found = [0; POINTERS];
        find_pointers(places.as_mut_ptr() as u64, &[8, 8, 24], &mut found);
        assert_eq!(found, [0x7f00_1000_0000, 0x7f00_2000_0000, 0, 0, 0]);
        // Nothing is found where fewer parameters are there than were told, and nothing falls over.
        places[1] = core::ptr::without_provenance_mut(16);
        let mut found = [0; POINTERS];
        find_pointers(places.as_mut_ptr() as u64, &[8, 8, 24], &mut found);
        find_pointers(16, &[8, 8, 24], &mut found);
        assert_eq!(found, [0; POINTERS]);
    }
}

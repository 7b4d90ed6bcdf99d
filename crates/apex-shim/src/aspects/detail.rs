//! What advice needs beyond a plain record: what launches pass, what uploads contain, and the code of kernels.
//!
//! Of every launch the pointers are noted; of the first one of each kernel and shape all that it passes, because with the
//! kernel's text that tells what its warps do. Code that lies in no file is kept beside the rings, up to [`MOST_CODE`] of it.
//!
//! Off unless it is asked for (`APEX_DETAIL`), and then not on the way of a launch. Where it is on, a launch takes a lock and an upload a system call and an allocation: a program is looked at closely
//! then, and its report says what that cost.
//!
//! The program's memory is read as memory that may not be there ([`foreign`]): a driver accepts addresses as
//! the host's that only the device can read, and two kernels that share a name and an unknown image may differ
//! in their parameters.

use crate::aspects::moments::Copied;
use crate::driver::driver;
use crate::settings::knobs;
use crate::state::{
    extras::{self, Extra},
    images,
    kernels::Named,
    lock::{Lock, locked},
    process::{guard, tell},
    thread,
};
use apex_core::event::{CallId, Direction, Event, Head, LaunchShape, POINTERS, What};
use apex_core::facts::{Fact, Passed};
use apex_core::{KernelId, time};
use apex_cuda::foreign::{self, Piece};
use apex_cuda::types::{CUDA_SUCCESS, CUdeviceptr, c_void};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of code that are kept of one process: they lie in memory until it has ended.
const MOST_CODE: usize = 64 << 20;
static CODE: AtomicUsize = AtomicUsize::new(0);

/// Shapes of which it is told what they passed.
const MOST_SHAPES: usize = 4096;

/// Sizes of each kernel's parameters.
static SIZES: Lock<Option<HashMap<u32, Vec<u32>>>> = Lock::new(None);
/// Kernels with shapes of which it was told what they passed.
static PASSED: Lock<Option<HashSet<(u32, LaunchShape)>>> = Lock::new(None);

/// In a forked child: its facts are its own.
pub(crate) fn forget() {
    if let Some(mut passed) = locked(&PASSED) {
        *passed = None;
    }
    CODE.store(0, Ordering::Relaxed);
}

/// An image of code was loaded from the program's memory.
pub(crate) fn image_loaded(image: *const c_void, hash: u64) {
    if !extras::has(Extra::Detail) {
        return;
    }
    let left = MOST_CODE.saturating_sub(CODE.load(Ordering::Relaxed));
    if let Some(rings) = knobs().rings.as_deref()
        && images::within_object(image).is_none()
    {
        CODE.fetch_add(images::keep(rings, image, hash, left, |_| true), Ordering::Relaxed);
    }
}

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
pub(crate) fn launched(
    kernel: KernelId,
    shape: LaunchShape,
    ended: u64,
    arguments: *mut *mut c_void,
) {
    guard(|| {
        let mut pointers = [0; POINTERS];
        let mut values = None;
        {
            let Some(sizes) = locked(&SIZES) else { return };
            let Some(sizes) = sizes.as_ref().and_then(|all| all.get(&kernel.0)) else { return };
            // A kernel without parameters is passed nothing; others are passed theirs in another form.
            if arguments.is_null() && !sizes.is_empty() {
                return;
            }
            find_pointers(arguments as u64, sizes, &mut pointers);
            if is_first(kernel, shape) {
                values = find_values(arguments as u64, sizes);
            }
        }
        if !arguments.is_null() {
            push(ended, What::Passed { kernel, pointers });
        }
        if let Some(values) = values {
            tell_passed(kernel, &shape, values);
        }
    });
}

/// Whether nothing was told yet of this kernel in this shape; from here on it was.
fn is_first(kernel: KernelId, shape: LaunchShape) -> bool {
    let Some(mut passed) = locked(&PASSED) else { return false };
    let passed = passed.get_or_insert_default();
    passed.len() < MOST_SHAPES && passed.insert((kernel.0, shape))
}

/// What a launch passes: parameters of eight bytes or fewer, and the words of longer ones.
#[derive(Debug, Default, PartialEq)]
struct Values {
    small: Vec<u64>,
    inside: Vec<u64>,
}

/// The driver is asked for the allocation of each value that can be an address. No lock is held: it may call back.
fn tell_passed(kernel: KernelId, shape: &LaunchShape, values: Values) {
    let bytes_at = |&value: &u64| {
        let (mut base, mut bytes): (CUdeviceptr, usize) = (0, 0);
        // SAFETY: valid places for the answers; an address that belongs to nothing is refused.
        let found = can_be_address(value)
            && unsafe {
                (driver().cuMemGetAddressRange_v2)(
                    &raw mut base,
                    &raw mut bytes,
                    value as CUdeviceptr,
                )
            } == CUDA_SUCCESS;
        if found { bytes as u64 } else { 0 }
    };
    let Values { small: values, inside } = values;
    let bytes = values.iter().map(bytes_at).collect();
    let inside_bytes = inside.iter().map(bytes_at).collect();
    let LaunchShape { grid, block, cluster, dynamic_shared } = *shape;
    let sides = grid.into_iter().chain(block.map(u32::from)).chain(cluster.map(u32::from));
    let shape = sides.chain([dynamic_shared]).map(u64::from).collect();
    let kernel = u64::from(kernel.0);
    tell(&Fact::Passed(Passed { kernel, shape, values, bytes, inside, inside_bytes }));
}

/// Words of long parameters that are told of one launch at most.
const MOST_INSIDE: usize = 64;

/// What a launch passes, with 0 for parameters that are longer; none where memory is not there.
fn find_values(arguments: u64, sizes: &[u32]) -> Option<Values> {
    let mut places = vec![0; 8 * sizes.len()];
    if foreign::read(arguments, &mut places) < places.len() {
        return None;
    }
    let mut left = MOST_INSIDE;
    let mut piece = |(address, &size): (u64, &u32)| {
        let whole = size as usize;
        let bytes = if whole <= 8 { whole } else { 8 * left.min(whole / 8) };
        left -= if whole <= 8 { 0 } else { bytes / 8 };
        Piece { address, bytes }
    };
    let pieces: Vec<Piece> = words(&places).zip(sizes).map(&mut piece).collect();
    let mut read = vec![0; pieces.iter().map(|piece| piece.bytes).sum()];
    if !foreign::gather(&pieces, &mut read) {
        return None;
    }
    let mut rest = &read[..];
    let mut values = Values::default();
    for (piece, &size) in pieces.iter().zip(sizes) {
        let (own, others) = rest.split_at(piece.bytes);
        let mut whole = [0; 8];
        if size <= 8 {
            whole[..own.len()].copy_from_slice(own);
        } else {
            values.inside.extend(words(own));
        }
        values.small.push(u64::from_le_bytes(whole));
        rest = others;
    }
    Some(values)
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

    #[test]
    fn values_are_read_where_they_are_small() {
        let (a, n, both, flag) = (0x7f00_1000_0000_u64, 7_u32, [1_u64, 2], 3_u8);
        let mut places: [*mut c_void; 4] = [
            (&raw const a).cast_mut().cast(),
            (&raw const n).cast_mut().cast(),
            (&raw const both).cast_mut().cast(),
            (&raw const flag).cast_mut().cast(),
        ];
        let sizes = [8, 4, 16, 1];
        let found = find_values(places.as_mut_ptr() as u64, &sizes);
        assert_eq!(found, Some(Values { small: vec![a, 7, 0, 3], inside: vec![1, 2] }));
        places[1] = core::ptr::without_provenance_mut(16);
        assert_eq!(find_values(places.as_mut_ptr() as u64, &sizes), None);
        assert_eq!(find_values(16, &sizes), None);
    }
}

//! What advice needs beyond a plain record: the pointers that launches pass, and what uploads contain.
//!
//! Off unless it is asked for (`APEX_DETAIL`), and then not on the way of a launch. Where it is on, a launch takes a lock and an upload a system call and an allocation: a program is looked at closely
//! then, and its report says what that cost.
//!
//! The program's memory is read through the kernel (`process_vm_readv`), which answers with an error where a
//! plain load would end the program: a driver accepts addresses as the host's that only the device can read.

use crate::extras::Extra;
use crate::lock::{Lock, locked};
use crate::process::guard;
use crate::{extras, thread};
use apex_core::KernelId;
use apex_core::event::{CallId, Event, Head, POINTERS, What};
use apex_core::time;
use apex_cuda::types::c_void;
use std::collections::HashMap;

/// Sizes of each kernel's parameters.
static SIZES: Lock<Option<HashMap<u32, Vec<u32>>>> = Lock::new(None);

/// A kernel is known from here on: offset and size of its parameters, alternating.
pub(crate) fn learn(number: u32, parameters: &[u64]) {
    if extras::has(Extra::Detail)
        && let Some(mut sizes) = locked(&SIZES)
    {
        let of = parameters.chunks_exact(2).map(|pair| u32::try_from(pair[1]).unwrap_or(0));
        sizes.get_or_insert_default().insert(number, of.collect());
    }
}

/// A launch has been recorded: notes the pointers among its arguments.
///
/// # Safety
///
/// `arguments` is null, or points to a pointer to each of the kernel's parameters.
#[cold]
pub(crate) unsafe fn launched(kernel: KernelId, ended: u64, arguments: *mut *mut c_void) {
    if arguments.is_null() {
        return;
    }
    guard(|| {
        let mut pointers = [0; POINTERS];
        {
            let Some(sizes) = locked(&SIZES) else { return };
            let Some(sizes) = sizes.as_ref().and_then(|all| all.get(&kernel.0)) else { return };
            // SAFETY: the caller's promise, with the sizes that the driver told of this kernel.
            unsafe { find_pointers(arguments, sizes, &mut pointers) };
        }
        push(ended, What::Passed { kernel, pointers });
    });
}

/// An upload has been made: notes a digest of its bytes. Called before the upload itself is recorded; the
/// clock puts them in order.
#[cold]
pub(crate) fn uploaded(to: u64, from: u64, bytes: u64) {
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

/// # Safety
///
/// As [`launched`], with the sizes of the parameters.
unsafe fn find_pointers(arguments: *mut *mut c_void, sizes: &[u32], found: &mut [u64; POINTERS]) {
    let (mut seen, mut count) = (0, 0);
    for (nth, &size) in sizes.iter().enumerate() {
        // SAFETY: one pointer for each parameter.
        let place = unsafe { *arguments.add(nth) };
        if place.is_null() {
            return;
        }
        for word in 0..size as usize / 8 {
            // SAFETY: within the parameter, whose address need not be aligned.
            let value = unsafe { place.cast::<u64>().add(word).read_unaligned() };
            seen += 1;
            if can_be_address(value) && !found[..count].contains(&value) {
                found[count] = value;
                count += 1;
            }
            if count == POINTERS || seen == MOST_WORDS {
                return;
            }
        }
    }
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
    let pieces: Vec<libc::iovec> = if whole {
        vec![piece(from, bytes)]
    } else {
        let length = WHOLE / PIECES;
        let apart = (bytes - length) / (PIECES - 1);
        (0..PIECES).map(|nth| piece(from + nth * apart, length)).collect()
    };
    let mut buffer = vec![0_u8; bytes.min(WHOLE) as usize];
    let into = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: the buffer is ours and as long as is said; what lies at the other addresses is checked by the
    // kernel.
    let read = unsafe {
        libc::process_vm_readv(
            libc::getpid(),
            &raw const into,
            1,
            pieces.as_ptr(),
            pieces.len() as u64,
            0,
        )
    };
    (usize::try_from(read) == Ok(buffer.len())).then(|| (fold(&buffer), whole))
}

fn piece(from: u64, bytes: u64) -> libc::iovec {
    libc::iovec { iov_base: from as *mut libc::c_void, iov_len: bytes as usize }
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
        // SAFETY: three places with the sizes that are told.
        unsafe { find_pointers(places.as_mut_ptr(), &[8, 8, 24], &mut found) };
        assert_eq!(found, [0x7f00_1000_0000, 0x7f00_2000_0000, 0, 0, 0]);
    }
}

//! Reads memory of the program that may not be there.
//!
//! A program hands addresses to the driver, and how far the driver reads behind one is the driver's own
//! affair: it may accept an image whose header claims more bytes than there are, or refuse a call before
//! it looks. A plain load behind such an address would end the program. Here the kernel copies, and
//! answers with an error where a load would fault. `process_vm_readv` on the own process needs no
//! permission; where a sandbox forbids it the bytes go through a pipe, whose `write` reports the same.
//!
//! One read is one system call or more: nothing here belongs on the way of a launch.

use libc::iovec;

/// A stretch of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where it begins.
    pub address: u64,
    /// Its length.
    pub bytes: usize,
}

/// The kernel is not asked to say how much of a piece it could read, so no piece crosses a page.
const PAGE: u64 = 4096;
const AT_ONCE: usize = 64;

/// Copies from an address on. Answers how many bytes there were, up to the end of `into`.
pub fn read(address: u64, into: &mut [u8]) -> usize {
    let mut done = 0;
    while done < into.len() {
        let mut pages = Vec::with_capacity(AT_ONCE);
        let mut wanted = 0;
        while pages.len() < AT_ONCE && done + wanted < into.len() {
            let address = address.wrapping_add((done + wanted) as u64);
            let bytes = ((PAGE - address % PAGE) as usize).min(into.len() - done - wanted);
            pages.push(Piece { address, bytes });
            wanted += bytes;
        }
        let there = copy(&pages, &mut into[done..done + wanted]);
        done += there;
        if there < wanted {
            break;
        }
    }
    done
}

/// Whether all of a short stretch can be read.
pub fn is_there(address: u64, bytes: usize) -> bool {
    read(address, &mut vec![0; bytes]) == bytes
}

/// Copies pieces, one behind the other. Answers whether all of them were there.
pub fn gather(pieces: &[Piece], into: &mut [u8]) -> bool {
    let mut rest = into;
    for some in pieces.chunks(AT_ONCE) {
        let wanted = some.iter().fold(0_usize, |sum, piece| sum.saturating_add(piece.bytes));
        let Some((place, behind)) = rest.split_at_mut_checked(wanted) else { return false };
        if copy(some, place) < wanted {
            return false;
        }
        rest = behind;
    }
    true
}

/// Copies a few pieces that fit into `into`; answers how many bytes came before the first that is not there.
fn copy(pieces: &[Piece], into: &mut [u8]) -> usize {
    debug_assert!(pieces.len() <= AT_ONCE);
    let place = |piece: &Piece| iovec { iov_base: piece.address as *mut _, iov_len: piece.bytes };
    let from: Vec<iovec> = pieces.iter().map(place).collect();
    let to = iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: `to` is ours and as long as is said; what lies at the other addresses is checked by the kernel.
    let read = unsafe {
        libc::process_vm_readv(
            libc::getpid(),
            &raw const to,
            1,
            from.as_ptr(),
            from.len() as u64,
            0,
        )
    };
    match usize::try_from(read) {
        Ok(bytes) => bytes,
        Err(_) if std::io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT) => 0,
        Err(_) => by_pipe(pieces, into),
    }
}

/// The same through a pipe of our own.
fn by_pipe(pieces: &[Piece], into: &mut [u8]) -> usize {
    let mut ends = [0; 2];
    // SAFETY: a valid place for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
        return 0;
    }
    let [out, fill] = ends;
    let mut done = 0;
    for piece in pieces {
        let mut of_piece = 0;
        while of_piece < piece.bytes {
            let from = piece.address.wrapping_add(of_piece as u64) as *const libc::c_void;
            // SAFETY: the kernel checks the address; the pipe is empty, so it takes some.
            let written = unsafe { libc::write(fill, from, piece.bytes - of_piece) };
            let Some(place) =
                usize::try_from(written).ok().and_then(|n| into.get_mut(done..done + n))
            else {
                break;
            };
            // SAFETY: a place of ours for exactly what the pipe holds.
            let read = unsafe { libc::read(out, place.as_mut_ptr().cast(), place.len()) };
            if written == 0 || read != written {
                break;
            }
            done += place.len();
            of_piece += place.len();
        }
        if of_piece < piece.bytes {
            break;
        }
    }
    for end in ends {
        // SAFETY: opened above, closed once.
        unsafe { libc::close(end) };
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two pages, of which the second cannot be read.
    fn half_a_mapping() -> u64 {
        let both = 2 * PAGE as usize;
        // SAFETY: a fresh mapping, whose second half is given up again.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let start = libc::mmap(core::ptr::null_mut(), both, access, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            start.cast::<u8>().write_bytes(7, PAGE as usize);
            assert_eq!(libc::mprotect(start.add(PAGE as usize), PAGE as usize, libc::PROT_NONE), 0);
            start as u64
        }
    }

    type Copier = fn(&[Piece], &mut [u8]) -> usize;
    const BOTH: [Copier; 2] = [copy, by_pipe];

    #[test]
    fn what_is_there_is_copied_and_the_rest_is_not() {
        let start = half_a_mapping();
        for copier in BOTH {
            let mut into = [0; 200];
            let near = start + PAGE - 100;
            let pieces =
                [Piece { address: near, bytes: 100 }, Piece { address: near + 100, bytes: 100 }];
            assert_eq!(copier(&pieces, &mut into), 100);
            assert!(into[..100] == [7; 100] && into[100..] == [0; 100]);
            assert_eq!(copier(&pieces[1..], &mut into[..100]), 0);
            for address in [0, 8, u64::MAX - 50, 1 << 63] {
                assert_eq!(
                    copier(&[Piece { address, bytes: 100 }], &mut into[..100]),
                    0,
                    "{address:#x}"
                );
            }
        }
        let mut into = vec![0; 3 * PAGE as usize];
        assert_eq!(read(start + 5, &mut into), PAGE as usize - 5);
        assert!(is_there(start + PAGE - 8, 8) && !is_there(start + PAGE - 7, 8));
    }

    #[test]
    fn many_pieces_and_large_ones_come_whole() {
        let bytes: Vec<u8> = (0..1_000_003_u32).map(|nth| (nth % 251) as u8).collect();
        let mut into = vec![0; bytes.len()];
        assert_eq!(read(bytes.as_ptr() as u64, &mut into), bytes.len());
        assert!(into == bytes);
        let start = bytes.as_ptr() as u64;
        let every: Vec<Piece> =
            (0..300).map(|nth| Piece { address: start + nth * 251, bytes: 2 }).collect();
        let mut into = [9; 600];
        assert!(gather(&every, &mut into));
        assert!(into.chunks(2).all(|pair| pair == [0, 1]));
        assert!(!gather(&every, &mut into[..599]), "they do not fit");
        assert_eq!(
            by_pipe(&[Piece { address: start, bytes: 300_000 }], &mut vec![0; 300_000]),
            300_000
        );
    }
}

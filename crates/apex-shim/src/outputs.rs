//! Looks at what a program copies from the device, so that two runs can be compared.
//!
//! Only while `apex tune` asks for it. A copy is hashed when it has arrived: after an asynchronous one the stream is
//! waited for, which a program may not expect to be fast but may never be wrong. While anything is being
//! captured nothing is asked of the driver, and the copy counts as not seen. Numbers go to a small file of this
//! process, written whole each time, because a program may end at any moment.

use crate::exports::driver;
use crate::extras::Extra;
use crate::lock::{Lock, locked};
use crate::process::knobs;
use crate::{capture, extras};
use apex_core::event::Direction;
use apex_core::outputs::{EXTENSION, Outputs, hash};
use apex_cuda::image::{ImageKind, bytes_at};
use apex_cuda::types::*;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

static OUTPUTS: Lock<Outputs> = Lock::new(Outputs {
    copies: 0,
    bytes: 0,
    sum: 0,
    unseen: 0,
    reshaped: 0,
    hinted: 0,
    compiled: 0,
    refused: 0,
});

/// Images beyond this size are libraries whose kernels nobody tunes.
const LARGEST_IMAGE: usize = 64 << 20;
const MEMORY_TYPE: u32 = 2;
const MEMORY_HOST: u32 = 1;
const PER_THREAD_STREAM: usize = 2;

/// A copy was made, and its direction told or not.
#[cold]
pub(crate) fn copied(
    result: CUresult,
    direction: Direction,
    to: u64,
    bytes: u64,
    stream: Option<CUstream>,
) {
    let to_host = match direction {
        Direction::DeviceToHost => true,
        Direction::Unstated => is_host(to),
        _ => false,
    };
    if result != CUDA_SUCCESS || !to_host || bytes == 0 {
        return;
    }
    if capture::any() || to == 0 || !arrived(stream) {
        return count(|outputs| outputs.unseen += 1);
    }
    // SAFETY: the driver has just written so many bytes here for the program.
    let seen = unsafe { core::slice::from_raw_parts(to as *const u8, bytes as usize) };
    let seen = hash(seen);
    count(|outputs| {
        outputs.copies += 1;
        outputs.bytes += bytes;
        outputs.sum = outputs.sum.wrapping_add(seen);
    });
}

/// A copy of a form that is not looked at.
#[cold]
pub(crate) fn not_seen() {
    count(|outputs| outputs.unseen += 1);
}

/// Waits until what was copied is there.
fn arrived(stream: Option<CUstream>) -> bool {
    let Some(stream) = stream else { return true };
    // SAFETY: the program's own stream. A null one may be the thread's or everybody's: both are waited for.
    unsafe {
        let known = (driver().cuStreamSynchronize)(stream) == CUDA_SUCCESS;
        if stream.is_null() {
            (driver().cuStreamSynchronize)(PER_THREAD_STREAM as CUstream);
        }
        known
    }
}

/// Whether an address belongs to the host; one that the driver does not know is the program's own.
fn is_host(address: u64) -> bool {
    let mut kind = 0_u32;
    // SAFETY: a valid place for the answer.
    let result = unsafe {
        (driver().cuPointerGetAttribute)(
            (&raw mut kind).cast(),
            MEMORY_TYPE,
            address as CUdeviceptr,
        )
    };
    result != CUDA_SUCCESS || kind == MEMORY_HOST
}

/// Changes the numbers and writes them down, if they are wanted.
pub(crate) fn count(change: impl FnOnce(&mut Outputs)) {
    if !extras::has(Extra::Outputs) {
        return;
    }
    let Some(folder) = knobs().outputs.as_deref() else { return };
    let Some(mut outputs) = locked(&OUTPUTS) else { return };
    change(&mut outputs);
    let pid = std::process::id();
    write(&folder.join(format!("{pid}.{EXTENSION}")), &outputs.encode());
}

/// Keeps an image of code for whoever wants to read it; one that is kept already is left alone.
///
/// # Safety
///
/// `image` is what the driver has just accepted as an image.
#[cold]
pub(crate) unsafe fn keep_image(image: *const c_void, hash: u64) {
    let Some(folder) = knobs().outputs.as_deref() else { return };
    // SAFETY: the caller vouches for it.
    let Some((kind, bytes)) = (unsafe { bytes_at(image) }) else { return };
    let path = folder.join(format!("{hash:016x}.image"));
    if kind != ImageKind::Cubin && bytes.len() <= LARGEST_IMAGE && !path.exists() {
        write(&path, bytes);
    }
}

/// In a forked child: its numbers are its own.
pub(crate) fn forget() {
    if let Some(mut outputs) = locked(&OUTPUTS) {
        *outputs = Outputs::default();
    }
}

fn write(path: &Path, bytes: &[u8]) {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return };
    // SAFETY: a C string and plain flags; the bytes are ours or the program's; the descriptor is closed once.
    unsafe {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_CLOEXEC;
        let file = libc::open(path.as_ptr(), flags, 0o600);
        if file >= 0 {
            libc::pwrite(file, bytes.as_ptr().cast(), bytes.len(), 0);
            libc::close(file);
        }
    }
}

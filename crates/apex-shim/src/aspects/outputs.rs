//! Looks at what a program copies from the device, so that two runs can be compared.
//!
//! Only while `apex tune` asks for it. A copy is hashed when it has arrived: after an asynchronous one the stream is
//! waited for, which a program may not expect to be fast but may never be wrong. While anything is being
//! captured nothing is asked of the driver, and the copy counts as not seen.

use crate::aspects::moments::{Copied, Form};
use crate::driver::driver;
use crate::settings::knobs;
use crate::state::outputs::count;
use crate::state::streams::PER_THREAD_STREAM;
use crate::state::{
    captures,
    extras::{self, Extra},
    images,
};
use apex_core::event::Direction;
use apex_core::outputs::hash;
use apex_cuda::image::ImageKind;
use apex_cuda::types::*;

/// Images beyond this size are libraries whose kernels nobody tunes.
const LARGEST_IMAGE: usize = 64 << 20;
const MEMORY_TYPE: u32 = 2;
const MEMORY_HOST: u32 = 1;

/// A copy was made.
#[inline(always)]
pub(crate) fn copied(copied: &Copied) {
    if extras::has(Extra::Outputs) {
        look_at(copied);
    }
}

#[cold]
fn look_at(copied: &Copied) {
    let &Copied { result, direction, to, bytes, stream, form, .. } = copied;
    match form {
        Form::Flat => {}
        Form::Rows { to_host: true } => return count(|outputs| outputs.unseen += 1),
        Form::Rows { to_host: false } | Form::Batch => return,
    }
    let to_host = match direction {
        Direction::DeviceToHost => true,
        Direction::Unstated => is_host(to),
        _ => false,
    };
    if result != CUDA_SUCCESS || !to_host || bytes == 0 {
        return;
    }
    if captures::any() || to == 0 || !arrived(stream) {
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

/// Waits until what was copied is there.
fn arrived(stream: Option<u64>) -> bool {
    let Some(stream) = stream.map(|stream| stream as CUstream) else { return true };
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

/// An image of code was loaded: kept for whoever wants to read it; one that is kept already is left alone.
pub(crate) fn image_loaded(image: *const c_void, hash: u64) {
    if extras::has(Extra::Outputs)
        && let Some(folder) = knobs().outputs.as_deref()
    {
        images::keep(folder, image, hash, LARGEST_IMAGE, |kind| kind != ImageKind::Cubin);
    }
}

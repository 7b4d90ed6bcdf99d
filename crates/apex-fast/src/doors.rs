//! What all layers need to stand in the driver's place.

use apex_cuda::Function;
use apex_cuda::types::CUstream;
use core::ffi::c_void;

/// A layer's functions by the table's order; null where what lies beneath stays.
pub(crate) struct Doors(pub(crate) [*const c_void; Function::COUNT]);

// SAFETY: they never change, and code may be called from any thread.
unsafe impl Sync for Doors {}

impl Doors {
    /// Puts them in the place of what lies beneath.
    pub(crate) fn open(&self, addresses: &mut [*const c_void; Function::COUNT]) {
        for (address, own) in addresses.iter_mut().zip(self.0) {
            if !own.is_null() {
                *address = own;
            }
        }
    }
}

/// In a twin function a null stream is the calling thread's own.
pub(crate) const fn is_twin(name: &str) -> bool {
    let name = name.as_bytes();
    let [.., b'_', b'p', b't', middle, last] = name else { return false };
    matches!((middle, last), (b's', b'z') | (b'd', b's'))
}

/// The handle of a stream that is another one in each thread.
const PER_THREAD: u64 = 2;

/// Whether a stream is the calling thread's own, which no other thread can name.
#[inline(always)]
pub(crate) fn is_per_thread(stream: CUstream, is_twin: bool) -> bool {
    stream as u64 == PER_THREAD || is_twin && stream.is_null()
}

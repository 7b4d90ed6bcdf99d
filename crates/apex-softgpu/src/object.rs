//! What the driver's handles point to.
//!
//! A handle is the address of a slot: a magic word that names the kind of object,
//! then the object. A slot once made is never given back to the allocator, only
//! used again for the same kind of object, so the magic word of any handle ever
//! given out can be read: a handle of another kind, or of a destroyed object, is
//! `CUDA_ERROR_INVALID_HANDLE` and no crash. A slot rests while others of its kind
//! are used again, so that a handle kept too long is refused for a good while. Open
//! case: in the end a destroyed handle whose slot has been used again is taken for
//! the newer object.

use core::cell::UnsafeCell;
use core::mem::{MaybeUninit, offset_of};
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use apex_cuda::types::*;

use crate::border::Answer;

/// A type that handles can point to.
pub(crate) trait Object: Sized + 'static {
    /// The word that stands before every live object of the type.
    const MAGIC: u64;
    /// The slots that wait to be used again.
    fn idle() -> &'static Mutex<VecDeque<Idle<Self>>>;
}

/// Makes types objects, each with its magic word.
macro_rules! object {
    ($type:ty, $magic:literal) => {
        impl $crate::object::Object for $type {
            const MAGIC: u64 = u64::from_le_bytes(*$magic);
            fn idle()
            -> &'static std::sync::Mutex<std::collections::VecDeque<$crate::object::Idle<Self>>>
            {
                static IDLE: std::sync::Mutex<
                    std::collections::VecDeque<$crate::object::Idle<$type>>,
                > = std::sync::Mutex::new(std::collections::VecDeque::new());
                &IDLE
            }
        }
    };
}
pub(crate) use object;

#[repr(C)]
struct Slot<T> {
    magic: AtomicU64,
    body: UnsafeCell<MaybeUninit<T>>,
}

/// The address of a slot that holds no object.
pub(crate) struct Idle<T>(*mut Slot<T>);

// SAFETY: an idle slot holds no object and is reached only through the list.
unsafe impl<T> Send for Idle<T> {}

const DESTROYED: u64 = 0;
/// How many slots of a kind rest before one is used again.
const RESTING: usize = 4096;
/// Below lies nothing but small numbers that someone took for a handle.
const LOWEST_ADDRESS: usize = 1 << 16;
const HIGHEST_ADDRESS: usize = 1 << 47;

/// Makes an object and gives its handle.
pub(crate) fn create<T: Object, H>(body: T) -> *mut H {
    let mut idle = lock(T::idle());
    let rested = if idle.len() > RESTING { idle.pop_front() } else { None };
    drop(idle);
    let slot = match rested {
        Some(Idle(slot)) => slot,
        None => Box::into_raw(Box::new(Slot {
            magic: AtomicU64::new(DESTROYED),
            body: UnsafeCell::new(MaybeUninit::uninit()),
        })),
    };
    // SAFETY: the slot is alive for good, and nobody else has it: it is new or was
    // taken from the idle list.
    unsafe {
        (*(*slot).body.get()).write(body);
        (*slot).magic.store(T::MAGIC, Ordering::Release);
    }
    slot.cast()
}

/// The object behind a handle.
///
/// # Safety
///
/// `handle` is no address outside this process's memory, and the object is not
/// destroyed while the answer is used.
#[inline]
pub(crate) unsafe fn live<'a, T: Object, H>(handle: *mut H) -> Result<&'a T, CUresult> {
    // SAFETY: the caller vouches for the handle.
    if !unsafe { is::<T, H>(handle) } {
        return Err(CUDA_ERROR_INVALID_HANDLE);
    }
    // SAFETY: the magic word says that a `T` was written there and not dropped.
    Ok(unsafe { (*(*handle.cast::<Slot<T>>()).body.get()).assume_init_ref() })
}

/// Whether a live object of that type is behind a handle.
///
/// # Safety
///
/// `handle` is no address outside this process's memory.
#[inline]
pub(crate) unsafe fn is<T: Object, H>(handle: *mut H) -> bool {
    let address = handle.addr();
    let plausible =
        (LOWEST_ADDRESS..HIGHEST_ADDRESS).contains(&address) && address.is_multiple_of(8);
    // SAFETY: plausible as an address; the caller vouches that it can be read.
    plausible && unsafe { (*handle.cast::<AtomicU64>()).load(Ordering::Acquire) } == T::MAGIC
}

/// Ends an object; its handle is refused from now on.
///
/// # Safety
///
/// As for [`live`], and nobody uses the object any more.
pub(crate) unsafe fn destroy<T: Object, H>(handle: *mut H) -> Answer {
    // SAFETY: the caller vouches for the handle.
    if !unsafe { is::<T, H>(handle) } {
        return Err(CUDA_ERROR_INVALID_HANDLE);
    }
    let slot = handle.cast::<Slot<T>>();
    // SAFETY: a live slot of this type; the caller says that nobody uses its object.
    unsafe {
        (*slot).magic.store(DESTROYED, Ordering::Release);
        (*(*slot).body.get()).assume_init_drop();
    }
    lock(T::idle()).push_back(Idle(slot));
    Ok(())
}

/// The handle of an object that [`live`] gave.
pub(crate) fn handle_of<T: Object, H>(body: &T) -> *mut H {
    (&raw const *body).cast_mut().cast::<u8>().wrapping_sub(offset_of!(Slot<T>, body)).cast()
}

/// Locks; a panic of another thread inside the lock is no reason to stop here.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Apple(u32);
    struct Pear;
    object!(Apple, b"apple---");
    object!(Pear, b"pear----");

    #[test]
    fn wrong_handles_are_refused() {
        let apple: *mut c_void = create(Apple(7));
        // SAFETY: all handles here are null, small, or were given out by `create`.
        unsafe {
            assert_eq!(live::<Apple, _>(apple).unwrap().0, 7);
            assert_eq!(handle_of::<_, c_void>(live::<Apple, _>(apple).unwrap()), apple);
            assert!(live::<Pear, _>(apple).is_err());
            assert!(live::<Apple, c_void>(core::ptr::null_mut()).is_err());
            assert!(live::<Apple, c_void>(core::ptr::without_provenance_mut(0x1234)).is_err());
            assert!(live::<Apple, c_void>(apple.wrapping_byte_add(1)).is_err());
            assert_eq!(destroy::<Apple, _>(apple), Ok(()));
            assert!(live::<Apple, _>(apple).is_err());
            assert_eq!(destroy::<Apple, _>(apple), Err(CUDA_ERROR_INVALID_HANDLE));
        }
    }
}

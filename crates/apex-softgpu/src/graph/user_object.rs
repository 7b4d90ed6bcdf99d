//! Objects of the program that graphs keep alive.
//!
//! An object has a count of references; graphs hold some of them, and give them back
//! when they are destroyed. When the last one goes, the program's own function is called.

use core::sync::atomic::{AtomicU32, Ordering};

use apex_cuda::types::*;

use crate::border::Answer;
use crate::object::{destroy, live, object};

/// One object of the program.
pub(crate) struct UserObject {
    pub(crate) data: *mut c_void,
    pub(crate) destroy: CUhostFn,
    pub(crate) references: AtomicU32,
}
object!(UserObject, b"userobj-");

// SAFETY: the pointer is the program's, for its own function.
unsafe impl Send for UserObject {}
// SAFETY: as above.
unsafe impl Sync for UserObject {}

/// Gives references back.
///
/// # Safety
///
/// The handle is the program's, and it has the references.
pub(crate) unsafe fn release(handle: CUuserObject, count: u32) -> Answer {
    // SAFETY: the caller vouches for the handle.
    unsafe {
        let object: &UserObject = live(handle)?;
        let before = object.references.fetch_sub(count, Ordering::AcqRel);
        if before > count {
            return Ok(());
        }
        let (function, data) = (object.destroy, object.data);
        destroy::<UserObject, _>(handle)?;
        if let Some(function) = function {
            function(data);
        }
    }
    Ok(())
}

//! Objects of the program that graphs keep alive.
//!
//! An object has a count of references; graphs hold some of them, and give them back
//! when they are destroyed. When the last one goes, the program's own function is called.

use core::sync::atomic::{AtomicU32, Ordering};

use apex_cuda::types::*;

use crate::border::{Answer, put};
use crate::graph::Graph;
use crate::object::{create, destroy, live, lock, object};

/// One object of the program.
pub(crate) struct UserObject {
    data: *mut c_void,
    destroy: CUhostFn,
    references: AtomicU32,
}
object!(UserObject, b"userobj-");

// SAFETY: the pointer is the program's, for its own function.
unsafe impl Send for UserObject {}
// SAFETY: as above.
unsafe impl Sync for UserObject {}

const NO_DESTRUCTOR_SYNC: u32 = 1;
const MOVE: u32 = 1;

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

answers! {
    fn cuUserObjectCreate(
        out: *mut CUuserObject, data: *mut c_void, destroy: CUhostFn, references: u32, flags: u32,
    ) {
        if destroy.is_none() || references == 0 || flags != NO_DESTRUCTOR_SYNC {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        put(out, create(UserObject { data, destroy, references: AtomicU32::new(references) }))
    }

    fn cuUserObjectRetain(handle: CUuserObject, count: u32) {
        if count == 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        live::<UserObject, _>(handle)?.references.fetch_add(count, Ordering::AcqRel);
        Ok(())
    }

    fn cuUserObjectRelease(handle: CUuserObject, count: u32) {
        if count == 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        release(handle, count)
    }

    fn cuGraphRetainUserObject(graph: CUgraph, handle: CUuserObject, count: u32, flags: u32) {
        let graph: &Graph = live(graph)?;
        let object: &UserObject = live(handle)?;
        if count == 0 || flags > MOVE {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        if flags != MOVE {
            object.references.fetch_add(count, Ordering::AcqRel);
        }
        lock(&graph.user_objects).push((handle, count));
        Ok(())
    }

    fn cuGraphReleaseUserObject(graph: CUgraph, handle: CUuserObject, count: u32) {
        let graph: &Graph = live(graph)?;
        let mut held = lock(&graph.user_objects);
        let own = held.iter_mut().find(|(object, references)| *object == handle && *references >= count);
        own.ok_or(CUDA_ERROR_INVALID_VALUE)?.1 -= count;
        held.retain(|(_, references)| *references > 0);
        drop(held);
        release(handle, count)
    }
}

//! The driver's functions for objects of the program that graphs keep alive.

use core::sync::atomic::{AtomicU32, Ordering};

use apex_cuda::types::*;

use crate::border::put;
use crate::graph::nodes::Graph;
use crate::graph::user_object::{UserObject, release};
use crate::object::{create, live, lock};

const NO_DESTRUCTOR_SYNC: u32 = 1;
const MOVE: u32 = 1;

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

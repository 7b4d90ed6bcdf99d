//! A thread changing the context it runs in. Not recorded: too many programs do it before every call.

use crate::driver::driver;
use crate::state::contexts;
use apex_cuda::types::*;

macro_rules! context_changes {
    ($($name:ident($argument:ident: $type:ty);)*) => { $(
        pub(crate) unsafe fn $name($argument: $type) -> CUresult {
            // SAFETY: the program's own argument.
            let result = unsafe { (driver().$name)($argument) };
            contexts::may_have_changed();
            result
        }
    )* };
}

context_changes! {
    cuCtxSetCurrent(context: CUcontext);
    cuCtxPushCurrent(context: CUcontext);
    cuCtxPushCurrent_v2(context: CUcontext);
    cuCtxPopCurrent(context: *mut CUcontext);
    cuCtxPopCurrent_v2(context: *mut CUcontext);
}

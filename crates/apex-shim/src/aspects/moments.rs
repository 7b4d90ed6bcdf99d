//! What hooks tell the list of aspects: plain descriptions of calls, without the driver's structs.

use apex_core::event::{Direction, LaunchShape, What};
use apex_cuda::Function;
use apex_cuda::types::{CUfunction, CUresult, CUstream, c_void};

/// What a call did, as its hook describes it.
#[derive(Clone, Copy)]
pub(crate) struct Note {
    /// What happened.
    pub(crate) what: What,
    /// The stream it was given; 0 where it takes none.
    pub(crate) stream: u64,
}

impl Note {
    /// A call on a stream.
    #[inline(always)]
    pub(crate) fn on(stream: CUstream, what: What) -> Note {
        Note { what, stream: stream as u64 }
    }

    /// A call that takes no stream.
    #[inline(always)]
    pub(crate) fn plain(what: What) -> Note {
        Note { what, stream: 0 }
    }
}

/// A launch that is about to be made.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) function: Function,
    pub(crate) kernel: CUfunction,
    pub(crate) stream: u64,
    pub(crate) shape: LaunchShape,
    pub(crate) cooperative: bool,
    /// Where each argument lies; null where the call passes them otherwise.
    pub(crate) arguments: *mut *mut c_void,
}

/// A copy that the driver was asked for.
#[derive(Clone, Copy)]
pub(crate) struct Copied {
    pub(crate) result: CUresult,
    /// As the call states it.
    pub(crate) direction: Direction,
    pub(crate) to: u64,
    pub(crate) from: u64,
    pub(crate) bytes: u64,
    /// None where the program has waited for the copy.
    pub(crate) stream: Option<u64>,
    pub(crate) form: Form,
}

/// How the bytes of a copy lie.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// One after the other, from one address to another.
    Flat,
    /// In rows, which lie in the host's memory afterwards or not.
    Rows { to_host: bool },
    /// As several copies in one call.
    Batch,
}

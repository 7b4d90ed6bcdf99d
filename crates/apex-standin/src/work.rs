//! What a stream can be given to do.
//!
//! [`submit`] is the one way to a stream: work for a stream that is being captured
//! becomes a node of the graph; all other work is done before the call returns.

use apex_cuda::types::*;

use crate::arguments::Launch;
use crate::border::Answer;
use crate::context::current;
use crate::copy::Copy;
use crate::set::Set;
use crate::stream::{Stream, for_work};

/// One piece of work.
#[derive(Clone)]
pub(crate) enum Work {
    /// A kernel, which is counted and not run.
    Kernel(Launch),
    /// A copy.
    Copy(Copy),
    /// Memory filled with a value.
    Set(Set),
    /// A call of a host function.
    Host { function: CUhostFn, data: *mut c_void },
    /// Another graph, owned by the node.
    Graph(CUgraph),
    /// Nothing; a place to depend on.
    Empty,
    /// A wait for an event.
    Wait(CUevent),
    /// An event recorded.
    Record(CUevent),
    /// Memory that was taken when the work was given.
    Allocate { address: u64, bytes: usize },
    /// Memory that the graph needs no more.
    Free { address: u64 },
}

impl Work {
    /// The driver's number for a node with this work.
    pub(crate) fn node_type(&self) -> CUgraphNodeType {
        match self {
            Work::Kernel(_) => 0,
            Work::Copy(_) => 1,
            Work::Set(_) => 2,
            Work::Host { .. } => 3,
            Work::Graph(_) => 4,
            Work::Empty => 5,
            Work::Wait(_) => 6,
            Work::Record(_) => 7,
            Work::Allocate { .. } => 10,
            Work::Free { .. } => 11,
        }
    }

    /// Does the work. A graph inside is laid out by whoever runs graphs.
    ///
    /// # Safety
    ///
    /// The memory and functions that the work names are still there.
    pub(crate) unsafe fn run(&self) -> Answer {
        // SAFETY: the caller vouches for what the work names.
        unsafe {
            match self {
                Work::Kernel(_) => crate::launch::count(),
                Work::Copy(copy) => copy.run()?,
                Work::Set(set) => set.run()?,
                Work::Host { function, data } => {
                    if let Some(function) = function {
                        function(*data);
                    }
                }
                Work::Record(event) => crate::event::mark(*event)?,
                Work::Graph(_) | Work::Empty | Work::Wait(_) => {}
                Work::Allocate { .. } | Work::Free { .. } => {}
            }
        }
        Ok(())
    }
}

/// Whether the stream is being captured, or was until an error ended it.
#[inline]
pub(crate) fn is_capturing(stream: Option<&Stream>) -> bool {
    stream.is_some_and(|stream| stream.capture_status() != 0)
}

/// Gives work to a stream.
///
/// # Safety
///
/// The handle is the program's, and what the work names is there.
pub(crate) unsafe fn submit(stream: CUstream, work: Work) -> Answer {
    let context = current()?;
    // SAFETY: the caller vouches for the handle and the work.
    unsafe {
        let stream = for_work(context, stream)?;
        if is_capturing(stream) { crate::session::append(stream, work) } else { work.run() }
    }
}

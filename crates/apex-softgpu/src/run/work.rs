//! What a stream can be given to do.
//!
//! [`give`] makes a task of it, at the end of a queue. Small work is done at once
//! where the queue is idle: nobody can tell the difference, and a task would cost
//! more. Kernels and host functions never are: they may wait for what the calling
//! thread does next.

use std::sync::Arc;

use apex_cuda::types::*;

use crate::border::Answer;
use crate::machine::clock;
use crate::memory::copy::Copy;
use crate::memory::fill::Fill;
use crate::memory::graph_memory::GraphMemory;
use crate::memory::operation::MemoryOperation;
use crate::run::context::call_back;
use crate::run::domain::{Domain, Job, Queue, Task};
use crate::run::launch::Launch;
use crate::run::mark::Mark;
use crate::run::scheduler::{enqueue, is_idle};
use crate::run::stream::Stream;

/// One piece of work.
#[derive(Clone)]
pub(crate) enum Work {
    /// A kernel.
    Kernel(Launch),
    /// A copy.
    Copy(Copy),
    /// Memory filled with a value.
    Fill(Fill),
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
    /// Memory of a graph, taken when the node was made.
    Allocate(Arc<GraphMemory>),
    /// Memory that the graph needs no more.
    Free { address: u64 },
    /// Words written and waited for.
    Memory(Arc<[MemoryOperation]>),
}

// SAFETY: the pointers inside are the program's, who gave them for the work to use.
unsafe impl Send for Work {}

/// The arguments of a host function.
pub(crate) struct Callback {
    pub(crate) data: *mut c_void,
    pub(crate) stream: CUstream,
}

// SAFETY: the program gave the pointer for its own function, to be called on any thread.
unsafe impl Send for Callback {}

impl Callback {
    /// Itself: a closure that names a field alone would take no more than the field,
    /// which may not be sent.
    pub(crate) fn whole(self) -> Callback {
        self
    }
}

/// Bytes up to which work is done at once where the stream is idle.
const AT_ONCE_BYTES: u64 = 16 << 10;

impl Work {
    /// The driver's number for a node with this work.
    pub(crate) fn node_type(&self) -> CUgraphNodeType {
        match self {
            Work::Kernel(_) => 0,
            Work::Copy(_) => 1,
            Work::Fill(_) => 2,
            Work::Host { .. } => 3,
            Work::Graph(_) => 4,
            Work::Empty => 5,
            Work::Wait(_) => 6,
            Work::Record(_) => 7,
            Work::Allocate(_) => 10,
            Work::Free { .. } => 11,
            Work::Memory(_) => 12,
        }
    }

    /// What a node with this work is called.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Work::Kernel(_) => "kernel",
            Work::Copy(_) => "copy",
            Work::Fill(_) => "set",
            Work::Host { .. } => "host",
            Work::Graph(_) => "graph",
            Work::Empty => "empty",
            Work::Wait(_) => "wait",
            Work::Record(_) => "record",
            Work::Allocate(_) => "allocate",
            Work::Free { .. } => "free",
            Work::Memory(_) => "memory",
        }
    }

    /// Refuses what could not be done, as far as it can be known beforehand.
    ///
    /// # Safety
    ///
    /// The handles inside are the program's.
    pub(crate) unsafe fn check(&self) -> Answer {
        match self {
            // SAFETY: the caller vouches for the handles.
            Work::Copy(copy) => unsafe { copy.check() },
            Work::Fill(set) => set.check(),
            _ => Ok(()),
        }
    }

    /// The work as tasks at the end of a queue; the last one.
    ///
    /// # Safety
    ///
    /// The memory and functions that the work names are there until it is done.
    pub(crate) unsafe fn queue(
        self,
        mut give: impl FnMut(&[Arc<Task>], Job) -> Arc<Task>,
    ) -> Result<Arc<Task>, CUresult> {
        Ok(match self {
            Work::Kernel(launch) => {
                crate::run::launch::count();
                give(&[], Job::Kernel(launch.for_engine()))
            }
            Work::Copy(copy) => {
                let bytes = copy.bytes();
                // SAFETY: the caller vouches for the memory.
                let run = Box::new(move || unsafe { copy.run() });
                give(&[], Job::Once { run, bytes })
            }
            Work::Fill(set) => {
                // SAFETY: the caller vouches for the memory.
                let run = Box::new(move || unsafe { set.run() });
                give(&[], Job::Once { run, bytes: set.bytes() })
            }
            Work::Host { function, data } => {
                let call = Callback { data, stream: core::ptr::null_mut() };
                let run = move |status| {
                    let Callback { data, .. } = call.whole();
                    // A context that failed calls no host function.
                    if let (Some(function), CUDA_SUCCESS) = (function, status) {
                        // SAFETY: the program gave the function for this call.
                        call_back(|| unsafe { function(data) });
                    }
                };
                give(&[], Job::Host(Box::new(run)))
            }
            // SAFETY: the caller vouches for the handle.
            Work::Record(event) => unsafe {
                let mark = Mark::new();
                let task = give(&[], Job::Mark(Arc::clone(&mark)));
                crate::run::event::set_mark(event, mark, &task)?;
                task
            },
            // SAFETY: the caller vouches for the handle.
            Work::Wait(event) => match unsafe { crate::run::event::waited_for(event) }? {
                crate::run::event::Awaited::Nothing => give(&[], Job::Nothing),
                crate::run::event::Awaited::Task(task) => give(&[task], Job::Nothing),
                crate::run::event::Awaited::Elsewhere(is_over) => give(&[], Job::Until(is_over)),
            },
            Work::Memory(orders) => {
                let mut next = 0;
                let advance = move || {
                    while orders.get(next).is_some_and(MemoryOperation::advance) {
                        next += 1;
                    }
                    next >= orders.len()
                };
                give(&[], Job::Until(Box::new(advance)))
            }
            Work::Graph(_) | Work::Empty | Work::Allocate(_) => give(&[], Job::Nothing),
            Work::Free { address } => {
                let run = move || crate::memory::graph_memory::note_free(address);
                give(&[], Job::Always(Box::new(run)))
            }
        })
    }

    /// Does the work at once if that is small, or says what remains to be done.
    ///
    /// # Safety
    ///
    /// The memory that the work names is there, and all work before it is done.
    unsafe fn done_at_once(&self) -> Option<Answer> {
        // SAFETY: the caller vouches for the memory.
        unsafe {
            match self {
                Work::Copy(copy) if copy.bytes() <= AT_ONCE_BYTES => Some(copy.run()),
                Work::Fill(set) if set.bytes() <= AT_ONCE_BYTES => Some(set.run()),
                Work::Record(event) => Some(crate::run::event::reach_now(*event)),
                Work::Empty => Some(Ok(())),
                Work::Memory(orders) if orders.iter().all(MemoryOperation::is_write) => {
                    orders.iter().for_each(|order| {
                        order.advance();
                    });
                    Some(Ok(()))
                }
                _ => None,
            }
        }
    }
}

/// Whether the stream is being captured, or was until an error ended it.
#[inline]
pub(crate) fn is_capturing(stream: Option<&Stream>) -> bool {
    stream.is_some_and(|stream| stream.capture_status() != 0)
}

/// Puts work into a queue, or does it at once; the task if there is one.
///
/// # Safety
///
/// As for `submit`.
pub(crate) unsafe fn give(
    domain: &Arc<Domain>,
    queue: &Arc<Queue>,
    work: Work,
) -> Result<Option<Arc<Task>>, CUresult> {
    domain.check()?;
    // SAFETY: the caller vouches for the work; nothing before it is under way.
    unsafe {
        if !clock::is_virtual()
            && is_idle(domain, queue)
            && let Some(answer) = work.done_at_once()
        {
            return answer.map(|()| None);
        }
        let task = work.queue(|after, job| enqueue(domain, queue, after, job))?;
        Ok(Some(task))
    }
}

//! Domains, queues and tasks: the work of one context, and its order.
//!
//! A [`Domain`] is what that work has in common: its queues, its failure, its device. A
//! [`Queue`] is the order of one stream's work and ends with a [`Task`]. A task belongs to
//! a domain, so the three stand in one file. How tasks are carried out is no concern of
//! theirs: that is [`crate::run::scheduler`].
//!
//! A context that failed stays failed: every later call answers with the first
//! fault until the context is destroyed or reset, and work that was queued is
//! dropped. Tasks hold their domain, so it outlives the context's handle.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use apex_cuda::types::*;
use apex_engine::{Device as Engine, Fault, Kind, Launch};

use crate::border::Answer;
use crate::machine::device::{Device, machine};
use crate::memory::heap::Heap;
use crate::object::lock;
use crate::run::mark::Mark;
use crate::run::services::Services;
use crate::settings::{say, settings};

/// What the work of one context has in common.
pub(crate) struct Domain {
    pub(crate) device: &'static Device,
    /// Tasks that are not done.
    pub(crate) pending: AtomicUsize,
    failed: AtomicU32,
    /// The stream that waits for all blocking ones and they for it.
    pub(crate) legacy: Arc<Queue>,
    queues: Mutex<Vec<Arc<Queue>>>,
    pub(crate) heap: Arc<Heap>,
    engine: OnceLock<Arc<Engine>>,
}

/// The order of one stream's work.
pub(crate) struct Queue {
    pub(crate) id: u64,
    /// The priority, 0 the highest.
    pub(crate) rank: usize,
    is_blocking: bool,
    /// The last task; changed only by the scheduler.
    pub(crate) tail: Mutex<Option<Arc<Task>>>,
    /// Whether its stream was destroyed.
    closed: AtomicBool,
}

/// A piece of work and its place in the order.
pub(crate) struct Task {
    pub(crate) domain: Arc<Domain>,
    pub(crate) queue: u64,
    pub(crate) rank: usize,
    pub(crate) for_worker: bool,
    pub(crate) done: AtomicBool,
    pub(crate) job: Mutex<Option<Job>>,
    pub(crate) links: Mutex<Links>,
    /// When the task ended on the virtual clock.
    pub(crate) end: AtomicU64,
}

/// Changed only under the scheduler's lock.
#[derive(Default)]
pub(crate) struct Links {
    pub(crate) waits: usize,
    pub(crate) before: Vec<Arc<Task>>,
    pub(crate) after: Vec<Arc<Task>>,
    pub(crate) start: u64,
}

/// What a task does.
pub(crate) enum Job {
    /// Nothing; a point to follow.
    Nothing,
    /// Tells the time of the point.
    Mark(Arc<Mark>),
    /// Runs a kernel.
    Kernel(Launch),
    /// Does something short with so many bytes; an error fails the context.
    Once { run: Box<dyn FnOnce() -> Result<(), CUresult> + Send>, bytes: u64 },
    /// Calls into the program, with the state of the context; on a worker only.
    Host(Box<dyn FnOnce(CUresult) + Send>),
    /// Is done when the function says so.
    Until(Box<dyn FnMut() -> bool + Send>),
    /// Cleans up; done even when the context has failed.
    Always(Box<dyn FnOnce() + Send>),
}

/// How many priorities streams can have.
pub(crate) const PRIORITY_RANKS: usize = 6;

impl Queue {
    fn new(priority: i32, is_blocking: bool) -> Arc<Queue> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let most = PRIORITY_RANKS as i32 - 1;
        Arc::new(Queue {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            rank: (priority + most).clamp(0, most) as usize,
            is_blocking,
            tail: Mutex::new(None),
            closed: AtomicBool::new(false),
        })
    }

    pub(crate) fn last(&self) -> Option<Arc<Task>> {
        lock(&self.tail).clone()
    }

    fn is_over(&self) -> bool {
        self.closed.load(Ordering::Acquire) && self.last().is_none_or(|task| task.is_done())
    }
}

impl Domain {
    pub(crate) fn new(device: &'static Device, heap_bytes: u64) -> Arc<Domain> {
        Arc::new(Domain {
            device,
            pending: AtomicUsize::new(0),
            failed: AtomicU32::new(CUDA_SUCCESS),
            legacy: Queue::new(0, true),
            queues: Mutex::default(),
            heap: Arc::new(Heap::new(device, heap_bytes)),
            engine: OnceLock::new(),
        })
    }

    /// A queue for a new stream.
    pub(crate) fn add_queue(&self, priority: i32, is_blocking: bool) -> Arc<Queue> {
        let queue = Queue::new(priority, is_blocking);
        let mut queues = lock(&self.queues);
        queues.retain(|queue| !queue.is_over());
        queues.push(Arc::clone(&queue));
        queue
    }

    /// The stream is gone; what is in its queue will still be done.
    pub(crate) fn close_queue(&self, queue: &Queue) {
        queue.closed.store(true, Ordering::Release);
        lock(&self.queues).retain(|queue| !queue.is_over());
    }

    /// Hands out the tasks that new work in a queue follows: the queue's last one, and
    /// between the legacy stream and blocking streams those of the other side.
    pub(crate) fn for_each_before(&self, queue: &Queue, mut take: impl FnMut(&Arc<Task>)) {
        let mut last = |queue: &Queue| {
            if let Some(task) = lock(&queue.tail).as_ref() {
                take(task);
            }
        };
        last(queue);
        if queue.id == self.legacy.id {
            lock(&self.queues)
                .iter()
                .filter(|queue| queue.is_blocking)
                .for_each(|other| last(other));
        } else if queue.is_blocking {
            last(&self.legacy);
        }
    }

    /// The tasks that end a queue: its last one; for the legacy stream also those of
    /// the streams that it would wait for.
    pub(crate) fn ends(&self, queue: &Queue) -> Vec<Arc<Task>> {
        let mut tasks = Vec::new();
        if queue.id == self.legacy.id {
            self.for_each_before(queue, |task| tasks.push(Arc::clone(task)));
        } else {
            tasks.extend(queue.last());
        }
        tasks.retain(|task| !task.is_done());
        tasks
    }

    /// Whether all work of a queue is done.
    pub(crate) fn is_drained(&self, queue: &Queue) -> bool {
        self.pending.load(Ordering::Acquire) == 0 || self.ends(queue).is_empty()
    }

    /// The queues of all streams, the legacy one included.
    pub(crate) fn all_queues(&self) -> Vec<Arc<Queue>> {
        lock(&self.queues).iter().chain([&self.legacy]).cloned().collect()
    }

    /// The last task of every queue.
    pub(crate) fn tails(&self) -> Vec<Arc<Task>> {
        self.all_queues().iter().filter_map(|queue| queue.last()).collect()
    }

    /// The error that the context failed with, or success.
    #[inline]
    pub(crate) fn failure(&self) -> CUresult {
        self.failed.load(Ordering::Acquire)
    }

    /// Refuses everything once the context has failed.
    #[inline]
    pub(crate) fn check(&self) -> Answer {
        match self.failure() {
            CUDA_SUCCESS => Ok(()),
            error => Err(error),
        }
    }

    /// Fails the context; the first error stays.
    pub(crate) fn fail(&self, error: CUresult) {
        let _ =
            self.failed.compare_exchange(CUDA_SUCCESS, error, Ordering::AcqRel, Ordering::Acquire);
    }

    /// A context that is reset begins anew.
    pub(crate) fn forget_failure(&self) {
        self.failed.store(CUDA_SUCCESS, Ordering::Release);
    }

    /// Fails the context with what stopped a kernel, and says where and why. A failed assertion was printed before.
    pub(crate) fn fault(&self, kernel: &str, fault: &Fault) {
        match fault {
            Fault::Cancelled | Fault::Assert(_) => {}
            Fault::Checked(_) | Fault::OutOfMemory => say(&format!("kernel {kernel}: {fault}")),
            _ => say(&fault.to_string()),
        }
        self.fail(result_of(fault));
    }

    /// What kernels of this context see of the device.
    pub(crate) fn engine(&self) -> Arc<Engine> {
        Arc::clone(self.engine.get_or_init(|| {
            Arc::new(Engine {
                identity: self.device.engine_identity(),
                checked: settings().softgpu_checked,
                jit: settings().softgpu_jit,
                window: machine().ok().map(|machine| machine.arena.window()),
                services: Box::new(Services::new(Arc::clone(&self.heap))),
            })
        }))
    }
}

impl Task {
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// When it ended, on the virtual clock.
    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }
}

/// The error number of what stopped a kernel.
fn result_of(fault: &Fault) -> CUresult {
    match fault {
        Fault::IllegalAddress { .. } => CUDA_ERROR_ILLEGAL_ADDRESS,
        Fault::MisalignedAddress { .. } => CUDA_ERROR_MISALIGNED_ADDRESS,
        Fault::IllegalInstruction { .. } => CUDA_ERROR_ILLEGAL_INSTRUCTION,
        Fault::Assert(_) => CUDA_ERROR_ASSERT,
        Fault::Checked(reports)
            if reports.iter().any(|report| report.kind == Kind::OutOfBounds) =>
        {
            CUDA_ERROR_ILLEGAL_ADDRESS
        }
        Fault::OutOfMemory => CUDA_ERROR_OUT_OF_MEMORY,
        Fault::Unsupported(_) => CUDA_ERROR_NOT_SUPPORTED,
        Fault::Cancelled => CUDA_SUCCESS,
        Fault::Deadlock(_) => CUDA_ERROR_LAUNCH_TIMEOUT,
        Fault::Trap(_) | Fault::Breakpoint(_) | Fault::InvalidLaunch(_) | Fault::Checked(_) => {
            CUDA_ERROR_LAUNCH_FAILED
        }
    }
}

//! Events: points in the order of a stream, and when they were reached.
//!
//! Recording makes a new [`Mark`] for the event and a task that reaches it; the event
//! always tells of its last mark, and a mark outlives its event while its task waits.
//! Recorded in a captured stream, an event stands for a place in the graph instead. A
//! stream that waits for it takes part in the capture. An event that is shared
//! with other processes also counts its records in memory that they see.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use apex_cuda::types::*;

use crate::border::Answer;
use crate::machine::clock;
use crate::memory::shared::SharedEvent;
use crate::object::{live, lock, object};
use crate::run::capture::Branch;
use crate::run::context::Context;
use crate::run::domain::{Domain, Task};
use crate::run::mark::Mark;

/// One event.
pub(crate) struct Event {
    pub(crate) flags: u32,
    pub(crate) domain: Arc<Domain>,
    state: Mutex<Recorded>,
    pub(crate) is_captured: AtomicBool,
    /// The place in a capture where it was last recorded.
    pub(crate) branch: Mutex<Option<Branch>>,
    /// What other processes see of it.
    pub(crate) shared: Option<Arc<SharedEvent>>,
}
object!(Event, b"event---");

/// The last record of an event.
#[derive(Clone, Default)]
pub(crate) struct Recorded {
    pub(crate) mark: Option<Arc<Mark>>,
    /// The task that reaches the mark; none when it was reached at once.
    pub(crate) task: Option<Arc<Task>>,
}

/// What a wait for an event waits for.
pub(crate) enum Awaited {
    /// The event was reached, or never recorded.
    Nothing,
    Task(Arc<Task>),
    /// A point in another process.
    Elsewhere(Box<dyn FnMut() -> bool + Send>),
}

pub(crate) const DISABLE_TIMING: u32 = 2;

impl Event {
    /// An event of this process or, with `shared`, of another one.
    pub(crate) fn new(context: &Context, flags: u32, shared: Option<Arc<SharedEvent>>) -> Event {
        Event {
            flags,
            domain: Arc::clone(&context.domain),
            state: Mutex::default(),
            is_captured: AtomicBool::new(false),
            branch: Mutex::new(None),
            shared,
        }
    }

    pub(crate) fn recorded(&self) -> Recorded {
        lock(&self.state).clone()
    }

    /// Whether its last record was reached, here or elsewhere.
    pub(crate) fn is_reached(&self) -> bool {
        let here = self.recorded().task.is_none_or(|task| task.is_done());
        here && self.shared.as_ref().is_none_or(|shared| shared.is_reached())
    }

    fn set(&self, mark: Arc<Mark>, task: Option<Arc<Task>>) {
        if self.is_captured.swap(false, Ordering::Relaxed) {
            *lock(&self.branch) = None;
        }
        if let Some(shared) = &self.shared {
            let count = shared.record();
            let mut kept = lock(&mark.shared);
            // The task may have reached the mark before the count was known.
            if mark.time.load(Ordering::Acquire) != 0 {
                shared.reach(count);
            }
            *kept = Some((Arc::clone(shared), count));
        }
        *lock(&self.state) = Recorded { mark: Some(mark), task };
    }
}

/// The event was recorded by a task.
///
/// # Safety
///
/// The handle is the program's.
pub(crate) unsafe fn set_mark(event: CUevent, mark: Arc<Mark>, task: &Arc<Task>) -> Answer {
    // SAFETY: the caller vouches for the handle.
    unsafe { live::<Event, _>(event) }?.set(mark, Some(Arc::clone(task)));
    Ok(())
}

/// The event is recorded and reached at once.
///
/// # Safety
///
/// The handle is the program's.
pub(crate) unsafe fn reach_now(event: CUevent) -> Answer {
    let mark = Mark::new();
    mark.reach(clock::now(0));
    // SAFETY: the caller vouches for the handle.
    unsafe { live::<Event, _>(event) }?.set(mark, None);
    Ok(())
}

/// What a wait for the event waits for now.
///
/// # Safety
///
/// The handle is the program's.
pub(crate) unsafe fn waited_for(event: CUevent) -> Result<Awaited, CUresult> {
    // SAFETY: the caller vouches for the handle.
    let event: &Event = unsafe { live(event) }?;
    if let Some(task) = event.recorded().task.filter(|task| !task.is_done() || clock::is_virtual())
    {
        return Ok(Awaited::Task(task));
    }
    Ok(match &event.shared {
        Some(shared) if !shared.is_reached() => {
            let (shared, count) = (Arc::clone(shared), shared.recorded());
            Awaited::Elsewhere(Box::new(move || shared.has_reached(count)))
        }
        _ => Awaited::Nothing,
    })
}

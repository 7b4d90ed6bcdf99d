//! One event as it is kept: its times in nanoseconds, its thread named, its open questions decided.
//!
//! A row is what every later part works on. The collector makes rows of events as they come, and
//! [`crate::read`] makes the same rows of a stored session, so a report made from disk equals the one
//! printed at exit.

use apex_core::event::{CallId, Copy, Direction, ObjectKind, TimeBasis, What};
use apex_cuda::Function;
use std::collections::HashMap;
use std::sync::OnceLock;

/// One event, resolved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Nanoseconds from the session's start to the call; for a GPU time by CUPTI, to the kernel's start.
    pub time_ns: u64,
    /// Nanoseconds in the driver; see [`Row::host`].
    pub host_ns: u64,
    /// Number of the process within the session: a process id may come back, this does not.
    pub process: u32,
    /// Process id.
    pub pid: u32,
    /// Thread id; 0 if the thread's first event was lost.
    pub tid: u32,
    /// The driver function, by its place in the table of this apex.
    pub call: CallId,
    /// The driver's answer.
    pub result: u16,
    /// Device ordinal, where known.
    pub device: Option<u8>,
    /// Number of the context within the process; 0 for none.
    pub context: u16,
    /// Stream handle.
    pub stream: u64,
    /// What happened. A copy's direction and a freed range's size and kind are decided here.
    pub what: What,
    /// For a copy with a host side: whether that side was pageable memory.
    pub pageable: Option<bool>,
}

impl Row {
    /// The driver's name for the function; `unknown` if this apex has no such row in its table.
    #[must_use]
    pub fn function(&self) -> &'static str {
        call_name(self.call)
    }

    /// Whether the row is a call of the program's own. Others tell of a call before them, or of a thread, and
    /// would count that call once more.
    #[must_use]
    pub fn is_call(&self) -> bool {
        match self.what {
            What::GpuTime { .. } | What::Passed { .. } | What::Contents { .. } => false,
            What::Life(life) => life.object != ObjectKind::Thread,
            _ => true,
        }
    }

    /// The word for what happened.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.what {
            What::Launch(_) => "launch",
            What::GraphLaunch { .. } => "graph-launch",
            What::Alloc { .. } => "alloc",
            What::Free { .. } => "free",
            What::Copy(_) => "copy",
            What::Set(_) => "set",
            What::Sync { .. } => "sync",
            What::Life(_) => "life",
            What::Load { .. } => "load",
            What::GpuTime { .. } => "gpu-time",
            What::Passed { .. } => "passed",
            What::Contents { .. } => "contents",
            What::Other => "other",
        }
    }

    /// End of the call on the session's clock; for a GPU time by CUPTI, of the kernel.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        match self.what {
            What::GpuTime { nanos, basis: TimeBasis::Cupti, .. } => {
                self.time_ns.saturating_add(nanos)
            }
            _ => self.time_ns.saturating_add(self.host_ns),
        }
    }

    /// Time in the driver; none for a launch whose end was not read, because the clock is slow there.
    #[must_use]
    pub fn host(&self) -> Option<u64> {
        let unread = self.host_ns == 0 && matches!(self.what, What::Launch(_));
        (!unread).then_some(self.host_ns)
    }

    /// A copy that returns only when it and the work before it are done.
    #[must_use]
    pub fn is_blocking_copy(&self) -> bool {
        let What::Copy(Copy { direction, asynchronous, captured: false, .. }) = self.what else {
            return false;
        };
        let to_pageable = direction == Direction::DeviceToHost && self.pageable == Some(true);
        let may_have_host_side = has_host_side(direction) || direction == Direction::Unstated;
        to_pageable || (!asynchronous && may_have_host_side)
    }

    /// The driver accepted the call.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.result == 0
    }
}

/// The name of the function at a place of the table; `unknown` if this apex has no such row.
#[must_use]
pub fn call_name(call: CallId) -> &'static str {
    Function::from_index(call.0).map_or("unknown", Function::name)
}

/// The place of a function in the table by its name; the unknown place if it is not there.
#[must_use]
pub fn call_named(name: &str) -> CallId {
    static PLACES: OnceLock<HashMap<&'static str, u16>> = OnceLock::new();
    let places = PLACES.get_or_init(|| {
        Function::ALL.iter().zip(0..).map(|(function, place)| (function.name(), place)).collect()
    });
    CallId(places.get(name).copied().unwrap_or(u16::MAX))
}

/// Whether a copy in this direction has a host side.
#[must_use]
pub fn has_host_side(direction: Direction) -> bool {
    matches!(direction, Direction::HostToDevice | Direction::DeviceToHost)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A row of the first process: what happened and when, all else as plain as can be.
    pub(crate) fn row(time_ns: u64, what: What) -> Row {
        Row {
            time_ns,
            host_ns: 0,
            process: 0,
            pid: 1,
            tid: 1,
            call: CallId(0),
            result: 0,
            device: None,
            context: 1,
            stream: 0,
            what,
            pageable: None,
        }
    }

    #[test]
    fn copies_that_wait_are_told_from_those_that_do_not() {
        let copy = |direction, asynchronous, pageable| {
            let what = What::Copy(Copy {
                direction,
                asynchronous,
                captured: false,
                to: 0,
                from: 0,
                bytes: 8,
            });
            Row { pageable, ..row(0, what) }.is_blocking_copy()
        };
        assert!(copy(Direction::DeviceToHost, false, Some(false)));
        assert!(copy(Direction::HostToDevice, false, Some(true)));
        assert!(copy(Direction::DeviceToHost, true, Some(true)), "pageable memory is waited for");
        assert!(!copy(Direction::DeviceToHost, true, Some(false)));
        assert!(!copy(Direction::DeviceToDevice, false, None));
    }

    #[test]
    fn a_function_is_found_by_its_name() {
        let place = call_named("cuLaunchKernel");
        assert_eq!(Function::from_index(place.0).map(Function::name), Some("cuLaunchKernel"));
        assert_eq!(call_named("cuNever"), CallId(u16::MAX));
    }
}

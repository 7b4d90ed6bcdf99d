//! Checked mode: looks at every access like compute-sanitizer does.
//!
//! Errors are collected for the whole launch, one report for each line and kind, with how
//! often it happened; only an access that would touch memory that is not there ends the
//! launch.

mod checker;
mod shadow;

pub(crate) use checker::{CheckedStep, Checker, Finding};

use crate::site::Site;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Outside of every allocation, or of the block's or the thread's own memory.
    OutOfBounds,
    /// Two threads touch the same bytes between two barriers, and one writes.
    Race,
    /// Memory that nothing was written to.
    Uninitialised,
    /// Only some threads of a warp come to a barrier.
    DivergentBarrier,
}

/// One error, with the first place it was found at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What is wrong.
    pub kind: Kind,
    /// Where it was first found.
    pub place: Site,
    /// What was touched: a host address, or an offset in shared or local memory.
    pub address: u64,
    /// Bytes of the access.
    pub bytes: u32,
    /// What else is known, such as the nearest allocation.
    pub detail: String,
    /// How often it was found on this line.
    pub count: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            Kind::OutOfBounds => "out of bounds",
            Kind::Race => "race",
            Kind::Uninitialised => "uninitialised read",
            Kind::DivergentBarrier => "divergent barrier",
        };
        write!(f, "{what} in {}", self.place)?;
        if self.bytes != 0 {
            write!(f, ": {} bytes at {:#x}", self.bytes, self.address)?;
        }
        if !self.detail.is_empty() {
            write!(f, ", {}", self.detail)?;
        }
        if self.count > 1 {
            write!(f, " ({} times)", self.count)?;
        }
        Ok(())
    }
}

/// All errors of a launch.
#[derive(Debug, Default)]
pub(crate) struct Findings(Mutex<BTreeMap<(u32, Kind), Report>>);

impl Findings {
    pub(crate) fn add(&self, report: Report) {
        let mut all = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let key = (report.place.line, report.kind);
        all.entry(key).and_modify(|known| known.count += 1).or_insert(report);
    }

    pub(crate) fn reports(&self) -> Vec<Report> {
        let all = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        all.values().cloned().collect()
    }
}

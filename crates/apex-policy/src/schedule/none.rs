//! Nobody waits: the GPU shares itself as it does without apex.

use super::policy::{Device, Observed, Policy, Settings};
use crate::gate::Limits;

/// Every program is open.
#[derive(Debug)]
pub(super) struct None;

impl Policy for None {
    fn name(&self) -> &'static str {
        "none"
    }

    fn step(&mut self, _now_ns: u64, _device: &Device, programs: &[Observed<'_>]) -> Settings {
        Settings { programs: vec![Limits::OPEN; programs.len()] }
    }
}

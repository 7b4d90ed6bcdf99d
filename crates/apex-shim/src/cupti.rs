//! Full timing: every kernel's time from CUPTI's activity records.
pub(crate) fn start_once() {}

//! What the driver refused of a tuning.

use crate::state::outputs;
use crate::state::tuning::complain;
use apex_cuda::types::CUresult;
use std::sync::atomic::{AtomicBool, Ordering};

/// The driver refused something of ours: reported, once for each thing of this sort.
#[cold]
pub(super) fn was_refused(what: &str, result: CUresult) {
    outputs::count(|outputs| outputs.refused += 1);
    static COMPLAINED: AtomicBool = AtomicBool::new(false);
    if !COMPLAINED.swap(true, Ordering::Relaxed) {
        complain(&format!(
            "the driver refused {what} of the tuning ({result}): the program's own is used"
        ));
    }
}

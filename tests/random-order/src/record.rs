//! What a thread could observe: answers of calls, words that it read, the order of its callbacks.

use crate::kernels::WORDS;
use apex_cuda::types::{CUDA_ERROR_NOT_READY, CUDA_SUCCESS, CUresult};

/// One thing observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The act in which it was, by its number in the thread.
    pub(crate) act: usize,
    pub(crate) what: &'static str,
    pub(crate) value: u64,
}

/// All that one thread observed, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) seen: Vec<Seen>,
    /// The act under way.
    pub(crate) act: usize,
}

impl Record {
    pub(crate) fn note(&mut self, what: &'static str, value: u64) {
        self.seen.push(Seen { act: self.act, what, value });
    }

    pub(crate) fn answer(&mut self, what: &'static str, result: CUresult) -> CUresult {
        self.note(what, result.into());
        result
    }

    /// An answer that depends on how far the GPU is.
    pub(crate) fn early_answer(&mut self, what: &'static str, result: CUresult) {
        let settled = if result == CUDA_ERROR_NOT_READY { CUDA_SUCCESS } else { result };
        self.note(what, settled.into());
    }

    pub(crate) fn words(&mut self, what: &'static str, words: &[u32; WORDS]) {
        let mix = |sum: u64, &word: &u32| {
            (sum ^ u64::from(word)).wrapping_mul(0x0100_0000_01b3).rotate_left(17)
        };
        self.note(what, words.iter().fold(0xcbf2_9ce4_8422_2325, mix));
    }
}

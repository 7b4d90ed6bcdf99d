//! The fences of this program on one GPU: the orders in its streams, and the page's words that they wait for.
//!
//! What a fence is, and when one is due, `apex_policy::gate` says. Here the driver puts them. What always holds:
//!
//! 1. Nobody can hold the GPU for ever: a thread of this process ([`super::watch`]) opens the fences when whoever
//!    closed them is no longer believed, or work has waited for the policy's patience.
//! 2. Fences are put only in the context in which the GPU knows the page. Elsewhere, while anything is captured, and
//!    where the driver refuses, launches are held before they go down.

use super::word::{Fences, Flight, Streams};
use crate::driver::driver;
use crate::settings::{knobs, log_line};
use apex_core::gate_page::{self, Page};
use apex_cuda::types::{CUDA_SUCCESS, CUcontext, CUdeviceptr, CUresult, CUstream};
use apex_policy::gate::{FENCES, FenceWords};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The page is already known to the GPU.
const ALREADY_REGISTERED: CUresult = 712;
const _: () = assert!(FENCES == gate_page::FENCES, "as many as have a place on the page");

/// The fences of a program on one GPU.
pub(super) struct DeviceFences {
    /// The context they are put in; null for none.
    context: AtomicU64,
    /// Where the GPU has the words of the page's programs.
    base: AtomicU64,
    is_refused: AtomicBool,
    is_watched: AtomicBool,
    fences: Fences,
}

impl DeviceFences {
    pub(super) fn new() -> DeviceFences {
        DeviceFences {
            context: AtomicU64::new(0),
            base: AtomicU64::new(0),
            is_refused: AtomicBool::new(!knobs().fences),
            is_watched: AtomicBool::new(false),
            fences: Fences::default(),
        }
    }

    /// Where they are, by the page. The last one there is the program itself knows: others may write anything there.
    pub(super) fn words(&self, page: &Page, slot: usize) -> FenceWords {
        words(page, slot, self.fences.last())
    }

    /// The same for whoever asks of one fence alone, whether the GPU has come there.
    pub(super) fn words_at(&self, page: &Page, slot: usize, fence: u32) -> FenceWords {
        let there = page.reached(slot, fence).load(Ordering::Relaxed);
        FenceWords {
            last: self.fences.last(),
            reached: if there == fence { fence } else { 0 },
            through: page.through(slot).load(Ordering::Relaxed),
            past: page.past(slot).load(Ordering::Relaxed),
        }
    }

    /// Lets work through all fences. The page's number is put right first: it says which those are.
    pub(super) fn open(&self, page: &Page, slot: usize) {
        page.fence(slot).store(self.fences.last(), Ordering::SeqCst);
        open(page, slot);
    }

    /// Whether fences are put in this context.
    #[inline(always)]
    pub(super) fn serve(&self, context: CUcontext) -> bool {
        self.context.load(Ordering::Relaxed) == context as u64 && !context.is_null()
    }

    /// Makes the page known to the GPU, so that fences can be put in this context. `watch` begins the thread that opens
    /// them; it is called once. False where that cannot be had, or another context has them.
    #[cold]
    pub(super) fn begin(
        &self,
        page: &Page,
        slot: usize,
        context: CUcontext,
        watch: impl FnOnce() -> bool,
    ) -> bool {
        if self.is_refused.load(Ordering::Relaxed)
            || self.context.load(Ordering::Relaxed) != 0
            || context.is_null()
        {
            return false;
        }
        const PORTABLE_AND_MAPPED: u32 = 3;
        let (start, bytes) = page.programs_at();
        let mut base: CUdeviceptr = 0;
        // SAFETY: a mapping of our own that is never unmapped, and a place for the answer.
        let result = unsafe {
            let start = start.cast_mut().cast();
            match (driver().cuMemHostRegister_v2)(start, bytes, PORTABLE_AND_MAPPED) {
                CUDA_SUCCESS | ALREADY_REGISTERED => {
                    (driver().cuMemHostGetDevicePointer_v2)(&raw mut base, start, 0)
                }
                refused => refused,
            }
        };
        if result != CUDA_SUCCESS {
            self.refuse(&format!(
                "the GPU cannot see the page that programs share (error {result}): launches are held one by one"
            ));
            return false;
        }
        if !self.is_watched.swap(true, Ordering::Relaxed) && !watch() {
            self.refuse("there is no thread to watch over fences: launches are held one by one");
            return false;
        }
        self.open(page, slot);
        self.base.store(base, Ordering::Relaxed);
        self.context.store(context as u64, Ordering::Release);
        true
    }

    /// Whether a fence is due before a launch: see `apex_policy::gate`.
    #[inline]
    pub(super) fn is_due(
        &self,
        (page, slot): (&Page, usize),
        streams: &Streams,
        key: u64,
        predicted_ns: u64,
        budget_ns: u64,
    ) -> bool {
        let words = |fence| self.words_at(page, slot, fence);
        self.fences.is_due(streams, key, predicted_ns, budget_ns, words)
    }

    /// Puts a fence into a stream, where there is room and the driver takes it.
    pub(super) fn put(&self, page: &Page, slot: usize, streams: &Streams, key: u64, stream: u64) {
        let Some(fence) = self.fences.begin(streams, key) else { return };
        page.fence(slot).store(fence, Ordering::SeqCst);
        let (start, _) = page.programs_at();
        let base = self.base.load(Ordering::Relaxed);
        let known_at =
            |word: &AtomicU32| -> CUdeviceptr { base + ((&raw const *word) as u64 - start as u64) };
        const AT_LEAST: u32 = 0;
        let reached = known_at(page.reached(slot, fence));
        let through = known_at(page.through(slot));
        // SAFETY: words of the page, which this context knows as long as it lives, and the stream that the
        // program is about to use; if they do not fit the driver says so.
        let result = unsafe {
            match (driver().cuStreamWriteValue32_v2)(stream as CUstream, reached, fence, 0) {
                CUDA_SUCCESS => {
                    (driver().cuStreamWaitValue32_v2)(stream as CUstream, through, fence, AT_LEAST)
                }
                refused => refused,
            }
        };
        self.fences.end(streams, fence, result == CUDA_SUCCESS);
        if result != CUDA_SUCCESS {
            self.refuse(&format!("the driver takes no fence (error {result})"));
        }
    }

    /// Learns from the fences that the GPU has come to what is done. Says whether anything was.
    pub(super) fn learn(
        &self,
        (page, slot): (&Page, usize),
        streams: &Streams,
        flight: &Flight,
        now_ns: u64,
    ) -> bool {
        let is_reached = |fence| page.reached(slot, fence).load(Ordering::Acquire) == fence;
        self.fences.learn(streams, flight, is_reached, now_ns)
    }

    /// Predicted time of what the GPU does before it comes to the fence after this one.
    pub(super) fn before_next_ns(&self, streams: &Streams, flight: &Flight, reached: u32) -> u64 {
        self.fences.before_next_ns(streams, flight, reached)
    }

    /// The context ends, or another: its streams and their fences are gone with it.
    pub(super) fn forget(&self, page: &Page, slot: usize) {
        self.context.store(0, Ordering::Relaxed);
        self.fences.forget();
        self.open(page, slot);
    }

    fn refuse(&self, sentence: &str) {
        self.is_refused.store(true, Ordering::Relaxed);
        self.context.store(0, Ordering::Relaxed);
        log_line(sentence);
    }
}

fn words(page: &Page, slot: usize, last: u32) -> FenceWords {
    FenceWords {
        last,
        reached: page.last_reached(slot, last),
        through: page.through(slot).load(Ordering::SeqCst),
        past: page.past(slot).load(Ordering::Relaxed),
    }
}

/// Lets work of a slot through all its fences, those to come too.
pub(super) fn open(page: &Page, slot: usize) {
    let last = page.fence(slot).load(Ordering::Relaxed);
    page.through(slot).store(FenceWords::opened(last), Ordering::SeqCst);
}

/// Lets no more work of a slot through.
pub(super) fn close(page: &Page, slot: usize) {
    let last = page.fence(slot).load(Ordering::SeqCst);
    if let Some(past) = words(page, slot, last).past_when_closed() {
        page.past(slot).store(past, Ordering::Relaxed);
    }
    page.through(slot).store(FenceWords::closed(last), Ordering::SeqCst);
}

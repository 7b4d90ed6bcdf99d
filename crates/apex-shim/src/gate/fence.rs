//! Places in a program's streams at which the GPU itself waits while a burst is open.
//!
//! A program that is held before its launches stands still while a burst is open, and the GPU stands still while the
//! program wakes up. Behind a fence it need not be held: it launches ahead, and the GPU stops at the next fence and
//! goes on by itself. A fence is two orders in the stream: the GPU writes that it has come there, when all before it
//! is done, and then waits until the page lets that fence through. Whoever begins a burst closes the fences of those
//! who yield to it with one store, and opens them when it ends. What always holds:
//!
//! 1. Nobody can hold the GPU for ever: a thread of this process ([`super::watch`]) opens the fences when whoever
//!    closed them is no longer believed, or work has waited for the policy's patience.
//! 2. Fences are put only in the context in which the GPU knows the page. Elsewhere, while anything is captured, and
//!    where the driver refuses, launches are held before they go down.

use super::view::{bits, gated_others};
use super::{Gate, watch};
use crate::capture;
use crate::exports::driver;
use crate::process::{knobs, log_line};
use apex_core::gate_page::{FENCES, Grant, Own, Page, Shared, is_before};
use apex_core::time::monotonic_nanos;
use apex_cuda::types::{CUDA_SUCCESS, CUcontext, CUdeviceptr, CUresult, CUstream};
use apex_policy::schedule::{Admission, Bottleneck, Kind, Work, admit, parts};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Longer blocks count as this long.
const LONGEST_NS: u64 = 1_000_000_000;
/// The page is already known to the GPU.
const ALREADY_REGISTERED: CUresult = 712;

/// The fences of a program on one GPU.
pub(super) struct Fences {
    /// The context they are put in; null for none.
    context: AtomicU64,
    /// Where the GPU has the words of the page's programs.
    base: AtomicU64,
    /// The last fence there is. The page's is for others, who may write anything there.
    last: AtomicU32,
    is_refused: AtomicBool,
    is_watched: AtomicBool,
    /// A thread puts one.
    is_taken: AtomicBool,
    pieces: [Piece; FENCES as usize],
}

/// The work behind a fence, until the next one of its stream.
#[derive(Default)]
struct Piece {
    /// The fence; zero for none, or once it is known that the GPU has come there.
    fence: AtomicU32,
    /// The place of its stream in [`super::flight`], and what had been launched there before.
    place: AtomicU32,
    before: AtomicU64,
    predicted: AtomicU64,
    /// Times of its blocks, each as often as its launch is long.
    blocks: AtomicU64,
    sms: AtomicU32,
    pressed: [AtomicU64; 3],
}

impl Fences {
    pub(super) fn new() -> Fences {
        Fences {
            context: AtomicU64::new(0),
            base: AtomicU64::new(0),
            last: AtomicU32::new(0),
            is_refused: AtomicBool::new(!knobs().fences),
            is_watched: AtomicBool::new(false),
            is_taken: AtomicBool::new(false),
            pieces: core::array::from_fn(|_| Piece::default()),
        }
    }

    fn piece(&self, fence: u32) -> &Piece {
        &self.pieces[(fence % FENCES) as usize]
    }

    /// The work behind a fence.
    pub(super) fn work(&self, fence: u32) -> Work {
        let piece = self.piece(fence);
        let pressed = [0, 1, 2].map(|on: usize| piece.pressed[on].load(Ordering::Relaxed));
        let most = (0..3).max_by_key(|&on| pressed[on]).unwrap_or(0);
        let predicted_ns = piece.predicted.load(Ordering::Relaxed);
        Work {
            predicted_ns,
            block_ns: piece.blocks.load(Ordering::Relaxed) / predicted_ns.max(1),
            sms_needed: piece.sms.load(Ordering::Relaxed),
            bottleneck: Bottleneck::from_code(most as u8),
            kind: Kind::Kernel,
        }
    }

    /// Tells of every fence that the GPU was not known to have come to whether it has: the place of its stream, and
    /// what had been launched there before.
    pub(super) fn look(&self, page: &Page, slot: usize, mut tell: impl FnMut(usize, u64, bool)) {
        for piece in &self.pieces {
            let fence = piece.fence.load(Ordering::Acquire);
            if fence != 0 {
                let is_reached = page.reached(slot, fence).load(Ordering::Acquire) == fence;
                let place = piece.place.load(Ordering::Relaxed) as usize;
                tell(place, piece.before.load(Ordering::Relaxed), is_reached);
                if is_reached {
                    let word = &piece.fence;
                    let _ = word.compare_exchange(fence, 0, Ordering::Relaxed, Ordering::Relaxed);
                }
            }
        }
    }

    /// The last fence there is.
    pub(super) fn last(&self) -> u32 {
        self.last.load(Ordering::SeqCst)
    }

    /// Lets work through all fences. The page's number is put right first: it says which those are.
    pub(super) fn open(&self, page: &Page, slot: usize) {
        page.fence(slot).store(self.last(), Ordering::SeqCst);
        page.open_fences(slot);
    }

    /// Whether fences are put in this context.
    #[inline(always)]
    pub(super) fn serve(&self, context: CUcontext) -> bool {
        self.context.load(Ordering::Relaxed) == context as u64 && !context.is_null()
    }

    /// The context ends, or another: its streams and their fences are gone with it.
    pub(super) fn forget(&self, page: &Page, slot: usize) {
        self.context.store(0, Ordering::Relaxed);
        self.pieces.iter().for_each(|piece| piece.fence.store(0, Ordering::Relaxed));
        self.open(page, slot);
    }

    fn refuse(&self, sentence: &str) {
        self.is_refused.store(true, Ordering::Relaxed);
        self.context.store(0, Ordering::Relaxed);
        log_line(sentence);
    }

    /// Puts a fence into a stream. None where there is no room, or the driver refuses.
    fn put(&self, page: &Page, slot: usize, stream: u64, place: usize, before: u64) -> Option<u32> {
        if self.is_taken.swap(true, Ordering::Acquire) {
            return None;
        }
        let fence = self.last().wrapping_add(1).max(1);
        let put = self.piece(fence).begin(fence, place, before).then(|| {
            self.last.store(fence, Ordering::SeqCst);
            page.fence(slot).store(fence, Ordering::SeqCst);
            let (start, _) = page.programs_at();
            let base = self.base.load(Ordering::Relaxed);
            let known_at = |word: &AtomicU32| -> CUdeviceptr {
                base + ((&raw const *word) as u64 - start as u64)
            };
            const AT_LEAST: u32 = 0;
            let reached = known_at(page.reached(slot, fence));
            let through = known_at(page.through(slot));
            // SAFETY: words of the page, which this context knows as long as it lives, and the stream that the
            // program is about to use; if they do not fit the driver says so.
            unsafe {
                let result =
                    (driver().cuStreamWriteValue32_v2)(stream as CUstream, reached, fence, 0);
                if result != CUDA_SUCCESS {
                    return result;
                }
                (driver().cuStreamWaitValue32_v2)(stream as CUstream, through, fence, AT_LEAST)
            }
        });
        self.is_taken.store(false, Ordering::Release);
        match put {
            Some(CUDA_SUCCESS) => Some(fence),
            Some(result) => {
                self.piece(fence).fence.store(0, Ordering::Relaxed);
                self.refuse(&format!("the driver takes no fence (error {result})"));
                None
            }
            None => None,
        }
    }
}

impl Piece {
    /// Takes the place for another fence, if the GPU was seen to have come to the one that had it.
    fn begin(&self, fence: u32, place: usize, before: u64) -> bool {
        if self.fence.load(Ordering::Relaxed) != 0 {
            return false;
        }
        for word in self.pressed.iter().chain([&self.predicted, &self.blocks]) {
            word.store(0, Ordering::Relaxed);
        }
        self.sms.store(0, Ordering::Relaxed);
        self.place.store(place as u32, Ordering::Relaxed);
        self.before.store(before, Ordering::Relaxed);
        self.fence.store(fence, Ordering::Release);
        true
    }

    fn add(&self, work: &Work) {
        self.predicted.fetch_add(work.predicted_ns, Ordering::Relaxed);
        let blocks = work.predicted_ns.saturating_mul(work.block_ns.min(LONGEST_NS));
        self.blocks.fetch_add(blocks, Ordering::Relaxed);
        self.sms.fetch_max(work.sms_needed, Ordering::Relaxed);
        self.pressed[work.bottleneck as usize].fetch_add(work.predicted_ns, Ordering::Relaxed);
    }
}

impl Gate {
    /// Whether launches of this context go behind fences; not of a program that only keeps to its share. The first
    /// time it is tried.
    #[inline(always)]
    pub(super) fn has_fences(&self, context: CUcontext) -> bool {
        !capture::any()
            && self.yields_to() != 0
            && (self.fences.serve(context) || self.begin_fences(context))
    }

    #[cold]
    fn begin_fences(&self, context: CUcontext) -> bool {
        let fences = &self.fences;
        if fences.is_refused.load(Ordering::Relaxed)
            || fences.context.load(Ordering::Relaxed) != 0
            || context.is_null()
        {
            return false;
        }
        const PORTABLE_AND_MAPPED: u32 = 3;
        let (start, bytes) = self.page.programs_at();
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
            fences.refuse(&format!(
                "the GPU cannot see the page that programs share (error {result}): launches are held one by one"
            ));
            return false;
        }
        if !fences.is_watched.swap(true, Ordering::Relaxed) && !watch::begin(self) {
            fences.refuse("there is no thread to watch over fences: launches are held one by one");
            return false;
        }
        fences.open(&self.page, self.slot);
        fences.base.store(base, Ordering::Relaxed);
        fences.context.store(context as u64, Ordering::Release);
        true
    }

    /// Before a launch behind fences: puts one where it is due.
    pub(super) fn fence_before(&self, work: &Work, stream: u64, key: u64) {
        let (place, launched, fence) = self.flight.since_fence(key);
        let piece = self.fences.piece(fence);
        let budget = self.page.grant(self.slot, Grant::BudgetNs);
        let joins = fence != 0 && !parts(&self.fences.work(fence), work, budget);
        if joins && (!self.is_past(fence) || self.goes_beside(work)) {
            return piece.add(work);
        }
        self.learn_of_fences();
        match self.fences.put(&self.page, self.slot, stream, place, launched) {
            Some(fence) => {
                self.flight.fenced(place, fence);
                self.fences.piece(fence).add(work);
            }
            None => piece.add(work),
        }
    }

    /// Whether the GPU has gone through this fence while the next one would stop it: what is launched now would follow
    /// at once. Where it stands at the fence it would not.
    fn is_past(&self, fence: u32) -> bool {
        let (page, slot) = (&self.page, self.slot);
        let through = page.through(slot).load(Ordering::Relaxed);
        !is_before(self.fences.last(), through)
            && page.reached(slot, fence).load(Ordering::Relaxed) == fence
            && (!is_before(through, fence) || page.past(slot).load(Ordering::Relaxed) == fence)
    }

    /// Whether work may follow at once beside an open burst. A program that is no faster than the GPU would else put a
    /// fence before every launch, which costs it as much as the launch, for the watch to let it through.
    fn goes_beside(&self, work: &Work) -> bool {
        let Admission::Go { harm_ns } = admit(&self.view(monotonic_nanos(), 0), work) else {
            return false;
        };
        self.harms(harm_ns);
        true
    }
}

/// Of so much that a program has left on the GPU, what is not behind a closed fence, or behind the next where all are
/// open.
pub(super) fn before_fence(page: &Page, slot: usize, left_ns: u64) -> u64 {
    match page.fence(slot).load(Ordering::Relaxed) {
        0 => left_ns,
        _ => left_ns.min(page.own(slot, Own::PieceNs).load(Ordering::Relaxed)),
    }
}

/// A burst of the program in this slot has begun: who yields to it stops at the next fence. Whoever may go on beside it
/// is woken to say with what, and not only when its thread would look again.
pub(super) fn stop_others(page: &Page, slot: usize) {
    let mut goes_on = false;
    for other in bits(gated_others(page, slot)) {
        if page.grant(other, Grant::YieldsTo) >> slot & 1 != 0 {
            page.close_fences(other);
            goes_on |= page.grant(other, Grant::BesideHarmNs) > 0;
        }
    }
    if goes_on {
        page.wake_all();
    }
}

/// A burst of the program in this slot has ended: who yielded to it goes on, unless it must wait a moment longer.
pub(super) fn let_others_go(page: &Page, slot: usize) {
    for other in bits(gated_others(page, slot)) {
        let yields_to = page.grant(other, Grant::YieldsTo);
        let is_open = || page.shared(Shared::BurstsOpen).load(Ordering::SeqCst) & yields_to != 0;
        if yields_to >> slot & 1 != 0 && page.grant(other, Grant::GuardNs) == 0 && !is_open() {
            page.open_fences(other);
            // Another burst may have begun between the two.
            if is_open() {
                page.close_fences(other);
            }
        }
    }
}

//! What is known of each function, found by its handle without a lock.
//!
//! Nothing that stands here is ever freed, for another thread may look at it. When code is unloaded or a context ends,
//! handles may come back as others': then all are forgotten, and what is still used is met anew.

use super::images::Owner;
use super::past::Past;
use super::plan::Comparable;
use super::timing::Timing;
use apex_cuda::types::CUfunction;
use apex_policy::duel::Duel;
use apex_policy::specialise::{Proof, Watch};
use apex_ptx::tree::Module;
use core::ptr::{from_ref, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Places for functions; one that finds none is launched as it is.
const PLACES: usize = 4_096;
/// Places that are looked at from a handle's own on.
const NEIGHBOURS: usize = 8;
/// Functions that are ever met in a process.
const MOST_MET: u64 = 16_384;
/// Launches before a kernel is studied: most kernels of most programs come less often.
const YOUNG_LAUNCHES: u32 = 8;
/// The launch that is looked at again while the kernel is studied: what both have is taken to repeat.
const SECOND_LOOK: u32 = 23;
/// Stands for no form, where the original was timed before there was any.
pub(super) const EARLY: usize = usize::MAX;

/// How far a kernel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum State {
    /// It was launched a few times.
    Young = 0,
    /// The thread studies it.
    Studied = 1,
    /// Its launches are looked at.
    Watched = 2,
    /// It is launched as it is, for good.
    Left = 3,
}

/// A function of the driver.
pub(super) struct Kernel {
    pub(super) handle: u64,
    /// Counts what was forgotten when it was met: with a later number it is another kernel's.
    pub(super) era: u64,
    state: AtomicU8,
    launches: AtomicU32,
    /// Launches from before it was studied.
    pub(super) early: Mutex<Vec<Sample>>,
    pub(super) known: Mutex<Known>,
}

/// A launch as it was.
pub(super) struct Sample {
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) shared: u32,
    /// The parameters, laid out as in the kernel.
    pub(super) packed: Vec<u8>,
}

/// Which of a kernel's first launches one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Early {
    /// None that matters.
    Any,
    /// It is looked at.
    First,
    /// It is looked at and timed.
    Second,
}

/// What was found out of a kernel.
#[derive(Default)]
pub(super) struct Known {
    pub(super) name: String,
    /// The context that it was launched in.
    pub(super) context: u64,
    /// Device, driver and kernel, under which it is kept what was found of it.
    pub(super) key: String,
    /// What earlier processes found.
    pub(super) past: Vec<Past>,
    /// Device and driver alone.
    pub(super) machine: String,
    /// Something was found that is not kept yet.
    pub(super) is_new: bool,
    /// Launches, as far as they were looked at.
    pub(super) calls: u64,
    /// Nanoseconds of the original, 0 where it was not timed; and of the studying.
    pub(super) original_ns: u64,
    pub(super) study_ns: u64,
    /// Numbers of all forms that were ever asked for.
    pub(super) proposed: Vec<Vec<Option<u64>>>,
    /// Where its code was loaded, and its PTX.
    pub(super) text: Option<(Owner, Arc<Module>)>,
    /// Where the numbers of a call stand, behind block and grid.
    pub(super) fields: Vec<Field>,
    /// What it takes to compare both forms' bits; none where they cannot differ.
    pub(super) comparable: Option<Arc<Comparable>>,
    /// Sees what repeats; none once enough was seen.
    pub(super) watch: Option<Watch>,
    /// Rewritten forms that are compiled now.
    pub(super) under_way: usize,
    pub(super) variants: Vec<Variant>,
    pub(super) timing: Timing,
    /// Launches since one that a rewritten form fitted.
    pub(super) misses: u32,
}

/// A number of a call: bytes of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// Which parameter.
    pub(super) parameter: usize,
    /// Its first byte within the parameter.
    pub(super) within: u32,
    /// Its first byte among all parameters.
    pub(super) offset: u32,
    /// How many bytes, 8 at most.
    pub(super) bytes: u32,
}

/// A rewritten form.
pub(super) struct Variant {
    /// Nanoseconds that making it took.
    pub(super) cost_ns: u64,
    /// What a call must have: block, grid, fields; `None` for what was not written into it.
    pub(super) numbers: Vec<Option<u64>>,
    pub(super) function: u64,
    /// Threads of a block and dynamic shared memory of the launch that it was made for.
    pub(super) shape: (u32, u32),
    pub(super) duel: Duel,
    /// Comparisons of its bits with the original's; none where they cannot differ, or were found equal.
    pub(super) proof: Option<Proof>,
    /// Nanoseconds that a launch takes less; 0 before it has won.
    pub(super) gain: u64,
    /// The driver refused a launch of it.
    pub(super) is_refused: bool,
    /// Settings of functions that had been changed when it got the original's.
    pub(super) settings: u64,
}

static TABLE: [AtomicPtr<Kernel>; PLACES] = [const { AtomicPtr::new(null_mut()) }; PLACES];
static MET: AtomicU64 = AtomicU64::new(0);
/// How often all was forgotten.
static ERA: AtomicU64 = AtomicU64::new(0);
/// How often the program has changed settings of functions.
static SETTINGS: AtomicU64 = AtomicU64::new(0);

impl Kernel {
    #[inline(always)]
    pub(super) fn state(&self) -> State {
        match self.state.load(Ordering::Acquire) {
            0 => State::Young,
            1 => State::Studied,
            2 => State::Watched,
            _ => State::Left,
        }
    }

    pub(super) fn set(&self, state: State) {
        self.state.store(state as u8, Ordering::Release);
    }

    /// It is launched once more before it is known.
    #[inline(always)]
    pub(super) fn grows(&self) -> Early {
        match self.launches.fetch_add(1, Ordering::Relaxed) {
            YOUNG_LAUNCHES => Early::First,
            SECOND_LOOK => Early::Second,
            _ => Early::Any,
        }
    }

    /// Launches before it was known.
    pub(super) fn launches(&self) -> u32 {
        self.launches.load(Ordering::Relaxed)
    }

    /// Says, once, that it is to be studied.
    pub(super) fn begins(&self) -> bool {
        let (young, studied) = (State::Young as u8, State::Studied as u8);
        self.state.compare_exchange(young, studied, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Whether its handle may have become another kernel's.
    pub(super) fn is_forgotten(&self) -> bool {
        self.era != ERA.load(Ordering::SeqCst)
    }
}

#[inline(always)]
fn place(handle: u64, nth: usize) -> &'static AtomicPtr<Kernel> {
    let mixed = handle.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    &TABLE[(mixed as usize + nth) % PLACES]
}

/// The kernel of a handle; met now if it was not known.
#[inline(always)]
pub(super) fn get(function: CUfunction) -> Option<&'static Kernel> {
    let handle = function as u64;
    // SAFETY: null, or a kernel that is never freed.
    let first = unsafe { place(handle, 0).load(Ordering::Acquire).as_ref() };
    match first {
        Some(kernel) if kernel.handle == handle => Some(kernel),
        _ => search(handle),
    }
}

#[cold]
fn search(handle: u64) -> Option<&'static Kernel> {
    for nth in 0..NEIGHBOURS {
        // SAFETY: null, or a kernel that is never freed.
        match unsafe { place(handle, nth).load(Ordering::Acquire).as_ref() } {
            Some(kernel) if kernel.handle == handle => return Some(kernel),
            Some(_) => {}
            None => return meet(handle, nth),
        }
    }
    None
}

fn meet(handle: u64, nth: usize) -> Option<&'static Kernel> {
    if handle == 0 || MET.fetch_add(1, Ordering::Relaxed) >= MOST_MET {
        return None;
    }
    let kernel: &'static Kernel = Box::leak(Box::new(Kernel {
        handle,
        era: ERA.load(Ordering::SeqCst),
        state: AtomicU8::new(State::Young as u8),
        launches: AtomicU32::new(0),
        early: Mutex::default(),
        known: Mutex::default(),
    }));
    let new = from_ref(kernel).cast_mut();
    // Another thread may have put one there; this launch goes as it is then.
    place(handle, nth)
        .compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Relaxed)
        .is_ok()
        .then_some(kernel)
}

/// All that are known now.
pub(super) fn all() -> impl Iterator<Item = &'static Kernel> {
    // SAFETY: null, or a kernel that is never freed.
    TABLE.iter().filter_map(|place| unsafe { place.load(Ordering::Acquire).as_ref() })
}

/// Handles may come back as others': all is met anew.
pub(super) fn forget() {
    ERA.fetch_add(1, Ordering::SeqCst);
    for place in &TABLE {
        place.store(null_mut(), Ordering::Release);
    }
}

/// The program has changed settings of some function.
pub(super) fn settings_changed() {
    SETTINGS.fetch_add(1, Ordering::SeqCst);
}

/// How often it did.
pub(super) fn settings() -> u64 {
    SETTINGS.load(Ordering::SeqCst)
}

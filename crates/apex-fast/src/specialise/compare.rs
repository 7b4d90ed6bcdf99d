//! Both forms of a kernel on the same bytes, before one whose bits might be others may run.
//!
//! In the stream of a launch, before it: what the launch touches is copied to a room of apex's own ([`room`]), both forms
//! run there on their own copies, and what they wrote is compared by the device. The program's memory is only read, and
//! what is read stands there in the stream's order. A launch takes part only if it is proven to stay within the copies
//! ([`plan`]). When comparing is worth it is `apex-policy`'s to say.

use super::kernels::{Kernel, Known};
use super::make::Job;
use super::numbers::{Call, SHAPE};
use super::plan::Plan;
use super::room::{Claim, Room};
use super::{beneath, room, thread};
use apex_core::time;
use apex_cuda::types::*;
use apex_policy::specialise::{Proven, Wanted};
use apex_ptx::touches::Shape;
use core::ffi::c_void;
use core::ptr::null_mut;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Threads of a block of the kernel that compares, and its blocks at most.
const BLOCK: u32 = 256;
const MOST_BLOCKS: u64 = 1024;

/// When the program began, in nanoseconds.
static BEGAN: OnceLock<u64> = OnceLock::new();
/// Nanoseconds that comparisons were believed to take.
static SPENT: AtomicU64 = AtomicU64::new(0);

pub(super) fn begin() {
    BEGAN.set(time::monotonic_nanos()).ok();
}

/// What is to be done with a call that a form without proof fits.
pub(super) enum Step {
    /// The original is launched.
    Original,
    /// It is launched and timed.
    Timed,
    /// The bits were found to be equal: the form may run from now on.
    Equal,
    /// The form is never to run, for this reason.
    Never(String),
}

/// A call that a form without proof fits; a comparison may be sent before it.
#[cold]
pub(super) fn step(kernel: &'static Kernel, known: &mut Known, nth: usize, call: &Call) -> Step {
    let context = known.context;
    let variant = &mut known.variants[nth];
    let (Some(proof), Some(comparable)) = (&mut variant.proof, known.comparable.clone()) else {
        return Step::Never("nothing can be compared".to_owned());
    };
    let owner = (kernel.handle, nth);
    if let Some(finding) = room::finding(owner) {
        let proven = proof.found(finding);
        if proven != Proven::Open {
            thread::ask(Job::Clear { kernel, context });
        }
        match proven {
            Proven::Open => {}
            Proven::Equal => return Step::Equal,
            Proven::Differs => {
                return Step::Never(format!("{} words of its results differ", finding.differing));
            }
            Proven::Silent => return Step::Never("its results cannot tell".to_owned()),
        }
    }
    let elapsed = time::monotonic_nanos().saturating_sub(*BEGAN.get().unwrap_or(&0));
    match proof.wanted(elapsed, SPENT.load(Ordering::Relaxed)) {
        Wanted::Nothing => return Step::Original,
        Wanted::Time => return Step::Timed,
        Wanted::Comparison => {}
    }
    // SAFETY: the program's own call; these places are the driver's account of the kernel's parameters.
    let packed = unsafe { packed(call, comparable.places()) };
    let shape = Shape { grid: call.grid, block: call.block, parameters: &packed };
    let folded: Vec<Range<u32>> = known
        .fields
        .iter()
        .zip(variant.numbers.iter().skip(SHAPE))
        .filter(|(_, number)| number.is_some())
        .map(|(field, _)| field.offset..field.offset + field.bytes)
        .collect();
    let mut allocation = allocations();
    let plan = match comparable.plan(&shape, &folded, &mut allocation) {
        Ok(plan) => plan,
        Err(reason) => return Step::Never(reason),
    };
    let mut guard = match room::claim(context, owner, plan.bytes) {
        Claim::Given(guard) => guard,
        Claim::Missing => {
            proof.put_off();
            thread::ask(Job::Room { kernel, nth, context, bytes: plan.bytes });
            return Step::Original;
        }
        Claim::Busy => {
            proof.put_off();
            return Step::Original;
        }
    };
    let Some(room) = guard.as_mut() else { return Step::Original };
    let [first, second, _] = room.halves();
    let moved = [first, second].map(|half| comparable.moved(&plan, &shape, &mut allocation, half));
    let [Some(original), Some(rewritten)] = moved else {
        room.abandon();
        return Step::Never("its copies would not be all that it touches".to_owned());
    };
    SPENT.fetch_add(proof.cost().unwrap_or(0), Ordering::Relaxed);
    proof.begun();
    let runs = [(call.function, original), (variant.function as CUfunction, rewritten)];
    match send(call, comparable.places(), &plan, room, &runs) {
        CUDA_SUCCESS => Step::Original,
        refused => {
            room.abandon();
            Step::Never(format!("the driver refused to compare it with error {refused}"))
        }
    }
}

/// Copies, both forms, and what compares them, in the stream of the call.
fn send(
    call: &Call,
    places: &[(u32, u32)],
    plan: &Plan,
    room: &mut Room,
    runs: &[(CUfunction, Vec<u8>); 2],
) -> CUresult {
    let order = Order { stream: call.stream, is_twin: call.is_twin };
    let [first, second, found] = room.halves();
    room.begin();
    let mut result = order.clear(first, found + 8 - first);
    let mut then = |next: &dyn Fn() -> CUresult| {
        if result == CUDA_SUCCESS {
            result = next();
        }
    };
    for region in &plan.regions {
        let bytes = region.bytes.end - region.bytes.start;
        then(&|| order.copy(first + region.at, region.bytes.start, bytes));
    }
    then(&|| order.copy(second, first, plan.bytes));
    for (function, packed) in runs {
        let parameters: Vec<&[u8]> = places
            .iter()
            .filter_map(|&(offset, bytes)| packed.get(offset as usize..(offset + bytes) as usize))
            .collect();
        then(&|| order.launch(*function, call.grid, call.block, call.shared, &parameters));
    }
    for &(at, bytes) in &plan.written {
        let words = bytes / 4;
        let blocks = words.div_ceil(BLOCK.into()).min(MOST_BLOCKS) as u32;
        let numbers = [first + at, second + at, words, found].map(u64::to_le_bytes);
        let parameters = numbers.each_ref().map(<[u8; 8]>::as_slice);
        let function = room.differing as CUfunction;
        then(&|| order.launch(function, [blocks, 1, 1], [BLOCK, 1, 1], 0, &parameters));
    }
    let numbers = [found, room.told].map(u64::to_le_bytes);
    let parameters = numbers.each_ref().map(<[u8; 8]>::as_slice);
    then(&|| order.launch(room.tell as CUfunction, [1, 1, 1], [1, 1, 1], 0, &parameters));
    result
}

/// The parameters of a call, laid out as in the kernel.
///
/// # Safety
///
/// The call has a pointer for each of these parameters, to as many bytes as is said.
pub(super) unsafe fn packed(call: &Call, places: &[(u32, u32)]) -> Vec<u8> {
    let end = places.iter().map(|(offset, bytes)| offset + bytes).max().unwrap_or(0);
    let mut packed = vec![0; end as usize];
    for (nth, &(offset, bytes)) in places.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe {
            (*call.parameters.add(nth))
                .cast::<u8>()
                .copy_to_nonoverlapping(packed.as_mut_ptr().add(offset as usize), bytes as usize);
        }
    }
    packed
}

/// Says in which allocation of the device's own memory an address lies.
fn allocations() -> impl FnMut(u64) -> Option<Range<u64>> {
    let mut known: Vec<Range<u64>> = Vec::new();
    move |address| {
        if let Some(found) = known.iter().find(|it| it.contains(&address)) {
            return Some(found.clone());
        }
        let found = allocation(address)?;
        known.push(found.clone());
        Some(found)
    }
}

fn allocation(address: u64) -> Option<Range<u64>> {
    const MEMORY_TYPE: u32 = 2;
    const IS_MANAGED: u32 = 8;
    const ON_DEVICE: u32 = 2;
    let attribute = |number| {
        let mut value = 0_u32;
        // SAFETY: both answers are whole numbers of at most four bytes, and there is room for that.
        let result =
            unsafe { (beneath().cuPointerGetAttribute)((&raw mut value).cast(), number, address) };
        (result == CUDA_SUCCESS).then_some(value)
    };
    if attribute(MEMORY_TYPE)? != ON_DEVICE || attribute(IS_MANAGED)? != 0 {
        return None;
    }
    let (mut begin, mut bytes) = (0, 0);
    // SAFETY: valid places for the answers.
    let result =
        unsafe { (beneath().cuMemGetAddressRange_v2)(&raw mut begin, &raw mut bytes, address) };
    (result == CUDA_SUCCESS && bytes > 0).then(|| begin..begin + bytes as u64)
}

/// A stream as the program names it.
struct Order {
    stream: CUstream,
    is_twin: bool,
}

impl Order {
    fn clear(&self, at: u64, bytes: u64) -> CUresult {
        let function =
            if self.is_twin { beneath().cuMemsetD8Async_ptsz } else { beneath().cuMemsetD8Async };
        // SAFETY: memory of the room that this comparison has claimed.
        unsafe { function(at, 0, bytes as usize, self.stream) }
    }

    fn copy(&self, to: u64, from: u64, bytes: u64) -> CUresult {
        let function = if self.is_twin {
            beneath().cuMemcpyDtoDAsync_v2_ptsz
        } else {
            beneath().cuMemcpyDtoDAsync_v2
        };
        // SAFETY: from what a launch of the program reads or writes now, to the room that this comparison has claimed.
        unsafe { function(to, from, bytes as usize, self.stream) }
    }

    fn launch(
        &self,
        function: CUfunction,
        [grid_x, grid_y, grid_z]: [u32; 3],
        [block_x, block_y, block_z]: [u32; 3],
        shared: u32,
        parameters: &[&[u8]],
    ) -> CUresult {
        let mut places: Vec<*mut c_void> =
            parameters.iter().map(|bytes| bytes.as_ptr().cast_mut().cast()).collect();
        let launch =
            if self.is_twin { beneath().cuLaunchKernel_ptsz } else { beneath().cuLaunchKernel };
        // SAFETY: a function with these parameters, which the driver reads before it returns; what they point to lies in
        // the room, as the plan has shown.
        unsafe {
            launch(
                function,
                grid_x,
                grid_y,
                grid_z,
                block_x,
                block_y,
                block_z,
                shared,
                self.stream,
                places.as_mut_ptr(),
                null_mut(),
            )
        }
    }
}

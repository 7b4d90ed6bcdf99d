//! Rewrites, compiles and loads a kernel, and gives the result the settings of the original.

use super::images::Owner;
use super::kernels::{self, Field, Kernel, Known, Sample, State, Variant};
use super::numbers::{SHAPE, common, described, unpacked_block, unpacked_grid};
use super::past::{Past, Stood};
use super::study::study;
use super::verdict::{drop_variant, judge, keep};
use super::{Told, beneath, room, tell};
use crate::counts::COUNTERS;
use apex_core::time;
use apex_cuda::types::*;
use apex_policy::duel::Duel;
use apex_policy::specialise::{Earlier, Proof};
use apex_ptx::specialise::{self, Call, may_wait, specialise};
use apex_ptx::tree::{Module, Name};
use std::ffi::CString;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Rewritten forms that are ever compiled in a process.
const MOST_MADE: u64 = 64;

/// What the thread is to do.
pub(super) enum Job {
    /// Read the PTX of a kernel that was launched in this context.
    Study { kernel: &'static Kernel, context: u64 },
    /// Make a form with these numbers, for launches of this shape.
    Make { kernel: &'static Kernel, numbers: Vec<Option<u64>>, shared: u32, block: [u32; 3] },
    /// Make room for a comparison of a form, so many bytes.
    Room { kernel: &'static Kernel, nth: usize, context: u64, bytes: u64 },
    /// Judge the times of a kernel's launches that are known by now.
    Judge { kernel: &'static Kernel, context: u64 },
    /// Keep what was found of a kernel's forms.
    Keep { kernel: &'static Kernel, context: u64 },
    /// Give that room back.
    Clear { kernel: &'static Kernel, context: u64 },
}

impl Job {
    pub(super) fn kernel(&self) -> &'static Kernel {
        match self {
            Job::Study { kernel, .. }
            | Job::Make { kernel, .. }
            | Job::Room { kernel, .. }
            | Job::Keep { kernel, .. }
            | Job::Judge { kernel, .. }
            | Job::Clear { kernel, .. } => kernel,
        }
    }

    /// The context that it is done in.
    pub(super) fn context(&self) -> u64 {
        match self {
            Job::Study { context, .. }
            | Job::Room { context, .. }
            | Job::Keep { context, .. }
            | Job::Judge { context, .. }
            | Job::Clear { context, .. } => *context,
            Job::Make { kernel, .. } => lock(kernel, |known| known.context),
        }
    }

    /// Does it; the job's context is current.
    pub(super) fn carry_out(self) {
        match self {
            Job::Study { kernel, .. } => studied(kernel),
            Job::Make { kernel, numbers, shared, block } => {
                // It may be one of those for which the program did not wait.
                let is_it = |past: &&Past| past.numbers == numbers;
                let past = lock(kernel, |known| known.past.iter().find(is_it).cloned());
                made(kernel, numbers, (block.iter().product(), shared), past.as_ref());
            }
            Job::Room { kernel, nth, context, bytes } => {
                if let Err(reason) = room::make(context, bytes) {
                    lock(kernel, |known| drop_variant(known, nth, &reason));
                }
            }
            Job::Keep { kernel, .. } => lock(kernel, keep),
            Job::Judge { kernel, .. } => {
                lock(kernel, |known| {
                    judge(known);
                    keep(known);
                });
            }
            Job::Clear { context, .. } => room::clear(context),
        }
    }
}

/// Studies a kernel, and makes what earlier processes promise much of. What its first launches have in common is noted for
/// later processes: here it is made only if it goes on to come.
fn studied(kernel: &'static Kernel) {
    let begun = time::monotonic_nanos();
    match study(kernel) {
        Ok(mut found) => {
            found.study_ns = time::monotonic_nanos() - begun;
            found.calls = kernel.launches().into();
            let (past, fields) = (found.past.clone(), found.fields.clone());
            lock(kernel, |known| {
                // The original may have been timed already.
                (found.timing, found.original_ns) =
                    (core::mem::take(&mut known.timing), known.original_ns);
                *known = found;
            });
            kernel.set(State::Watched);
            let early = core::mem::take(&mut *locked(&kernel.early));
            if let [one, .., other] = early.as_slice() {
                lock(kernel, |known| note(known, common(one, other, &fields), other));
            }
            let hopeful =
                |past: &&Past| past.stood != Stood::Lost && past.earlier.is_worth_making();
            for past in past.iter().filter(hopeful) {
                propose(kernel, past);
            }
        }
        Err((name, reason)) => leave_alone(kernel, &name, reason),
    }
}

/// Notes numbers that first launches have in common.
fn note(known: &mut Known, numbers: Vec<Option<u64>>, launch: &Sample) {
    if numbers.iter().all(Option::is_none) || known.past.iter().any(|it| it.numbers == numbers) {
        return;
    }
    known.is_new = true;
    known.past.push(Past {
        stood: Stood::Open,
        is_equal: false,
        earlier: Earlier::default(),
        threads: launch.block.iter().product(),
        shared: launch.shared,
        numbers,
    });
}

/// A form that is known from an earlier process is made.
fn propose(kernel: &'static Kernel, past: &Past) {
    if may_propose(&mut locked(&kernel.known), &past.numbers) {
        made(kernel, past.numbers.clone(), (past.threads, past.shared), Some(past));
    }
}

/// Whether a form with these numbers is to be made; it is noted as asked for.
pub(super) fn may_propose(known: &mut Known, numbers: &[Option<u64>]) -> bool {
    let is_lost = |past: &Past| past.stood == Stood::Lost && past.numbers == numbers;
    if numbers.iter().all(Option::is_none)
        || known.proposed.iter().any(|it| it == numbers)
        || known.past.iter().any(is_lost)
        || COUNTERS.rewritten_tried.value() >= MOST_MADE
    {
        return false;
    }
    COUNTERS.rewritten_tried.fetch_add(1, Ordering::Relaxed);
    known.proposed.push(numbers.to_vec());
    known.under_way += 1;
    true
}

/// A rewritten form is made, and from then on tried; one that has won before runs at once.
fn made(
    kernel: &'static Kernel,
    numbers: Vec<Option<u64>>,
    shape: (u32, u32),
    past: Option<&Past>,
) {
    let (name, fields, text) =
        lock(kernel, |known| (known.name.clone(), known.fields.clone(), known.text.clone()));
    let what = described(&fields, &numbers);
    let (settings, begun) = (kernels::settings(), time::monotonic_nanos());
    let made = text
        .ok_or_else(|| "its text was lost".to_owned())
        .and_then(|text| make(kernel.handle, &name, &text, &fields, &numbers, shape));
    let cost_ns = time::monotonic_nanos() - begun;
    match made {
        Ok(function) => {
            let earlier = past.map(|past| past.earlier).unwrap_or_default();
            let (is_refused, has_won) = (false, earlier.has_won);
            let gain = earlier.original_ns.saturating_sub(earlier.rewritten_ns);
            let (duel, gain) = match has_won {
                true => (Duel::won_before(earlier.original_ns, earlier.rewritten_ns), gain),
                false => (Duel::default(), 0),
            };
            // Settled while it was made: what the program changes meanwhile is settled with its first launch.
            lock(kernel, |known| {
                let is_equal = has_won || past.is_some_and(|past| past.is_equal);
                let mut proof = (known.comparable.is_some() && !is_equal).then(Proof::default);
                let original = known.original_ns.max(earlier.original_ns);
                if let (Some(proof), true) = (&mut proof, original > 0) {
                    proof.took(original);
                }
                known.variants.push(Variant {
                    cost_ns,
                    numbers,
                    function,
                    shape,
                    duel,
                    proof,
                    gain,
                    is_refused,
                    settings,
                });
                known.is_new = true;
            });
            let Earlier { original_ns, rewritten_ns, .. } = earlier;
            tell(&if has_won {
                COUNTERS.rewritten_won.fetch_add(1, Ordering::Relaxed);
                let what = format!("{what}, as in an earlier run");
                Told { original_ns, rewritten_ns, ..Told::of(&name, "won", what) }
            } else {
                Told::of(&name, "tried", what)
            });
        }
        Err(reason) => {
            COUNTERS.rewritten_lost.fetch_add(1, Ordering::Relaxed);
            tell(&Told::of(&name, "refused", reason));
        }
    }
    lock(kernel, |known| known.under_way -= 1);
}

/// The job came to nothing by a fault of ours.
pub(super) fn failed(kernel: &'static Kernel) {
    leave_alone(kernel, "", "apex failed to read it".to_owned());
}

fn leave_alone(kernel: &'static Kernel, name: &str, reason: String) {
    kernel.set(State::Left);
    COUNTERS.rewritten_left.fetch_add(1, Ordering::Relaxed);
    tell(&Told::of(name, "left", reason));
}

impl Told {
    fn of(kernel: &str, outcome: &'static str, what: String) -> Told {
        let (original_ns, rewritten_ns) = (0, 0);
        Told { kernel: kernel.to_owned(), outcome, what, original_ns, rewritten_ns }
    }
}

fn lock<T>(kernel: &Kernel, look: impl FnOnce(&mut Known) -> T) -> T {
    look(&mut locked(&kernel.known))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The rewritten form's function.
fn make(
    original: u64,
    name: &str,
    (owner, module): &(Owner, Arc<Module>),
    fields: &[Field],
    numbers: &[Option<u64>],
    (threads, shared): (u32, u32),
) -> Result<u64, String> {
    let mut call = Call {
        block: numbers.first().copied().flatten().map(unpacked_block),
        grid: numbers.get(1).copied().flatten().map(unpacked_grid),
        ..Call::default()
    };
    for (field, number) in fields.iter().zip(numbers.iter().skip(SHAPE)) {
        if let Some(number) = number {
            let bytes = number.to_le_bytes()[..field.bytes as usize].to_vec();
            call.known.push(specialise::Known { offset: field.offset, bytes });
        }
    }
    for variable in specialise::variables(module, name)? {
        call.addresses.push((variable.clone(), address(*owner, &variable)?));
    }
    let text = specialise(module, name, &call, &[])?.module.to_string();
    let function = load(&text, name)?;
    settle(original, function);
    // Blocks that wait for each other all have to be on the GPU.
    if may_wait(module, name) {
        let blocks = |function| blocks(function, threads, shared);
        let (before, now) = (blocks(original as CUfunction), blocks(function));
        if now < before || before.is_none() {
            return Err(format!("fewer of its blocks fit at a time: {now:?}, before {before:?}"));
        }
    }
    Ok(function as u64)
}

/// Where a variable of the original lies.
fn address(owner: Owner, variable: &Name) -> Result<u64, String> {
    let unknown = || format!("the driver does not say where {variable} lies");
    let name = CString::new(&**variable).map_err(|_| unknown())?;
    let (mut address, mut bytes) = (0, 0);
    // SAFETY: a module or library that the program has not unloaded, a string, and valid places for the answers.
    let result = unsafe {
        match owner {
            Owner::Module(module) => (beneath().cuModuleGetGlobal_v2)(
                &raw mut address,
                &raw mut bytes,
                module as CUmodule,
                name.as_ptr(),
            ),
            Owner::Library(library) => (beneath().cuLibraryGetGlobal)(
                &raw mut address,
                &raw mut bytes,
                library as CUlibrary,
                name.as_ptr(),
            ),
        }
    };
    if result == CUDA_SUCCESS { Ok(address) } else { Err(unknown()) }
}

/// Has the driver compile and load a text. What is loaded stays for good: it may be running when it is dropped.
fn load(text: &str, kernel: &str) -> Result<CUfunction, String> {
    const RELAXED: u32 = 2;
    let wrong = |_| "its text has a zero in it".to_owned();
    let (text, kernel) = (CString::new(text).map_err(wrong)?, CString::new(kernel).map_err(wrong)?);
    let (mut module, mut function) = (core::ptr::null_mut(), core::ptr::null_mut());
    let (nothing, no_values) = (core::ptr::null_mut(), core::ptr::null_mut());
    let mut mode = RELAXED;
    // SAFETY: strings that outlive the calls, and valid places for the answers. A capture that begins now in another
    // thread is not broken by this one: what it does has been declared harmless to captures.
    let result = unsafe {
        (beneath().cuThreadExchangeStreamCaptureMode)(&raw mut mode);
        let image = text.as_ptr().cast();
        match (beneath().cuModuleLoadDataEx)(&raw mut module, image, 0, nothing, no_values) {
            CUDA_SUCCESS => {
                (beneath().cuModuleGetFunction)(&raw mut function, module, kernel.as_ptr())
            }
            refused => refused,
        }
    };
    match result {
        CUDA_SUCCESS => Ok(function),
        refused => Err(format!("the driver refused its text with error {refused}")),
    }
}

/// How many blocks of a function fit on a multiprocessor.
fn blocks(function: CUfunction, threads: u32, shared: u32) -> Option<i32> {
    let mut blocks = 0;
    let threads = i32::try_from(threads).ok()?;
    // SAFETY: a function of the current context and a valid place for the answer.
    let result = unsafe {
        (beneath().cuOccupancyMaxActiveBlocksPerMultiprocessor)(
            &raw mut blocks,
            function,
            threads,
            shared as usize,
        )
    };
    (result == CUDA_SUCCESS).then_some(blocks)
}

/// Settings of functions that a program may make: dynamic shared memory, carve-out, clusters of odd sizes, how clusters
/// are placed.
const SETTINGS: [u32; 4] = [8, 9, 14, 15];

/// Cache preferences that the program has set, by function.
static CACHES: Mutex<Vec<(u64, u32)>> = Mutex::new(Vec::new());

/// The program prefers a cache for a function.
pub(super) fn prefers(function: u64, cache: u32) {
    let mut caches = CACHES.lock().unwrap_or_else(PoisonError::into_inner);
    caches.retain(|(known, _)| *known != function);
    caches.push((function, cache));
    drop(caches);
    kernels::settings_changed();
}

/// Gives a rewritten form what the program has set for the original.
pub(super) fn settle(original: u64, function: CUfunction) {
    for number in SETTINGS {
        if let (Some(wanted), Some(own)) =
            (setting(original as CUfunction, number), setting(function, number))
            && wanted != own
        {
            // SAFETY: a function of ours in the current context.
            unsafe { (beneath().cuFuncSetAttribute)(function, number, wanted) };
        }
    }
    let caches = CACHES.lock().unwrap_or_else(PoisonError::into_inner);
    let cache = caches.iter().find(|(known, _)| *known == original).map(|(_, cache)| *cache);
    drop(caches);
    if let Some(cache) = cache {
        // SAFETY: as above.
        unsafe { (beneath().cuFuncSetCacheConfig)(function, cache) };
    }
}

fn setting(function: CUfunction, number: u32) -> Option<i32> {
    let mut value = 0;
    let mut device: CUdevice = 0;
    // SAFETY: a handle that the program has launched or a function of ours, and valid places for the answers.
    let result = unsafe {
        match (beneath().cuFuncGetAttribute)(&raw mut value, number, function) {
            CUDA_ERROR_INVALID_HANDLE => {
                (beneath().cuCtxGetDevice)(&raw mut device);
                (beneath().cuKernelGetAttribute)(
                    &raw mut value,
                    number,
                    function as CUkernel,
                    device,
                )
            }
            answer => answer,
        }
    };
    (result == CUDA_SUCCESS).then_some(value)
}

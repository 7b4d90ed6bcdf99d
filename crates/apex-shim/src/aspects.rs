//! The list of aspects: what is done with a call beside making it.
//!
//! An aspect is one module here that does one thing with a program's calls:
//!
//! | aspect | what it does |
//! |---|---|
//! | [`record`] | notes each call in this thread's ring |
//! | [`sample`] | times some launches on the GPU |
//! | [`gate`] | has launches wait for other programs |
//! | [`tune`] | gives kernels another shape and images other limits |
//! | [`compatibility`] | loads code for newer chips as code for this one |
//! | [`predict`] | foretells how long launches take |
//! | [`detail`], [`outputs`] | look at what launches pass and what copies bring |
//!
//! This file alone knows them all. Each function of it is one moment of a program's life. A hook tells the moment, in the
//! words of [`moments`]; the body shows which aspects hear of it and in which order. What always holds:
//!
//! 1. Arrows point down: entries → this list → aspects → [`crate::state`] → [`crate::driver`]. No hook names an aspect,
//!    and no aspect another. What one needs of another comes as an argument, or in a trait that [`timing`] implements.
//! 2. Every call is known when this is compiled. There is no table of functions, and no allocation or lock on the way of
//!    a recorded call.
//! 3. An aspect that is off costs one bit of one word ([`Extras`]), which a launch reads once. Its part of a launch stands
//!    behind that bit, so the short ways of a launch have no trace of it.
//! 4. Before a launch the order is tune, gate, sample; after it record, detail, sample, gate. So no measured time holds
//!    the gate's wait, and a sample's two events are next to the driver's call.
//!
//! # To add an aspect
//!
//! The next ones are `submit`, which queues launches, and `pool`, which keeps freed memory. Write:
//!
//! - A module `aspects/NAME.rs`. A pure function of `apex-policy` decides; what is known of streams, kernels and contexts
//!   is asked of [`crate::state`].
//! - A bit in [`Extra`], and in its table when it is wanted. A launch takes the longer way while the bit is set;
//!   [`Extras::is_gate_alone`] lists the bits that do not need that.
//! - A line in each moment that it must hear of: [`launch`] and [`launch_graph`] before and after `make`, [`waited`],
//!   [`copied`], [`freed`], [`context_ends`], [`code_unloaded`], [`thread_ends`], [`forked`]. A new moment is a new
//!   function here.
//! - A room in the thread's block ([`thread::Room`]) for what it keeps of each thread.
//! - A condition in [`foresee`], if it must see launches that would else be recorded only.
//!
//! An aspect may make a call in another way: `submit` a launch, `pool` an allocation. It gets the driver's call as a
//! closure and calls it once or not at all, as [`load_code`] and [`make_reshaped`] do. The driver table says `hook` for
//! such a function. Every call that could see the difference must tell its moment here before it goes down.

mod compatibility;
mod detail;
mod gate;
mod moments;
mod outputs;
mod predict;
mod record;
mod sample;
mod timing;
mod tune;

use crate::state::extras::{Extra, Extras};
use crate::state::kernels::{self, Named};
use crate::state::thread::{self, Thread};
use crate::state::{self, costs, inside, process, sequences};
use apex_core::KernelId;
use apex_core::event::{AllocKind, Direction, Launch, LaunchShape, What};
use apex_core::pace::{Pace, READ_EVERY};
use apex_cuda::Function;
use apex_cuda::types::{CUDA_SUCCESS, CUfunction, CUjit_option, CUresult, c_void};
pub(crate) use compatibility::Code;
use compatibility::{Older, PlainOptions, Program};
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use moments::{Call, Copied, Form, Note};
pub(crate) use record::{call, only as record_only};
pub(crate) use tune::either as make_reshaped;

// ---- The process begins, forks and loses threads.

/// The driver was called for the first time.
pub(crate) fn begin() {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    if !BEGUN.swap(true, Ordering::Relaxed) {
        process::watch_panics();
        compatibility::begin();
        thread::at_end(thread_ends);
        // SAFETY: the handler is a plain function of this library, which is never unloaded.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    }
}

/// `cuInit` has succeeded.
pub(crate) fn driver_started() {
    costs::look_up();
    sequences::listen();
    sample::start_full_timing();
}

/// In a forked child: it is a process of its own.
extern "C" fn forked() {
    state::forget();
    gate::forget();
    predict::forget();
    detail::forget();
}

/// A recorded thread ends.
unsafe extern "C" fn thread_ends(block: *mut c_void) {
    let ends = |thread: &mut Thread| {
        gate::thread_ends(thread);
        sample::thread_ends(thread);
    };
    // SAFETY: what `thread::at_end` calls this with.
    unsafe { thread::release(block, ends) };
}

// ---- Launches.

/// The shape that a launch gets instead of its own; `is_plain` where it is of the plainest form.
#[inline(always)]
pub(crate) fn reshape(extras: Extras, call: &Call, is_plain: bool) -> Option<LaunchShape> {
    let shape = || tune::shape(call.kernel, &call.shape, is_plain);
    extras.has(Extra::Tuning).then(shape).flatten()
}

/// Whether all that is wanted of a launch beside its record is that an open gate counts it; then it has.
#[inline(always)]
pub(crate) fn goes_on(stream: u64) -> bool {
    Extras::now().is_gate_alone() && gate::goes_on(stream)
}

/// What `make` answers: the driver's result, and when the call began and returned.
pub(crate) type Made = (CUresult, u64, u64);

/// A launch of a kernel that is known or not, with what comes before and after it. `make` makes it; it is told whether
/// the launch is timed, so that both its clock readings are needed.
///
/// One function and not two, because each form of a launch has a `make` of its own and so a copy of all this. Shared by
/// all forms, the guarded part of the record is a call, which costs every launch 3 to 8 ns.
#[inline(always)]
pub(crate) fn launch(
    extras: Extras,
    known: Option<KernelId>,
    call: Call,
    make: impl FnOnce(bool) -> Made,
) -> CUresult {
    let Call { function, stream, shape, cooperative, .. } = call;
    let admitted = extras.has(Extra::Gate).then(|| at_gate(extras, known, call)).flatten();
    let sample = timing::before(stream, call.kernel as u64, &shape);

    let (result, started, ended) = make(sample.is_some());

    let mut kernel = known.unwrap_or_default();
    record::beside(extras.captures(), function, started, ended, result, || {
        if known.is_none() && result == CUDA_SUCCESS {
            kernel = kernels::look_up(call.kernel, named);
        }
        Note { what: What::Launch(Launch { kernel, shape, cooperative, captured: false }), stream }
    });
    foresee();
    if extras.has(Extra::Detail) && result == CUDA_SUCCESS {
        detail::launched(kernel, shape, ended, call.arguments);
    }
    if let Some(sample) = sample {
        let launched = sample::Launched { function, stream, started, ended, kernel, shape };
        timing::after(&sample, launched);
    }
    gate::after(admitted, stream, result);
    result
}

#[inline(never)]
fn at_gate(extras: Extras, known: Option<KernelId>, call: Call) -> Option<gate::Admitted> {
    let Call { stream, ref shape, .. } = call;
    if !extras.captures() && gate::goes_on(stream) {
        return None;
    }
    let predicted_ns = timing::expected_ns(known.unwrap_or_default(), shape, 1);
    gate::before(known, stream, shape, predicted_ns)
}

/// A launch was made of which nothing is wanted but the record.
pub(crate) fn launch_made(
    function: Function,
    (started, ended): (u64, u64),
    result: CUresult,
    describe: impl FnOnce() -> Note,
) {
    record::at(function, started, ended, result, describe);
    foresee();
}

/// A launch of a graph, of so many `nodes`, that is described by `note`; `shape.grid[0]` is its number.
pub(crate) fn launch_graph(
    function: Function,
    graph: u64,
    shape: LaunchShape,
    nodes: u64,
    note: Note,
    make: impl FnOnce() -> Made,
) -> CUresult {
    let stream = note.stream;
    let admitted = Extras::now().has(Extra::Gate).then(|| {
        let predicted_ns = timing::expected_ns(KernelId(0), &shape, nodes);
        gate::before_graph(stream, predicted_ns)
    });
    let sample = timing::before(stream, graph, &shape);

    let (result, started, ended) = make();

    record::at(function, started, ended, result, || note);
    if let Some(sample) = sample {
        let kernel = KernelId(0);
        let launched = sample::Launched { function, stream, started, ended, kernel, shape };
        timing::after(&sample, launched);
    }
    gate::after(admitted.flatten(), stream, result);
    result
}

/// A launch was recorded: how many of the thread's next ones need nothing but their record. It is as many as each aspect
/// lets pass.
#[inline(always)]
fn foresee() {
    let Some(thread) = thread::current_if_started() else { return };
    if thread.pace != Pace::Hurried {
        return;
    }
    let extras = Extras::now();
    let is_gated = extras.has(Extra::Gate);
    let unseen = if is_gated { gate::may_go_unseen(thread) } else { u32::MAX };
    if unseen == 0 || extras.has(Extra::Tuning) {
        return;
    }
    let until_reading = READ_EVERY - 1 - thread.writer.position() % READ_EVERY;
    let most = (until_reading as u32).min(thread.context_good_for).min(unseen);
    let coming = sample::look_away(thread, most);
    thread.context_good_for -= coming;
    if is_gated && gate::counts_each(thread) {
        thread.record_only_at_gate = coming;
    } else {
        thread.record_only = coming;
        gate::passed_unseen(thread, coming);
    }
}

// ---- Code and graphs.

/// The program's options for the driver's compiler: how many, their words and their values.
pub(crate) type JitOptions = (u32, *mut CUjit_option, *mut *mut c_void);

/// Code is loaded from the program's memory. `load` loads an image with options, `handle` says what
/// it became, `own` is the program's own call.
///
/// # Safety
///
/// The arguments are those that the driver is given.
pub(crate) unsafe fn load_code(
    (function, started): (Function, u64),
    image: *const c_void,
    options: JitOptions,
    load: impl Fn(*const c_void, JitOptions) -> CUresult,
    handle: impl Fn() -> Option<Code>,
    own: impl FnOnce() -> CUresult,
) -> CUresult {
    // SAFETY: as the caller says.
    let older = |older: &Older| unsafe { load_older((function, started), older, options, &load) };
    compatibility::load(Program::At(image), older, handle, || {
        let ours = |count, words, values| load(image, (count, words, values));
        // SAFETY: as the caller says.
        unsafe { tune::load((function, started), image, options, ours, own) }
    })
}

/// Code is loaded from a file. `load` loads an image from memory with options, `handle` says what
/// it became, `own` is the program's own call.
///
/// # Safety
///
/// The arguments are those that the driver is given.
pub(crate) unsafe fn load_file(
    (function, started): (Function, u64),
    file: Option<&File>,
    options: JitOptions,
    load: impl Fn(*const c_void, JitOptions) -> CUresult,
    handle: impl Fn() -> Option<Code>,
    own: impl FnOnce() -> CUresult,
) -> CUresult {
    let own = || inside::call(function, started, own);
    let Some(file) = file else { return own() };
    // SAFETY: as the caller says.
    let older = |older: &Older| unsafe { load_older((function, started), older, options, &load) };
    compatibility::load(Program::In(file), older, handle, own)
}

/// # Safety
///
/// The options are the program's own.
unsafe fn load_older(
    (function, started): (Function, u64),
    older: &Older,
    options: JitOptions,
    load: impl Fn(*const c_void, JitOptions) -> CUresult,
) -> CUresult {
    // SAFETY: the caller vouches for the options.
    let mut plain = unsafe { PlainOptions::of(options) };
    let result = inside::call(function, started, || load(older.start(), plain.parts()));
    if result == CUDA_SUCCESS {
        // SAFETY: as above.
        unsafe { PlainOptions::empty_logs(options) };
    }
    result
}

/// A piece of code is given to the linker. `add` adds an image, which is one text or a fatbin; `own` is the program's
/// own call.
pub(crate) fn link_code(
    (function, started): (Function, u64),
    piece: &[u8],
    add: impl Fn(&'static [u8], bool) -> CUresult,
    own: impl FnOnce() -> CUresult,
) -> CUresult {
    let older = |older: &Older| inside::call(function, started, || add(older.image, older.is_text));
    compatibility::load(
        Program::Bytes(piece),
        older,
        || None,
        || inside::call(function, started, own),
    )
}

/// The program has given code back.
pub(crate) fn unloaded(code: Code) {
    compatibility::forget(code);
}

/// The chip that a kernel's own PTX is for, where it was brought down. `is_of` says whether the kernel is of this code.
pub(crate) fn newer_chip(is_of: impl Fn(Code) -> bool) -> Option<u32> {
    compatibility::newer_chip(is_of)
}

/// The number of the kernel behind a handle, which is looked up if it is new.
pub(crate) fn kernel_number(function: CUfunction) -> KernelId {
    kernels::known(function).unwrap_or_else(|| kernels::look_up(function, named))
}

/// A handle of a kernel got its number.
fn named(kernel: &Named) {
    gate::named(kernel.number, &kernel.facts.name);
    predict::named(kernel);
    detail::named(kernel);
}

/// An image of code was loaded from the program's memory.
pub(crate) fn image_loaded(image: *const c_void, hash: u64) {
    outputs::image_loaded(image, hash);
    detail::image_loaded(image, hash);
}

/// Code was unloaded: handles of its kernels may come back as others'.
pub(crate) fn code_unloaded() {
    tune::code_unloaded();
}

// ---- Waits, copies and memory.

/// The program has waited for a stream, for an event, or (with neither) for everything.
#[inline(always)]
pub(crate) fn waited(stream: Option<u64>, event: Option<u64>) {
    timing::waited();
    gate::waited(stream, event);
}

/// The program has asked whether a stream or an event is done, and it is.
#[inline(always)]
pub(crate) fn found_done(stream: Option<u64>, event: Option<u64>) {
    gate::waited(stream, event);
}

/// Memory was copied.
#[inline(always)]
pub(crate) fn copied(copied: &Copied) {
    outputs::copied(copied);
    gate::copied(copied.direction == Direction::DeviceToHost, copied.stream);
    detail::copied(copied);
    timing::copied(copied);
}

/// Memory was given back. Nobody asks yet: the pool will.
#[inline(always)]
pub(crate) fn freed(_kind: AllocKind, _address: u64, _stream: u64) {}

// ---- Streams, events and contexts.

/// A stream was made.
pub(crate) fn stream_made(stream: u64, flags: u32) {
    gate::stream_made(stream, flags);
}

/// An event was made.
pub(crate) fn event_made(event: u64, flags: u32) {
    gate::event_made(event, flags);
}

/// An event was recorded on a stream.
pub(crate) fn event_recorded(event: u64, stream: u64) {
    gate::event_recorded(event, stream);
}

/// A stream waits for an event.
pub(crate) fn stream_waits(stream: u64, event: u64) {
    gate::stream_waits(stream, event);
}

/// A context is about to end.
pub(crate) fn context_ends() {
    sample::context_ends();
    gate::context_ends();
}

//! Kernels and graphs being launched, in every form the driver has.
//!
//! Each C entry gathers its arguments into a [`Call`]; all meet in [`launch_kernel`]. There the launch
//! goes down once, between the two events if this one is timed, and is then recorded.

use crate::exports::driver;
use crate::hooks::graph;
use crate::lock::{Lock, locked};
use crate::record::{self, Note, PER_THREAD_STREAM};
use crate::sample::{self, Launched};
use crate::thread::{self, Easy};
use crate::{capture, detail, gate, kernels, tuned};
use apex_core::KernelId;
use apex_core::event::{Launch, LaunchShape, What};
use apex_core::pace::{Reads, UNREAD};
use apex_core::time;
use apex_cuda::Function;
use apex_cuda::types::*;
use apex_policy::schedule::Kind;
use std::collections::HashMap;

/// What a launch was asked to do.
#[derive(Clone, Copy)]
struct Call {
    function: Function,
    kernel: CUfunction,
    stream: u64,
    shape: LaunchShape,
    cooperative: bool,
    /// Where each argument lies; null where the call passes them otherwise.
    arguments: *mut *mut c_void,
}

/// Whether a launch is only recorded, as most launches of a hurry are where the clock is slow, and then the
/// kernel's number.
#[inline(always)]
fn easy(kernel: CUfunction) -> Option<(Easy, KernelId)> {
    let number = kernels::known(kernel)?;
    Some((thread::easy()?, number))
}

/// A launch that is only recorded. Its way is short and straight, because the driver has used the caches
/// and the branch predictors for itself meanwhile: every line of code or memory and every jump is paid for.
#[inline(always)]
unsafe fn easy_launch(
    mut easy: Easy,
    function: Function,
    launch: Launch,
    stream: u64,
    forward: impl FnOnce() -> CUresult,
) -> CUresult {
    let result = forward();
    if result == CUDA_SUCCESS && !capture::any() {
        record::easy_launch(easy.thread(), function, launch, stream);
    } else {
        // A copy for the cold way: its address must not keep the launch in memory on the usual one.
        odd_launch(function, core::hint::black_box(launch), stream, result);
    }
    result
}

/// An easy launch that was refused, or that went into a graph.
#[cold]
fn odd_launch(function: Function, launch: Launch, stream: u64, result: CUresult) {
    let what = What::Launch(launch);
    record::at(function, UNREAD, UNREAD, result, || Note { what, stream });
}

#[inline(always)]
unsafe fn launch_kernel(call: Call, forward: impl FnOnce() -> CUresult) -> CUresult {
    let Call { function, stream, shape, cooperative, .. } = call;
    let known = kernels::known(call.kernel);
    let kind = if cooperative { Kind::Cooperative } else { Kind::Kernel };
    let admitted = gate::before(known, stream, &shape, kind);
    let sample = sample::before(stream, configuration(call.kernel as u64, &shape));
    let (started, read_end) = read_clock(known.is_none() || sample.is_some());
    let result = forward();
    let ended = if read_end { time::ticks() } else { started };
    let mut kernel = known.unwrap_or_default();
    record::at(function, started, ended, result, || {
        if known.is_none() && result == CUDA_SUCCESS {
            kernel = kernels::look_up(call.kernel);
        }
        Note { what: What::Launch(Launch { kernel, shape, cooperative, captured: false }), stream }
    });
    if detail::is_on() && result == CUDA_SUCCESS {
        // SAFETY: the driver has just read these arguments.
        unsafe { detail::launched(kernel, ended, call.arguments) };
    }
    if let Some(sample) = sample {
        sample::after(&sample, Launched { function, stream, started, ended, kernel, shape });
    }
    gate::after(admitted, stream, result);
    result
}

/// Launches as the tuning says, or as the program says if the driver refuses that: a refused launch ran nothing.
#[cold]
fn either(other: impl FnOnce() -> CUresult, own: impl FnOnce() -> CUresult) -> CUresult {
    match other() {
        CUDA_SUCCESS => {
            tuned::was_reshaped();
            CUDA_SUCCESS
        }
        refused => {
            tuned::was_refused("a block", refused);
            own()
        }
    }
}

/// The start of a launch, if it is read, and whether its end is read too.
#[inline(always)]
fn read_clock(must: bool) -> (u64, bool) {
    let reads = thread::current_if_started().map_or(Reads::Both, |thread| thread.reads());
    if reads == Reads::Nothing && !must {
        return (UNREAD, false);
    }
    let started = time::ticks();
    if let Some(thread) = thread::current_if_started() {
        thread.launch_read(started);
    }
    (started, reads == Reads::Both || must)
}

macro_rules! kernels {
    ($($name:ident, $twin:ident($($more:ident: $type:ty),*) cooperative: $cooperative:literal;)*) => { $(
        kernels!(@one $name($($more: $type),*) $cooperative, |stream| stream as u64);
        kernels!(@one $twin($($more: $type),*) $cooperative, |stream| per_thread(stream));
    )* };
    (@one $name:ident($arguments:ident: $pointers:ty $(, $more:ident: $type:ty)*) $cooperative:literal,
        |$stream:ident| $which:expr) => {
        kernels! {
            @entry $name $cooperative, $which, $arguments,
            (
                kernel: CUfunction, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32,
                block_z: u32, dynamic_shared: u32, $stream: CUstream, $arguments: $pointers
                $(, $more: $type)*
            ),
            kernel,
            LaunchShape {
                grid: [grid_x, grid_y, grid_z],
                block: [narrow(block_x), narrow(block_y), narrow(block_z)],
                cluster: [0; 3],
                dynamic_shared,
            },
            |grid: [u32; 3], block: [u32; 3]| (driver().$name)(
                kernel, grid[0], grid[1], grid[2], block[0], block[1], block[2], dynamic_shared, $stream,
                $arguments $(, $more)*
            )
        }
    };
    (@entry $name:ident $cooperative:literal, $which:expr, $arguments:ident,
        ($($argument:ident: $type:ty),*),
        $kernel:ident, $shape:expr, $reshaped:expr) => {
        #[inline(always)]
        pub(crate) unsafe fn $name($($argument: $type),*) -> CUresult {
            // A function of its own with the same arguments: the easy way then has no part of it, and it
            // is reached by a jump.
            #[inline(never)]
            unsafe extern "C" fn full($($argument: $type),*) -> CUresult {
                let (kernel, cooperative) = ($kernel, $cooperative);
                let (function, stream, shape) = (Function::$name, $which, $shape);
                let arguments = $arguments;
                let call = Call { function, kernel, stream, shape, cooperative, arguments };
                // SAFETY: the program's own arguments, unchanged, passed once.
                let own = || unsafe { (driver().$name)($($argument),*) };
                match tuned::shape(kernel, &shape, !cooperative) {
                    // SAFETY: as above.
                    None => unsafe { launch_kernel(call, own) },
                    Some(shape) => {
                        let LaunchShape { grid, block, .. } = shape;
                        // SAFETY: the same but for grid and block, which the tuning allows.
                        let other = || unsafe { $reshaped(grid, block.map(u32::from)) };
                        // SAFETY: as above.
                        unsafe { launch_kernel(Call { shape, ..call }, || either(other, own)) }
                    }
                }
            }
            // SAFETY: the program's own arguments, unchanged, passed once on either way.
            unsafe {
                let Some((easy, number)) = easy($kernel) else { return full($($argument),*) };
                let (kernel, cooperative) = (number, $cooperative);
                let launch = Launch { kernel, shape: $shape, cooperative, captured: false };
                let forward = || (driver().$name)($($argument),*);
                easy_launch(easy, Function::$name, launch, $which, forward)
            }
        }
    };
}

kernels! {
    cuLaunchKernel, cuLaunchKernel_ptsz(arguments: *mut *mut c_void, extra: *mut *mut c_void) cooperative: false;
    cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz(arguments: *mut *mut c_void) cooperative: true;
}

macro_rules! described_kernels {
    ($($name:ident |$stream:ident| $which:expr;)*) => { $(
        #[inline(always)]
        pub(crate) unsafe fn $name(
            config: *const CUlaunchConfig,
            kernel: CUfunction,
            arguments: *mut *mut c_void,
            extra: *mut *mut c_void,
        ) -> CUresult {
            // SAFETY: the program's own arguments, unchanged, passed once. The driver refuses a null
            // config; it is not looked at then.
            unsafe {
                let forward = || (driver().$name)(config, kernel, arguments, extra);
                let Some(told) = config.as_ref() else { return forward() };
                let (cluster, cooperative) = attributes(told);
                let shape = LaunchShape {
                    grid: [told.gridDimX, told.gridDimY, told.gridDimZ],
                    block: [narrow(told.blockDimX), narrow(told.blockDimY), narrow(told.blockDimZ)],
                    cluster,
                    dynamic_shared: told.sharedMemBytes,
                };
                let $stream = told.hStream;
                let (function, stream) = (Function::$name, $which);
                if let Some((easy, number)) = easy(kernel) {
                    let launch = Launch { kernel: number, shape, cooperative, captured: false };
                    return easy_launch(easy, function, launch, stream, forward);
                }
                let call = Call { function, kernel, stream, shape, cooperative, arguments };
                let plain = !cooperative && cluster == [0; 3];
                match tuned::shape(kernel, &shape, plain) {
                    None => launch_kernel(call, forward),
                    Some(shape) => {
                        let mut config = *told;
                        [config.gridDimX, config.gridDimY, config.gridDimZ] = shape.grid;
                        let block = shape.block.map(u32::from);
                        [config.blockDimX, config.blockDimY, config.blockDimZ] = block;
                        let other = || (driver().$name)(&raw const config, kernel, arguments, extra);
                        launch_kernel(Call { shape, ..call }, || either(other, forward))
                    }
                }
            }
        }
    )* };
}

described_kernels! {
    cuLaunchKernelEx |stream| stream as u64;
    cuLaunchKernelEx_ptsz |stream| per_thread(stream);
}

const ATTRIBUTE_COOPERATIVE: u32 = 2;
const ATTRIBUTE_CLUSTER_DIMENSION: u32 = 4;

/// Cluster and cooperation among the attributes of a launch.
///
/// # Safety
///
/// `told` is a config as the driver reads it.
#[inline(always)]
unsafe fn attributes(told: &CUlaunchConfig) -> ([u8; 3], bool) {
    let (mut cluster, mut cooperative) = ([0; 3], false);
    for nth in 0..told.numAttrs as usize {
        // SAFETY: the config has that many attributes; the kind is read as the number it is, and
        // decides which part of the value the program has set.
        unsafe {
            let attribute = told.attrs.add(nth);
            match (&raw const (*attribute).id).cast::<u32>().read() {
                ATTRIBUTE_COOPERATIVE => cooperative = (*attribute).value.cooperative != 0,
                ATTRIBUTE_CLUSTER_DIMENSION => {
                    let asked = (*attribute).value.clusterDim;
                    cluster = [asked.x, asked.y, asked.z].map(|blocks| blocks.min(255) as u8);
                }
                _ => {}
            }
        }
    }
    (cluster, cooperative)
}

macro_rules! graphs {
    ($($name:ident |$stream:ident| $which:expr;)*) => { $(
        pub(crate) unsafe fn $name(exec: CUgraphExec, $stream: CUstream) -> CUresult {
            let function = Function::$name;
            let stream: u64 = $which;
            let (graph, kernels, nodes) = graph::counts(exec);
            let shape = LaunchShape { grid: [graph, 0, 0], ..LaunchShape::default() };
            let admitted = gate::before_graph(stream, &shape, nodes);
            let sample = sample::before(stream, configuration(exec as u64, &shape));
            let started = time::ticks();
            // SAFETY: the program's own arguments, unchanged, passed once.
            let result = unsafe { (driver().$name)(exec, $stream) };
            let ended = time::ticks();
            record::at(function, started, ended, result, || Note {
                what: What::GraphLaunch { graph, kernels, nodes, captured: false },
                stream,
            });
            if let Some(sample) = sample {
                let kernel = KernelId(0);
                sample::after(&sample, Launched { function, stream, started, ended, kernel, shape });
            }
            gate::after(admitted, stream, result);
            result
        }
    )* };
}

graphs! {
    cuGraphLaunch |stream| stream as u64;
    cuGraphLaunch_ptsz |stream| per_thread(stream);
}

/// Launches one kernel on each of several devices: one event each, without timing.
pub(crate) unsafe fn cuLaunchCooperativeKernelMultiDevice(
    list: *mut CUDA_LAUNCH_PARAMS,
    count: u32,
    flags: u32,
) -> CUresult {
    let started = time::ticks();
    // SAFETY: the program's own arguments, unchanged.
    let result = unsafe { (driver().cuLaunchCooperativeKernelMultiDevice)(list, count, flags) };
    let ended = time::ticks();
    let told: &[CUDA_LAUNCH_PARAMS] = if result == CUDA_SUCCESS && !list.is_null() {
        // SAFETY: the driver succeeded, so it has read that many.
        unsafe { core::slice::from_raw_parts(list, count as usize) }
    } else {
        &[]
    };
    for told in told {
        let shape = LaunchShape {
            grid: [told.gridDimX, told.gridDimY, told.gridDimZ],
            block: [narrow(told.blockDimX), narrow(told.blockDimY), narrow(told.blockDimZ)],
            cluster: [0; 3],
            dynamic_shared: told.sharedMemBytes,
        };
        record::at(Function::cuLaunchCooperativeKernelMultiDevice, started, ended, result, || {
            let kernel = kernels::number(told.function);
            let launch = Launch { kernel, shape, cooperative: true, captured: false };
            Note::on(told.hStream, What::Launch(launch))
        });
    }
    result
}

// The forms of CUDA 2: block and shared memory were set on the function beforehand.
static SET_BEFORE: Lock<Option<HashMap<u64, SetBefore>>> = Lock::new(None);
type SetBefore = ([u16; 3], u32);

pub(crate) unsafe fn cuFuncSetBlockShape(
    _: CUresult,
    function: CUfunction,
    x: i32,
    y: i32,
    z: i32,
) -> Note {
    let block = [x, y, z].map(|threads| u16::try_from(threads).unwrap_or(0));
    if let Some(mut set) = locked(&SET_BEFORE) {
        set.get_or_insert_default().entry(function as u64).or_default().0 = block;
    }
    Note::plain(What::Other)
}

pub(crate) unsafe fn cuFuncSetSharedSize(_: CUresult, function: CUfunction, bytes: u32) -> Note {
    if let Some(mut set) = locked(&SET_BEFORE) {
        set.get_or_insert_default().entry(function as u64).or_default().1 = bytes;
    }
    Note::plain(What::Other)
}

pub(crate) unsafe fn cuLaunch(kernel: CUfunction) -> CUresult {
    let call = set_before(Function::cuLaunch, kernel, 1, 1, 0);
    // SAFETY: the program's own argument, passed once.
    unsafe { launch_kernel(call, || (driver().cuLaunch)(kernel)) }
}

pub(crate) unsafe fn cuLaunchGrid(kernel: CUfunction, width: i32, height: i32) -> CUresult {
    let call = set_before(Function::cuLaunchGrid, kernel, width, height, 0);
    // SAFETY: the program's own arguments, passed once.
    unsafe { launch_kernel(call, || (driver().cuLaunchGrid)(kernel, width, height)) }
}

pub(crate) unsafe fn cuLaunchGridAsync(
    kernel: CUfunction,
    width: i32,
    height: i32,
    stream: CUstream,
) -> CUresult {
    let call = set_before(Function::cuLaunchGridAsync, kernel, width, height, stream as u64);
    // SAFETY: the program's own arguments, passed once.
    unsafe { launch_kernel(call, || (driver().cuLaunchGridAsync)(kernel, width, height, stream)) }
}

fn set_before(
    function: Function,
    kernel: CUfunction,
    width: i32,
    height: i32,
    stream: u64,
) -> Call {
    let set = locked(&SET_BEFORE).and_then(|set| set.as_ref()?.get(&(kernel as u64)).copied());
    let (block, dynamic_shared) = set.unwrap_or_default();
    let side = |blocks: i32| u32::try_from(blocks).unwrap_or(0);
    let shape = LaunchShape {
        grid: [side(width), side(height), 1],
        block,
        cluster: [0; 3],
        dynamic_shared,
    };
    let arguments = core::ptr::null_mut();
    Call { function, kernel, stream, shape, cooperative: false, arguments }
}

pub(crate) unsafe fn cuLaunchHostFunc(
    _: CUresult,
    stream: CUstream,
    _function: CUhostFn,
    _data: *mut c_void,
) -> Note {
    Note::on(stream, What::Other)
}

pub(crate) unsafe fn cuLaunchHostFunc_v2(
    _: CUresult,
    stream: CUstream,
    _function: CUhostFn,
    _data: *mut c_void,
    _mode: u32,
) -> Note {
    Note::on(stream, What::Other)
}

pub(crate) use {
    cuLaunchHostFunc as cuLaunchHostFunc_ptsz, cuLaunchHostFunc_v2 as cuLaunchHostFunc_v2_ptsz,
};

/// Kernel and shape as one number.
#[inline(always)]
fn configuration(handle: u64, shape: &LaunchShape) -> u64 {
    let [x, y, z] = shape.grid.map(u64::from);
    let mixed = handle ^ x << 20 ^ y << 40 ^ z << 52 ^ u64::from(shape.block[0]) << 4;
    mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40
}

/// A side of a block. The driver refuses more than 1,024: of such a launch the low bits are kept.
#[inline(always)]
fn narrow(threads: u32) -> u16 {
    threads as u16
}

#[inline(always)]
fn per_thread(stream: CUstream) -> u64 {
    if stream.is_null() { PER_THREAD_STREAM } else { stream as u64 }
}

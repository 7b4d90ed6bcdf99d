//! Kernels and graphs being launched, in every form the driver has.
//!
//! Each C entry gathers its arguments into a [`Call`] and takes the shortest of four ways ([`ways`]) that will do.
//! Each way is a function of its own for each form, so that a shorter one has no part of a longer.

mod ways;

use crate::aspects::{self, Call, Note};
use crate::driver::driver;
use crate::state::extras::{self, Extras};
use crate::state::lock::{Lock, locked};
use crate::state::streams::per_thread;
use crate::state::thread::{self, Thread};
use crate::state::{graphs, kernels};
use apex_core::KernelId;
use apex_core::event::{Launch, LaunchShape, What};
use apex_core::time;
use apex_cuda::types::*;
use apex_cuda::{Function, foreign};
use core::arch::naked_asm;
use core::mem::offset_of;
use std::collections::HashMap;
use ways::{
    launch_kernel, launch_record_only, launch_with_extras, record_only, record_only_at_gate,
};

/// The entry of a launch: jumps to the shortest way that will do, with the driver's own arguments. It is written
/// out because a compiler first puts the arguments aside for the longest of them.
macro_rules! shortest_way {
    ($only_recorded:path, $plain:path, $at_open_gate:path, $with_extras:path) => {
        naked_asm!(
            "mov rax, qword ptr [rip + apex_thread@GOTTPOFF]",
            "mov rax, qword ptr fs:[rax]",
            "cmp rax, {last_without_block}",
            "jbe {with_extras}",
            "cmp dword ptr [rax + {record_only}], 0",
            "jne {only_recorded}",
            "cmp qword ptr [rip + {extras}], 0",
            "jne {at_open_gate}",
            "jmp {plain}",
            last_without_block = const thread::WITHOUT_RING,
            record_only = const offset_of!(Thread, record_only),
            extras = sym extras::WORD,
            only_recorded = sym $only_recorded,
            plain = sym $plain,
            at_open_gate = sym $at_open_gate,
            with_extras = sym $with_extras,
        )
    };
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
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> CUresult {
            unsafe extern "C" fn only_recorded($($argument: $type),*) -> CUresult {
                // SAFETY: the program's own arguments, unchanged, passed once on either way.
                unsafe {
                    let Some(only) = record_only($kernel) else { return with_extras($($argument),*) };
                    let forward = || (driver().$name)($($argument),*);
                    launch_record_only(only, call($($argument),*), forward)
                }
            }
            unsafe extern "C" fn plain($($argument: $type),*) -> CUresult {
                // SAFETY: the program's own arguments, unchanged, passed once.
                unsafe {
                    let forward = || (driver().$name)($($argument),*);
                    let known = kernels::known($kernel);
                    launch_kernel(known, call($($argument),*), Extras::NONE, forward)
                }
            }
            unsafe extern "C" fn at_open_gate($($argument: $type),*) -> CUresult {
                // SAFETY: the program's own arguments, unchanged, passed once on either way.
                unsafe {
                    let call = call($($argument),*);
                    if !aspects::goes_on(call.stream) {
                        return with_extras($($argument),*);
                    }
                    let forward = || (driver().$name)($($argument),*);
                    match record_only_at_gate($kernel) {
                        Some(only) => launch_record_only(only, call, forward),
                        None => {
                            launch_kernel(kernels::known($kernel), call, Extras::NONE, forward)
                        }
                    }
                }
            }
            #[inline(never)]
            unsafe extern "C" fn with_extras($($argument: $type),*) -> CUresult {
                // SAFETY: the program's own arguments, unchanged, passed once.
                let own = || unsafe { (driver().$name)($($argument),*) };
                // SAFETY: the same but for grid and block, which the tuning allows.
                let other = |shape: LaunchShape| unsafe {
                    $reshaped(shape.grid, shape.block.map(u32::from))
                };
                let known = kernels::known($kernel);
                // SAFETY: as above.
                unsafe { launch_with_extras(known, call($($argument),*), !$cooperative, own, other) }
            }
            #[inline(always)]
            #[allow(unused_variables, reason = "not every argument of the driver's describes the launch")]
            fn call($($argument: $type),*) -> Call {
                let (kernel, cooperative) = ($kernel, $cooperative);
                let (function, stream, shape) = (Function::$name, $which, $shape);
                Call { function, kernel, stream, shape, cooperative, arguments: $arguments }
            }
            shortest_way!(only_recorded, plain, at_open_gate, with_extras)
        }
    };
}

kernels! {
    cuLaunchKernel, cuLaunchKernel_ptsz(arguments: *mut *mut c_void, extra: *mut *mut c_void) cooperative: false;
    cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz(arguments: *mut *mut c_void) cooperative: true;
}

macro_rules! described_kernels {
    ($($name:ident |$stream:ident| $which:expr;)*) => { $(
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name(
            config: *const CUlaunchConfig,
            kernel: CUfunction,
            arguments: *mut *mut c_void,
            extra: *mut *mut c_void,
        ) -> CUresult {
            unsafe extern "C" fn only_recorded(
                config: *const CUlaunchConfig,
                kernel: CUfunction,
                arguments: *mut *mut c_void,
                extra: *mut *mut c_void,
            ) -> CUresult {
                // SAFETY: the program's own arguments, unchanged, passed once on either way.
                unsafe {
                    let known =
                        config.as_ref().and_then(|asked| Some((asked, record_only(kernel)?)));
                    let Some((asked, only)) = known else {
                        return with_extras(config, kernel, arguments, extra);
                    };
                    let $stream = asked.hStream;
                    let call = described(Function::$name, asked, kernel, $which, arguments);
                    let forward = || (driver().$name)(config, kernel, arguments, extra);
                    launch_record_only(only, call, forward)
                }
            }
            unsafe extern "C" fn plain(
                config: *const CUlaunchConfig,
                kernel: CUfunction,
                arguments: *mut *mut c_void,
                extra: *mut *mut c_void,
            ) -> CUresult {
                // SAFETY: the program's own arguments, unchanged, passed once.
                unsafe {
                    let forward = || (driver().$name)(config, kernel, arguments, extra);
                    let known = kernels::known(kernel);
                    let Some(asked) = readable(config, known) else { return forward() };
                    let $stream = asked.hStream;
                    let call = described(Function::$name, asked, kernel, $which, arguments);
                    launch_kernel(known, call, Extras::NONE, forward)
                }
            }
            unsafe extern "C" fn at_open_gate(
                config: *const CUlaunchConfig,
                kernel: CUfunction,
                arguments: *mut *mut c_void,
                extra: *mut *mut c_void,
            ) -> CUresult {
                // SAFETY: as above.
                unsafe {
                    let goes_on = |$stream| aspects::goes_on($which);
                    let known = kernels::known(kernel);
                    let asked = readable(config, known).filter(|asked| goes_on(asked.hStream));
                    let Some(asked) = asked else {
                        return with_extras(config, kernel, arguments, extra);
                    };
                    let $stream = asked.hStream;
                    let call = described(Function::$name, asked, kernel, $which, arguments);
                    let forward = || (driver().$name)(config, kernel, arguments, extra);
                    match record_only_at_gate(kernel) {
                        Some(only) => launch_record_only(only, call, forward),
                        None => launch_kernel(known, call, Extras::NONE, forward),
                    }
                }
            }
            #[inline(never)]
            unsafe extern "C" fn with_extras(
                config: *const CUlaunchConfig,
                kernel: CUfunction,
                arguments: *mut *mut c_void,
                extra: *mut *mut c_void,
            ) -> CUresult {
                // SAFETY: as above; the other launch differs in grid and block, which the tuning allows.
                unsafe {
                    let own = || (driver().$name)(config, kernel, arguments, extra);
                    let known = kernels::known(kernel);
                    let Some(asked) = readable(config, known) else { return own() };
                    let $stream = asked.hStream;
                    let call = described(Function::$name, asked, kernel, $which, arguments);
                    let other = |shape: LaunchShape| {
                        let mut config = *asked;
                        [config.gridDimX, config.gridDimY, config.gridDimZ] = shape.grid;
                        let block = shape.block.map(u32::from);
                        [config.blockDimX, config.blockDimY, config.blockDimZ] = block;
                        (driver().$name)(&raw const config, kernel, arguments, extra)
                    };
                    let is_plain = !call.cooperative && call.shape.cluster == [0; 3];
                    launch_with_extras(known, call, is_plain, own, other)
                }
            }
            shortest_way!(only_recorded, plain, at_open_gate, with_extras)
        }
    )* };
}

described_kernels! {
    cuLaunchKernelEx |stream| stream as u64;
    cuLaunchKernelEx_ptsz |stream| per_thread(stream);
}

/// The config of a launch that is yet to be made. The driver is about to read it for a kernel that it has
/// launched before; for any other handle it may refuse the call first, so there the config may be anywhere.
/// One that cannot be read, or is null, is the driver's alone.
///
/// # Safety
///
/// `config` is what the program gives the driver, with that kernel if it is known.
#[inline(always)]
unsafe fn readable<'a>(
    config: *const CUlaunchConfig,
    known: Option<KernelId>,
) -> Option<&'a CUlaunchConfig> {
    if known.is_none() && !is_whole(config) {
        return None;
    }
    // SAFETY: it was there just now, or the driver is about to read it.
    unsafe { config.as_ref() }
}

/// Whether a config and its attributes can be read.
#[cold]
fn is_whole(config: *const CUlaunchConfig) -> bool {
    config.is_aligned() && foreign::is_there(config as u64, size_of::<CUlaunchConfig>()) && {
        // SAFETY: it was there just now.
        let (attributes, count) = unsafe { ((*config).attrs, listed(&*config)) };
        foreign::is_there(attributes as u64, count * size_of::<CUlaunchAttribute>())
    }
}

/// A list of attributes has at most so many entries, more than there are kinds of them.
const MOST_ATTRIBUTES: usize = 64;

/// How many attributes are looked at. The driver refuses a list that is announced and not there.
#[inline(always)]
fn listed(asked: &CUlaunchConfig) -> usize {
    if asked.attrs.is_null() { 0 } else { MOST_ATTRIBUTES.min(asked.numAttrs as usize) }
}

/// What a launch with a config was asked to do.
///
/// # Safety
///
/// `asked` is a config as the driver reads it.
#[inline(always)]
unsafe fn described(
    function: Function,
    asked: &CUlaunchConfig,
    kernel: CUfunction,
    stream: u64,
    arguments: *mut *mut c_void,
) -> Call {
    // SAFETY: the caller's promise.
    let (cluster, cooperative) = unsafe { attributes(asked) };
    let shape = LaunchShape {
        grid: [asked.gridDimX, asked.gridDimY, asked.gridDimZ],
        block: [narrow(asked.blockDimX), narrow(asked.blockDimY), narrow(asked.blockDimZ)],
        cluster,
        dynamic_shared: asked.sharedMemBytes,
    };
    Call { function, kernel, stream, shape, cooperative, arguments }
}

const ATTRIBUTE_COOPERATIVE: u32 = 2;
const ATTRIBUTE_CLUSTER_DIMENSION: u32 = 4;

/// Cluster and cooperation among the attributes of a launch.
///
/// # Safety
///
/// `asked` is a config as the driver reads it.
#[inline(always)]
unsafe fn attributes(asked: &CUlaunchConfig) -> ([u8; 3], bool) {
    let (mut cluster, mut cooperative) = ([0; 3], false);
    for nth in 0..listed(asked) {
        // SAFETY: the config has that many attributes; the kind is read as the number it is, and
        // decides which part of the value the program has set.
        unsafe {
            let attribute = asked.attrs.add(nth);
            match (&raw const (*attribute).id).cast::<u32>().read() {
                ATTRIBUTE_COOPERATIVE => cooperative = (*attribute).value.cooperative != 0,
                ATTRIBUTE_CLUSTER_DIMENSION => {
                    let blocks = (*attribute).value.clusterDim;
                    cluster = [blocks.x, blocks.y, blocks.z].map(|blocks| blocks.min(255) as u8);
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
            let (graph, kernels, nodes) = graphs::counts(exec);
            let shape = LaunchShape { grid: [graph, 0, 0], ..LaunchShape::default() };
            let what = What::GraphLaunch { graph, kernels, nodes, captured: false };
            let note = Note { what, stream };
            aspects::launch_graph(function, exec as u64, shape, nodes, note, || {
                let started = time::ticks();
                // SAFETY: the program's own arguments, unchanged, passed once.
                let result = unsafe { (driver().$name)(exec, $stream) };
                (result, started, time::ticks())
            })
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
    let asked: &[CUDA_LAUNCH_PARAMS] = if result == CUDA_SUCCESS && !list.is_null() {
        // SAFETY: the driver succeeded, so it has read that many.
        unsafe { core::slice::from_raw_parts(list, count as usize) }
    } else {
        &[]
    };
    for asked in asked {
        let shape = LaunchShape {
            grid: [asked.gridDimX, asked.gridDimY, asked.gridDimZ],
            block: [narrow(asked.blockDimX), narrow(asked.blockDimY), narrow(asked.blockDimZ)],
            cluster: [0; 3],
            dynamic_shared: asked.sharedMemBytes,
        };
        let function = Function::cuLaunchCooperativeKernelMultiDevice;
        aspects::launch_made(function, (started, ended), result, || {
            let kernel = aspects::kernel_number(asked.function);
            let launch = Launch { kernel, shape, cooperative: true, captured: false };
            Note::on(asked.hStream, What::Launch(launch))
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
    let forward = || unsafe { (driver().cuLaunch)(kernel) };
    // SAFETY: as above.
    unsafe { launch_kernel(kernels::known(kernel), call, Extras::now(), forward) }
}

pub(crate) unsafe fn cuLaunchGrid(kernel: CUfunction, width: i32, height: i32) -> CUresult {
    let call = set_before(Function::cuLaunchGrid, kernel, width, height, 0);
    // SAFETY: the program's own arguments, passed once.
    let forward = || unsafe { (driver().cuLaunchGrid)(kernel, width, height) };
    // SAFETY: as above.
    unsafe { launch_kernel(kernels::known(kernel), call, Extras::now(), forward) }
}

pub(crate) unsafe fn cuLaunchGridAsync(
    kernel: CUfunction,
    width: i32,
    height: i32,
    stream: CUstream,
) -> CUresult {
    let call = set_before(Function::cuLaunchGridAsync, kernel, width, height, stream as u64);
    // SAFETY: the program's own arguments, passed once.
    let forward = || unsafe { (driver().cuLaunchGridAsync)(kernel, width, height, stream) };
    // SAFETY: as above.
    unsafe { launch_kernel(kernels::known(kernel), call, Extras::now(), forward) }
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

/// A side of a block. The driver refuses more than 1,024: of such a launch the low bits are kept.
#[inline(always)]
fn narrow(threads: u32) -> u16 {
    threads as u16
}

//! Kernels and graphs being launched, in every form the driver has.
//!
//! Each C entry gathers its arguments into a [`Call`] and takes the shortest of four ways ([`ways`]) that will do.
//! Each way is a function of its own for each form, so that a shorter one has no part of a longer.

mod ways;

use crate::exports::driver;
use crate::extras::{self, Extras};
use crate::hooks::graph;
use crate::lock::{Lock, locked};
use crate::record::{self, Note, PER_THREAD_STREAM};
use crate::sample::{self, Launched};
use crate::thread::{self, Thread};
use crate::{gate, kernels};
use apex_core::KernelId;
use apex_core::event::{Launch, LaunchShape, What};
use apex_core::time;
use apex_cuda::Function;
use apex_cuda::types::*;
use core::arch::naked_asm;
use core::mem::offset_of;
use std::collections::HashMap;
use ways::{
    Call, configuration, easy, easy_at_gate, easy_launch, launch_kernel, launch_with_extras,
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
            "cmp dword ptr [rax + {easy}], 0",
            "jne {only_recorded}",
            "cmp qword ptr [rip + {extras}], 0",
            "jne {at_open_gate}",
            "jmp {plain}",
            last_without_block = const thread::WITHOUT_RING,
            easy = const offset_of!(Thread, easy),
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
                    let Some(easy) = easy($kernel) else { return with_extras($($argument),*) };
                    let forward = || (driver().$name)($($argument),*);
                    easy_launch(easy, call($($argument),*), forward)
                }
            }
            unsafe extern "C" fn plain($($argument: $type),*) -> CUresult {
                // SAFETY: the program's own arguments, unchanged, passed once.
                unsafe {
                    let forward = || (driver().$name)($($argument),*);
                    launch_kernel(call($($argument),*), Extras::NONE, forward)
                }
            }
            unsafe extern "C" fn at_open_gate($($argument: $type),*) -> CUresult {
                // SAFETY: the program's own arguments, unchanged, passed once on either way.
                unsafe {
                    let call = call($($argument),*);
                    if !Extras::now().is_gate_alone() || !gate::goes_on(call.stream) {
                        return with_extras($($argument),*);
                    }
                    let forward = || (driver().$name)($($argument),*);
                    match easy_at_gate($kernel) {
                        Some(easy) => easy_launch(easy, call, forward),
                        None => launch_kernel(call, Extras::NONE, forward),
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
                // SAFETY: as above.
                unsafe { launch_with_extras(call($($argument),*), !$cooperative, own, other) }
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
                    let known = config.as_ref().and_then(|told| Some((told, easy(kernel)?)));
                    let Some((told, easy)) = known else {
                        return with_extras(config, kernel, arguments, extra);
                    };
                    let $stream = told.hStream;
                    let call = described(Function::$name, told, kernel, $which, arguments);
                    let forward = || (driver().$name)(config, kernel, arguments, extra);
                    easy_launch(easy, call, forward)
                }
            }
            unsafe extern "C" fn plain(
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
                    let $stream = told.hStream;
                    let call = described(Function::$name, told, kernel, $which, arguments);
                    launch_kernel(call, Extras::NONE, forward)
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
                    let goes_on = |$stream| Extras::now().is_gate_alone() && gate::goes_on($which);
                    let told = config.as_ref().filter(|told| goes_on(told.hStream));
                    let Some(told) = told else {
                        return with_extras(config, kernel, arguments, extra);
                    };
                    let $stream = told.hStream;
                    let call = described(Function::$name, told, kernel, $which, arguments);
                    let forward = || (driver().$name)(config, kernel, arguments, extra);
                    match easy_at_gate(kernel) {
                        Some(easy) => easy_launch(easy, call, forward),
                        None => launch_kernel(call, Extras::NONE, forward),
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
                    let Some(told) = config.as_ref() else { return own() };
                    let $stream = told.hStream;
                    let call = described(Function::$name, told, kernel, $which, arguments);
                    let other = |shape: LaunchShape| {
                        let mut config = *told;
                        [config.gridDimX, config.gridDimY, config.gridDimZ] = shape.grid;
                        let block = shape.block.map(u32::from);
                        [config.blockDimX, config.blockDimY, config.blockDimZ] = block;
                        (driver().$name)(&raw const config, kernel, arguments, extra)
                    };
                    let is_plain = !call.cooperative && call.shape.cluster == [0; 3];
                    launch_with_extras(call, is_plain, own, other)
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

/// What a launch with a config was asked to do.
///
/// # Safety
///
/// `told` is a config as the driver reads it.
#[inline(always)]
unsafe fn described(
    function: Function,
    told: &CUlaunchConfig,
    kernel: CUfunction,
    stream: u64,
    arguments: *mut *mut c_void,
) -> Call {
    // SAFETY: the caller's promise.
    let (cluster, cooperative) = unsafe { attributes(told) };
    let shape = LaunchShape {
        grid: [told.gridDimX, told.gridDimY, told.gridDimZ],
        block: [narrow(told.blockDimX), narrow(told.blockDimY), narrow(told.blockDimZ)],
        cluster,
        dynamic_shared: told.sharedMemBytes,
    };
    Call { function, kernel, stream, shape, cooperative, arguments }
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
    unsafe { launch_kernel(call, Extras::now(), || (driver().cuLaunch)(kernel)) }
}

pub(crate) unsafe fn cuLaunchGrid(kernel: CUfunction, width: i32, height: i32) -> CUresult {
    let call = set_before(Function::cuLaunchGrid, kernel, width, height, 0);
    // SAFETY: the program's own arguments, passed once.
    let forward = || unsafe { (driver().cuLaunchGrid)(kernel, width, height) };
    // SAFETY: as above.
    unsafe { launch_kernel(call, Extras::now(), forward) }
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
    unsafe { launch_kernel(call, Extras::now(), forward) }
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

#[inline(always)]
fn per_thread(stream: CUstream) -> u64 {
    if stream.is_null() { PER_THREAD_STREAM } else { stream as u64 }
}

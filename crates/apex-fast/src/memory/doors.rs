//! The functions that stand in the driver's place.
//!
//! Memory is handed out and taken back by a few. All others that give work to a stream say so, and those that need memory
//! of the device are tried again where there was none and the pool had some.

#![allow(non_snake_case, reason = "the functions bear the driver's own names")]

use super::work::{self, On};
use super::{beneath, ordered, questions};
use crate::doors::{Doors, is_per_thread, is_twin};
use crate::functions;
use apex_cuda::foreign;
use apex_cuda::types::*;
use apex_cuda::{Function, Kind, driver_functions};
use apex_policy::pool::Ask;
use core::ffi::c_void;
use core::mem::offset_of;

/// Puts a function of ours in the place of each that gives memory or work.
pub(super) fn open(addresses: &mut [*const c_void; Function::COUNT]) {
    OWN.open(addresses);
}

/// An argument of any type.
struct Probe<T>(T);

impl Probe<CUstream> {
    #[inline(always)]
    fn stream(&self) -> Option<CUstream> {
        Some(self.0)
    }
}

/// What an argument is that is no stream.
trait NoStream {
    #[inline(always)]
    fn stream(&self) -> Option<CUstream> {
        None
    }
}

impl<T> NoStream for Probe<T> {}

/// Whether a type's name is a stream's.
const fn is_stream(name: &str) -> bool {
    matches!(name.as_bytes(), b"CUstream")
}

/// Whether functions of this kind have a door.
const fn is_wanted(kind: Kind, order: &str, has_stream: bool) -> bool {
    let passes = matches!(order.as_bytes(), b"passes");
    let gives_work = matches!(kind, Kind::Copy | Kind::Set | Kind::Launch)
        || has_stream && !matches!(kind, Kind::Sync);
    gives_work && !passes || needs_memory(kind)
}

/// Whether functions of this kind may need memory of the device.
const fn needs_memory(kind: Kind) -> bool {
    use Kind::*;
    matches!(
        kind,
        Alloc
            | Array
            | Pool
            | Vmm
            | Module
            | Library
            | Graph
            | Context
            | Stream
            | Event
            | Launch
            | Managed
    )
}

/// The stream that a call gives work to, if it does.
#[inline(always)]
fn work_of(
    kind: Kind,
    passes: bool,
    twin: bool,
    stream: Option<CUstream>,
) -> Option<(On, CUstream)> {
    let default = core::ptr::null_mut();
    match (kind, stream) {
        _ if passes => None,
        (Kind::Sync, _) => None,
        (_, Some(stream)) => Some((On::stream(stream, is_per_thread(stream, twin)), stream)),
        (Kind::Copy | Kind::Set, None) if !twin => Some((On::DEFAULT, default)),
        (Kind::Copy | Kind::Set | Kind::Launch, None) => Some((On(None), default)),
        _ => None,
    }
}

/// Makes a call that may give work to a stream, and may need memory.
#[inline(always)]
fn call(
    work: Option<(On, CUstream)>,
    needs_memory: bool,
    forward: impl Fn() -> CUresult,
) -> CUresult {
    if let Some((on, stream)) = work {
        work::before(on, stream);
    }
    let mut result = forward();
    if let Some((on, stream)) = work {
        work::after(on, stream, result);
    }
    if result == CUDA_ERROR_OUT_OF_MEMORY && needs_memory && super::give_back_all() {
        result = forward();
    }
    result
}

macro_rules! door {
    ($kind:ident $order:ident cuMemAlloc_v2($($rest:tt)*) $result:ty) => { cuMemAlloc_v2 as *const c_void };
    ($kind:ident $order:ident cuMemAllocPitch_v2($($rest:tt)*) $result:ty) => { cuMemAllocPitch_v2 as *const c_void };
    ($kind:ident $order:ident cuMemFree_v2($($rest:tt)*) $result:ty) => { cuMemFree_v2 as *const c_void };
    ($kind:ident $order:ident cuMemGetInfo_v2($($rest:tt)*) $result:ty) => { cuMemGetInfo_v2 as *const c_void };
    ($kind:ident $order:ident cuPointerGetAttribute($($rest:tt)*) $result:ty) => { questions::cuPointerGetAttribute as *const c_void };
    ($kind:ident $order:ident cuPointerGetAttributes($($rest:tt)*) $result:ty) => { questions::cuPointerGetAttributes as *const c_void };
    ($kind:ident $order:ident cuMemGetAddressRange_v2($($rest:tt)*) $result:ty) => { questions::cuMemGetAddressRange_v2 as *const c_void };
    ($kind:ident $order:ident cuMemPoolGetAttribute($($rest:tt)*) $result:ty) => { questions::cuMemPoolGetAttribute as *const c_void };
    ($kind:ident $order:ident cuMemPoolSetAttribute($($rest:tt)*) $result:ty) => { questions::cuMemPoolSetAttribute as *const c_void };
    ($kind:ident $order:ident cuMemPoolDestroy($($rest:tt)*) $result:ty) => { questions::cuMemPoolDestroy as *const c_void };
    ($kind:ident $order:ident cuDeviceSetMemPool($($rest:tt)*) $result:ty) => { questions::cuDeviceSetMemPool as *const c_void };
    ($kind:ident $order:ident cuMemSetMemPool($($rest:tt)*) $result:ty) => { questions::cuMemSetMemPool as *const c_void };
    ($kind:ident $order:ident cuMemAllocAsync($($argument:ident: $type:ty),*) $result:ty) => {
        ordered_allocation!(cuMemAllocAsync($($argument: $type),*))
    };
    ($kind:ident $order:ident cuMemAllocAsync_ptsz($($argument:ident: $type:ty),*) $result:ty) => {
        ordered_allocation!(cuMemAllocAsync_ptsz($($argument: $type),*))
    };
    ($kind:ident $order:ident cuCtxSynchronize() $result:ty) => { cuCtxSynchronize as *const c_void };
    ($kind:ident $order:ident cuMemcpyDtoH_v2($($rest:tt)*) $result:ty) => { cuMemcpyDtoH_v2 as *const c_void };
    ($kind:ident $order:ident cuLaunchKernelEx($($rest:tt)*) $result:ty) => { described!(cuLaunchKernelEx) };
    ($kind:ident $order:ident cuLaunchKernelEx_ptsz($($rest:tt)*) $result:ty) => { described!(cuLaunchKernelEx_ptsz) };
    ($kind:ident $order:ident cuStreamSynchronize($($rest:tt)*) $result:ty) => { cuStreamSynchronize as *const c_void };
    ($kind:ident $order:ident cuStreamDestroy($($rest:tt)*) $result:ty) => { stream_end!(cuStreamDestroy) };
    ($kind:ident $order:ident cuStreamDestroy_v2($($rest:tt)*) $result:ty) => { stream_end!(cuStreamDestroy_v2) };
    ($kind:ident $order:ident cuCtxDestroy($($rest:tt)*) $result:ty) => { context_end!(cuCtxDestroy($($rest)*)) };
    ($kind:ident $order:ident cuCtxDestroy_v2($($rest:tt)*) $result:ty) => { context_end!(cuCtxDestroy_v2($($rest)*)) };
    ($kind:ident $order:ident cuCtxDetach($($rest:tt)*) $result:ty) => { context_end!(cuCtxDetach($($rest)*)) };
    ($kind:ident $order:ident cuDevicePrimaryCtxRelease($($rest:tt)*) $result:ty) => {
        context_end!(cuDevicePrimaryCtxRelease($($rest)*))
    };
    ($kind:ident $order:ident cuDevicePrimaryCtxRelease_v2($($rest:tt)*) $result:ty) => {
        context_end!(cuDevicePrimaryCtxRelease_v2($($rest)*))
    };
    ($kind:ident $order:ident cuDevicePrimaryCtxReset($($rest:tt)*) $result:ty) => {
        context_end!(cuDevicePrimaryCtxReset($($rest)*))
    };
    ($kind:ident $order:ident cuDevicePrimaryCtxReset_v2($($rest:tt)*) $result:ty) => {
        context_end!(cuDevicePrimaryCtxReset_v2($($rest)*))
    };
    ($kind:ident $order:ident cuMemFreeAsync($($argument:ident: $type:ty),*) $result:ty) => {
        told!(super::ended_otherwise, cuMemFreeAsync($($argument: $type),*))
    };
    ($kind:ident $order:ident cuMemFreeAsync_ptsz($($argument:ident: $type:ty),*) $result:ty) => {
        told!(super::ended_otherwise, cuMemFreeAsync_ptsz($($argument: $type),*))
    };
    ($kind:ident $order:ident cuIpcGetMemHandle($handle:ident: $first:ty, $address:ident: $second:ty) $result:ty) => {
        shown!(cuIpcGetMemHandle($handle: $first, $address: $second) $address)
    };
    ($kind:ident $order:ident cuPointerSetAttribute($a:ident: $at:ty, $b:ident: $bt:ty, $address:ident: $ct:ty) $result:ty) => {
        shown!(cuPointerSetAttribute($a: $at, $b: $bt, $address: $ct) $address)
    };
    ($kind:ident $order:ident cuMemGetHandleForAddressRange($a:ident: $at:ty, $address:ident: $bt:ty $(, $argument:ident: $type:ty)*) $result:ty) => {
        shown!(cuMemGetHandleForAddressRange($a: $at, $address: $bt $(, $argument: $type)*) $address)
    };
    // Frames of other libraries are none of this, and cannot be copied.
    (Interop $order:ident $name:ident $arguments:tt $result:ty) => { core::ptr::null() };
    ($kind:ident opens $name:ident($($argument:ident: $type:ty),*) $result:ty) => {{
        unsafe extern "C" fn $name($($argument: $type),*) -> CUresult {
            work::settle_all();
            // SAFETY: the program's own arguments, unchanged.
            unsafe { (beneath().$name)($($argument),*) }
        }
        $name as *const c_void
    }};
    ($kind:ident switches $name:ident($($argument:ident: $type:ty),*) $result:ty) => {{
        unsafe extern "C" fn $name($($argument: $type),*) -> CUresult {
            // SAFETY: the program's own arguments, unchanged.
            let result = unsafe { (beneath().$name)($($argument),*) };
            super::context_changed();
            result
        }
        $name as *const c_void
    }};
    ($kind:ident $order:ident $name:ident($($argument:ident: $type:ty),*) $result:ty) => {
        const {
            unsafe extern "C" fn $name($($argument: $type),*) -> $result {
                let stream: Option<CUstream> = None$(.or(Probe($argument).stream()))*;
                let passes = const { matches!(stringify!($order).as_bytes(), b"passes") };
                let twin = const { is_twin(stringify!($name)) };
                let work = work_of(Kind::$kind, passes, twin, stream);
                // SAFETY: the program's own arguments, unchanged.
                let result = call(work, const { needs_memory(Kind::$kind) }, || unsafe { (beneath().$name)($($argument),*) });
                // One that is made is the thread's at once.
                if const { matches!(Kind::$kind, Kind::Context) } && !passes {
                    super::context_changed();
                }
                result
            }
            let has_stream = false $(|| is_stream(stringify!($type)))*;
            if is_wanted(Kind::$kind, stringify!($order), has_stream) {
                $name as *const c_void
            } else {
                core::ptr::null()
            }
        }
    };
    ($kind:ident $order:ident $name:ident $arguments:tt) => { core::ptr::null() };
}

macro_rules! context_end {
    ($name:ident($($argument:ident: $type:ty),*)) => {{
        unsafe extern "C" fn $name($($argument: $type),*) -> CUresult {
            super::context_ends();
            // SAFETY: the program's own arguments, unchanged.
            unsafe { (beneath().$name)($($argument),*) }
        }
        $name as *const c_void
    }};
}

macro_rules! stream_end {
    ($name:ident) => {{
        unsafe extern "C" fn $name(stream: CUstream) -> CUresult {
            work::stream_ends(On::stream(stream, false), stream);
            // SAFETY: the program's own argument, unchanged.
            unsafe { (beneath().$name)(stream) }
        }
        $name as *const c_void
    }};
}

/// A function that ends the block of its first argument if it succeeds.
macro_rules! told {
    ($tell:path, $name:ident($address:ident: $first:ty, $stream:ident: $second:ty)) => {{
        unsafe extern "C" fn $name($address: $first, $stream: $second) -> CUresult {
            let twin = const { is_twin(stringify!($name)) };
            let on = On::stream($stream, is_per_thread($stream, twin));
            // SAFETY: the program's own arguments, unchanged.
            let result = call(Some((on, $stream)), false, || unsafe {
                (beneath().$name)($address, $stream)
            });
            if result == CUDA_SUCCESS {
                $tell($address);
            }
            result
        }
        $name as *const c_void
    }};
}

/// A function by which others get to know a block.
macro_rules! shown {
    ($name:ident($($argument:ident: $type:ty),*) $address:ident) => {{
        unsafe extern "C" fn $name($($argument: $type),*) -> CUresult {
            super::known_elsewhere($address);
            // SAFETY: the program's own arguments, unchanged.
            unsafe { (beneath().$name)($($argument),*) }
        }
        $name as *const c_void
    }};
}

/// A function that takes memory from the pool of the device, in the order of the stream.
macro_rules! ordered_allocation {
    ($name:ident($out:ident: $first:ty, $bytes:ident: $second:ty, $stream:ident: $third:ty)) => {{
        unsafe extern "C" fn $name($out: $first, $bytes: $second, $stream: $third) -> CUresult {
            ordered::taken();
            let twin = const { is_twin(stringify!($name)) };
            let on = On::stream($stream, is_per_thread($stream, twin));
            // SAFETY: the program's own arguments, unchanged.
            call(Some((on, $stream)), true, || unsafe { (beneath().$name)($out, $bytes, $stream) })
        }
        $name as *const c_void
    }};
}

macro_rules! described {
    ($name:ident) => {{
        unsafe extern "C" fn $name(
            config: *const CUlaunchConfig,
            function: CUfunction,
            parameters: *mut *mut c_void,
            extra: *mut *mut c_void,
        ) -> CUresult {
            let work = stream_of(config, functions::is_known(function)).map(|stream| {
                (
                    On::stream(stream, is_per_thread(stream, const { is_twin(stringify!($name)) })),
                    stream,
                )
            });
            // SAFETY: the program's own arguments, unchanged.
            let result = call(work, true, || unsafe {
                (beneath().$name)(config, function, parameters, extra)
            });
            if result == CUDA_SUCCESS {
                functions::launched(function);
            }
            result
        }
        $name as *const c_void
    }};
}

/// The stream of a described launch. The driver reads a description only for a function that it knows; else the kernel
/// copies it. Nobody waits for a device instead: the program may be about to give the word that its work waits for.
fn stream_of(config: *const CUlaunchConfig, is_known: bool) -> Option<CUstream> {
    if is_known {
        // SAFETY: the driver has launched the function, so it reads the program's description.
        return unsafe { config.as_ref() }.map(|config| config.hStream);
    }
    let mut stream = [0; size_of::<CUstream>()];
    let place = (config as u64).wrapping_add(offset_of!(CUlaunchConfig, hStream) as u64);
    let is_there = !config.is_null() && foreign::read(place, &mut stream) == stream.len();
    is_there.then(|| core::ptr::without_provenance_mut(usize::from_ne_bytes(stream)))
}

unsafe extern "C" fn cuMemAlloc_v2(out: *mut CUdeviceptr, bytes: usize) -> CUresult {
    // SAFETY: the program's own arguments, unchanged.
    let forward = || match unsafe { (beneath().cuMemAlloc_v2)(out, bytes) } {
        // SAFETY: the driver has written there.
        CUDA_SUCCESS => Ok((unsafe { out.read_unaligned() }, 0)),
        result => Err(result),
    };
    if out.is_null() || bytes == 0 {
        return forward().err().unwrap_or(CUDA_SUCCESS);
    }
    let ask = Ask { bytes: bytes as u64, rows: 0, element: 0 };
    match super::allocate(ask, &forward) {
        Ok((address, _)) => {
            // SAFETY: the program's place for the answer, as the driver takes it.
            unsafe { out.write_unaligned(address) };
            CUDA_SUCCESS
        }
        Err(result) => result,
    }
}

unsafe extern "C" fn cuMemAllocPitch_v2(
    out: *mut CUdeviceptr,
    pitch: *mut usize,
    width: usize,
    height: usize,
    element: u32,
) -> CUresult {
    // SAFETY: the program's own arguments, unchanged.
    let forward =
        || match unsafe { (beneath().cuMemAllocPitch_v2)(out, pitch, width, height, element) } {
            // SAFETY: the driver has written there.
            CUDA_SUCCESS => Ok(unsafe { (out.read_unaligned(), pitch.read_unaligned() as u64) }),
            result => Err(result),
        };
    if out.is_null() || pitch.is_null() || width == 0 || height == 0 {
        return forward().err().unwrap_or(CUDA_SUCCESS);
    }
    let ask = Ask { bytes: width as u64, rows: height as u64, element };
    match super::allocate(ask, &forward) {
        Ok((address, row)) => {
            // SAFETY: the program's places for the answer, as the driver takes them.
            unsafe {
                out.write_unaligned(address);
                pitch.write_unaligned(row as usize);
            }
            CUDA_SUCCESS
        }
        Err(result) => result,
    }
}

unsafe extern "C" fn cuMemFree_v2(address: CUdeviceptr) -> CUresult {
    // SAFETY: the program's own argument, unchanged.
    super::free(address).unwrap_or_else(|| unsafe { (beneath().cuMemFree_v2)(address) })
}

unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> CUresult {
    // SAFETY: the program's own arguments, unchanged.
    let result = unsafe { (beneath().cuMemGetInfo_v2)(free, total) };
    if result == CUDA_SUCCESS && !free.is_null() {
        // SAFETY: the driver has written there.
        unsafe { free.write_unaligned(free.read_unaligned() + super::idle_bytes() as usize) };
    }
    result
}

unsafe extern "C" fn cuCtxSynchronize() -> CUresult {
    let result = work::wait_for_all();
    ordered::waited();
    result
}

unsafe extern "C" fn cuStreamSynchronize(stream: CUstream) -> CUresult {
    let ticket = work::wait_begins(Some(On::stream(stream, is_per_thread(stream, false))));
    // SAFETY: the program's own argument, unchanged.
    let result = unsafe { (beneath().cuStreamSynchronize)(stream) };
    work::wait_ended(ticket, result);
    ordered::waited();
    result
}

/// Returns when the bytes are there, so all that stood before it on the default stream is done.
unsafe extern "C" fn cuMemcpyDtoH_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize) -> CUresult {
    work::before(On::DEFAULT, core::ptr::null_mut());
    let ticket = work::wait_begins(Some(On::DEFAULT));
    // SAFETY: the program's own arguments, unchanged.
    let result = unsafe { (beneath().cuMemcpyDtoH_v2)(to, from, bytes) };
    // A copy of nothing waits for nothing.
    let has_waited = if bytes == 0 { CUDA_ERROR_NOT_READY } else { result };
    work::wait_ended(ticket, has_waited);
    result
}

macro_rules! doors {
    ($($kind:ident $treatment:ident $(($module:ident))? $order:ident $since:literal
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        static OWN: Doors = Doors([$(door!($kind $order $name($($argument: $type),*) $($result)?)),*]);
    };
}

driver_functions!(doors);

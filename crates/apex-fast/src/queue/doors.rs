//! The functions that stand in the driver's place: what each does to the ring comes from its word in the table.

#![allow(non_snake_case, reason = "the functions bear the driver's own names")]

use super::enter::{self, Joining, Parameters};
use super::known::Asked;
use super::{beneath, closed, send};
use crate::doors::{Doors, is_per_thread, is_twin};
use crate::functions;
use apex_cuda::types::*;
use apex_cuda::{Driver, Function, driver_functions};
use core::ffi::c_void;

/// Puts a function of ours in the place of each that does something to the ring.
pub(super) fn open(addresses: &mut [*const c_void; Function::COUNT]) {
    OWN.open(addresses);
}

/// An argument of a call that may wait.
trait Argument: Copy {
    /// What it names or says, as a number.
    fn name(self) -> u64;
    /// Whether it is the calling thread's own stream.
    fn is_own_stream(self, _is_twin: bool) -> bool {
        false
    }
}

impl Argument for CUstream {
    fn name(self) -> u64 {
        self as u64
    }
    fn is_own_stream(self, is_twin: bool) -> bool {
        is_per_thread(self, is_twin)
    }
}

impl Argument for CUhostFn {
    fn name(self) -> u64 {
        self.map_or(0, |function| function as usize as u64)
    }
}

macro_rules! arguments {
    ($($type:ty: $value:ident => $name:expr;)*) => { $(
        impl Argument for $type {
            fn name(self) -> u64 {
                let $value = self;
                $name
            }
        }
    )* };
}

arguments! {
    CUevent: event => event as u64;
    CUgraphExec: graph => graph as u64;
    *mut c_void: pointer => pointer as u64;
    u64: value => value;
    usize: value => value as u64;
    u32: value => value.into();
    u16: value => value.into();
    u8: value => value.into();
}

macro_rules! door {
    (passes $name:ident($($arguments:tt)*)) => { core::ptr::null() };
    (joins cuLaunchKernel $arguments:tt) => { kernel!(cuLaunchKernel) };
    (joins cuLaunchKernel_ptsz $arguments:tt) => { kernel!(cuLaunchKernel_ptsz) };
    (joins cuLaunchKernelEx $arguments:tt) => { described_kernel!(cuLaunchKernelEx) };
    (joins cuLaunchKernelEx_ptsz $arguments:tt) => { described_kernel!(cuLaunchKernelEx_ptsz) };
    (joins cuLaunchCooperativeKernel $arguments:tt) => { cooperative_kernel!(cuLaunchCooperativeKernel) };
    (joins cuLaunchCooperativeKernel_ptsz $arguments:tt) => { cooperative_kernel!(cuLaunchCooperativeKernel_ptsz) };
    (joins $name:ident($($argument:ident: $type:ty),*)) => {{
        unsafe extern "C" fn $name($($argument: $type),*) -> CUresult {
            unsafe fn make(arguments: *const u8, driver: &Driver) -> CUresult {
                // SAFETY: what `arguments` below was copied from, to wherever there was room.
                let ($($argument,)*) = unsafe { arguments.cast::<($($type,)*)>().read_unaligned() };
                // SAFETY: the program's own arguments, unchanged.
                unsafe { (driver.$name)($($argument),*) }
            }
            let mut names = [0; 8];
            for (place, name) in names.iter_mut().zip([$(Argument::name($argument)),*]) {
                *place = name;
            }
            let is_twin = const { is_twin(stringify!($name)) };
            enter::join(&Joining {
                function: Function::$name,
                arguments: ($($argument,)*),
                names,
                is_own_stream: $(Argument::is_own_stream($argument, is_twin))||*,
                make,
            })
        }
        $name as *const c_void
    }};
    ($order:ident $name:ident($($argument:ident: $type:ty),*)) => {{
        unsafe extern "C" fn $name($($argument: $type),*) -> CUresult {
            before::$order();
            // SAFETY: the program's own arguments, unchanged.
            let result = unsafe { (beneath().$name)($($argument),*) };
            after::$order(result)
        }
        $name as *const c_void
    }};
}

/// What is done before a call of each word.
mod before {
    use super::enter;

    pub(super) fn switches() {}
    pub(super) fn drains() {
        enter::forget_calls();
    }
    pub(super) fn reports() {
        enter::asked();
    }
    pub(super) fn forgets() {
        enter::forget();
    }
    pub(super) fn opens() {
        enter::capture_opens();
    }
    pub(super) fn closes() {}
}

/// What is done after a call of each word, and what the program is answered.
mod after {
    use super::{closed, enter, send};
    use apex_cuda::types::{CUDA_SUCCESS, CUresult};

    pub(super) fn switches(result: CUresult) -> CUresult {
        enter::context_changes();
        result
    }
    pub(super) fn drains(result: CUresult) -> CUresult {
        result
    }
    pub(super) fn reports(result: CUresult) -> CUresult {
        match result {
            CUDA_SUCCESS => send::take_failed(),
            _ => {
                closed::refused(result);
                result
            }
        }
    }
    pub(super) fn forgets(result: CUresult) -> CUresult {
        result
    }
    pub(super) fn opens(result: CUresult) -> CUresult {
        result
    }
    pub(super) fn closes(result: CUresult) -> CUresult {
        result
    }
}

macro_rules! kernel {
    ($name:ident) => {{
        unsafe extern "C" fn $name(
            function: CUfunction,
            grid_x: u32,
            grid_y: u32,
            grid_z: u32,
            block_x: u32,
            block_y: u32,
            block_z: u32,
            shared: u32,
            stream: CUstream,
            parameters: *mut *mut c_void,
            extra: *mut *mut c_void,
        ) -> CUresult {
            let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
            let asked = Asked { function, stream, grid, block, shared, attributes: &[] };
            // SAFETY: the program's own arguments, which it passes to the driver.
            let given = unsafe { given(function, parameters, extra) };
            // SAFETY: as above, unchanged.
            let forward = || unsafe {
                (beneath().$name)(
                    function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream,
                    parameters, extra,
                )
            };
            // SAFETY: as above.
            unsafe { launch(function, Some(&asked), is_twin(stringify!($name)), given, forward) }
        }
        $name as *const c_void
    }};
}

macro_rules! cooperative_kernel {
    ($name:ident) => {{
        unsafe extern "C" fn $name(
            function: CUfunction,
            grid_x: u32,
            grid_y: u32,
            grid_z: u32,
            block_x: u32,
            block_y: u32,
            block_z: u32,
            shared: u32,
            stream: CUstream,
            parameters: *mut *mut c_void,
        ) -> CUresult {
            let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
            let given = Some(Parameters::Each(parameters));
            let attributes = [cooperative()];
            let asked = Asked { function, stream, grid, block, shared, attributes: &attributes };
            // SAFETY: the program's own arguments, unchanged.
            let forward = || unsafe {
                (beneath().$name)(
                    function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream,
                    parameters,
                )
            };
            // SAFETY: as above.
            unsafe { launch(function, Some(&asked), is_twin(stringify!($name)), given, forward) }
        }
        $name as *const c_void
    }};
}

macro_rules! described_kernel {
    ($name:ident) => {{
        unsafe extern "C" fn $name(
            config: *const CUlaunchConfig,
            function: CUfunction,
            parameters: *mut *mut c_void,
            extra: *mut *mut c_void,
        ) -> CUresult {
            // SAFETY: the program's own arguments, which it passes to the driver.
            let given = unsafe { given(function, parameters, extra) };
            let mut copies = [NO_ATTRIBUTE; MOST_ATTRIBUTES];
            let known = if functions::is_known(function) { config } else { core::ptr::null() };
            // SAFETY: as above; it is read only where the driver reads it.
            let asked = unsafe { known.as_ref() }.and_then(|config| {
                // SAFETY: as above.
                let attributes = unsafe { copy_attributes(config, &mut copies) }?;
                Some(Asked {
                    function,
                    stream: config.hStream,
                    grid: [config.gridDimX, config.gridDimY, config.gridDimZ],
                    block: [config.blockDimX, config.blockDimY, config.blockDimZ],
                    shared: config.sharedMemBytes,
                    attributes,
                })
            });
            // SAFETY: as above, unchanged.
            let forward = || unsafe { (beneath().$name)(config, function, parameters, extra) };
            // SAFETY: as above.
            unsafe { launch(function, asked.as_ref(), is_twin(stringify!($name)), given, forward) }
        }
        $name as *const c_void
    }};
}

/// A launch in any form. `None` where its form is none that can wait.
#[inline(always)]
unsafe fn launch(
    function: CUfunction,
    asked: Option<&Asked>,
    is_twin: bool,
    given: Option<Parameters>,
    forward: impl FnOnce() -> CUresult,
) -> CUresult {
    let (Some(asked), Some(given)) = (asked, given) else {
        enter::of_no_form(functions::is_known(function));
        let result = forward();
        if result == CUDA_SUCCESS {
            functions::launched(function);
        }
        return result;
    };
    // SAFETY: the caller's promise.
    if unsafe { enter::launch(asked, is_twin, given) } {
        return CUDA_SUCCESS;
    }
    let result = forward();
    enter::made(asked, is_twin, result);
    result
}

/// The parameters of a launch, in either form that the driver takes.
#[inline(always)]
unsafe fn given(
    function: CUfunction,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Option<Parameters> {
    if extra.is_null() {
        return Some(Parameters::Each(parameters));
    }
    if !parameters.is_null() || !functions::is_known(function) {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe { packed(extra) }
}

/// Reads the driver's list of a buffer and its size; it ends with a null.
#[cold]
unsafe fn packed(extra: *mut *mut c_void) -> Option<Parameters> {
    const BUFFER: usize = 1;
    const SIZE: usize = 2;
    let (mut buffer, mut size) = (core::ptr::null::<u8>(), None);
    for pair in 0..2 {
        // SAFETY: the driver reads the same list up to its null.
        unsafe {
            let key = *extra.add(2 * pair) as usize;
            if key == 0 {
                break;
            }
            let value = *extra.add(2 * pair + 1);
            match key {
                BUFFER => buffer = value.cast_const().cast(),
                SIZE => size = Some(*value.cast::<usize>()),
                _ => return None,
            }
        }
    }
    (!buffer.is_null()).then_some(Parameters::Packed(buffer, size?))
}

/// Attributes that a launch that waits may have.
const MOST_ATTRIBUTES: usize = 8;

// SAFETY: numbers, of which zeros are values; the kind 0 says that the attribute is none.
const NO_ATTRIBUTE: CUlaunchAttribute = unsafe { core::mem::zeroed() };

/// Kinds of attributes with the bytes that the driver reads of each. Others name events or nodes, or are newer.
const ATTRIBUTES: &[(u32, usize)] = &[
    (0, 0),   // none
    (2, 4),   // cooperative
    (4, 12),  // cluster dimension
    (5, 4),   // cluster scheduling policy
    (6, 4),   // programmatic stream serialization
    (8, 4),   // priority
    (9, 2),   // memory synchronization domains
    (10, 4),  // memory synchronization domain
    (11, 12), // preferred cluster dimension
    (14, 4),  // preferred shared memory carve-out
];

/// Copies a launch's attributes, with zeros where the driver does not look. `None` where one cannot wait.
#[inline(always)]
unsafe fn copy_attributes<'a>(
    config: &CUlaunchConfig,
    copies: &'a mut [CUlaunchAttribute; MOST_ATTRIBUTES],
) -> Option<&'a [CUlaunchAttribute]> {
    let count = config.numAttrs as usize;
    if count > MOST_ATTRIBUTES || count > 0 && config.attrs.is_null() {
        return None;
    }
    for (nth, copy) in copies.iter_mut().take(count).enumerate() {
        // SAFETY: the driver reads as many attributes; their kind is read as the number it is.
        unsafe {
            let asked = config.attrs.add(nth);
            let kind = (&raw const (*asked).id).cast::<u32>().read();
            let &(_, bytes) = ATTRIBUTES.iter().find(|(known, _)| *known == kind)?;
            (&raw mut copy.id).cast::<u32>().write(kind);
            let (from, to) = (&raw const (*asked).value, &raw mut copy.value);
            from.cast::<u8>().copy_to_nonoverlapping(to.cast::<u8>(), bytes);
        }
    }
    Some(&copies[..count])
}

fn cooperative() -> CUlaunchAttribute {
    const COOPERATIVE: u32 = 2;
    let mut attribute = NO_ATTRIBUTE;
    // SAFETY: a kind that the driver has, and its value, a number.
    unsafe {
        (&raw mut attribute.id).cast::<u32>().write(COOPERATIVE);
        (&raw mut attribute.value).cast::<i32>().write(1);
    }
    attribute
}

macro_rules! doors {
    ($($kind:ident $treatment:ident $(($module:ident))? $order:ident $since:literal
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        static OWN: Doors = Doors([$(door!($order $name($($argument: $type),*))),*]);
    };
}

driver_functions!(doors);

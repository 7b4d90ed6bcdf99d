//! The clocks of the device, read from NVIDIA's management library.
//!
//! A time says little without the clock it was taken at. Four functions of the library are needed, and it is
//! there wherever the driver is, so it is opened instead of taken from a dependency. The device is found by
//! its bus address, since the library counts devices in another order than the driver. Where anything of this
//! is missing, as on the software GPU, there are no clocks, and that is no error.

use crate::Executor;
use crate::calls::call;
use apex_cuda::Library;
use apex_cuda::types::CUdevice;
use core::ffi::{c_char, c_int, c_uint, c_void};

/// Clocks and temperature of a device at one moment.
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// # let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
/// # let ground = apex_exec::zoo::Ground::new(&executor)?;
/// # let kernels: Vec<_> = apex_exec::zoo::kernels().filter(|kernel| kernel.name == "tiny").collect();
/// # let scale = apex_exec::zoo::Scale::Small;
/// # let point = apex_exec::zoo::points(&kernels, &ground.target(), scale, Some(1), 1).remove(0);
/// if let Some(clocks) = ground.prepare(&point)?.time(20)?.clocks {
///     println!("{} MHz at {} degrees", clocks.sm_mhz, clocks.celsius);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// Of the multiprocessors.
    pub sm_mhz: u32,
    /// Of the memory.
    pub memory_mhz: u32,
    /// Of the chip, in degrees Celsius.
    pub celsius: u32,
}

type Init = unsafe extern "C" fn() -> c_int;
type Find = unsafe extern "C" fn(*const c_char, *mut *mut c_void) -> c_int;
type Read = unsafe extern "C" fn(*mut c_void, c_uint, *mut c_uint) -> c_int;

const SM_CLOCK: c_uint = 1;
const MEMORY_CLOCK: c_uint = 2;
const CHIP_TEMPERATURE: c_uint = 0;

/// The opened library and the device in it.
pub(crate) struct ClockReader {
    device: *mut c_void,
    clock: Read,
    temperature: Read,
}

// SAFETY: the library may be called by any thread, with any of its handles.
unsafe impl Send for ClockReader {}
// SAFETY: as above; nothing here changes.
unsafe impl Sync for ClockReader {}

impl ClockReader {
    /// Opens the library for an executor's device. It stays open: it is small, and counts its users itself.
    pub(crate) fn open(executor: &Executor) -> Option<ClockReader> {
        if executor.facts().is_software {
            return None;
        }
        let address = bus_address(executor)?;
        let library = Library::management()?;
        let init = library.symbol(c"nvmlInit_v2")?;
        let find = library.symbol(c"nvmlDeviceGetHandleByPciBusId_v2")?;
        let clock = library.symbol(c"nvmlDeviceGetClockInfo")?;
        let temperature = library.symbol(c"nvmlDeviceGetTemperature")?;
        let mut device = core::ptr::null_mut();
        // SAFETY: these are the types that nvml.h declares the four functions with; the address ends with a
        // NUL and the out-pointer is a local's.
        unsafe {
            let init: Init = core::mem::transmute(init);
            let find: Find = core::mem::transmute(find);
            if init() != 0 || find(address.as_ptr().cast(), &raw mut device) != 0 {
                return None;
            }
            Some(ClockReader {
                device,
                clock: core::mem::transmute::<*const c_void, Read>(clock),
                temperature: core::mem::transmute::<*const c_void, Read>(temperature),
            })
        }
    }

    /// What the clocks are now.
    pub(crate) fn read(&self) -> Option<Clocks> {
        let ask = |function: Read, which: c_uint| {
            let mut value = 0;
            // SAFETY: the device is the library's own handle, and the out-pointer a local's.
            let result = unsafe { function(self.device, which, &raw mut value) };
            (result == 0).then_some(value)
        };
        Some(Clocks {
            sm_mhz: ask(self.clock, SM_CLOCK)?,
            memory_mhz: ask(self.clock, MEMORY_CLOCK)?,
            celsius: ask(self.temperature, CHIP_TEMPERATURE)?,
        })
    }
}

/// The address of the device on its bus, ended by a NUL.
fn bus_address(executor: &Executor) -> Option<[u8; 32]> {
    let context = executor.stream().context();
    context.bind().ok()?;
    let mut device: CUdevice = 0;
    let mut text = [0_u8; 32];
    // SAFETY: the context is current; out-pointers to locals, and the driver writes at most as many bytes as it
    // is told, with a NUL.
    unsafe {
        call!(context.driver, cuCtxGetDevice(&raw mut device)).ok()?;
        call!(context.driver, cuDeviceGetPCIBusId(text.as_mut_ptr().cast(), 32, device)).ok()?;
    }
    Some(text)
}

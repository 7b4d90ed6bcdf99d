//! Functions of modules and kernels of libraries: names, attributes, parameters.
//!
//! Both can be launched, and have an [`Entry`] in common.

use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::ffi::CString;
use std::sync::{Arc, Mutex};

use apex_cuda::types::*;
use apex_engine::{Kernel, Param};
use apex_policy::{Carveout, KernelNeeds, occupancy};

use crate::border::Answer;
use crate::machine::device::Device;
use crate::object::{is, live, object};
use crate::settings::say;

/// What functions and kernels have in common.
pub(crate) struct Entry {
    pub(crate) name: CString,
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) device: &'static Device,
    /// The most threads of a block that a multiprocessor has registers for.
    pub(crate) threads_by_registers: u32,
    /// What the program set, by attribute number.
    settings: [AtomicI32; ATTRIBUTES],
    /// Block, shared memory and arguments set one by one, the way of CUDA 2.
    pub(crate) staged: Mutex<StagedLaunch>,
    /// Whether it was said that the kernel cannot run.
    named: AtomicBool,
    was_launched: AtomicBool,
}

/// A function of a module.
pub(crate) struct ModuleFunction {
    pub(crate) entry: Entry,
    pub(crate) module: CUmodule,
}
object!(ModuleFunction, b"function");

/// A kernel of a library.
pub(crate) struct LibraryKernel {
    pub(crate) entry: Entry,
    pub(crate) library: CUlibrary,
}
object!(LibraryKernel, b"kernel--");

/// A launch put together one setting at a time.
pub(crate) struct StagedLaunch {
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) arguments: Vec<u8>,
}

impl Default for StagedLaunch {
    fn default() -> StagedLaunch {
        StagedLaunch { block: [1; 3], shared_bytes: 0, arguments: Vec::new() }
    }
}

/// How many attributes there are.
const ATTRIBUTES: usize = 16;
const DYNAMIC_SHARED_BYTES: usize = 8;
const CARVEOUT: usize = 9;
const CLUSTER_WIDTH: usize = 11;
const NON_PORTABLE_CLUSTER: usize = 14;
const SETTABLE_FROM: CUfunction_attribute = 8;
const CLUSTER_MUST_BE_SET: CUfunction_attribute = 10;
const PORTABLE_CLUSTER: u32 = 8;
const LARGEST_CLUSTER: u32 = 16;

/// A kernel's name as C has it.
pub(crate) fn c_name(kernel: &Kernel) -> Result<CString, CUresult> {
    CString::new(kernel.name.as_str()).map_err(|_| CUDA_ERROR_NOT_FOUND)
}

impl Entry {
    pub(crate) fn new(kernel: Arc<Kernel>, device: &'static Device) -> Result<Entry, CUresult> {
        let settings = [const { AtomicI32::new(0) }; ATTRIBUTES];
        let dynamic = device.chip.max_shared_per_block.saturating_sub(kernel.static_shared);
        settings[DYNAMIC_SHARED_BYTES].store(dynamic as i32, Ordering::Relaxed);
        settings[CARVEOUT].store(-1, Ordering::Relaxed);
        for (side, &size) in kernel.cluster.iter().flatten().enumerate() {
            settings[CLUSTER_WIDTH + side].store(size as i32, Ordering::Relaxed);
        }
        Ok(Entry {
            name: c_name(&kernel)?,
            threads_by_registers: threads_by_registers(device, kernel.registers),
            kernel,
            device,
            settings,
            staged: Mutex::default(),
            named: AtomicBool::new(false),
            was_launched: AtomicBool::new(false),
        })
    }

    /// Whether this is its first launch. Two at once may both get yes.
    #[inline]
    pub(crate) fn is_first_launch(&self) -> bool {
        let is_first = !self.was_launched.load(Ordering::Relaxed);
        if is_first {
            self.was_launched.store(true, Ordering::Relaxed);
        }
        is_first
    }

    /// The most dynamic shared memory a launch may ask for.
    #[inline]
    pub(crate) fn dynamic_shared_bytes(&self) -> u32 {
        self.settings[DYNAMIC_SHARED_BYTES].load(Ordering::Relaxed) as u32
    }

    /// The most threads of a block.
    pub(crate) fn max_threads(&self) -> u32 {
        self.kernel.max_threads.min(self.threads_by_registers)
    }

    /// What a launch with so much dynamic shared memory takes of a multiprocessor.
    pub(crate) fn needs(&self, dynamic_shared: u32) -> KernelNeeds {
        KernelNeeds {
            registers: self.kernel.registers,
            static_shared: self.kernel.static_shared,
            dynamic_shared,
            max_dynamic_shared: self.dynamic_shared_bytes(),
            carveout: Carveout::from_attribute(self.settings[CARVEOUT].load(Ordering::Relaxed)),
        }
    }

    /// The cluster that every launch has, if the kernel or the program fixed one.
    pub(crate) fn cluster(&self) -> Option<[u32; 3]> {
        let side = |nth: usize| self.settings[CLUSTER_WIDTH + nth].load(Ordering::Relaxed) as u32;
        (side(0) != 0).then(|| [side(0), side(1).max(1), side(2).max(1)])
    }

    /// The most blocks of a cluster.
    pub(crate) fn largest_cluster(&self) -> u32 {
        match self.settings[NON_PORTABLE_CLUSTER].load(Ordering::Relaxed) {
            0 => PORTABLE_CLUSTER,
            _ => LARGEST_CLUSTER,
        }
    }

    /// Refuses a kernel that the engine does not understand, with its reason, said once.
    pub(crate) fn check_supported(&self) -> Answer {
        let Some(reason) = &self.kernel.unsupported else { return Ok(()) };
        if !self.named.swap(true, Ordering::Relaxed) {
            say_unsupported(&self.kernel.name, reason);
        }
        Err(CUDA_ERROR_INVALID_PTX)
    }

    pub(crate) fn attribute(&self, attribute: CUfunction_attribute) -> Result<i32, CUresult> {
        let (kernel, set) = (&self.kernel, self.settings.get(attribute as usize));
        let set = set.ok_or(CUDA_ERROR_INVALID_VALUE)?.load(Ordering::Relaxed);
        Ok(match attribute {
            0 => self.max_threads() as i32,
            1 => kernel.static_shared as i32,
            2 => kernel.constant as i32,
            3 => kernel.local as i32,
            4 => kernel.registers as i32,
            5 => kernel.ptx_version as i32,
            6 => {
                let (major, minor) = self.device.identity.capability;
                (10 * major + minor) as i32
            }
            CLUSTER_MUST_BE_SET => i32::from(kernel.cluster == Some([0; 3])),
            _ => set,
        })
    }

    pub(crate) fn set_attribute(&self, attribute: CUfunction_attribute, value: i32) -> Answer {
        let kept = self.settings.get(attribute as usize).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let most = self.device.chip.max_shared_per_block_optin;
        let most_dynamic = most.saturating_sub(self.kernel.static_shared) as i32;
        let allowed = match attribute as usize {
            DYNAMIC_SHARED_BYTES => (0..=most_dynamic).contains(&value),
            CARVEOUT => (-1..=100).contains(&value),
            // A cluster that the kernel itself fixes cannot be changed.
            11..=13 => self.kernel.cluster.is_none() && value >= 0,
            _ => attribute >= SETTABLE_FROM && attribute != CLUSTER_MUST_BE_SET && value >= 0,
        };
        if !allowed {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        kept.store(value, Ordering::Relaxed);
        Ok(())
    }

    /// Gives another entry of the same kernel what the program set for this one.
    pub(crate) fn lend_settings(&self, other: &Entry) {
        for (own, other) in self.settings.iter().zip(&other.settings) {
            other.store(own.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    pub(crate) fn parameter(&self, index: usize) -> Result<Param, CUresult> {
        self.kernel.params.get(index).copied().ok_or(CUDA_ERROR_INVALID_VALUE)
    }
}

/// The most threads of a block whose threads have so many registers.
fn threads_by_registers(device: &Device, registers: u32) -> u32 {
    let (chip, carveout) = (&device.chip, Carveout::Unset);
    let needs = KernelNeeds {
        registers,
        static_shared: 0,
        dynamic_shared: 0,
        max_dynamic_shared: 0,
        carveout,
    };
    let sizes = (1..=chip.max_threads_per_block / chip.warp_threads).rev();
    let mut sizes = sizes.map(|warps| warps * chip.warp_threads);
    sizes.find(|&threads| occupancy(chip, &needs, threads).blocks_per_sm > 0).unwrap_or(0)
}

/// What a handle to be launched stands for, be it a function or a kernel.
///
/// # Safety
///
/// The handle is the program's.
#[inline]
pub(crate) unsafe fn entry<'a>(handle: CUfunction) -> Result<&'a Entry, CUresult> {
    // SAFETY: the caller vouches for the handle.
    unsafe {
        if is::<ModuleFunction, _>(handle) {
            return Ok(&live::<ModuleFunction, _>(handle)?.entry);
        }
        Ok(&live::<LibraryKernel, _>(handle)?.entry)
    }
}

/// Names a kernel that cannot be run, and why.
pub(crate) fn say_unsupported(kernel: &str, reason: &str) {
    say(&format!("kernel {kernel} cannot run on the software GPU: {reason}"));
}

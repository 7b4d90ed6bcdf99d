//! Gives contexts their numbers and describes their devices.
//!
//! A thread keeps the context it last saw. It asks the driver again after a call that can change it
//! (`hooks/current.rs`), and every so often in any case, because the runtime has private ways too. The
//! number and the device travel together, so that a thread that goes back and forth between contexts
//! takes no lock.

use crate::driver::{capability::real_attribute, driver};
use crate::state::{
    handles::Handles,
    lock::{Lock, locked},
    process::tell,
    thread::{self, Thread},
};
use apex_core::facts::{self, Fact};
use apex_cuda::types::CUdevice;
use core::ffi::CStr;

static CONTEXTS: Handles = Handles::new();

/// Contexts numbered so far, and which devices were described.
static LIST: Lock<List> = Lock::new(List { contexts: Vec::new(), devices: Vec::new() });

#[derive(Default)]
struct List {
    contexts: Vec<u64>,
    devices: Vec<CUdevice>,
}

const DEVICE_BITS: u32 = 8;
const NO_DEVICE: u8 = u8::MAX;

/// Events after which a thread asks for its context although nothing was seen to change it.
const ASK_EVERY: u32 = 64;

/// Sees to it that the thread knows the context it runs in.
#[inline(always)]
pub(crate) fn follow(thread: &mut Thread) {
    if thread.context_good_for == 0 {
        ask(thread);
    } else {
        thread.context_good_for -= 1;
    }
}

/// This thread's context may have changed.
pub(crate) fn may_have_changed() {
    if let Some(thread) = thread::current_if_started() {
        thread.context_good_for = 0;
        thread.look_closer();
        thread.context_changes();
    }
}

#[cold]
fn ask(thread: &mut Thread) {
    thread.context_good_for = ASK_EVERY - 1;
    let mut context = core::ptr::null_mut();
    // SAFETY: a valid place for the answer.
    unsafe { (driver().cuCtxGetCurrent)(&raw mut context) };
    if context == thread.context {
        return;
    }
    thread.context = context;
    thread.context_changes();
    (thread.context_id, thread.device) = match context as u64 {
        0 => (0, NO_DEVICE),
        handle => {
            let packed = CONTEXTS.get(handle).unwrap_or_else(|| number(handle));
            ((packed >> DEVICE_BITS) as u16, (packed & 0xff) as u8)
        }
    };
}

/// A context ended: its handle may come back as another's.
pub(crate) fn forget_all() {
    CONTEXTS.clear();
    if let Some(mut list) = locked(&LIST) {
        // The numbers already given stay taken.
        list.contexts.iter_mut().for_each(|handle| *handle = 0);
        list.devices.clear();
    }
}

fn number(handle: u64) -> u32 {
    let mut device: CUdevice = -1;
    // SAFETY: called from a thread whose current context this is; a valid place for the answer.
    unsafe { (driver().cuCtxGetDevice)(&raw mut device) };
    let short = u8::try_from(device).unwrap_or(NO_DEVICE);
    let mut described = true;
    let id = {
        let Some(mut list) = locked(&LIST) else { return u32::from(NO_DEVICE) };
        if device >= 0 && !list.devices.contains(&device) {
            list.devices.push(device);
            described = false;
        }
        match list.contexts.iter().position(|&known| known == handle) {
            Some(nth) => nth + 1,
            None => {
                list.contexts.push(handle);
                list.contexts.len()
            }
        }
    };
    let packed = (id as u32 & 0xfff) << DEVICE_BITS | u32::from(short);
    CONTEXTS.insert(handle, packed);
    if !described {
        tell(&Fact::Device(describe(device)));
    }
    let device = u64::from(short);
    tell(&Fact::Context(facts::Context { id: id as u64, handle, device }));
    packed
}

fn describe(device: CUdevice) -> facts::Device {
    let attribute = |number| u64::try_from(real_attribute(number, device)).unwrap_or(0);
    let mut name = [0; 256];
    let mut memory = 0;
    // SAFETY: an all-zero UUID is a valid place for the answer.
    let mut uuid: apex_cuda::types::CUuuid = unsafe { core::mem::zeroed() };
    // SAFETY: valid places of the sizes given; the last byte of `name` stays NUL.
    let name = unsafe {
        (driver().cuDeviceGetName)(name.as_mut_ptr(), 255, device);
        (driver().cuDeviceTotalMem_v2)(&raw mut memory, device);
        (driver().cuDeviceGetUuid)(&raw mut uuid, device);
        CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned()
    };
    facts::Device {
        ordinal: u64::try_from(device).unwrap_or(0),
        name,
        uuid: uuid.bytes.iter().map(|byte| format!("{:02x}", *byte as u8)).collect(),
        major: attribute(75),
        minor: attribute(76),
        sms: attribute(16),
        registers_per_sm: attribute(82),
        shared_per_sm: attribute(81),
        shared_per_block_optin: attribute(97),
        reserved_shared_per_block: attribute(111),
        threads_per_sm: attribute(39),
        blocks_per_sm: attribute(106),
        memory: memory as u64,
        l2: attribute(38),
        clock_khz: attribute(13),
        memory_clock_khz: attribute(36),
        bus_bits: attribute(37),
        double_ratio: attribute(87),
    }
}

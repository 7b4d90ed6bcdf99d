//! Which tier runs a launch.
//!
//! Interpreting costs about as much per warp and step as compiling a step costs once for some
//! hundred warps. So a kernel is compiled when its launches so far, this one included, had
//! that many warps, counted by block size because the compiled form is made for one: a
//! kernel of a few blocks starts at once, a large launch is compiled before its first block,
//! and a small kernel launched again and again is compiled after a while. What was compiled,
//! or could not be, is kept as long as the kernel.

use crate::code::Code;
use crate::device::Device;
use crate::frame::FastTier;
use crate::kernel::Launch;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// Warps from which compiling pays for a kernel without loops; with loops, a quarter.
const WARPS: u64 = 128;

/// The compiled form for a launch, when it should have one.
pub(crate) fn choose(launch: &Launch, device: &Device) -> Option<Arc<dyn FastTier>> {
    if !device.jit || device.checked || launch.kernel.unsupported.is_some() {
        return None;
    }
    let slot = slot(&launch.kernel.code, launch.block);
    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    let threads: u64 = launch.block.iter().map(|&n| u64::from(n)).product();
    let blocks = launch.grid.iter().fold(1u64, |all, &n| all.saturating_mul(n.into()));
    let warps = threads.div_ceil(u64::from(launch.kernel.code.width.max(1)));
    slot.warps = slot.warps.saturating_add(warps.saturating_mul(blocks));
    let code = &launch.kernel.code;
    let loops = code
        .blocks
        .iter()
        .enumerate()
        .any(|(index, block)| block.successors.iter().any(|&next| next as usize <= index));
    if slot.warps < if loops { WARPS / 4 } else { WARPS } {
        return None;
    }
    slot.compiled.get_or_init(|| compile(code, launch.block)).clone()
}

/// Compiles a kernel for one size of blocks, whatever it costs.
pub fn compile(code: &Arc<Code>, threads: [u32; 3]) -> Option<Arc<dyn FastTier>> {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    {
        // A defect of the compiler must not take the program with it: interpreting always works.
        let made = std::panic::catch_unwind(|| {
            use crate::interpret::{part, step};
            let warp_bytes = size_of::<crate::interpret::warp::Warp>();
            crate::jit::FastCode::compile(code, threads, step, part, warp_bytes)
        });
        return made.ok().flatten().map(|fast| Arc::new(fast) as Arc<dyn FastTier>);
    }
    #[allow(unreachable_code, reason = "elsewhere there is no compiler")]
    {
        let _ = (code, threads);
        None
    }
}

/// What is known of a kernel with one size of blocks.
#[derive(Default)]
struct Slot {
    warps: u64,
    compiled: OnceLock<Option<Arc<dyn FastTier>>>,
}

/// By the address of the code, with the code to tell whether it still lives there.
type Slots = HashMap<(usize, [u32; 3]), (Weak<Code>, Arc<Mutex<Slot>>)>;

fn slot(code: &Arc<Code>, threads: [u32; 3]) -> Arc<Mutex<Slot>> {
    static SLOTS: Mutex<Option<Slots>> = Mutex::new(None);
    let mut slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    let slots = slots.get_or_insert_default();
    let key = (Arc::as_ptr(code) as usize, threads);
    if let Some((owner, slot)) = slots.get(&key)
        && owner.strong_count() > 0
    {
        return slot.clone();
    }
    slots.retain(|_, (owner, _)| owner.strong_count() > 0);
    let slot = Arc::<Mutex<Slot>>::default();
    slots.insert(key, (Arc::downgrade(code), slot.clone()));
    slot
}

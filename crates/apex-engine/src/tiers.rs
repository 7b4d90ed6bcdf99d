//! Which tier runs a launch, and when that changes.
//!
//! Interpreting costs about as much per warp and step as compiling a step costs once for some
//! hundred warps. So a kernel is compiled when what was interpreted of it, this launch included, is that
//! much: before the launch where its blocks alone are enough, else while it runs, at a jump back. A
//! kernel of a few blocks starts at once, a large launch is compiled before its first block, and a
//! small kernel with a long loop soon after it has begun. It is counted by block size, because the
//! compiled form is made for one. What was compiled, or could not be, is kept as long as the kernel.

use crate::code::Code;
use crate::device::Device;
use crate::dump::Dump;
use crate::frame::{FastTier, Later};
use crate::kernel::Launch;
use crate::window::Window;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// Warps that go through a kernel once in the time that it takes to compile it.
const WARPS: u64 = 128;

/// Turns that a loop is taken to have, before any is seen.
const TURNS: u64 = 4;

/// How a launch begins.
pub(crate) struct Choice {
    /// The compiled form, when it should have one from the start.
    pub(crate) fast: Option<Arc<dyn FastTier>>,
    /// Where it may come from later.
    pub(crate) later: Option<Box<dyn Later>>,
}

/// How a launch should begin.
pub(crate) fn choose(launch: &Launch, device: &Arc<Device>) -> Choice {
    let Some(heat) = heat(launch, device) else { return Choice { fast: None, later: None } };
    let fast = heat.before(launch, device);
    let later = || {
        let (launch, device) = (launch.clone(), device.clone());
        Box::new(Interpreted { heat, launch, device }) as Box<dyn Later>
    };
    Choice { later: fast.is_none().then(later), fast }
}

/// A launch that begins without compiled code.
struct Interpreted {
    heat: Arc<Heat>,
    launch: Launch,
    device: Arc<Device>,
}

impl Later for Interpreted {
    fn patience(&self) -> u64 {
        if self.device.services.counts_steps() {
            return u64::MAX;
        }
        self.heat.patience(&self.launch.kernel.code)
    }

    fn add(&self, steps: u64) {
        self.heat.interpreted.fetch_add(steps, Ordering::Relaxed);
    }

    fn form(&self) -> Option<Arc<dyn FastTier>> {
        self.heat.form(&self.launch, &self.device)
    }
}

/// Makes the compiled form ahead of a launch that should have one. Whoever launches a kernel for the first time may so
/// take the compilation into the call, as a driver does that loads a kernel then.
pub fn prepare(launch: &Launch, device: &Device) {
    if let Some(heat) = heat(launch, device) {
        heat.before(launch, device);
    }
}

/// What is known of a kernel with one size of blocks.
#[derive(Default)]
struct Heat {
    /// Steps of warps that were interpreted.
    interpreted: AtomicU64,
    /// Trusts the parameters that addresses are near to.
    trusting: OnceLock<Option<Arc<dyn FastTier>>>,
    /// For launches with others.
    asking: OnceLock<Option<Arc<dyn FastTier>>>,
}

impl Heat {
    /// Steps of warps that may be interpreted before it is compiled.
    fn patience(&self, code: &Code) -> u64 {
        let price = WARPS * code.steps.len() as u64;
        price.saturating_sub(self.interpreted.load(Ordering::Relaxed))
    }

    /// The compiled form, where the blocks of a launch alone are enough for it.
    fn before(&self, launch: &Launch, device: &Device) -> Option<Arc<dyn FastTier>> {
        let code = &launch.kernel.code;
        let threads: u64 = launch.block.iter().map(|&n| u64::from(n)).product();
        let blocks = launch.grid.iter().fold(1u64, |all, &n| all.saturating_mul(n.into()));
        let warps = threads.div_ceil(u64::from(code.width.max(1)));
        let loops = code
            .blocks
            .iter()
            .enumerate()
            .any(|(index, block)| block.successors.iter().any(|&next| next as usize <= index));
        let steps = code.steps.len() as u64 * if loops { TURNS } else { 1 };
        let ahead = warps.saturating_mul(blocks).saturating_mul(steps);
        if ahead < self.patience(code) {
            return None;
        }
        self.form(launch, device)
    }

    /// The compiled form for a launch, made where there is none yet.
    fn form(&self, launch: &Launch, device: &Device) -> Option<Arc<dyn FastTier>> {
        let kernel = &launch.kernel;
        let made = |trusting| {
            let dump = device.services.dump().map(|dump| (dump, &*kernel.name));
            compile_and_dump(&kernel.code, launch.block, device.window, trusting, dump)
        };
        let fast = self.trusting.get_or_init(|| made(true)).clone()?;
        if fast.suits(device.window, &launch.params) {
            return Some(fast);
        }
        self.asking.get_or_init(|| made(false)).clone()
    }
}

/// Compiles a kernel for one size of blocks and a window of device memory, whatever it costs. Trusting code is for
/// launches whose pointers lie in the window; see [`FastTier::suits`].
pub fn compile(
    code: &Arc<Code>,
    threads: [u32; 3],
    window: Option<Window>,
    trusting: bool,
) -> Option<Arc<dyn FastTier>> {
    compile_and_dump(code, threads, window, trusting, None)
}

fn compile_and_dump(
    code: &Arc<Code>,
    threads: [u32; 3],
    window: Option<Window>,
    trusting: bool,
    dump: Option<(&Dump, &str)>,
) -> Option<Arc<dyn FastTier>> {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    {
        // A defect of the compiler must not take the program with it: interpreting always works.
        let made = std::panic::catch_unwind(|| {
            use crate::interpret::{ask, part, step};
            let steps = crate::jit::Steps { step, part, ask };
            let warp_bytes = size_of::<crate::interpret::warp::Warp>();
            let width = code.width.max(1);
            let all: u32 = threads.iter().product();
            let made = [(all >= width).then_some(width), Some(all % width).filter(|&n| n > 0)];
            let codes = made.into_iter().flatten().filter_map(|lanes| {
                let job =
                    crate::jit::Job { code, threads, lanes, window, trusting, steps, warp_bytes };
                Some((lanes, crate::passes::compile(job, dump)?))
            });
            crate::jit::FastCodes::new(codes.collect())
        });
        return made.ok().flatten().map(|fast| Arc::new(fast) as Arc<dyn FastTier>);
    }
    #[allow(unreachable_code, reason = "elsewhere there is no compiler")]
    {
        let _ = (code, threads, window, trusting, dump);
        None
    }
}

/// By the address of the code, the block and the window, with the code to tell whether it still lives there.
type Heats = HashMap<(usize, [u32; 3], Option<Window>), (Weak<Code>, Arc<Heat>)>;

/// Where a launch is counted; `None` where it is never compiled.
fn heat(launch: &Launch, device: &Device) -> Option<Arc<Heat>> {
    static HEATS: Mutex<Option<Heats>> = Mutex::new(None);
    if !device.jit || device.checked || launch.kernel.unsupported.is_some() {
        return None;
    }
    let code = &launch.kernel.code;
    let mut heats = HEATS.lock().unwrap_or_else(PoisonError::into_inner);
    let heats = heats.get_or_insert_default();
    let key = (Arc::as_ptr(code) as usize, launch.block, device.window);
    if let Some((owner, heat)) = heats.get(&key)
        && owner.strong_count() > 0
    {
        return Some(heat.clone());
    }
    heats.retain(|_, (owner, _)| owner.strong_count() > 0);
    let heat = Arc::<Heat>::default();
    heats.insert(key, (Arc::downgrade(code), heat.clone()));
    Some(heat)
}

//! The fast tier: kernels as machine code.
//!
//! One function is made for a kernel and one size of its blocks, because then most of
//! `%tid` is known to be even over a warp ([`shape`]). It runs a whole warp on vectors, with
//! the lanes together; where they part, or for what is not translated, it stops and the
//! interpreter goes on, on the same register file ([`flow`] says where). Cranelift is used
//! without its optimiser, which moves loads away from where they are wanted; what pays
//! (addresses computed once for a warp, values kept over barriers) is decided here.
//!
//! Whatever goes wrong while compiling, the answer is `None` and the kernel is interpreted.

mod access;
mod address;
mod codemem;
mod compare;
mod compute;
mod control;
mod convert;
mod emit;
mod exchange;
mod float;
mod flow;
mod integer;
mod masked;
mod native;
mod parted;
mod permute;
mod predicate;
mod raw;
mod region;
mod result;
mod shape;
mod shift;
mod stop;
mod store;
mod ternary;
mod value;
mod write;

use crate::code::{Code, Pc};
use crate::frame::{BlockFrame, Compiled, FastTier, WarpFrame};
use codemem::CodeMemory;
use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use emit::{Emit, Helpers, Regular, Tables};
use flow::Flow;
use shape::Shapes;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::OnceLock;

/// Larger kernels are interpreted: compiling them would take longer than most launches.
const MOST_STEPS: usize = 20_000;
/// Steps of a block from which on [`straight`] code is given its registers in one pass.
const STRAIGHT_STEPS: usize = 250;
/// Largest product of steps and vectors per step worth the time.
const MOST_WORK: usize = 200_000;

/// Executes one step for all lanes of a warp; not 0 after a fault.
pub(crate) type StepFunction =
    unsafe extern "C" fn(block: *mut BlockFrame, warp: *mut WarpFrame, pc: Pc) -> u32;

/// Takes lanes that wait at different steps.
pub(crate) type PartFunction = unsafe extern "C" fn(
    warp: *mut WarpFrame,
    places: *const Pc,
    masks: *const u32,
    count: u32,
) -> u32;

/// A kernel's machine code for one size of blocks.
pub(crate) struct FastCode {
    memory: CodeMemory,
    entries: HashMap<Pc, u32>,
    /// Offset of the first instruction of a run, and its step.
    steps: Vec<(u32, Pc)>,
    /// The code holds addresses of these.
    _tables: Tables,
}

impl FastCode {
    /// Compiles a kernel for blocks of `threads`, whose warps' frames lie `warp_bytes` apart.
    pub(crate) fn compile(
        code: &Code,
        threads: [u32; 3],
        step: StepFunction,
        part: PartFunction,
        warp_bytes: usize,
    ) -> Option<FastCode> {
        let width = code.width as usize;
        let work = code.steps.len() * width / 4;
        if code.steps.is_empty() || code.steps.len() > MOST_STEPS || work > MOST_WORK {
            return None;
        }
        if !matches!(width, 16 | 32) || threads.contains(&0) {
            return None;
        }
        let isa = isa(straight(code))?;
        let shapes = Rc::new(Shapes::find(code, threads));
        let flow = Flow::find(code, &shapes);
        let mut context = Context::new();
        context.func.signature = emit::signature();
        let mut frontend = FunctionBuilderContext::new();
        let build = FunctionBuilder::new(&mut context.func, &mut frontend);
        let helpers = Helpers {
            step: step as usize,
            admit: admit as *const () as usize,
            settle: settle as *const () as usize,
            part: part as usize,
            warp_bytes,
        };
        let fused = std::is_x86_feature_detected!("fma");
        let (tables, build) = Emit::translate(code, shapes, &flow, threads, helpers, fused, build);
        build.finalize(isa.frontend_config());
        let compiled = context.compile(&**isa, &mut ControlPlane::default()).ok()?;
        let steps = compiled
            .buffer
            .get_srclocs_sorted()
            .iter()
            .filter(|range| !range.loc.is_default())
            .map(|range| (range.start, range.loc.bits()))
            .collect();
        let memory = CodeMemory::new(compiled.code_buffer())?;
        let entries = flow
            .entries
            .iter()
            .enumerate()
            .map(|(number, &block)| (code.blocks[block as usize].steps.start, number as u32))
            .collect();
        Some(FastCode { memory, entries, steps, _tables: tables })
    }
}

impl FastTier for FastCode {
    fn entry(&self, pc: Pc) -> Option<u32> {
        self.entries.get(&pc).copied()
    }

    fn function(&self) -> Compiled {
        // SAFETY: the memory holds a function of this signature, made by `compile`; whoever
        // calls it keeps `self`.
        unsafe { std::mem::transmute::<*const u8, Compiled>(self.memory.start()) }
    }

    fn step_at(&self, host: usize) -> Option<Pc> {
        let offset = self.memory.offset(host)?;
        let after = self.steps.partition_point(|&(start, _)| start <= offset);
        after.checked_sub(1).map(|index| self.steps[index].1)
    }
}

/// True for a kernel that is mostly one long block. Far more values are alive there than there are
/// registers, and the careful allocator spends most of the time of compiling on them: 13.5 ms for a
/// kernel of 500 steps, where one pass takes 3 ms for code that needs a sixth longer. In short blocks one
/// pass would cost up to three times the running time, so they are left to the careful one.
fn straight(code: &Code) -> bool {
    let longest = code.blocks.iter().map(|block| block.steps.len()).max().unwrap_or(0);
    longest >= STRAIGHT_STEPS && longest * 2 > code.steps.len()
}

/// Cranelift for this processor, with registers given out in one pass or carefully; `None` when
/// there is none.
fn isa(one_pass: bool) -> Option<&'static OwnedTargetIsa> {
    static ISAS: [OnceLock<Option<OwnedTargetIsa>>; 2] = [const { OnceLock::new() }; 2];
    ISAS[usize::from(one_pass)]
        .get_or_init(|| {
            let mut flags = settings::builder();
            for (name, value) in [
                ("opt_level", "none"),
                ("regalloc_algorithm", if one_pass { "single_pass" } else { "backtracking" }),
                ("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }),
                ("is_pic", "false"),
                ("unwind_info", "false"),
            ] {
                flags.set(name, value).ok()?;
            }
            let builder = cranelift_native::builder().ok()?;
            builder.finish(settings::Flags::new(flags)).ok()
        })
        .as_ref()
}

/// Tests that registers the interpreter left are as regular as compiled code takes them to be.
///
/// # Safety
/// Called by compiled code, with its own tables.
unsafe extern "C" fn admit(
    warp: *mut WarpFrame,
    table: *const Regular,
    count: u64,
    width: u32,
) -> u32 {
    // SAFETY: as promised; the offsets are those of the kernel's register file.
    unsafe {
        let file = (*warp).registers;
        for regular in std::slice::from_raw_parts(table, count as usize) {
            let at = file.add(regular.offset as usize);
            let regular_lanes = if regular.lane_bytes == 8 {
                let lanes = at.cast::<u64>();
                let base = lanes.read();
                (1..u64::from(width)).all(|lane| {
                    let expected = base.wrapping_add((regular.stride as u64).wrapping_mul(lane));
                    lanes.add(lane as usize).read() == expected
                })
            } else {
                let lanes = at.cast::<u32>();
                let base = lanes.read();
                (1..width).all(|lane| {
                    let expected = base.wrapping_add((regular.stride as u32).wrapping_mul(lane));
                    lanes.add(lane as usize).read() == expected
                })
            };
            if !regular_lanes {
                return 0;
            }
        }
    }
    1
}

/// Writes all lanes of regular registers, and PTX's NaN, for the interpreter.
///
/// # Safety
/// Called by compiled code, with its own tables.
unsafe extern "C" fn settle(
    warp: *mut WarpFrame,
    table: *const Regular,
    count: u64,
    width: u32,
) -> u32 {
    // SAFETY: as promised; the offsets are those of the kernel's register file.
    unsafe {
        (*warp).compact = 0;
        let file = (*warp).registers;
        for regular in std::slice::from_raw_parts(table, count as usize) {
            let at = file.add(regular.offset as usize);
            if regular.spread && regular.lane_bytes == 8 {
                let lanes = at.cast::<u64>();
                let base = lanes.read();
                for lane in 1..u64::from(width) {
                    let value = base.wrapping_add((regular.stride as u64).wrapping_mul(lane));
                    lanes.add(lane as usize).write(value);
                }
            } else if regular.spread {
                let lanes = at.cast::<u32>();
                let base = lanes.read();
                for lane in 1..width {
                    let value = base.wrapping_add((regular.stride as u32).wrapping_mul(lane));
                    lanes.add(lane as usize).write(value);
                }
            }
            if regular.raw {
                let lanes = at.cast::<f32>();
                for lane in 0..width as usize {
                    if lanes.add(lane).read().is_nan() {
                        lanes.add(lane).cast::<u32>().write(0x7fff_ffff);
                    }
                }
            }
        }
    }
    1
}

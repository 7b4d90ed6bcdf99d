//! From Cranelift's function to machine code in memory.

use super::Compilation;
use super::codemem::CodeMemory;
use crate::code::Code;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use std::sync::OnceLock;

/// Steps of a block from which on [`straight`] code is given its registers in one pass.
const STRAIGHT_STEPS: usize = 250;

/// Makes it.
pub(crate) fn run(it: &mut Compilation<'_>) -> Option<()> {
    let compiled = it.context.compile(&**it.isa, &mut ControlPlane::default()).ok()?;
    it.memory = Some(CodeMemory::new(compiled.code_buffer())?);
    Some(())
}

/// True for a kernel that is mostly one long block. Far more values are alive there than there are
/// registers, and the careful allocator spends most of the time of compiling on them: 13.5 ms for a
/// kernel of 500 steps, where one pass takes 3 ms for code that needs a sixth longer. In short blocks one
/// pass would cost up to three times the running time, so they are left to the careful one.
pub(super) fn straight(code: &Code) -> bool {
    let longest = code.blocks.iter().map(|block| block.steps.len()).max().unwrap_or(0);
    longest >= STRAIGHT_STEPS && longest * 2 > code.steps.len()
}

/// Cranelift for this processor, with registers given out in one pass or carefully; `None` when
/// there is none.
pub(super) fn isa(one_pass: bool) -> Option<&'static OwnedTargetIsa> {
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

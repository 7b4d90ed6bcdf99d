//! What `ptxas -v` tells of a module: registers, shared memory and parameters of each kernel.
//!
//! Callers take figures out of these lines by their form (`Used N registers`, `bytes spill stores`). Registers are the
//! estimate that the software GPU itself answers with; nothing spills, because its registers are memory.

use apex_ptx::cfg::Graph;
use apex_ptx::classes::Classes;
use apex_ptx::code::Code;
use apex_ptx::liveness::Liveness;
use apex_ptx::tree::{Function, FunctionKind, Linkage, Module, Space, Variable};
use std::fmt::Write as _;

/// The lines for all kernels of a module.
pub fn report(module: &Module, architecture: Option<&str>) -> String {
    let target = architecture.or(module.target.first().map(|target| &**target)).unwrap_or("sm_52");
    let mut lines = format!("ptxas info    : {} bytes gmem\n", bytes_in(module, Space::Global));
    for kernel in module.functions().filter(|one| one.kind == FunctionKind::Entry) {
        describe(&mut lines, kernel, target, bytes_in(module, Space::Shared));
    }
    lines
}

fn describe(lines: &mut String, kernel: &Function, target: &str, shared_of_module: u64) {
    let name = &kernel.name;
    let code = Code::new(kernel).ok();
    let registers = code.as_ref().and_then(|code| registers(kernel, code)).unwrap_or(0);
    let own = code.as_ref().map_or(0, |code| sum(&code.variables, Space::Shared));
    let parameters: u64 = kernel.params.iter().filter_map(Variable::bytes).sum();
    // Writing to a string does not fail.
    let _ = write!(
        lines,
        "ptxas info    : Compiling entry function '{name}' for '{target}'\n\
         ptxas info    : Function properties for {name}\n    \
         0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
         ptxas info    : Used {registers} registers, {} bytes smem, {parameters} bytes cmem[0]\n",
        shared_of_module + own
    );
}

fn registers(kernel: &Function, code: &Code) -> Option<u32> {
    let liveness = Liveness::new(code, &Graph::new(code), &Classes::new(code))?;
    Some(liveness.registers_per_thread(kernel))
}

fn bytes_in(module: &Module, space: Space) -> u64 {
    sum(module.variables(), space)
}

fn sum<'a>(variables: impl IntoIterator<Item = &'a Variable>, space: Space) -> u64 {
    let counted = |one: &&Variable| one.space == space && one.linkage != Linkage::Extern;
    variables.into_iter().filter(counted).filter_map(Variable::bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_told_with_its_figures() {
        let text = ".version 8.0\n.target sm_90\n.address_size 64\n\
            .shared .align 4 .b8 tile[256];\n\
            .visible .entry k(.param .u64 to, .param .u32 count) {\n\
            .shared .align 4 .b8 own[16];\n.reg .b64 %rd<2>;\n.reg .b32 %r<2>;\n\
            ld.param.u64 %rd1, [to];\nld.param.u32 %r1, [count];\n\
            st.global.u32 [%rd1], %r1;\nret;\n}\n";
        let lines = report(&apex_ptx::parse(text).unwrap(), Some("sm_90a"));
        assert!(lines.contains("entry function 'k' for 'sm_90a'"), "{lines}");
        assert!(lines.contains("0 bytes spill stores"), "{lines}");
        assert!(lines.contains("Used 8 registers, 272 bytes smem, 12 bytes cmem[0]"), "{lines}");
    }
}

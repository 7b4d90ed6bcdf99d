//! Registers that stood for what was known late become the numbers they stand for.

use super::graph::Graph;
use super::{Lowering, Outcome};
use crate::code::{Address, Reg, Src};
use crate::operands::{Operand, change};
use std::collections::HashMap;

/// Puts the constants into all functions.
pub(crate) fn run(it: &mut Lowering<'_, '_>) -> Outcome {
    for function in &mut it.functions {
        set_constants(&mut function.graph, &it.constants);
    }
    Ok(())
}

/// Puts constants where registers stood for what is known only now.
fn set_constants(graph: &mut Graph, constants: &HashMap<Reg, u64>) {
    for step in graph.nodes.iter_mut().flat_map(|node| &mut node.steps) {
        change(&mut step.inst, &mut |place| match place {
            Operand::Read(src) => {
                if let Src::Reg(register) = src
                    && let Some(value) = constants.get(register)
                {
                    *src = Src::Imm(*value);
                }
            }
            Operand::Address(address) => {
                if let Src::Reg(register) = address.base
                    && let Some(value) = constants.get(&register)
                {
                    let base = Src::Imm(value.wrapping_add_signed(address.offset));
                    *address = Address { base, offset: 0 };
                }
            }
            Operand::ReadRegister(_) | Operand::Guard(_) | Operand::Write(_) => {}
        });
    }
}

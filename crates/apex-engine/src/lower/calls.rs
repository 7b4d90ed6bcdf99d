//! Calls learn where functions begin, how much of the stack they take, and what they keep.

use super::{GraphedFunction, Lowering, Outcome};
use crate::code::{Callee, Code, Inst};
use std::collections::HashMap;

/// Fills in every call.
pub(crate) fn run(it: &mut Lowering<'_, '_>) -> Outcome {
    settle_calls(&mut it.code, &it.functions);
    Ok(())
}

/// Entries of called functions, and what each call has to keep.
fn settle_calls(code: &mut Code, functions: &[GraphedFunction]) {
    let entries: HashMap<usize, u32> = functions
        .iter()
        .map(|function| (function.function, code.blocks[function.blocks.start].steps.start))
        .collect();
    for (number, function) in functions.iter().enumerate() {
        if number > 0 {
            code.functions.extend(entries.get_key_value(&function.function));
        }
        for index in function.blocks.clone() {
            let last = code.blocks[index].steps.end as usize - 1;
            let kept = match code.blocks[index].successors.first() {
                Some(next) if function.recursive => code.blocks[*next as usize].live_in.clone(),
                _ => Vec::new(),
            };
            if let Inst::Call { callee, save, frame } = &mut code.steps[last].inst {
                if let Callee::Direct(target) = callee {
                    *target = entries.get(&(*target as usize)).copied().unwrap_or(0);
                }
                *save = kept;
                *frame = function.frame;
            }
        }
    }
}

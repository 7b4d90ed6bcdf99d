//! Random kernels of newer instructions.

use crate::compare::{CHIPS, Random, filled, kernel, lines, run, same};
use crate::forms::FORMS;

/// Instructions of one kernel.
const LONGEST: u64 = 24;

/// Compares one kernel on all chips that it can be brought down to.
pub(crate) fn check(seed: u64) -> Result<(), String> {
    let mut random = Random::new(seed);
    let chip = CHIPS[random.below(CHIPS.len() as u64) as usize];
    let count = 1 + random.below(LONGEST);
    let mut instructions = Vec::new();
    let mut depth = 0;
    while instructions.len() < count as usize {
        let form = &FORMS[random.below(FORMS.len() as u64) as usize];
        if form.oldest > chip || (depth > 0 && form.together) {
            continue;
        }
        let text = filled(form, &mut random);
        // A guard belongs to one instruction; a branch goes around several.
        match random.below(8) {
            0 | 1 if !form.together && !text.contains(';') => {
                let not = if random.below(2) == 0 { "" } else { "!" };
                instructions.push(format!("@{not}%p{} {text}", random.below(4)));
            }
            2 if depth == 0 => {
                depth = 1;
                instructions.push(format!("@%p{} bra L{seed}", random.below(4)));
            }
            3 if depth == 1 => {
                depth = 2;
                instructions.push(format!("L{seed}: {text}"));
            }
            _ => instructions.push(text),
        }
        if depth == 2 {
            depth = 3;
        }
    }
    if depth == 1 {
        instructions.push(format!("L{seed}: mov.b32 %r0, %r0"));
    }
    let text = kernel(&instructions);
    let input = lines(1, &mut random);
    let direct = run(&text, &input).map_err(|error| format!("directly: {error}\n{text}"))?;
    same(&text, chip, &input, &direct).map(|_| ())
}

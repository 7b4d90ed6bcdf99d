//! Every pass over a kernel, in order.
//!
//! [`LOWERING`] makes the tree of a kernel into code, once, when its module is loaded; what the interpreter runs is its
//! end. [`COMPILING`] makes code into machine code, once for each size of blocks and window of device memory. What
//! comes before is about whole modules and stands in `module.rs`: texts are parsed, checked and linked, variables
//! placed and filled. After each pass the kernel can be written down, see [`Dump`].

use crate::dump::Dump;
use crate::lower::{
    Lowered, Lowering, Outcome, Program, calls, clean, constants, emit, file, frames, graph, live,
    order, promote, translate, turns, width,
};

/// A pass.
pub(crate) struct Pass<Run> {
    /// Its name: a verb.
    pub(crate) name: &'static str,
    /// What it does.
    pub(crate) does: &'static str,
    /// The passes whose results it reads.
    pub(crate) needs: &'static [&'static str],
    /// Does it.
    run: Run,
}

impl<Run> Pass<Run> {
    /// What it is, in one line.
    fn line(&self) -> String {
        let needs = if self.needs.is_empty() { "nothing".into() } else { self.needs.join(", ") };
        format!("{} Needs {needs}.", self.does)
    }
}

type LoweringPass = Pass<for<'p, 't> fn(&mut Lowering<'p, 't>) -> Outcome>;

/// From a function of the tree to code.
pub(crate) const LOWERING: [LoweringPass; 14] = [
    Pass {
        name: "translate",
        does: "Instructions become steps; names are settled, functions taken in, labels kept.",
        needs: &[],
        run: translate::run,
    },
    Pass {
        name: "cut",
        does: "Steps become blocks, cut at labels and at whatever moves lanes.",
        needs: &["translate"],
        run: graph::cut,
    },
    Pass {
        name: "promote",
        does: "Variables of functions that only loads and stores touch become registers.",
        needs: &["cut"],
        run: promote::run,
    },
    Pass {
        name: "lay-out",
        does: "Variables left in memory get offsets; frames too large for a thread are refused.",
        needs: &["promote"],
        run: frames::run,
    },
    Pass {
        name: "set-constants",
        does: "Offsets of variables and of dynamic shared memory become constants.",
        needs: &["lay-out"],
        run: constants::run,
    },
    Pass {
        name: "clean",
        does: "Copies, constants and sums go where they are read; dead steps go away.",
        needs: &["set-constants"],
        run: clean::run,
    },
    Pass {
        name: "simplify",
        does: "Jumps to jumps and empty blocks that cleaning left go away.",
        needs: &["clean"],
        run: graph::simplify,
    },
    Pass {
        name: "give-turns",
        does: "Behind reads that race with a later store the other warps get their turn.",
        needs: &["simplify"],
        run: turns::run,
    },
    Pass {
        name: "order",
        does: "Blocks are put in order: behind those that lead to them, loops together.",
        needs: &["give-turns"],
        run: order::run,
    },
    Pass {
        name: "find-alive",
        does: "Finds the registers alive at the start of each block, and the most at one time.",
        needs: &["give-turns"],
        run: live::run,
    },
    Pass {
        name: "emit",
        does: "Blocks become one list of steps with the lines of the text; branches get targets.",
        needs: &["order", "find-alive"],
        run: emit::run,
    },
    Pass {
        name: "settle-calls",
        does: "Calls learn where functions begin, what stack they take, what they keep.",
        needs: &["lay-out", "emit"],
        run: calls::run,
    },
    Pass {
        name: "choose-width",
        does: "Decides how many lanes go together: 16 where no lane can notice, else 32.",
        needs: &["emit"],
        run: width::run,
    },
    Pass {
        name: "number-registers",
        does: "Registers that are left get numbers and places in the register file.",
        needs: &["emit", "settle-calls"],
        run: file::run,
    },
];

/// Lowers the kernel of this index in the program.
pub(crate) fn lower(program: &Program<'_>, index: usize, dump: Option<&Dump>) -> Outcome<Lowered> {
    let mut kernel = Lowering::new(program, index);
    let folder = dump.map(|dump| dump.kernel(kernel.name(), ""));
    for (number, pass) in (1..).zip(&LOWERING) {
        let outcome = (pass.run)(&mut kernel);
        if let Some(folder) = &folder {
            match &outcome {
                Ok(()) => folder.write(number, pass.name, &pass.line(), &kernel),
                Err(refusal) => folder.write(number, pass.name, &pass.line(), refusal),
            }
        }
        outcome?;
    }
    Ok(kernel.finish())
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) use compiling::compile;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod compiling {
    use super::Pass;
    use crate::dump::Dump;
    use crate::jit::{Compilation, FastCode, Job, anchor, assemble, emit, flow, shape, source};

    type CompilingPass = Pass<for<'c> fn(&mut Compilation<'c>) -> Option<()>>;

    /// From code to machine code.
    pub(crate) const COMPILING: [CompilingPass; 6] = [
        Pass {
            name: "find-shapes",
            does: "Finds which registers are even over the lanes of a warp, or rise evenly.",
            needs: &[],
            run: shape::run,
        },
        Pass {
            name: "find-flow",
            does: "Finds where warps enter and leave, and what must lie in the register file then.",
            needs: &["find-shapes"],
            run: flow::run,
        },
        Pass {
            name: "find-writers",
            does: "With a window: finds what addresses are computed from, to check them once.",
            needs: &[],
            run: anchor::run,
        },
        Pass {
            name: "emit-vectors",
            does: "Steps become Cranelift's, on vectors of lanes, with the checks of accesses.",
            needs: &["find-shapes", "find-flow", "find-writers"],
            run: emit::run,
        },
        Pass {
            name: "assemble",
            does: "Cranelift makes machine code of it and puts it into memory.",
            needs: &["emit-vectors"],
            run: assemble::run,
        },
        Pass {
            name: "note-sources",
            does: "Notes for each machine instruction its step and the lane it touches memory for.",
            needs: &["assemble"],
            run: source::run,
        },
    ];

    /// Compiles a kernel; `None` where that is not possible or not worth it.
    pub(crate) fn compile(job: Job<'_>, dump: Option<(&Dump, &str)>) -> Option<FastCode> {
        let folder = dump.map(|(dump, name)| dump.kernel(name, &job.to_string()));
        let mut kernel = Compilation::new(job)?;
        if folder.is_some() {
            kernel.keep_text();
        }
        for (number, pass) in (1..).zip(&COMPILING) {
            (pass.run)(&mut kernel)?;
            if let Some(folder) = &folder {
                folder.write(number, pass.name, &pass.line(), &kernel);
            }
        }
        kernel.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(passes: &[(&str, &str, &[&str])]) {
        for (index, (name, does, needs)) in passes.iter().enumerate() {
            assert!(does.ends_with('.') && !does.contains('\n'), "{name}: {does}");
            for needed in *needs {
                let before = passes[..index].iter().any(|(other, ..)| other == needed);
                assert!(before, "{name} needs {needed}, which does not stand before it");
            }
            assert!(passes[..index].iter().all(|(other, ..)| other != name), "two passes {name}");
        }
    }

    #[test]
    fn a_pass_stands_behind_those_that_it_needs() {
        check(&LOWERING.map(|it| (it.name, it.does, it.needs)));
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        check(&compiling::COMPILING.map(|it| (it.name, it.does, it.needs)));
    }
}

//! Which sides of a kernel's block may be changed without changing what the kernel does.
//!
//! A side may be changed together with the grid's, their product kept, if the kernel sees them only as the
//! index `ctaid * ntid + tid` and the stride `ntid * nctaid`: then every index is run exactly once, as before,
//! whatever the kernel does with it. That is proved from the text: the four registers of the side may flow into
//! those two forms and nowhere else, and nothing may tie the threads of a block together (shared memory,
//! barriers, exchange within warps), look at where a thread runs, or depend on the order of threads (floating
//! atomics, atomics whose answer is used). What is not known here is refused: a refusal costs speed, a wrong
//! proof costs the program's results. 32-bit arithmetic on the parts is the same as on the whole only below
//! 2^31 threads a side, which whoever changes a launch must check.

use crate::code::Code;
use crate::mix::{Category, category};
use crate::roles::{Role, results, visit_names};
use crate::tree::{Directive, Function, Instruction, Module, Name, Operand, Space, Type};
use std::collections::{HashMap, HashSet};

/// What was found of one kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reshape {
    /// For x, y and z: free to change, or the reason why not.
    pub sides: [Result<(), String>; 3],
    /// The most threads of a block that the kernel was compiled for.
    pub most_threads: Option<u32>,
}

impl Reshape {
    fn refused(reason: &str) -> Reshape {
        let no = || Err(reason.to_owned());
        Reshape { sides: [no(), no(), no()], most_threads: None }
    }

    /// The first reason, where no side is free.
    pub fn reason(&self) -> Option<&str> {
        match &self.sides {
            [Err(reason), Err(_), Err(_)] => Some(reason),
            _ => None,
        }
    }
}

/// Looks at one kernel of a module.
pub fn reshape(module: &Module, kernel: &Function) -> Reshape {
    let mut most_threads = None;
    for directive in &kernel.directives {
        match directive {
            Directive::ReqNtid(_) => return Reshape::refused("it demands one block (.reqntid)"),
            Directive::ReqNctaPerCluster(_)
            | Directive::ExplicitCluster
            | Directive::MaxClusterRank(_)
            | Directive::BlocksAreClusters => {
                return Reshape::refused("it is written for clusters");
            }
            Directive::MaxNtid(sides) => most_threads = Some(sides.iter().product()),
            _ => {}
        }
    }
    let Ok(code) = Code::new(kernel) else {
        return Reshape::refused("its text cannot be read");
    };
    if let Some(reason) = tied(module, &code) {
        return Reshape::refused(&reason);
    }
    Reshape { sides: ["x", "y", "z"].map(|side| Flow::new(&code, side).prove()), most_threads }
}

/// Why threads of a block, or their order, matter to each other.
fn tied(module: &Module, code: &Code) -> Option<String> {
    let everywhere = module.variables().chain(&code.variables);
    let shared: HashSet<&Name> = everywhere
        .filter(|variable| variable.space == Space::Shared)
        .map(|variable| &variable.name)
        .collect();
    let used = used_registers(code);
    for instruction in &code.instructions {
        let line = instruction.line;
        let mut wrong = None;
        visit_names(instruction, &mut |name, _| {
            if shared.contains(name) {
                wrong = Some(format!("it uses shared memory (line {line})"));
            } else if name.starts_with('%') && code.register(name).is_none() && !is_place(name) {
                wrong = Some(format!("it looks at {name} (line {line})"));
            }
        });
        let what = instruction.full_opcode();
        let reason = match category(instruction) {
            Category::LoadShared | Category::StoreShared | Category::AtomicShared => {
                Some("it uses shared memory")
            }
            Category::Barrier => Some("it has a barrier or a fence"),
            Category::Warp => Some("threads of a warp exchange values"),
            Category::Tensor => Some("a warp multiplies matrices together"),
            Category::AsyncCopy if !what.starts_with("prefetch") => Some("it copies by itself"),
            Category::Other => Some("an instruction is not known here"),
            Category::AtomicGlobal => atomic(instruction, &used),
            Category::Control if matches!(&*instruction.opcode, "call" | "brkpt") => {
                Some("it calls a function")
            }
            Category::Move if matches!(&*instruction.opcode, "mapa" | "getctarank") => {
                Some("it is written for clusters")
            }
            _ => ["volatile", "acquire", "release", "acq_rel", "relaxed", "mmio"]
                .iter()
                .any(|word| instruction.has(word))
                .then_some("threads talk to each other through memory"),
        };
        if let Some(reason) = reason {
            return Some(format!("{reason} ({what}, line {line})"));
        }
        if wrong.is_some() {
            return wrong;
        }
    }
    None
}

fn is_place(name: &str) -> bool {
    matches!(name, "%tid" | "%ntid" | "%ctaid" | "%nctaid")
}

/// Registers that some instruction reads.
fn used_registers(code: &Code) -> HashSet<&Name> {
    let mut used = HashSet::new();
    for instruction in &code.instructions {
        visit_names(instruction, &mut |name, role| {
            if role == Role::Read {
                used.insert(name);
            }
        });
    }
    used
}

/// Whole numbers come to the same sum in any order, if nobody looks at what is on the way.
fn atomic(instruction: &Instruction, used: &HashSet<&Name>) -> Option<&'static str> {
    let floats = [Type::F16, Type::F16x2, Type::BF16, Type::BF16x2, Type::F32, Type::F64];
    if floats.iter().any(|ty| instruction.has(ty.word())) {
        return Some("floating atomics depend on the order of threads");
    }
    let commutes = ["add", "min", "max", "and", "or", "xor"].iter().any(|op| instruction.has(op));
    let looked_at = match instruction.operands.first() {
        Some(Operand::Name(name)) => used.contains(name),
        _ => false,
    };
    if &*instruction.opcode == "multimem" || !commutes || (results(instruction) > 0 && looked_at) {
        return Some("the answer of an atomic depends on the order of threads");
    }
    None
}

/// What a register holds, as far as one side is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    /// Nothing that a change of the side would change.
    Same,
    /// `tid`, perhaps with something added that stays the same.
    Thread,
    /// `ntid` itself.
    Threads,
    /// `ctaid` itself.
    Block,
    /// `nctaid` itself.
    Blocks,
    /// `ctaid * ntid`, perhaps with something added that stays the same.
    Start,
}

/// Follows the registers of one side through a kernel.
struct Flow<'a> {
    code: &'a Code,
    side: &'static str,
    holds: HashMap<&'a Name, Holds>,
}

impl<'a> Flow<'a> {
    fn new(code: &'a Code, side: &'static str) -> Flow<'a> {
        Flow { code, side, holds: HashMap::new() }
    }

    /// Registers are named, not versioned: one that is written twice must hold the same kind both times.
    fn prove(mut self) -> Result<(), String> {
        // Every round but the last gives some register its kind, so this ends.
        loop {
            let mut changed = false;
            for instruction in &self.code.instructions {
                changed |= self.step(instruction)?;
            }
            if !changed {
                return self.all_known();
            }
        }
    }

    /// What reads a register that nothing writes was never followed.
    fn all_known(&self) -> Result<(), String> {
        for instruction in &self.code.instructions {
            let sources = instruction.operands.iter().skip(results(instruction));
            if sources.map(|operand| self.operand(operand)).any(|holds| holds.is_none()) {
                let line = instruction.line;
                return Err(format!("a register is read that was never written (line {line})"));
            }
        }
        Ok(())
    }

    fn step(&mut self, instruction: &'a Instruction) -> Result<bool, String> {
        let written = results(instruction);
        let sources: Option<Vec<Holds>> = instruction
            .operands
            .iter()
            .skip(written)
            .map(|operand| self.operand(operand))
            .collect();
        let Some(sources) = sources else {
            // A source is not written yet on any way seen so far: the next round knows more.
            return Ok(false);
        };
        let result = if sources.iter().all(|holds| *holds == Holds::Same) {
            Holds::Same
        } else {
            self.combined(instruction, &sources)?
        };
        let mut changed = false;
        for operand in instruction.operands.iter().take(written) {
            changed |= self.write(operand, result, instruction)?;
        }
        Ok(changed)
    }

    /// What parts of the index make together; an error where they go anywhere else.
    fn combined(&self, instruction: &Instruction, sources: &[Holds]) -> Result<Holds, String> {
        use Holds::{Block, Blocks, Same, Start, Thread, Threads};
        let product = |a: Holds, b: Holds| match (a, b) {
            (Block, Threads) | (Threads, Block) => Some(Start),
            (Blocks, Threads) | (Threads, Blocks) | (Same, Same) => Some(Same),
            _ => None,
        };
        let sum = |a: Holds, b: Holds| match (a, b) {
            (Start, Thread) | (Thread, Start) | (Same, Same) => Some(Same),
            (Start, Same) | (Same, Start) => Some(Start),
            (Thread, Same) | (Same, Thread) => Some(Thread),
            _ => None,
        };
        let whole = instruction.modifiers.iter().all(|word| {
            matches!(&**word, "lo" | "wide" | "u32" | "s32" | "b32" | "u64" | "s64" | "b64")
        });
        let result = match (&*instruction.opcode, sources) {
            ("mov" | "cvt", [one]) if whole => Some(*one),
            ("mul", [a, b]) if whole => product(*a, *b),
            ("mad", [a, b, c]) if whole => product(*a, *b).and_then(|made| sum(made, *c)),
            ("add", [a, b]) if whole => sum(*a, *b),
            _ => None,
        };
        result.ok_or_else(|| {
            let side = self.side;
            let part = match sources.iter().find(|holds| **holds != Same) {
                Some(Thread) => format!("%tid.{side}"),
                Some(Threads) => format!("%ntid.{side}"),
                Some(Blocks) => format!("%nctaid.{side}"),
                Some(Start) => format!("%ctaid.{side} * %ntid.{side}"),
                _ => format!("%ctaid.{side}"),
            };
            let what = instruction.full_opcode();
            format!("{part} is used beside the index ({what}, line {})", instruction.line)
        })
    }

    fn operand(&self, operand: &'a Operand) -> Option<Holds> {
        match operand {
            Operand::Member(name, side) if is_place(name) => Some(self.place(name, side)),
            // Whole vectors of the four registers hold every side.
            Operand::Name(name) if is_place(name) => Some(self.place(name, self.side)),
            Operand::Name(name) if self.code.register(name).is_some() => {
                self.holds.get(name).copied()
            }
            other => {
                // Addresses, vectors and lists: whatever is in them must stay the same.
                let mut found = Some(Holds::Same);
                let mut visit = |name: &'a Name| {
                    if self.code.register(name).is_some() && found == Some(Holds::Same) {
                        found = self.holds.get(name).copied();
                    }
                };
                names_of(other, &mut visit);
                found
            }
        }
    }

    fn place(&self, name: &str, side: &str) -> Holds {
        match name {
            _ if side != self.side => Holds::Same,
            "%tid" => Holds::Thread,
            "%ntid" => Holds::Threads,
            "%ctaid" => Holds::Block,
            _ => Holds::Blocks,
        }
    }

    fn write(
        &mut self,
        operand: &'a Operand,
        holds: Holds,
        instruction: &Instruction,
    ) -> Result<bool, String> {
        let mut changed = false;
        let mut mixed = false;
        let mut visit = |name: &'a Name| match self.holds.get(name) {
            Some(before) if *before != holds => mixed = true,
            Some(_) => {}
            None => {
                self.holds.insert(name, holds);
                changed = true;
            }
        };
        names_of(operand, &mut visit);
        if mixed {
            let line = instruction.line;
            return Err(format!(
                "a register holds a part of the index and something else (line {line})"
            ));
        }
        Ok(changed)
    }
}

/// Names inside an operand, registers or not.
fn names_of<'a>(operand: &'a Operand, visit: &mut impl FnMut(&'a Name)) {
    match operand {
        Operand::Name(name)
        | Operand::Not(name)
        | Operand::SymbolOffset { name, .. }
        | Operand::Member(name, _) => visit(name),
        Operand::Address { base: crate::tree::AddressBase::Name(name), .. } => visit(name),
        Operand::Element { name, index, .. } => {
            visit(name);
            index.iter().for_each(visit);
        }
        Operand::AddressList(parts) | Operand::Vector(parts) | Operand::List(parts) => {
            parts.iter().for_each(|part| names_of(part, visit));
        }
        Operand::Unified(inner) | Operand::Negative(inner) => names_of(inner, visit),
        Operand::Pair(first, second) => {
            names_of(first, visit);
            names_of(second, visit);
        }
        Operand::Sink | Operand::Constant(_) | Operand::Address { .. } => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(directives: &str, body: &str) -> Reshape {
        let text = format!(
            ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u32 n)\n\
             {directives}\n{{\n.reg .pred %p<9>; .reg .f32 %f<9>; .reg .b32 %r<20>; .reg .b64 %d<20>;\n{body}\nret;\n}}\n"
        );
        let module = crate::parse(&text).unwrap();
        let kernel = module.functions().next().unwrap();
        reshape(&module, kernel)
    }

    const INDEX: &str = "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n\
                         mad.lo.s32 %r4, %r1, %r2, %r3;\n\
                         ld.param.u64 %d1, [a]; mul.wide.u32 %d2, %r4, 4; add.s64 %d3, %d1, %d2;\n";

    #[track_caller]
    fn free(body: &str) {
        let found = look("", &format!("{INDEX}{body}"));
        assert_eq!(found.sides[0], Ok(()));
    }

    #[track_caller]
    fn refused(directives: &str, body: &str, reason: &str) {
        let found = look(directives, &format!("{INDEX}{body}"));
        let said = found.sides[0].clone().unwrap_err();
        assert!(said.contains(reason), "{said}");
    }

    #[test]
    fn an_index_and_a_stride_are_free() {
        free("st.global.u32 [%d3], %r4;");
        free(
            "setp.ge.u32 %p1, %r4, 100; @%p1 bra END; ld.global.f32 %f1, [%d3]; st.global.f32 [%d3], %f1; END:",
        );
        // A loop over the grid: the register that counts is written twice.
        free(
            "mov.u32 %r5, %nctaid.x; mul.lo.s32 %r6, %r5, %r2; mov.u32 %r7, %r4;\n\
             LOOP: setp.ge.u32 %p1, %r7, 100; @%p1 bra END; add.s32 %r7, %r7, %r6; bra LOOP; END:",
        );
        // The parts in 64 bits, the thread added last, another side beside it.
        free(
            "mul.wide.u32 %d5, %r1, %r2; cvt.u64.u32 %d6, %r3; add.s64 %d7, %d5, %d6; st.global.u64 [%d3], %d7;\n\
             mov.u32 %r8, %tid.y; st.global.u32 [%d3], %r8;",
        );
        free("red.global.add.u32 [%d3], 1;");
        assert_eq!(look(".maxntid 256, 1, 1", INDEX).most_threads, Some(256));
    }

    #[test]
    fn what_ties_threads_together_is_refused() {
        refused(".reqntid 128, 1, 1", "", ".reqntid");
        refused("", "bar.sync 0;", "barrier");
        refused("", ".shared .align 4 .b8 s[64]; mov.u32 %r9, s;", "shared memory");
        refused("", "ld.shared.u32 %r9, [%r4];", "shared memory");
        refused("", "shfl.sync.idx.b32 %r9, %r4, 0, 31, -1;", "exchange");
        refused("", "mov.u32 %r9, %laneid;", "%laneid");
        refused("", "mov.u32 %r9, %smid; st.global.u32 [%d3], %r9;", "%smid");
        refused("", "red.global.add.f32 [%d3], %f1;", "floating atomics");
        refused("", "atom.global.add.u32 %r9, [%d3], 1; st.global.u32 [%d3], %r9;", "order");
        refused("", "atom.global.cas.b32 %r9, [%d3], 0, 1;", "order");
        refused("", "ld.volatile.global.u32 %r9, [%d3];", "talk");
        refused("", "membar.gl;", "fence");
        refused("", "somenewthing.u32 %r9, %r4;", "not known");
    }

    #[test]
    fn parts_of_the_index_that_go_elsewhere_are_refused() {
        refused("", "st.global.u32 [%d3], %r3;", "%tid.x is used beside the index");
        refused("", "st.global.u32 [%d3], %r1;", "%ctaid.x is used beside");
        refused("", "setp.eq.u32 %p1, %r3, 0;", "%tid.x is used beside");
        refused("", "mov.u32 %r5, %nctaid.x; st.global.u32 [%d3], %r5;", "%nctaid.x");
        refused("", "st.global.u32 [%d3], %r2;", "%ntid.x");
        refused("", "mul.lo.s32 %r9, %r1, 256; add.s32 %r9, %r9, %r3;", "%ctaid.x");
        refused("", "mov.u32 %r9, %r3; @%p1 mov.u32 %r9, 7;", "something else");
        // Four elements a thread: the start is multiplied again.
        refused("", "mul.lo.s32 %r9, %r1, %r2; shl.b32 %r9, %r9, 2;", "%ctaid.x * %ntid.x");
        // The linear thread of a plane knows how wide the block is.
        refused("", "mov.u32 %r8, %tid.y; mad.lo.s32 %r9, %r8, %r2, %r3;", "%ntid.x");
    }

    #[test]
    fn sides_are_free_one_by_one() {
        let found = look("", &format!("{INDEX} mov.u32 %r8, %ctaid.y; st.global.u32 [%d3], %r8;"));
        assert_eq!(found.sides[0], Ok(()));
        assert!(found.sides[1].is_err() && found.reason().is_none());
    }
}

//! What a kernel's instructions are, counted by kind.
//!
//! The counts are static: how often an instruction stands in the text, not how often it is
//! executed. Every instruction falls into exactly one category, by opcode and modifiers alone;
//! one that is not known here counts as [`Category::Other`], so the sum is always the number of
//! instructions.

use crate::tree::{Function, Instruction, Statement, Type};

/// What an instruction works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Category {
    /// Single-precision arithmetic.
    Float32,
    /// Double-precision arithmetic.
    Float64,
    /// Half precision and bfloat16 arithmetic, packed pairs included.
    Float16,
    /// Integer arithmetic, bits and video instructions.
    Integer,
    /// Comparisons and selections, of any type.
    Compare,
    /// Logic on predicates.
    Predicate,
    /// Moves, and addresses brought from one space to another.
    Move,
    /// Conversions between types.
    Convert,
    /// Reciprocals, roots, logarithms, exponentials, sines.
    SpecialFunction,
    /// Loads from global memory; generic ones too, which nearly always are global.
    LoadGlobal,
    /// Stores to global memory; generic ones too.
    StoreGlobal,
    /// Loads from shared memory, matrix loads included.
    LoadShared,
    /// Stores to shared memory.
    StoreShared,
    /// Loads and stores of local memory.
    Local,
    /// Loads of constant memory.
    Constant,
    /// Parameters of the kernel and of calls.
    Parameter,
    /// Atomics and reductions on global memory; generic ones too.
    AtomicGlobal,
    /// Atomics and reductions on shared memory.
    AtomicShared,
    /// Textures and surfaces.
    Texture,
    /// Copies that run by themselves, and prefetches.
    AsyncCopy,
    /// Matrix instructions.
    Tensor,
    /// Exchange within a warp: shuffles, votes, matches.
    Warp,
    /// Barriers and fences.
    Barrier,
    /// Branches, calls, returns.
    Control,
    /// Everything else.
    Other,
}

impl Category {
    /// All categories, in the order of [`Mix::counts`].
    pub const ALL: [Category; 25] = [
        Category::Float32,
        Category::Float64,
        Category::Float16,
        Category::Integer,
        Category::Compare,
        Category::Predicate,
        Category::Move,
        Category::Convert,
        Category::SpecialFunction,
        Category::LoadGlobal,
        Category::StoreGlobal,
        Category::LoadShared,
        Category::StoreShared,
        Category::Local,
        Category::Constant,
        Category::Parameter,
        Category::AtomicGlobal,
        Category::AtomicShared,
        Category::Texture,
        Category::AsyncCopy,
        Category::Tensor,
        Category::Warp,
        Category::Barrier,
        Category::Control,
        Category::Other,
    ];
}

/// How many instructions of each kind a function has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mix {
    /// By the order of [`Category::ALL`].
    pub counts: [u64; Category::ALL.len()],
    /// Fused multiply-adds among them, each two floating-point operations.
    pub fused: u64,
    /// Bytes one execution of every load and store of global memory would move.
    pub global_bytes: u64,
}

impl Mix {
    /// Counts the instructions of a function; those it calls are not followed.
    pub fn of(function: &Function) -> Mix {
        let mut mix = Mix::default();
        mix.add(function.body.as_deref().unwrap_or_default());
        mix
    }

    /// The count of one category.
    pub fn count(&self, category: Category) -> u64 {
        self.counts[category as usize]
    }

    /// All instructions.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    fn add(&mut self, statements: &[Statement]) {
        for statement in statements {
            match statement {
                Statement::Block(inner) => self.add(inner),
                Statement::Instruction(instruction) => self.add_instruction(instruction),
                _ => {}
            }
        }
    }

    fn add_instruction(&mut self, instruction: &Instruction) {
        let category = category(instruction);
        self.counts[category as usize] += 1;
        self.fused += u64::from(&*instruction.opcode == "fma");
        if matches!(category, Category::LoadGlobal | Category::StoreGlobal) {
            self.global_bytes += bytes(instruction);
        }
    }
}

/// Bytes a load or store moves.
pub(crate) fn bytes(instruction: &Instruction) -> u64 {
    let each = last_type(instruction).map_or(0, |ty| u64::from(ty.bytes()));
    let parts = [("v2", 2), ("v4", 4), ("v8", 8)];
    each * parts.iter().find(|(word, _)| instruction.has(word)).map_or(1, |(_, parts)| *parts)
}

fn last_type(instruction: &Instruction) -> Option<Type> {
    instruction.modifiers.iter().rev().find_map(|word| Type::from_word(word))
}

/// The one category an instruction falls into.
pub fn category(instruction: &Instruction) -> Category {
    match &*instruction.opcode {
        "add" | "addc" | "sub" | "subc" | "mul" | "mad" | "madc" | "fma" | "div" | "rem"
        | "abs" | "neg" | "min" | "max" | "copysign" | "testp" => arithmetic(instruction),
        "and" | "or" | "xor" | "not" | "cnot" if instruction.has("pred") => Category::Predicate,
        "and" | "or" | "xor" | "not" | "cnot" | "shl" | "shr" | "shf" | "lop3" | "bfe" | "bfi"
        | "bfind" | "popc" | "clz" | "brev" | "prmt" | "sad" | "mul24" | "mad24" | "dp4a"
        | "dp2a" | "szext" | "bmsk" | "fns" => Category::Integer,
        "set" | "setp" | "selp" | "slct" => Category::Compare,
        "mov" | "cvta" | "mapa" | "isspacep" | "istypep" | "alloca" | "stacksave"
        | "stackrestore" | "getctarank" | "createpolicy" => Category::Move,
        "cvt" => Category::Convert,
        "rcp" | "sqrt" | "rsqrt" | "sin" | "cos" | "lg2" | "ex2" | "tanh" => {
            Category::SpecialFunction
        }
        "ld" | "ldu" => memory(instruction, Category::LoadGlobal, Category::LoadShared),
        "st" => memory(instruction, Category::StoreGlobal, Category::StoreShared),
        "atom" | "red" => memory(instruction, Category::AtomicGlobal, Category::AtomicShared),
        "multimem" => Category::AtomicGlobal,
        "tex" | "tld4" | "txq" | "suld" | "sust" | "sured" | "suq" => Category::Texture,
        "cp" if is_waiting(instruction) => Category::Barrier,
        "cp" | "prefetch" | "prefetchu" | "discard" | "applypriority" | "tensormap" => {
            Category::AsyncCopy
        }
        "ldmatrix" => Category::LoadShared,
        "stmatrix" => Category::StoreShared,
        "mma" | "wmma" | "wgmma" | "tcgen05" | "movmatrix" => Category::Tensor,
        "shfl" | "vote" | "match" | "redux" | "activemask" | "elect" => Category::Warp,
        "bar"
        | "barrier"
        | "membar"
        | "fence"
        | "mbarrier"
        | "griddepcontrol"
        | "nanosleep"
        | "clusterlaunchcontrol" => Category::Barrier,
        "bra" | "brx" | "call" | "ret" | "exit" | "trap" | "brkpt" => Category::Control,
        video if video.starts_with('v') => Category::Integer,
        _ => Category::Other,
    }
}

fn is_waiting(copy: &Instruction) -> bool {
    ["commit_group", "wait_group", "wait_all"].iter().any(|word| copy.has(word))
}

fn arithmetic(instruction: &Instruction) -> Category {
    match last_type(instruction) {
        Some(Type::F32) => Category::Float32,
        Some(Type::F64) => Category::Float64,
        Some(Type::F16 | Type::F16x2 | Type::BF16 | Type::BF16x2) => Category::Float16,
        // `add.f32x2` is no type of registers.
        None if instruction.has("f32x2") => Category::Float32,
        _ => Category::Integer,
    }
}

fn memory(instruction: &Instruction, global: Category, shared: Category) -> Category {
    let space = instruction.modifiers.iter().find_map(|word| {
        let space = word.split("::").next()?;
        ["global", "shared", "local", "const", "param"].into_iter().find(|known| *known == space)
    });
    match space {
        Some("shared") => shared,
        Some("local") => Category::Local,
        Some("const") => Category::Constant,
        Some("param") => Category::Parameter,
        _ => global,
    }
}

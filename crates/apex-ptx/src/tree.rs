//! PTX as a tree: what the text says, with nothing left out and nothing judged.
//!
//! The tree knows the shape of PTX, not its vocabulary. An instruction is an opcode, modifiers
//! and operands, whether or not anybody has heard of it; a directive without a place of its own
//! is kept word for word as [`Verbatim`]. So a program newer than this crate still parses,
//! prints and links, and only who must *understand* an instruction can refuse it.
//!
//! Two things are simplified on the way in, neither of which changes the meaning: constant
//! expressions are folded (`(1<<3)|2` is 10, `WARP_SZ` is 32), and a declaration of several
//! variables becomes several declarations. Comments are not kept.
//!
//! Every part bears the line it began on, counted from 1. Lines take part in `==`; compare
//! [`Module::without_lines`] where only the meaning matters.

use std::sync::Arc;

/// A name or word of the text. One text's equal names usually share one allocation.
pub type Name = Arc<str>;

/// One PTX text.
#[derive(Debug, Clone, PartialEq)]
pub struct Module {
    /// `.version major.minor`.
    pub version: (u32, u32),
    /// `.target`: the architecture first (`sm_90a`), then options (`debug`, `texmode_independent`).
    pub target: Vec<Name>,
    /// `.address_size`; 64 where the text does not say, as ptxas reads it.
    pub address_size: u32,
    /// Everything after the header, in the order of the text.
    pub items: Vec<Item>,
}

/// What stands at the top level of a module.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// A variable, or the declaration of one that lives elsewhere.
    Variable(Variable),
    /// A kernel or device function, or the declaration of one.
    Function(Function),
    /// `.alias alias, target;`: a second name for a function.
    Alias {
        /// The new name.
        alias: Name,
        /// The function it stands for.
        target: Name,
        /// Where it stands.
        line: u32,
    },
    /// `.file`, `.section`, `.pragma` and every directive not known here.
    Verbatim(Verbatim),
}

/// A directive kept word for word, with its closing `;` or `}` where it has one.
#[derive(Debug, Clone, PartialEq)]
pub struct Verbatim {
    /// The text from the directive's dot to its end.
    pub text: Name,
    /// Where it stands.
    pub line: u32,
}

impl Verbatim {
    /// The directive's first word, with its dot: `.loc`.
    pub fn directive(&self) -> &str {
        let end = self.text.find(|letter: char| letter.is_whitespace() || letter == ';');
        &self.text[..end.unwrap_or(self.text.len())]
    }
}

/// Who sees a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Linkage {
    /// No word: seen in its own module only.
    Internal,
    /// `.visible`: seen by every module; one definition.
    Visible,
    /// `.extern`: defined by another module.
    Extern,
    /// `.weak`: seen by every module; of several definitions one is taken.
    Weak,
    /// `.common`: seen by every module; of several definitions the largest is taken.
    Common,
}

/// Where a variable lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Space {
    /// `.reg`.
    Register,
    /// `.sreg`.
    SpecialRegister,
    /// `.const`.
    Const,
    /// `.global`.
    Global,
    /// `.local`.
    Local,
    /// `.param`.
    Param,
    /// `.shared`.
    Shared,
    /// `.tex`, from before texture objects.
    Texture,
}

/// The fundamental types, of variables and registers.
///
/// What a register is declared as says little: newer compilers declare all registers `.b32` and
/// the like, and the instructions alone tell what they hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each variant is the PTX word it is named after")]
pub enum Type {
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    BF16,
    BF16x2,
    F32,
    F64,
    Pred,
    TexRef,
    SamplerRef,
    SurfRef,
}

/// The declaration of one variable or parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Variable {
    /// Who sees it.
    pub linkage: Linkage,
    /// Where it lives.
    pub space: Space,
    /// `.attribute(..)`.
    pub attributes: Vec<Attribute>,
    /// `.align`, in bytes.
    pub align: Option<u32>,
    /// `.v2`, `.v4`, `.v8`.
    pub vector: Option<u8>,
    /// The type of one element, or of one part of a vector.
    pub ty: Type,
    /// `.ptr`: what a pointer parameter promises of what it points to.
    pub pointer: Option<PointerFacts>,
    /// The name; `_` for a nameless parameter of a prototype.
    pub name: Name,
    /// `[4][]`: the lengths of an array, `None` where the brackets are empty; none for a scalar.
    pub dims: Vec<Option<u64>>,
    /// The initial value; without one, zero.
    pub init: Option<Initializer>,
    /// Where it stands.
    pub line: u32,
}

impl Variable {
    /// Whether the variable is managed memory, seen by the host too.
    pub fn is_managed(&self) -> bool {
        self.attributes.contains(&Attribute::Managed)
    }

    /// Bytes of one element: the type's, times the vector's length.
    pub fn element_bytes(&self) -> u64 {
        u64::from(self.ty.bytes()) * self.vector.map_or(1, u64::from)
    }

    /// Bytes of the whole. An array of open length takes as much as its initial value says, and
    /// none without one. `None` where the size is beyond 64 bits.
    pub fn bytes(&self) -> Option<u64> {
        let mut elements = 1_u64;
        for (place, length) in self.dims.iter().enumerate() {
            let length = match length {
                Some(length) => *length,
                None if place == 0 => match &self.init {
                    Some(Initializer::List(list)) => list.len() as u64,
                    _ => 0,
                },
                None => 0,
            };
            elements = elements.checked_mul(length)?;
        }
        elements.checked_mul(self.element_bytes())
    }

    /// The alignment in bytes: as declared, else that of one element.
    pub fn alignment(&self) -> u64 {
        self.align.map_or_else(|| self.element_bytes().max(1), u64::from)
    }
}

/// What `.attribute(..)` says of a variable or function.
#[derive(Debug, Clone, PartialEq)]
pub enum Attribute {
    /// `.managed`: the host sees it too.
    Managed,
    /// `.unified(upper, lower)`: the same in every context of this identity.
    Unified(u64, u64),
    /// Any other, word for word.
    Other(Name),
}

/// What `.ptr` promises of the memory a parameter points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointerFacts {
    /// The state space pointed to; generic where none is named.
    pub space: Option<Space>,
    /// The alignment of what is pointed to.
    pub align: Option<u32>,
}

/// A constant. Integers are 64 bits wide in the text; who uses one takes its low bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Constant {
    /// An integer in two's complement.
    Integer {
        /// The value's bits.
        bits: u64,
        /// Whether it was written or computed as `.u64`.
        unsigned: bool,
    },
    /// `0f3F800000`: the bits of a single-precision number.
    Float32(u32),
    /// `0d3FF0000000000000` and all decimal numbers: the bits of a double-precision number.
    Float64(u64),
}

impl Constant {
    /// A signed integer.
    pub fn signed(value: i64) -> Constant {
        Constant::Integer { bits: value.cast_unsigned(), unsigned: false }
    }
}

/// The initial value of a variable.
#[derive(Debug, Clone, PartialEq)]
pub enum Initializer {
    /// A number.
    Constant(Constant),
    /// The address of a variable or function, or the value of a texture field.
    Symbol {
        /// Whose address.
        name: Name,
        /// `generic(name)`: the generic address, not the one within its space.
        generic: bool,
        /// Bytes added.
        offset: i64,
        /// `0xff00(name)`: only the bits under the mask, moved down to bit 0.
        mask: Option<u64>,
    },
    /// `{a, b, ..}`; what is missing at the end is zero.
    List(Vec<Initializer>),
    /// `filter_mode = nearest` of a sampler or texture.
    Field(Name, Box<Initializer>),
}

/// Whether a function can be launched or called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FunctionKind {
    /// `.entry`: a kernel.
    Entry,
    /// `.func`: called by device code.
    Func,
}

/// A kernel or device function.
#[derive(Debug, Clone, PartialEq)]
pub struct Function {
    /// Kernel or device function.
    pub kind: FunctionKind,
    /// Who sees it.
    pub linkage: Linkage,
    /// `.attribute(..)`.
    pub attributes: Vec<Attribute>,
    /// The name.
    pub name: Name,
    /// What it returns.
    pub returns: Vec<Variable>,
    /// What it takes.
    pub params: Vec<Variable>,
    /// What stands between the parameters and the body.
    pub directives: Vec<Directive>,
    /// The body; a declaration has none.
    pub body: Option<Vec<Statement>>,
    /// Where it stands.
    pub line: u32,
}

/// Limits and promises of a function. Missing sides of a shape are 1.
#[derive(Debug, Clone, PartialEq)]
pub enum Directive {
    /// `.maxntid`: the most threads of a block.
    MaxNtid([u32; 3]),
    /// `.reqntid`: exactly this block.
    ReqNtid([u32; 3]),
    /// `.minnctapersm`.
    MinNctaPerSm(u32),
    /// `.maxnctapersm`, the older form.
    MaxNctaPerSm(u32),
    /// `.maxnreg`.
    MaxNreg(u32),
    /// `.reqnctapercluster`: exactly this cluster.
    ReqNctaPerCluster([u32; 3]),
    /// `.explicitcluster`.
    ExplicitCluster,
    /// `.maxclusterrank`.
    MaxClusterRank(u32),
    /// `.blocksareclusters`.
    BlocksAreClusters,
    /// `.noreturn`.
    NoReturn,
    /// Any other, `.pragma` among them.
    Verbatim(Verbatim),
}

/// What stands in a function's body.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// `name:`.
    Label {
        /// The label.
        name: Name,
        /// Where it stands.
        line: u32,
    },
    /// `.reg`.
    Registers(Registers),
    /// A variable of the function: shared, local, param, global or const.
    Variable(Variable),
    /// An instruction.
    Instruction(Instruction),
    /// `{ .. }`: names declared inside are seen inside only.
    Block(Vec<Statement>),
    /// `name: .branchtargets a, b;`: where `brx.idx` may go, in order.
    BranchTargets {
        /// The list's name.
        name: Name,
        /// The labels.
        targets: Vec<Name>,
        /// Where it stands.
        line: u32,
    },
    /// `name: .calltargets f, g;`: what an indirect call may reach.
    CallTargets {
        /// The list's name.
        name: Name,
        /// The functions.
        targets: Vec<Name>,
        /// Where it stands.
        line: u32,
    },
    /// `name: .callprototype (..) _ (..);`: the shape of an indirect call.
    CallPrototype(CallPrototype),
    /// `.loc`, `.pragma` and every directive not known here.
    Verbatim(Verbatim),
}

/// `.reg .f32 %f<5>, sum;`.
#[derive(Debug, Clone, PartialEq)]
pub struct Registers {
    /// The type written. See [`Type`] on how much it is worth.
    pub ty: Type,
    /// `.v2`, `.v4`.
    pub vector: Option<u8>,
    /// The names. `(%f, Some(5))` declares `%f0` to `%f4`.
    pub names: Vec<(Name, Option<u32>)>,
    /// Where it stands.
    pub line: u32,
}

/// The shape of an indirect call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallPrototype {
    /// The prototype's label.
    pub name: Name,
    /// What the callee returns.
    pub returns: Vec<Variable>,
    /// What it takes.
    pub params: Vec<Variable>,
    /// `.noreturn` and the like.
    pub directives: Vec<Directive>,
    /// Where it stands.
    pub line: u32,
}

/// One instruction.
#[derive(Debug, Clone, PartialEq)]
pub struct Instruction {
    /// `@p` or `@!p`.
    pub guard: Option<Guard>,
    /// The word before the first dot: `ld`.
    pub opcode: Name,
    /// The words after it, without their dots: `global`, `nc`, `L1::no_allocate`, `v4`, `f32`.
    pub modifiers: Vec<Name>,
    /// The operands, in order.
    pub operands: Vec<Operand>,
    /// Where it stands.
    pub line: u32,
}

impl Instruction {
    /// Whether one of the modifiers is this word.
    pub fn has(&self, modifier: &str) -> bool {
        self.modifiers.iter().any(|word| &**word == modifier)
    }

    /// Opcode and modifiers as written: `ld.global.v4.f32`.
    pub fn full_opcode(&self) -> String {
        let mut text = self.opcode.to_string();
        for modifier in &self.modifiers {
            text.push('.');
            text.push_str(modifier);
        }
        text
    }
}

/// The predicate under which an instruction is executed.
#[derive(Debug, Clone, PartialEq)]
pub struct Guard {
    /// `@!p`.
    pub negated: bool,
    /// The predicate register.
    pub register: Name,
}

/// An operand. The instruction alone tells whether it is read or written.
#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    /// A register, special register, variable, function or label.
    Name(Name),
    /// `_`: a result nobody wants.
    Sink,
    /// `%tid.x`, `vector.y`, `a.b0`.
    Member(Name, Name),
    /// A number.
    Constant(Constant),
    /// `variable+4` outside brackets: the address itself.
    SymbolOffset {
        /// The variable.
        name: Name,
        /// Bytes added.
        offset: i64,
    },
    /// `[..]`: memory.
    Address {
        /// From where.
        base: AddressBase,
        /// Bytes added.
        offset: i64,
    },
    /// `variable[3]`, `variable[%r1+1]`: an element of an array.
    Element {
        /// The array.
        name: Name,
        /// The register counted in elements, if any.
        index: Option<Name>,
        /// Elements added.
        offset: i64,
    },
    /// `[texture, sampler, {x, y}]`, `[tensor_map, {x, y}]`: each part is an `Address` or `Vector`.
    AddressList(Vec<Operand>),
    /// `[..].unified`.
    Unified(Box<Operand>),
    /// `{a, b}`.
    Vector(Vec<Operand>),
    /// `(a, b)` of a call.
    List(Vec<Operand>),
    /// `!p`.
    Not(Name),
    /// `-a`, as the video instructions have it; numbers are folded instead.
    Negative(Box<Operand>),
    /// `p|q`.
    Pair(Box<Operand>, Box<Operand>),
}

/// From where an address counts.
#[derive(Debug, Clone, PartialEq)]
pub enum AddressBase {
    /// A register or a variable.
    Name(Name),
    /// Nothing: the offset is the address.
    Absolute,
}

impl Type {
    /// Every type with its PTX word.
    pub const ALL: [(Type, &'static str); 23] = [
        (Type::B8, "b8"),
        (Type::B16, "b16"),
        (Type::B32, "b32"),
        (Type::B64, "b64"),
        (Type::B128, "b128"),
        (Type::U8, "u8"),
        (Type::U16, "u16"),
        (Type::U32, "u32"),
        (Type::U64, "u64"),
        (Type::S8, "s8"),
        (Type::S16, "s16"),
        (Type::S32, "s32"),
        (Type::S64, "s64"),
        (Type::F16, "f16"),
        (Type::F16x2, "f16x2"),
        (Type::BF16, "bf16"),
        (Type::BF16x2, "bf16x2"),
        (Type::F32, "f32"),
        (Type::F64, "f64"),
        (Type::Pred, "pred"),
        (Type::TexRef, "texref"),
        (Type::SamplerRef, "samplerref"),
        (Type::SurfRef, "surfref"),
    ];

    /// The type of this PTX word, without its dot.
    pub fn from_word(word: &str) -> Option<Type> {
        Type::ALL.iter().find(|(_, known)| *known == word).map(|(ty, _)| *ty)
    }

    /// The PTX word, without its dot.
    pub fn word(self) -> &'static str {
        Type::ALL.iter().find(|(ty, _)| *ty == self).map_or("", |(_, word)| word)
    }

    /// Bytes in memory. References to textures are handles of 8 bytes; a predicate has no place
    /// in memory and counts one.
    pub fn bytes(self) -> u32 {
        match self {
            Type::B8 | Type::U8 | Type::S8 | Type::Pred => 1,
            Type::B16 | Type::U16 | Type::S16 | Type::F16 | Type::BF16 => 2,
            Type::B32 | Type::U32 | Type::S32 | Type::F32 | Type::F16x2 | Type::BF16x2 => 4,
            Type::B64 | Type::U64 | Type::S64 | Type::F64 => 8,
            Type::TexRef | Type::SamplerRef | Type::SurfRef => 8,
            Type::B128 => 16,
        }
    }
}

impl Module {
    /// The functions, declarations among them.
    pub fn functions(&self) -> impl Iterator<Item = &Function> {
        self.items.iter().filter_map(|item| match item {
            Item::Function(function) => Some(function),
            _ => None,
        })
    }

    /// The variables, declarations among them.
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.items.iter().filter_map(|item| match item {
            Item::Variable(variable) => Some(variable),
            _ => None,
        })
    }
}

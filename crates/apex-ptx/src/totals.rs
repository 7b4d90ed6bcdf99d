//! What the instructions of a kernel are, by the kinds that models of its time know: of its PTX or of its machine code.

use crate::cfg::Graph;
use crate::code::Code;
use crate::machine::{Kind, Machine, kind_of};
use crate::mix::{Category, Mix};
use crate::tree::Function;

/// Names of the kinds, in their order. `loops` are edges that go back; `global_bytes` what one execution of every load and
/// store of global memory moves.
pub const NAMES: &[&str] = &[
    "total",
    "float32",
    "float64",
    "float16",
    "tensor",
    "special",
    "integer",
    "convert",
    "load_global",
    "store_global",
    "load_shared",
    "store_shared",
    "local",
    "atomic",
    "exchange",
    "barrier",
    "control",
    "loops",
    "global_bytes",
];

/// Counts in the order of [`NAMES`].
pub type Totals = [u32; NAMES.len()];

/// Counts a function's text.
#[must_use]
pub fn of_function(function: &Function) -> Totals {
    let mix = Mix::of(function);
    let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    let of = |categories: &[Category]| small(categories.iter().map(|one| mix.count(*one)).sum());
    [
        small(mix.total()),
        of(&[Category::Float32]),
        of(&[Category::Float64]),
        of(&[Category::Float16]),
        of(&[Category::Tensor]),
        of(&[Category::SpecialFunction]),
        of(&[Category::Integer, Category::Compare]),
        of(&[Category::Convert]),
        of(&[Category::LoadGlobal, Category::Texture, Category::AsyncCopy]),
        of(&[Category::StoreGlobal]),
        of(&[Category::LoadShared]),
        of(&[Category::StoreShared]),
        of(&[Category::Local]),
        of(&[Category::AtomicGlobal, Category::AtomicShared]),
        of(&[Category::Warp]),
        of(&[Category::Barrier]),
        of(&[Category::Control]),
        loops(function),
        small(mix.global_bytes),
    ]
}

/// Counts a kernel's machine code.
#[must_use]
pub fn of_machine(machine: &Machine) -> Totals {
    let of = |kinds: &[Kind]| -> u32 {
        let counts = machine.counts.iter();
        let wanted = counts.filter(|((operation, _), _)| kinds.contains(&kind_of(*operation)));
        wanted.map(|(_, count)| count.all).sum()
    };
    let moves = [Kind::LoadGlobal, Kind::StoreGlobal, Kind::CopyAsync];
    let moved =
        machine.counts.iter().filter(|((operation, _), _)| moves.contains(&kind_of(*operation)));
    let bytes: u32 = moved.map(|((_, width), count)| count.all.saturating_mul(1 << width)).sum();
    [
        machine.total(),
        of(&[Kind::Float32]),
        of(&[Kind::Float64]),
        of(&[Kind::Float16]),
        of(&[Kind::Tensor, Kind::WideTensor]),
        of(&[Kind::Special]),
        of(&[Kind::Integer]),
        of(&[Kind::Convert]),
        of(&[Kind::LoadGlobal, Kind::Texture, Kind::CopyAsync, Kind::CopyTile]),
        of(&[Kind::StoreGlobal]),
        of(&[Kind::LoadShared]),
        of(&[Kind::StoreShared]),
        of(&[Kind::Local]),
        of(&[Kind::AtomicGlobal, Kind::AtomicShared]),
        of(&[Kind::Exchange]),
        of(&[Kind::Barrier]),
        of(&[Kind::Control]),
        machine.loops,
        bytes,
    ]
}

/// Names of what is counted of the loops of machine code.
pub const LOOPED: [&str; 5] = ["total", "tensor", "bytes", "nested", "wide_tensor"];

/// Counts what stands within loops of machine code: all instructions, matrix instructions, bytes of global memory that one
/// turn of each moves, instructions within loops of loops; last the matrix instructions of four warps anywhere.
#[must_use]
pub fn looped(machine: &Machine) -> [u32; LOOPED.len()] {
    let mut sums = [0_u32; LOOPED.len()];
    for (&(operation, width), count) in &machine.counts {
        let kind = kind_of(operation);
        let moves = matches!(kind, Kind::LoadGlobal | Kind::StoreGlobal | Kind::CopyAsync);
        let is_tensor = matches!(kind, Kind::Tensor | Kind::WideTensor);
        let more = [
            count.looped,
            if is_tensor { count.looped } else { 0 },
            if moves { count.looped.saturating_mul(1 << width) } else { 0 },
            count.nested,
            if kind == Kind::WideTensor { count.all } else { 0 },
        ];
        sums.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(more));
    }
    sums
}

/// Edges that lead back in the text: every loop has one at least.
fn loops(function: &Function) -> u32 {
    let Ok(code) = Code::new(function) else { return 0 };
    let graph = Graph::new(&code);
    let back = graph.blocks.iter().enumerate().flat_map(|(place, block)| {
        block.successors.iter().filter(move |next| next.index() <= place)
    });
    back.count() as u32
}

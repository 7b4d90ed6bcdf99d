//! A kernel written again for what it is called with: its scalars, its block and its grid as numbers.
//!
//! A program compiles a kernel for any argument and calls it with the same few. Here the text is rewritten for one such
//! call; the driver's compiler does the rest, because it now knows the bounds of loops and the strides of arrays. The
//! rewritten kernel keeps its name and its parameters, so it is launched exactly as the original. It means the same
//! wherever the launch has the values it was written for. Nothing here fuses or reorders floating-point operations.
//!
//! [`PASSES`] is the order of the rewriting, one file a pass; each can be left out. What may not be rewritten is told by
//! [`left_alone`], with the reason: a refusal costs speed, a wrong rewriting costs the program's results.

mod addresses;
mod constant_space;
mod constants;
mod contract;
mod dead;
mod decide;
mod edit;
mod foldable;
mod geometry;
mod given;
mod parameters;
mod ranges;
mod refuse;
mod values;

use crate::tree::{Function, FunctionKind, Item, Module, Name};
pub use contract::{may_wait, needs_check};
pub use foldable::{Foldable, foldable};
pub use given::given;
pub use parameters::{Place, places};
pub use refuse::left_alone;

/// What a launch has, as far as it is to be written into the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Call {
    /// Blocks of the grid.
    pub grid: Option<[u32; 3]>,
    /// Threads of a block.
    pub block: Option<[u32; 3]>,
    /// Bytes of the parameters that are known.
    pub known: Vec<Known>,
    /// Where the original's module variables lie. A rewritten kernel has no variable of its own, so it needs all that
    /// it uses ([`variables`]).
    pub addresses: Vec<(Name, u64)>,
}

/// Bytes of the parameters, as the driver lays them out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The first byte's place.
    pub offset: u32,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl Call {
    /// The number that stands at a place of the parameters, if all its bytes are known.
    fn number(&self, offset: u32, bytes: u32) -> Option<u64> {
        let mut number = 0;
        for nth in 0..bytes {
            let place = offset.checked_add(nth)?;
            let byte = self.known.iter().find_map(|known| {
                known.bytes.get(place.checked_sub(known.offset)? as usize).copied()
            })?;
            number |= u64::from(byte) << (8 * nth);
        }
        Some(number)
    }
}

/// One step of the rewriting: the kernel before, the call, and whether anything was changed.
type Rewrite = fn(&mut Function, &Call) -> bool;

/// A pass by its name.
#[derive(Clone, Copy)]
pub struct Pass {
    /// As `apex specialise --without` has it.
    pub name: &'static str,
    /// What it does, for the help.
    pub does: &'static str,
    rewrite: Rewrite,
}

/// The passes in their order.
pub const PASSES: &[Pass] = &[
    Pass {
        name: "parameters",
        does: "loads of known parameters become numbers",
        rewrite: parameters::fold,
    },
    Pass {
        name: "geometry",
        does: "sides of block and grid become numbers",
        rewrite: geometry::fold,
    },
    Pass {
        name: "block",
        does: "the kernel demands its block (.reqntid)",
        rewrite: geometry::demand,
    },
    Pass {
        name: "decide",
        does: "what is always the same becomes a number; branches that always go one way go it",
        rewrite: decide::decide,
    },
    Pass {
        name: "dead",
        does: "what is never reached or never read goes",
        rewrite: dead::drop_dead,
    },
];

/// A rewritten kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Specialised {
    /// The kernel with what it needs and nothing else.
    pub module: Module,
    /// The passes that changed something.
    pub changed: Vec<&'static str>,
}

/// Rewrites a kernel for a call with all passes but those named.
///
/// # Errors
///
/// Why it cannot be done, for people.
pub fn specialise(
    module: &Module,
    kernel: &str,
    call: &Call,
    without: &[&str],
) -> Result<Specialised, String> {
    left_alone(module, kernel)?;
    let mut reduced = refuse::reduced(module, kernel)?;
    addresses::fix(&mut reduced, &call.addresses)?;
    let Some(function) = entry_mut(&mut reduced, kernel) else {
        return Err(format!("there is no kernel {kernel}"));
    };
    geometry::check(function, call)?;
    let passes = PASSES.iter().filter(|pass| !without.contains(&pass.name));
    let changed =
        passes.filter(|pass| (pass.rewrite)(function, call)).map(|pass| pass.name).collect();
    Ok(Specialised { module: reduced, changed })
}

/// The module variables of the GPU's memory, constants too, that a kernel and what it calls use: their addresses are to be
/// given.
///
/// # Errors
///
/// Why the kernel cannot be rewritten at all.
pub fn variables(module: &Module, kernel: &str) -> Result<Vec<Name>, String> {
    left_alone(module, kernel)?;
    Ok(addresses::used(&refuse::reduced(module, kernel)?))
}

/// A kernel with what it needs and nothing else, as text: equal texts have equal forms.
///
/// # Errors
///
/// Why there is none.
pub fn alone(module: &Module, kernel: &str) -> Result<String, String> {
    Ok(refuse::reduced(module, kernel)?.to_string())
}

/// The kernel of a name that has a body.
#[must_use]
pub fn entry<'a>(module: &'a Module, kernel: &str) -> Option<&'a Function> {
    module.functions().find(|function| is_entry(function, kernel))
}

fn entry_mut<'a>(module: &'a mut Module, kernel: &str) -> Option<&'a mut Function> {
    module.items.iter_mut().find_map(|item| match item {
        Item::Function(function) if is_entry(function, kernel) => Some(function),
        _ => None,
    })
}

fn is_entry(function: &Function, kernel: &str) -> bool {
    function.kind == FunctionKind::Entry && function.body.is_some() && &*function.name == kernel
}

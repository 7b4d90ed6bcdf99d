//! The instruction mix of kernels, read from their PTX.
//!
//! One reading of a source serves all its entries. A kernel whose text cannot be read has no mix, which models
//! see as such.

use apex_exec::zoo;
use apex_policy::predict::features::{FNV_START, fnv};
use apex_policy::predict::question::Mix;
use apex_ptx::totals;
use apex_ptx::tree::{Function, Item};
use apex_ptx::walk::Program;
use std::collections::BTreeMap;

/// What the text of a kernel tells.
#[derive(Clone, Debug, Default)]
pub(crate) struct Text {
    pub(crate) mix: Mix,
    /// Hash of the module's text and the entry's name.
    pub(crate) identity: u64,
    /// The text, ready to be walked.
    pub(crate) program: Option<Program>,
}

/// The kernels of the zoo, by entry.
pub(crate) fn of_zoo() -> BTreeMap<String, Text> {
    let mut sources: Vec<&str> = zoo::kernels().map(|kernel| kernel.source().ptx).collect();
    sources.sort_unstable();
    sources.dedup();
    sources.into_iter().flat_map(of_module).collect()
}

/// The kernels of a PTX module by name.
pub(crate) fn of_module(ptx: &str) -> BTreeMap<String, Text> {
    let Ok(module) = apex_ptx::parse(ptx) else { return BTreeMap::new() };
    let hash = fnv(FNV_START, ptx.as_bytes());
    let functions = module.items.iter().filter_map(|item| match item {
        Item::Function(function) if function.body.is_some() => Some(function),
        _ => None,
    });
    let text = |function: &Function| {
        let name = function.name.to_string();
        let identity = fnv(hash, name.as_bytes());
        let program = Program::new(function, module.variables());
        (name, Text { mix: Mix::from_counts(&totals::of_function(function)), identity, program })
    };
    functions.map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_name_the_same_kinds() {
        assert_eq!(totals::NAMES, Mix::NAMES);
    }

    #[test]
    fn the_example_is_counted() {
        let found = of_module(apex_exec::EXAMPLE_PTX);
        let add = &found["add"];
        assert_eq!((add.mix.load_global, add.mix.store_global, add.mix.float32), (2, 1, 1));
        assert_eq!((add.mix.global_bytes, add.mix.loops), (12, 0));
        assert_ne!(add.identity, found["scale"].identity);
    }

    #[test]
    fn loops_are_seen() {
        let loops: u32 = apex_exec::zoo::kernels()
            .flat_map(|kernel| of_module(kernel.source().ptx).into_values())
            .map(|text| text.mix.loops)
            .sum();
        assert!(loops > 10, "{loops}");
    }

    #[test]
    fn noise_has_no_mix() {
        assert!(of_module("no ptx").is_empty());
    }
}

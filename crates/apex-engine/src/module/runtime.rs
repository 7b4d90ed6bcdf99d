//! Functions of the device's runtime that are written in PTX: the barrier of a cooperative grid.
//!
//! NVIDIA's library of the device's runtime defines them too, by functions that only NVIDIA's
//! driver has. So wherever a text names one of them, ours is the one that is linked.

use super::{LoadError, parse};
use apex_ptx::tree::{Function, Item, Linkage, Module};

const TEXT: &str = include_str!("runtime.ptx");

/// Adds the runtime to texts that name a function of it; their own definitions are left out.
pub(super) fn provide(modules: &mut Vec<Module>) -> Result<(), LoadError> {
    // All names begin alike: most programs need no look at the text.
    let may_be_ours = |function: &Function| function.name.starts_with("cudaCG");
    if !modules.iter().flat_map(functions).any(may_be_ours) {
        return Ok(());
    }
    let runtime = parse(TEXT)?;
    let mut wanted = false;
    for item in modules.iter_mut().flat_map(|module| &mut module.items) {
        if let Item::Function(function) = item
            && functions(&runtime).any(|ours| ours.name == function.name)
        {
            wanted = true;
            function.body = None;
            function.linkage = Linkage::Extern;
        }
    }
    if wanted {
        modules.push(runtime);
    }
    Ok(())
}

fn functions(module: &Module) -> impl Iterator<Item = &Function> {
    module.items.iter().filter_map(|item| match item {
        Item::Function(function) => Some(function),
        _ => None,
    })
}

//! Which step a machine instruction belongs to, for reports of memory faults.

use super::Compilation;

/// Notes it, by ranges of instructions.
pub(crate) fn run(it: &mut Compilation<'_>) -> Option<()> {
    let compiled = it.context.compiled_code()?;
    it.sources = compiled
        .buffer
        .get_srclocs_sorted()
        .iter()
        .filter(|range| !range.loc.is_default())
        .map(|range| (range.start, range.loc.bits()))
        .collect();
    Some(())
}

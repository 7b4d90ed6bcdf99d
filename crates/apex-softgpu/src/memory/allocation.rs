//! Memory taken and given back.
//!
//! The addresses come from the machine's arena, and every byte given out is counted, so
//! that what cannot be had is refused at once.

use apex_cuda::types::*;

use crate::border::Answer;
use crate::machine::device::{Device, device, machine};
use crate::memory::hold::wait_for_holders;
use crate::memory::range::{MemoryKind, Range, next_id, ranges_to_change};

/// Takes memory and makes it known.
pub(crate) fn allocate(
    device: &Device,
    context: CUcontext,
    bytes: usize,
    kind: MemoryKind,
    flags: u32,
    pool: CUmemoryPool,
) -> Result<u64, CUresult> {
    if bytes == 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let length = bytes as u64;
    let machine = machine()?;
    let counted = if kind == MemoryKind::Host {
        machine.take_bytes(length)
    } else {
        device.take_bytes(length)
    };
    counted?;
    let Some(address) = machine.arena.take(length) else {
        uncount(device, kind, length);
        return Err(CUDA_ERROR_OUT_OF_MEMORY);
    };
    ranges_to_change().insert(
        address,
        Range {
            length,
            kind,
            context,
            device: device.ordinal,
            pool,
            physical: 0,
            flags,
            id: next_id(),
            accessible: true,
        },
    );
    Ok(address)
}

/// Gives memory back, if the address is the start of such a range.
pub(crate) fn free(address: u64, wanted: impl Fn(&Range) -> bool) -> Answer {
    let mut ranges = ranges_to_change();
    let range =
        *ranges.get(&address).filter(|range| wanted(range)).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    ranges.remove(&address);
    drop(ranges);
    give_back(address, &range);
    Ok(())
}

/// Frees what a context that ends still holds.
pub(crate) fn release_all(context: CUcontext) {
    let mut ranges = ranges_to_change();
    let owned = |range: &Range| {
        range.context == context
            && !matches!(range.kind, MemoryKind::Mapped | MemoryKind::Registered)
    };
    let gone: Vec<_> = ranges.extract_if(.., |_, range| owned(range)).collect();
    drop(ranges);
    for (address, range) in gone {
        give_back(address, &range);
    }
}

fn give_back(address: u64, range: &Range) {
    wait_for_holders(address, range.length);
    if range.kind == MemoryKind::Imported {
        return crate::memory::shared::unmap(address, range);
    }
    crate::memory::pool::note_free(range);
    crate::memory::shared::forget(address);
    if let (Ok(device), Ok(machine)) = (device(range.device), machine()) {
        uncount(device, range.kind, range.length);
        machine.arena.give_back(address);
    }
}

fn uncount(device: &Device, kind: MemoryKind, length: u64) {
    match (kind, machine()) {
        (MemoryKind::Host, Ok(machine)) => machine.give_back_bytes(length),
        _ => device.give_back_bytes(length),
    }
}

/// Whether the program may free it: device memory that it took itself. The variables of a module and what kernels took
/// from their heap belong to no context.
pub(crate) fn is_the_programs(range: &Range) -> bool {
    matches!(range.kind, MemoryKind::Device | MemoryKind::Managed) && !range.context.is_null()
}

//! Copies that run beside the program, and the barriers that count them.
//!
//! A copy is done where it stands. The token that `arrive` gives is the barrier's word itself.

pub(super) mod tensor;

use super::atomic::{combine, update};
use super::context::{Context, Outcome};
use super::file::lanes_of;
use super::memory::{addresses, in_block, peek, poke, stretch};
use crate::code::{Address, CopyBulk, Mbarrier, MbarrierOp, Space};
use crate::mbarrier::{COUNT, Word};
use crate::site::Access;

/// Changes a barrier and gives what it was.
fn change(address: u64, f: impl Fn(Word) -> Word) -> u64 {
    // SAFETY: the caller had the address checked for 8 bytes.
    unsafe { update(address, 8, |bits| f(Word::of(bits)).bits()) }
}

/// `mbarrier.*`.
pub(crate) fn mbarrier(x: &Context, it: &Mbarrier) -> Outcome {
    if it.op == MbarrierOp::PendingCount {
        for lane in lanes_of(x.mask()) {
            let state = it.value.map_or(0, |value| x.get(value, lane));
            if let Some(dst) = it.dst {
                x.set(dst, lane, Word::of(state).missing);
            }
        }
        return Ok(());
    }
    let at = addresses(x, it.space, it.address, 8, Access::Atomic)?;
    for lane in lanes_of(x.mask()) {
        let address = at[lane];
        let value = it.value.map(|value| x.get(value, lane));
        let count = it.count.map_or(1, |count| x.get(count, lane));
        let arrivals = value.unwrap_or(1) & COUNT;
        let bytes = value.unwrap_or(0) as i64;
        let result = match it.op {
            MbarrierOp::Init => {
                let word = Word { missing: arrivals, expected: arrivals, bytes: 0, phase: 0 };
                // SAFETY: checked by `addresses`.
                unsafe { poke(address, word.bits()) };
                0
            }
            MbarrierOp::Inval => 0,
            MbarrierOp::Arrive => change(address, |word| word.arrived(arrivals)),
            MbarrierOp::ArriveDrop => change(address, |mut word| {
                word.expected = word.expected.saturating_sub(arrivals);
                word.arrived(arrivals)
            }),
            MbarrierOp::ArriveExpectTx => change(address, |mut word| {
                word.bytes += bytes;
                word.arrived(count)
            }),
            MbarrierOp::ArriveDropExpectTx => change(address, |mut word| {
                word.bytes += bytes;
                word.expected = word.expected.saturating_sub(count);
                word.arrived(count)
            }),
            MbarrierOp::ExpectTx => change(address, |mut word| {
                word.bytes += bytes;
                word
            }),
            MbarrierOp::CompleteTx => change(address, |word| completed(word, bytes)),
            MbarrierOp::TestWait | MbarrierOp::TryWait => {
                // SAFETY: checked by `addresses`.
                let now = Word::of(unsafe { peek(address) });
                u64::from(now.phase != Word::of(value.unwrap_or(0)).phase)
            }
            MbarrierOp::TestWaitParity | MbarrierOp::TryWaitParity => {
                // SAFETY: checked by `addresses`.
                let now = Word::of(unsafe { peek(address) });
                u64::from(now.phase & 1 != value.unwrap_or(0) & 1)
            }
            MbarrierOp::PendingCount => 0,
        };
        if let Some(dst) = it.dst {
            x.set(dst, lane, result);
        }
    }
    Ok(())
}

/// Tells a barrier in shared memory that bytes have arrived.
pub(super) fn complete(x: &Context, lane: usize, barrier: Address, bytes: i64) -> Outcome {
    let at = addresses(&x.only(1 << lane), Space::Shared, barrier, 8, Access::Atomic)?;
    change(at[lane], |word| completed(word, bytes));
    Ok(())
}

fn completed(mut word: Word, bytes: i64) -> Word {
    word.bytes -= bytes;
    word.settled()
}

/// `cp.async.mbarrier.arrive`: without `.noinc` the arrival is counted in and out at once,
/// because the copies before it are done.
pub(crate) fn arrive(x: &Context, address: Address, space: Space, no_inc: bool) -> Outcome {
    let at = addresses(x, space, address, 8, Access::Atomic)?;
    if no_inc {
        for lane in lanes_of(x.mask()) {
            change(at[lane], |word| word.arrived(1));
        }
    }
    Ok(())
}

/// `cp.async.bulk`.
pub(crate) fn bulk(x: &Context, it: &CopyBulk) -> Outcome {
    for lane in lanes_of(x.mask()) {
        let size = x.get(it.size, lane) as u32;
        let from = stretch(x, lane, it.src.0, it.src.1, size, Access::Read)?;
        let Some(blocks) = it.blocks.map(|blocks| x.get(blocks, lane) as u16) else {
            copied(x, lane, it, from, (it.dst, it.mbarrier))?;
            continue;
        };
        // The same place in each of the blocks.
        for rank in (0..16).filter(|rank| blocks >> rank & 1 == 1) {
            let there = |address| in_block(x, lane, address, rank);
            let to = ((Space::Shared, there(it.dst.1)), it.mbarrier.map(there));
            copied(x, lane, it, from, to)?;
        }
    }
    Ok(())
}

/// Copies to one place, and tells its barrier.
fn copied(
    x: &Context,
    lane: usize,
    it: &CopyBulk,
    from: u64,
    ((space, to), barrier): ((Space, Address), Option<Address>),
) -> Outcome {
    let size = x.get(it.size, lane) as u32;
    let to = stretch(x, lane, space, to, size, Access::Write)?;
    match it.reduce {
        None => {
            let source = std::ptr::with_exposed_provenance::<u8>(from as usize);
            let target = std::ptr::with_exposed_provenance_mut::<u8>(to as usize);
            // SAFETY: checked by `stretch`; pages that are not there are the guard's affair.
            unsafe { std::ptr::copy(source, target, size as usize) };
        }
        Some((op, ty)) => {
            let step = ty.bits() / 8;
            for offset in (0..size / step).map(|index| u64::from(index * step)) {
                // SAFETY: as above; bulk copies are aligned to 16 bytes.
                unsafe {
                    let value = match step {
                        2 => peek::<u16>(from + offset).into(),
                        4 => peek::<u32>(from + offset).into(),
                        _ => peek::<u64>(from + offset),
                    };
                    update(to + offset, step, |old| combine(op, ty, old, value, 0, false));
                }
            }
        }
    }
    barrier.map_or(Ok(()), |barrier| complete(x, lane, barrier, size.into()))
}

//! Copies that run beside the program, and the barriers that count them.
//!
//! A copy is done where it stands. An mbarrier is one word: arrivals still missing (bits 0
//! to 19), arrivals per phase (20 to 39), bytes still missing (40 to 60, signed) and the
//! phase (61 to 63). The token that `arrive` gives is the word itself.

use super::atomic::{combine, update};
use super::context::{Context, Outcome};
use super::file::lanes_of;
use super::memory::{Access, addresses, peek, poke, stretch};
use crate::code::{Address, CopyBulk, Guard, Mbarrier, MbarrierOp, Space, Src};

const COUNT: u64 = (1 << 20) - 1;
const BYTES: u64 = (1 << 21) - 1;

/// The fields of the word.
#[derive(Clone, Copy)]
struct Word {
    missing: u64,
    expected: u64,
    bytes: i64,
    phase: u64,
}

impl Word {
    fn of(bits: u64) -> Word {
        let bytes = (bits >> 40 & BYTES) as i64;
        Word {
            missing: bits & COUNT,
            expected: bits >> 20 & COUNT,
            bytes: bytes << 43 >> 43,
            phase: bits >> 61,
        }
    }

    fn bits(self) -> u64 {
        self.missing | self.expected << 20 | (self.bytes as u64 & BYTES) << 40 | self.phase << 61
    }

    /// After a change: a phase is over when nothing is missing.
    fn settled(mut self) -> Word {
        if self.missing == 0 && self.bytes == 0 {
            self.phase = (self.phase + 1) & 7;
            self.missing = self.expected;
        }
        self
    }

    fn arrived(mut self, count: u64) -> Word {
        self.missing = self.missing.saturating_sub(count);
        self.settled()
    }
}

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

/// `cp.async`.
pub(crate) fn small(
    x: &Context,
    dst: Address,
    src: Address,
    size: u32,
    bytes: Option<Src>,
    ignore: Option<Guard>,
) -> Outcome {
    let to = addresses(x, Space::Shared, dst, size, Access::Write)?;
    let skipped = ignore.map_or(0, |guard| x.file().guard(guard));
    for lane in lanes_of(x.mask()) {
        let wanted = bytes.map_or(size, |bytes| (x.get(bytes, lane) as u32).min(size));
        let wanted = if skipped >> lane & 1 == 1 { 0 } else { wanted };
        let from = if wanted == 0 {
            0
        } else {
            addresses(&x.only(1 << lane), Space::Global, src, size, Access::Read)?[lane]
        };
        let mut room = [0u8; 16];
        for (index, byte) in room.iter_mut().enumerate().take(wanted.min(16) as usize) {
            // SAFETY: checked by `addresses`.
            *byte = unsafe { peek(from + index as u64) };
        }
        for (index, byte) in room.into_iter().enumerate().take(size.min(16) as usize) {
            // SAFETY: checked by `addresses`.
            unsafe { poke(to[lane] + index as u64, byte) };
        }
    }
    Ok(())
}

/// `cp.async.bulk`.
pub(crate) fn bulk(x: &Context, it: &CopyBulk) -> Outcome {
    for lane in lanes_of(x.mask()) {
        let size = x.get(it.size, lane) as u32;
        let to = stretch(x, lane, it.dst.0, it.dst.1, size, Access::Write)?;
        let from = stretch(x, lane, it.src.0, it.src.1, size, Access::Read)?;
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
        if let Some(barrier) = it.mbarrier {
            let lone = x.only(1 << lane);
            let at = addresses(&lone, Space::Shared, barrier, 8, Access::Atomic)?;
            change(at[lane], |word| completed(word, size.into()));
        }
    }
    Ok(())
}

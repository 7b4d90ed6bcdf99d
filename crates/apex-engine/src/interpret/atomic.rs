//! Atomic operations, and the function that combines two values.
//!
//! Lanes go one after the other. Real atomics of the processor are used everywhere: other
//! workers may be at the same word, and shared memory of a cluster is reached by address.

use super::context::{Context, Outcome};
use super::file::lanes_of;
use super::half::{Half, halves};
use super::memory::addresses;
use crate::code::{Address, AtomOp, BinaryOp, Mode, Order, Reg, Space, Src, Ty};
use crate::number::{canonical, flush};
use crate::site::Access;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

/// What is in memory after the operation.
pub(crate) fn combine(op: AtomOp, ty: Ty, old: u64, value: u64, compare: u64, ftz: bool) -> u64 {
    if ty.float() && matches!(op, AtomOp::Add | AtomOp::Min | AtomOp::Max) {
        return combine_float(op, ty, old, value, ftz);
    }
    let signed = ty.signed();
    let bits = ty.bits();
    let extend = |v: u64| (v as i64) << (64 - bits) >> (64 - bits);
    let mask = u64::MAX >> (64 - bits);
    let (old, value) = (old & mask, value & mask);
    let result = match op {
        AtomOp::And => old & value,
        AtomOp::Or => old | value,
        AtomOp::Xor => old ^ value,
        AtomOp::Add => old.wrapping_add(value),
        AtomOp::Min if signed => extend(old).min(extend(value)) as u64,
        AtomOp::Max if signed => extend(old).max(extend(value)) as u64,
        AtomOp::Min => old.min(value),
        AtomOp::Max => old.max(value),
        AtomOp::Inc => {
            if old >= value {
                0
            } else {
                old + 1
            }
        }
        AtomOp::Dec => {
            if old == 0 || old > value {
                value
            } else {
                old - 1
            }
        }
        AtomOp::Exch => value,
        AtomOp::Cas => {
            if old == compare & mask {
                value
            } else {
                old
            }
        }
    };
    result & mask
}

fn combine_float(op: AtomOp, ty: Ty, old: u64, value: u64, ftz: bool) -> u64 {
    let binary = match op {
        AtomOp::Min => BinaryOp::Min,
        AtomOp::Max => BinaryOp::Max,
        _ => BinaryOp::Add,
    };
    let mode = Mode { ftz, ..Mode::default() };
    if let Some((half, packed)) = Half::of(ty) {
        if packed {
            return halves([old as u32, value as u32], |[a, b]| half.binary(binary, mode, a, b))
                .into();
        }
        return half.binary(binary, mode, old as u16, value as u16).into();
    }
    if ty == Ty::F64 {
        let (a, b) = (f64::from_bits(old), f64::from_bits(value));
        return match op {
            AtomOp::Add => a + b,
            _ => super::float::extreme64(op == AtomOp::Max, a, b),
        }
        .to_bits();
    }
    let (a, b) = (f32::from_bits(old as u32), f32::from_bits(value as u32));
    let (a, b) = if ftz { (flush(a), flush(b)) } else { (a, b) };
    let result = match op {
        AtomOp::Add => canonical(a + b),
        _ => super::float::extreme32(op == AtomOp::Max, mode, a, b),
    };
    u64::from(if ftz { flush(result) } else { result }.to_bits())
}

/// Applies `f` to the word at an address and gives what was there.
///
/// # Safety
/// The address was checked and is aligned to `bytes`: 2, 4 or 8.
pub(crate) unsafe fn update(address: u64, bytes: u32, f: impl Fn(u64) -> u64) -> u64 {
    macro_rules! looped {
        ($word:ty, $atomic:ty) => {{
            let place = std::ptr::with_exposed_provenance_mut::<$word>(address as usize);
            // SAFETY: the caller's.
            let word = unsafe { <$atomic>::from_ptr(place) };
            let mut old = word.load(Ordering::Relaxed);
            loop {
                let new = f(old.into()) as $word;
                match word.compare_exchange_weak(old, new, Ordering::SeqCst, Ordering::Relaxed) {
                    Ok(_) => break old.into(),
                    Err(seen) => old = seen,
                }
            }
        }};
    }
    match bytes {
        2 => looped!(u16, AtomicU16),
        4 => looped!(u32, AtomicU32),
        _ => looped!(u64, AtomicU64),
    }
}

/// One lane's operation.
unsafe fn one(op: AtomOp, ty: Ty, address: u64, value: u64, compare: u64, ftz: bool) -> u64 {
    let place = std::ptr::with_exposed_provenance_mut::<u8>(address as usize);
    // SAFETY: the caller checked the address.
    unsafe {
        match (op, ty) {
            (AtomOp::Add, Ty::U32 | Ty::S32 | Ty::B32) => {
                AtomicU32::from_ptr(place.cast()).fetch_add(value as u32, Ordering::SeqCst).into()
            }
            (AtomOp::Add, Ty::U64 | Ty::S64 | Ty::B64) => {
                AtomicU64::from_ptr(place.cast()).fetch_add(value, Ordering::SeqCst)
            }
            (AtomOp::Exch, _) if ty.bits() == 32 => {
                AtomicU32::from_ptr(place.cast()).swap(value as u32, Ordering::SeqCst).into()
            }
            (AtomOp::Exch, _) if ty.bits() == 64 => {
                AtomicU64::from_ptr(place.cast()).swap(value, Ordering::SeqCst)
            }
            (AtomOp::Cas, _) if ty.bits() == 32 => {
                let word = AtomicU32::from_ptr(place.cast());
                let (old, new) = (compare as u32, value as u32);
                match word.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst) {
                    Ok(seen) | Err(seen) => seen.into(),
                }
            }
            _ => update(address, ty.bits() / 8, |old| combine(op, ty, old, value, compare, ftz)),
        }
    }
}

/// `atom` and `red`.
#[allow(clippy::too_many_arguments, reason = "an instruction's fields")]
pub(crate) fn atom(
    x: &Context,
    op: AtomOp,
    space: Space,
    ty: Ty,
    order: Order,
    dsts: &[Reg],
    address: Address,
    values: &[Src],
    compare: Option<Src>,
    ftz: bool,
) -> Outcome {
    let mut changed = false;
    let bytes = ty.bits() / 8;
    let at = addresses(x, space, address, bytes * values.len() as u32, Access::Atomic)?;
    if order != Order::Weak && order != Order::Relaxed {
        fence(Ordering::SeqCst);
    }
    for lane in lanes_of(x.mask()) {
        if bytes == 16 {
            let (value, compare) = (
                x.file().wide(values[0], lane),
                compare.map_or(0, |compare| x.file().wide(compare, lane)),
            );
            // SAFETY: checked by `addresses`.
            let old = unsafe { wide_exchange(op, at[lane], value, compare) };
            changed |= if op == AtomOp::Cas { old == compare } else { old != value };
            if let Some(&dst) = dsts.first() {
                x.file().set(dst, lane, old);
            }
            continue;
        }
        // A lane's own result may be the register another value comes from.
        let mut given = [0u64; 8];
        for (index, &value) in values.iter().enumerate().take(8) {
            given[index] = x.get(value, lane);
        }
        let compare = compare.map_or(0, |compare| x.get(compare, lane));
        for (index, &value) in given.iter().enumerate().take(values.len()) {
            let place = at[lane] + u64::from(bytes) * index as u64;
            // SAFETY: checked by `addresses`.
            let old = unsafe { one(op, ty, place, value, compare, ftz) };
            changed |= match op {
                AtomOp::Cas => old == compare,
                AtomOp::Add => value != 0,
                _ => combine(op, ty, old, value, compare, ftz) != old,
            };
            if let Some(&dst) = dsts.get(index) {
                x.set(dst, lane, old);
            }
        }
    }
    if !changed {
        x.block().poll(space);
    }
    Ok(())
}

/// 128-bit `exch` and `cas`.
unsafe fn wide_exchange(op: AtomOp, address: u64, value: u128, compare: u128) -> u128 {
    let place = std::ptr::with_exposed_provenance_mut::<u128>(address as usize);
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("cmpxchg16b") {
        // SAFETY: the caller checked the address; the processor has the instruction.
        unsafe {
            let mut old = place.read_volatile();
            loop {
                let wanted = if op == AtomOp::Cas { compare } else { old };
                let seen = compare_exchange(place, wanted, value);
                if op == AtomOp::Cas || seen == wanted {
                    return seen;
                }
                old = seen;
            }
        }
    }
    // SAFETY: as above. Processors without the instruction get one lock for all such words.
    unsafe {
        static WORDS: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
        while WORDS.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
        }
        let old = place.read_volatile();
        if op != AtomOp::Cas || old == compare {
            place.write_volatile(value);
        }
        WORDS.store(false, Ordering::Release);
        old
    }
}

/// The processor's instruction itself: the standard library's way to it needs a library of
/// the C compiler in builds without optimisation.
#[cfg(target_arch = "x86_64")]
unsafe fn compare_exchange(place: *mut u128, wanted: u128, value: u128) -> u128 {
    let (mut low, mut high) = (wanted as u64, (wanted >> 64) as u64);
    // SAFETY: the caller's; rbx is given back as it was.
    unsafe {
        std::arch::asm!(
            "xchg {new}, rbx",
            "lock cmpxchg16b [{place}]",
            "mov rbx, {new}",
            new = inout(reg) value as u64 => _,
            place = in(reg) place,
            in("rcx") (value >> 64) as u64,
            inout("rax") low,
            inout("rdx") high,
            options(nostack),
        );
    }
    u128::from(high) << 64 | u128::from(low)
}

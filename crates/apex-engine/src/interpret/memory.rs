//! Loads and stores.
//!
//! Addresses are worked out and checked for all lanes before the first byte moves, and a
//! load writes its registers only after its last read: a memory fault leaves the registers
//! as they were, so that the lane to blame can be found from them.

use super::context::{Context, Outcome, Stopped};
use super::file::{Cell, Scratch, dense, lanes_of, wide};
use super::reach;
use crate::code::{Address, Class, LANES, Order, Reg, Space, Src, Ty};
use crate::fault::Fault;
use crate::site::Access;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

/// Shared addresses of other blocks of the cluster carry the block's rank plus one above
/// this bit; a block's own shared memory is far smaller.
pub(crate) const RANK_SHIFT: u32 = 24;

/// Host addresses of an access for the lanes that take part, checked for alignment and,
/// where it is known, for size.
pub(crate) fn addresses(
    x: &Context,
    space: Space,
    address: Address,
    bytes: u32,
    access: Access,
) -> Result<[u64; LANES], Stopped> {
    let mut out = [0u64; LANES];
    if !plan(x, space, address, bytes, &mut out) {
        resolve(x, space, &mut out, bytes, access)?;
        if misplaced(x, &out, bytes) {
            return Err(misaligned(x, &out, bytes));
        }
    }
    if x.block().checker.is_some() {
        x.block().check_access(x, &out, bytes, access)?;
    } else if matches!(space, Space::Generic | Space::Global) {
        reach::check(x, &out, bytes, access)?;
    }
    Ok(out)
}

wide! {
/// The common way to the addresses of all lanes, in vectors: no lane needs more than its
/// base added. False when one does, or is outside or misaligned; `out` holds offsets then.
fn plan(x: &Context, space: Space, address: Address, bytes: u32, out: &mut [u64; LANES]) -> bool {
    let file = x.file();
    let offset = address.offset as u64;
    match address.base {
        Src::Imm(base) => *out = [base.wrapping_add(offset); LANES],
        Src::Reg(register) if file.class(register) == Class::B64 => {
            let mut scratch = Scratch::<u64>::new();
            let base = file.cells::<u64>(address.base, &mut scratch);
            for lane in 0..LANES {
                out[lane] = base[lane].wrapping_add(offset);
            }
        }
        Src::Reg(_) => {
            let mut scratch = Scratch::<u32>::new();
            let base = file.cells::<u32>(address.base, &mut scratch);
            for lane in 0..LANES {
                out[lane] = u64::from(base[lane]).wrapping_add(offset);
            }
        }
    }
    let block = x.block();
    let (base, size, stride) = match space {
        Space::Generic | Space::Global => (0, u64::MAX, 0),
        Space::Shared => (block.frame.shared as u64, block.frame.shared_bytes.into(), 0),
        Space::Local => {
            let frame = &x.warp().frame;
            (frame.local as u64, frame.local_stride, frame.local_stride)
        }
        Space::Param => (block.frame.params as u64, block.param_bytes(), 0),
    };
    let low = u64::from(bytes.next_power_of_two()) - 1;
    let limit = size.wrapping_sub(bytes.into());
    if space != Space::Generic && space != Space::Global {
        if size < bytes.into() {
            return false;
        }
        // Shared addresses have 32 bits, and wrap.
        let kept = if space == Space::Shared { 0xffff_ffff } else { u64::MAX };
        for at in out.iter_mut() {
            *at &= kept;
        }
        if over_lanes(x.mask(), out, u64::max) > limit {
            return false;
        }
        for (lane, at) in out.iter_mut().enumerate() {
            *at = base.wrapping_add(*at).wrapping_add(stride * lane as u64);
        }
    }
    if over_lanes(x.mask(), out, |any, at| any | at) & low == 0 {
        return true;
    }
    if space != Space::Generic && space != Space::Global {
        for (lane, at) in out.iter_mut().enumerate() {
            *at = at.wrapping_sub(base).wrapping_sub(stride * lane as u64);
        }
    }
    false
}
}

/// One number of the values of all lanes that take part, from zero on.
#[inline(always)]
fn over_lanes(mask: u32, values: &[u64; LANES], join: impl Fn(u64, u64) -> u64) -> u64 {
    match dense(mask) {
        Some(count) => values[..count].iter().fold(0, |all, &value| join(all, value)),
        None => lanes_of(mask).fold(0, |all, lane| join(all, values[lane])),
    }
}

/// Turns offsets in a space into host addresses.
fn resolve(
    x: &Context,
    space: Space,
    out: &mut [u64; LANES],
    bytes: u32,
    access: Access,
) -> Result<(), Stopped> {
    let access = Some((access, space));
    match space {
        Space::Generic | Space::Global => {}
        Space::Shared => {
            let block = x.block();
            let (base, size) = (block.frame.shared as u64, u64::from(block.frame.shared_bytes));
            for lane in lanes_of(x.mask()) {
                let offset = u64::from(out[lane] as u32);
                out[lane] = if offset + u64::from(bytes) <= size {
                    base + offset
                } else {
                    match block.peer_address(offset as u32, bytes) {
                        Some(address) => address,
                        None => return Err(x.bad_address(lane, offset, bytes, access)),
                    }
                };
            }
        }
        Space::Local => {
            let warp = x.warp();
            let (base, stride) = (warp.frame.local as u64, warp.frame.local_stride);
            for lane in lanes_of(x.mask()) {
                let offset = out[lane];
                if offset.saturating_add(bytes.into()) > stride {
                    return Err(x.bad_address(lane, offset, bytes, access));
                }
                out[lane] = base + stride * lane as u64 + offset;
            }
        }
        Space::Param => {
            let block = x.block();
            let (base, size) = (block.frame.params as u64, block.param_bytes());
            for lane in lanes_of(x.mask()) {
                let offset = out[lane];
                if offset.saturating_add(bytes.into()) > size {
                    return Err(x.bad_address(lane, offset, bytes, access));
                }
                out[lane] = base + offset;
            }
        }
    }
    Ok(())
}

/// Whether a lane's address is no multiple of the access.
fn misplaced(x: &Context, out: &[u64; LANES], bytes: u32) -> bool {
    let low = u64::from(bytes.next_power_of_two()) - 1;
    lanes_of(x.mask()).any(|lane| out[lane] & low != 0)
}

#[cold]
fn misaligned(x: &Context, out: &[u64; LANES], bytes: u32) -> Stopped {
    let low = u64::from(bytes.next_power_of_two()) - 1;
    for lane in lanes_of(x.mask()) {
        if out[lane] & low != 0 {
            let place = x.place(Some(lane));
            let _ = x.fail(Fault::MisalignedAddress { place, address: out[lane], bytes });
            break;
        }
    }
    Stopped
}

/// A lane's address in shared memory, as it is in the block of a rank.
pub(super) fn in_block(x: &Context, lane: usize, address: Address, rank: u32) -> Address {
    let own = x.get(address.base, lane).wrapping_add(address.offset as u64);
    let place = own & ((1 << RANK_SHIFT) - 1) | u64::from(rank + 1) << RANK_SHIFT;
    Address { base: Src::Imm(place), offset: 0 }
}

/// The host address of `bytes` of one lane, with no alignment asked for.
pub(crate) fn stretch(
    x: &Context,
    lane: usize,
    space: Space,
    address: Address,
    bytes: u32,
    access: Access,
) -> Result<u64, Stopped> {
    let x = x.only(1 << lane);
    let mut out = [0u64; LANES];
    out[lane] = x.get(address.base, lane).wrapping_add(address.offset as u64);
    resolve(&x, space, &mut out, bytes, access)?;
    if x.block().checker.is_some() {
        x.block().check_access(&x, &out, bytes, access)?;
    } else if matches!(space, Space::Generic | Space::Global) {
        reach::one(&x, lane, out[lane], bytes, access)?;
    }
    Ok(out[lane])
}

/// A value in memory.
trait Element: Copy {
    unsafe fn read(address: u64) -> Self;
    unsafe fn write(address: u64, value: Self);
    fn extended(self, signed: bool) -> u128;
    fn truncated(bits: u128) -> Self;
}

macro_rules! elements {
    ($($ty:ty, $signed:ty, $atomic:ty;)*) => {$(
        impl Element for $ty {
            #[inline(always)]
            unsafe fn read(address: u64) -> Self {
                let place = std::ptr::with_exposed_provenance_mut::<$ty>(address as usize);
                // SAFETY: aligned, as checked; a page that is not there is the guard's affair.
                // Atomic, because other threads of the kernel may write at the same time.
                unsafe { <$atomic>::from_ptr(place).load(Ordering::Relaxed) }
            }
            #[inline(always)]
            unsafe fn write(address: u64, value: Self) {
                let place = std::ptr::with_exposed_provenance_mut::<$ty>(address as usize);
                // SAFETY: as above.
                unsafe { <$atomic>::from_ptr(place).store(value, Ordering::Relaxed) }
            }
            #[inline(always)]
            fn extended(self, signed: bool) -> u128 {
                if signed { self as $signed as i128 as u128 } else { self as u128 }
            }
            #[inline(always)]
            fn truncated(bits: u128) -> Self { bits as $ty }
        }
    )*};
}
elements! {
    u8, i8, AtomicU8;
    u16, i16, AtomicU16;
    u32, i32, AtomicU32;
    u64, i64, AtomicU64;
}

impl Element for u128 {
    unsafe fn read(address: u64) -> Self {
        let place = std::ptr::with_exposed_provenance::<u128>(address as usize);
        // SAFETY: as above; PTX gives 128-bit accesses no atomicity as a whole.
        unsafe { place.read_volatile() }
    }
    unsafe fn write(address: u64, value: Self) {
        let place = std::ptr::with_exposed_provenance_mut::<u128>(address as usize);
        // SAFETY: as above.
        unsafe { place.write_volatile(value) }
    }
    fn extended(self, _: bool) -> u128 {
        self
    }
    fn truncated(bits: u128) -> Self {
        bits
    }
}

fn order_before(order: Order) {
    match order {
        Order::Release | Order::AcqRel => fence(Ordering::Release),
        Order::SeqCst => fence(Ordering::SeqCst),
        _ => {}
    }
}

fn order_after(order: Order) {
    match order {
        Order::Acquire | Order::AcqRel => fence(Ordering::Acquire),
        Order::SeqCst => fence(Ordering::SeqCst),
        _ => {}
    }
}

/// `ld`.
pub(crate) fn load(
    x: &Context,
    space: Space,
    ty: Ty,
    order: Order,
    dsts: &[Option<Reg>],
    address: Address,
) -> Outcome {
    if order != Order::Weak {
        x.block().poll(space);
    }
    let bytes = ty.bits() / 8;
    if let (Space::Param, Src::Imm(base), [Some(dst)]) = (space, address.base, dsts)
        && x.file().class(*dst).lane_bytes() == bytes as usize
    {
        let offset = base.wrapping_add(address.offset as u64);
        if offset % u64::from(bytes) == 0 && offset + u64::from(bytes) <= x.block().param_bytes() {
            return parameter(x, bytes, *dst, offset);
        }
    }
    // An access with an order is there to meet others.
    let access = if order == Order::Weak { Access::Read } else { Access::Atomic };
    let at = addresses(x, space, address, bytes * dsts.len() as u32, access)?;
    order_before(order);
    match bytes {
        1 => gather::<u8>(x, ty.signed(), dsts, &at),
        2 => gather::<u16>(x, ty.signed(), dsts, &at),
        4 => {
            if let [Some(dst)] = dsts
                && x.file().class(*dst) == Class::B32
            {
                fill::<u32>(x, *dst, &at);
            } else {
                gather::<u32>(x, ty.signed(), dsts, &at);
            }
        }
        8 => {
            if let [Some(dst)] = dsts {
                fill::<u64>(x, *dst, &at);
            } else {
                gather::<u64>(x, ty.signed(), dsts, &at);
            }
        }
        _ => gather::<u128>(x, false, dsts, &at),
    }
    order_after(order);
    Ok(())
}

/// The same parameter for all lanes.
fn parameter(x: &Context, bytes: u32, dst: Reg, offset: u64) -> Outcome {
    let at = x.block().frame.params as u64 + offset;
    // SAFETY: inside the parameters, as the caller checked.
    unsafe {
        match bytes {
            4 => x.file().put(dst, x.mask(), &[peek::<u32>(at); LANES]),
            8 => x.file().put(dst, x.mask(), &[peek::<u64>(at); LANES]),
            _ => x.file().put(dst, x.mask(), &[peek::<u128>(at); LANES]),
        }
    }
    Ok(())
}

/// One value of the register's own width.
#[inline(always)]
fn fill<T: Element + Cell>(x: &Context, dst: Reg, at: &[u64; LANES]) {
    let mut out = [T::truncated(0); LANES];
    if let Some(count) = dense(x.mask()) {
        for lane in 0..count {
            // SAFETY: checked by `addresses`.
            out[lane] = unsafe { T::read(at[lane]) };
        }
    } else {
        for lane in lanes_of(x.mask()) {
            // SAFETY: checked by `addresses`.
            out[lane] = unsafe { T::read(at[lane]) };
        }
    }
    x.file().put(dst, x.mask(), &out);
}

fn gather<T: Element>(x: &Context, signed: bool, dsts: &[Option<Reg>], at: &[u64; LANES]) {
    // At most eight values (`v8.b32`), or what lowering makes of wider ones.
    let mut values = [[0u128; LANES]; 8];
    for (index, values) in values.iter_mut().enumerate().take(dsts.len()) {
        for lane in lanes_of(x.mask()) {
            // SAFETY: checked by `addresses`.
            let value = unsafe { T::read(at[lane] + (index * size_of::<T>()) as u64) };
            values[lane] = value.extended(signed);
        }
    }
    for (dst, values) in dsts.iter().zip(&values) {
        if let Some(dst) = dst {
            for lane in lanes_of(x.mask()) {
                x.file().set(*dst, lane, values[lane]);
            }
        }
    }
}

/// `st`.
pub(crate) fn store(
    x: &Context,
    space: Space,
    ty: Ty,
    order: Order,
    srcs: &[Src],
    address: Address,
) -> Outcome {
    let bytes = ty.bits() / 8;
    let access = if order == Order::Weak { Access::Write } else { Access::Atomic };
    let at = addresses(x, space, address, bytes * srcs.len() as u32, access)?;
    order_before(order);
    match bytes {
        1 => scatter::<u8>(x, srcs, &at),
        2 => scatter::<u16>(x, srcs, &at),
        4 => spill::<u32>(x, srcs, &at),
        8 => spill::<u64>(x, srcs, &at),
        _ => scatter::<u128>(x, srcs, &at),
    }
    order_after(order);
    Ok(())
}

/// Values of a register's own width.
fn spill<T: Element + Cell>(x: &Context, srcs: &[Src], at: &[u64; LANES]) {
    for (index, &src) in srcs.iter().enumerate() {
        let mut scratch = Scratch::<T>::new();
        let cells = x.file().cells::<T>(src, &mut scratch);
        let further = (index * size_of::<T>()) as u64;
        for lane in lanes_of(x.mask()) {
            // SAFETY: checked by `addresses`.
            unsafe { T::write(at[lane] + further, cells[lane]) };
        }
    }
}

fn scatter<T: Element>(x: &Context, srcs: &[Src], at: &[u64; LANES]) {
    for (index, &src) in srcs.iter().enumerate() {
        for lane in lanes_of(x.mask()) {
            let value = T::truncated(x.file().wide(src, lane));
            // SAFETY: checked by `addresses`.
            unsafe { T::write(at[lane] + (index * size_of::<T>()) as u64, value) };
        }
    }
}

/// Plain bytes at a host address that [`addresses`] gave.
///
/// # Safety
/// The address was checked for at least `size_of::<T>()` bytes.
pub(crate) unsafe fn peek<T: Copy>(address: u64) -> T {
    // SAFETY: the caller's; unaligned because a matrix row need not be aligned to its type.
    unsafe { std::ptr::with_exposed_provenance::<T>(address as usize).read_unaligned() }
}

/// As [`peek`], writing.
///
/// # Safety
/// As for [`peek`].
pub(crate) unsafe fn poke<T: Copy>(address: u64, value: T) {
    // SAFETY: the caller's.
    unsafe { std::ptr::with_exposed_provenance_mut::<T>(address as usize).write_unaligned(value) }
}

/// `cvta` and `cvta.to`.
pub(crate) fn translate(x: &Context, to_generic: bool, space: Space, dst: Reg, a: Src) {
    for lane in lanes_of(x.mask()) {
        let value = x.get(a, lane);
        let result = match space {
            Space::Shared if to_generic => {
                let block = x.block();
                block.peer_address(value as u32, 0).unwrap_or(block.frame.shared as u64 + value)
            }
            Space::Shared => x.block().shared_offset(value),
            Space::Local => {
                let frame = &x.warp().frame;
                let base = frame.local as u64 + frame.local_stride * lane as u64;
                if to_generic { base + value } else { value.wrapping_sub(base) }
            }
            Space::Param => {
                let base = x.block().frame.params as u64;
                if to_generic { base + value } else { value.wrapping_sub(base) }
            }
            Space::Generic | Space::Global => value,
        };
        x.set(dst, lane, result);
    }
}

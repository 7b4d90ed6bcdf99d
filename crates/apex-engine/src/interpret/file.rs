//! The register file of a warp, and the loops over its lanes.
//!
//! An operation is written once, as a closure over one lane's values; [`map1`] and its
//! like compute it for all 32 lanes into a local array and then write the lanes that take
//! part. Lanes that do not take part are computed too: for pure operations that is
//! cheaper than asking, and it lets the compiler use vectors. Slow operations use
//! [`each1`] and its like, which visit only the lanes that take part.

use crate::code::{Class, Guard, LANES, Reg, Register, Src};
use std::mem::MaybeUninit;

/// All lanes of a narrow warp.
pub(crate) const LOWER_HALF: u32 = 0xffff;

/// How many lanes there are, where they are the lowest ones of a whole warp.
#[inline(always)]
pub(crate) fn dense(mask: u32) -> Option<usize> {
    match mask {
        u32::MAX => Some(LANES),
        LOWER_HALF => Some(LANES / 2),
        _ => None,
    }
}

/// What a lane of a register is in memory.
pub(crate) trait Cell: Copy + 'static {
    fn from_bits(bits: u128) -> Self;
    fn bits(self) -> u128;
}

macro_rules! cells {
    ($($cell:ty)*) => {$(
        impl Cell for $cell {
            #[inline(always)]
            fn from_bits(bits: u128) -> Self { bits as $cell }
            #[inline(always)]
            fn bits(self) -> u128 { self as u128 }
        }
    )*};
}
cells!(u32 u64 u128);

/// A value of an instruction's type, and how it lies in a cell.
pub(crate) trait Lane: Copy {
    type Cell: Cell;
    fn load(cell: Self::Cell) -> Self;
    fn store(self) -> Self::Cell;
}

macro_rules! lanes {
    ($($lane:ty: $cell:ty, |$from:ident| $load:expr, |$into:ident| $store:expr;)*) => {$(
        impl Lane for $lane {
            type Cell = $cell;
            #[inline(always)]
            fn load($from: $cell) -> Self { $load }
            #[inline(always)]
            fn store(self) -> $cell { let $into = self; $store }
        }
    )*};
}
lanes! {
    u8: u32, |c| c as u8, |v| v.into();
    i8: u32, |c| c as i8, |v| (v as u8).into();
    u16: u32, |c| c as u16, |v| v.into();
    i16: u32, |c| c as i16, |v| (v as u16).into();
    u32: u32, |c| c, |v| v;
    i32: u32, |c| c as i32, |v| v as u32;
    f32: u32, |c| f32::from_bits(c), |v| v.to_bits();
    u64: u64, |c| c, |v| v;
    i64: u64, |c| c as i64, |v| v as u64;
    f64: u64, |c| f64::from_bits(c), |v| v.to_bits();
    u128: u128, |c| c, |v| v;
}

/// Room for an operand that is not in a register of the right class.
pub(crate) struct Scratch<C>(MaybeUninit<[C; LANES]>);

impl<C> Scratch<C> {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Scratch(MaybeUninit::uninit())
    }
}

/// A warp's registers.
#[derive(Clone, Copy)]
pub(crate) struct File {
    base: *mut u8,
    registers: *const Register,
}

impl File {
    /// # Safety
    /// `base` points at a register file laid out by `registers`, and both outlive the value.
    pub(crate) unsafe fn new(base: *mut u8, registers: &[Register]) -> Self {
        File { base, registers: registers.as_ptr() }
    }

    #[inline(always)]
    fn register(&self, register: Reg) -> Register {
        // SAFETY: lowering gives out only registers that stand in the list.
        unsafe { *self.registers.add(register.0 as usize) }
    }

    #[inline(always)]
    fn place(&self, register: Register) -> *mut u8 {
        // SAFETY: every offset lies in the file, by the contract of `Code`.
        unsafe { self.base.add(register.offset as usize) }
    }

    pub(crate) fn class(&self, register: Reg) -> Class {
        self.register(register).class
    }

    /// The lanes of an operand, as cells of the wanted width.
    #[inline(always)]
    pub(crate) fn cells<'a, C: Cell>(
        &self,
        src: Src,
        scratch: &'a mut Scratch<C>,
    ) -> &'a [C; LANES] {
        match src {
            Src::Reg(register) => {
                let register = self.register(register);
                if register.class.lane_bytes() == size_of::<C>() {
                    // SAFETY: the file holds 32 cells of this size there, aligned to 64.
                    unsafe { &*self.place(register).cast::<[C; LANES]>() }
                } else {
                    self.converted(register, scratch)
                }
            }
            Src::Imm(bits) => scratch.0.write([C::from_bits(bits.into()); LANES]),
        }
    }

    #[cold]
    #[inline(never)]
    fn converted<'a, C: Cell>(
        &self,
        register: Register,
        scratch: &'a mut Scratch<C>,
    ) -> &'a [C; LANES] {
        scratch.0.write(std::array::from_fn(|lane| C::from_bits(self.bits(register, lane))))
    }

    fn bits(&self, register: Register, lane: usize) -> u128 {
        let place = self.place(register);
        // SAFETY: as in `cells`, with the cell of the register's own class.
        unsafe {
            match register.class {
                Class::Pred => (place.cast::<u32>().read() >> lane & 1).into(),
                Class::B16 | Class::B32 => place.cast::<u32>().add(lane).read().into(),
                Class::B64 => place.cast::<u64>().add(lane).read().into(),
                Class::B128 => place.cast::<u128>().add(lane).read(),
            }
        }
    }

    /// One lane of an operand, zero-extended.
    pub(crate) fn wide(&self, src: Src, lane: usize) -> u128 {
        match src {
            Src::Reg(register) => self.bits(self.register(register), lane),
            Src::Imm(bits) => bits.into(),
        }
    }

    /// One lane of an operand of up to 64 bits.
    pub(crate) fn get(&self, src: Src, lane: usize) -> u64 {
        self.wide(src, lane) as u64
    }

    /// Writes one lane, truncated to its register.
    pub(crate) fn set(&self, dst: Reg, lane: usize, bits: u128) {
        let register = self.register(dst);
        let place = self.place(register);
        // SAFETY: as in `bits`.
        unsafe {
            match register.class {
                Class::Pred => {
                    let word = place.cast::<u32>();
                    *word = *word & !(1 << lane) | (bits as u32 & 1) << lane;
                }
                Class::B16 => place.cast::<u32>().add(lane).write(bits as u16 as u32),
                Class::B32 => place.cast::<u32>().add(lane).write(bits as u32),
                Class::B64 => place.cast::<u64>().add(lane).write(bits as u64),
                Class::B128 => place.cast::<u128>().add(lane).write(bits),
            }
        }
    }

    /// Writes the lanes of `mask`.
    #[inline(always)]
    pub(crate) fn put<C: Cell>(&self, dst: Reg, mask: u32, values: &[C; LANES]) {
        let register = self.register(dst);
        if register.class.lane_bytes() != size_of::<C>() {
            return self.put_converted(dst, mask, values);
        }
        // SAFETY: as in `cells`; `values` is local to the caller.
        let place = unsafe { &mut *self.place(register).cast::<[C; LANES]>() };
        match mask {
            u32::MAX => *place = *values,
            LOWER_HALF => place[..LANES / 2].copy_from_slice(&values[..LANES / 2]),
            _ => {
                // All lanes are written, some with what they hold: that makes a vector blend.
                for lane in 0..LANES {
                    place[lane] = if mask >> lane & 1 == 1 { values[lane] } else { place[lane] };
                }
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn put_converted<C: Cell>(&self, dst: Reg, mask: u32, values: &[C; LANES]) {
        for lane in lanes_of(mask) {
            self.set(dst, lane, values[lane].bits());
        }
    }

    /// The bits of a predicate.
    #[inline(always)]
    pub(crate) fn predicate(&self, register: Reg) -> u32 {
        // SAFETY: a predicate is 4 bytes at its offset.
        unsafe { self.place(self.register(register)).cast::<u32>().read() }
    }

    /// Lanes for which a guard holds.
    #[inline(always)]
    pub(crate) fn guard(&self, guard: Guard) -> u32 {
        let bits = self.predicate(guard.predicate);
        if guard.negated { !bits } else { bits }
    }

    /// Writes a predicate for the lanes of `mask`.
    #[inline(always)]
    pub(crate) fn set_predicate(&self, dst: Reg, mask: u32, bits: u32) {
        let register = self.register(dst);
        if register.class != Class::Pred {
            for lane in lanes_of(mask) {
                self.set(dst, lane, (bits >> lane & 1).into());
            }
            return;
        }
        let place = self.place(register).cast::<u32>();
        // SAFETY: as in `predicate`.
        unsafe { place.write(place.read() & !mask | bits & mask) };
    }
}

/// The lanes of a mask, lowest first.
pub(crate) fn lanes_of(mask: u32) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        (rest != 0).then(|| {
            let lane = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            lane
        })
    })
}

/// Where an operation's lanes come from and go to.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) file: File,
    pub(crate) mask: u32,
}

impl Span {
    /// The same lanes less those for which the guard fails.
    pub(crate) fn guarded(self, guard: Guard) -> Span {
        Span { mask: self.mask & self.file.guard(guard), ..self }
    }
}

macro_rules! maps {
    ($map:ident $each:ident ($($name:ident: $ty:ident),*)) => {
        /// For all lanes, in vectors.
        #[inline(always)]
        pub(crate) fn $map<$($ty: Lane,)* R: Lane>(
            span: Span, dst: Reg, $($name: Src,)* f: impl Fn($($ty),*) -> R,
        ) {
            let mut out = MaybeUninit::<[R::Cell; LANES]>::uninit();
            let cells = out.as_mut_ptr().cast::<R::Cell>();
            {
                $(let mut scratch = Scratch::<$ty::Cell>::new();
                let $name = span.file.cells::<$ty::Cell>($name, &mut scratch);
                // Each operand needs its own room: the name is given away with the borrow.
                let $name: *const [$ty::Cell; LANES] = $name;
                let _keep = &scratch;)*
                for lane in 0..LANES {
                    // SAFETY: 32 cells on both sides; operands are read while their room lives.
                    unsafe { cells.add(lane).write(f($($ty::load((*$name)[lane])),*).store()) };
                }
            }
            // SAFETY: all 32 were written.
            span.file.put(dst, span.mask, unsafe { out.assume_init_ref() });
        }

        /// For the lanes that take part, one by one.
        #[inline(always)]
        pub(crate) fn $each<$($ty: Lane,)* R: Lane>(
            span: Span, dst: Reg, $($name: Src,)* f: impl Fn($($ty),*) -> R,
        ) {
            for lane in lanes_of(span.mask) {
                $(let $name = $ty::load($ty::Cell::from_bits(span.file.wide($name, lane)));)*
                span.file.set(dst, lane, f($($name),*).store().bits());
            }
        }
    };
}
maps!(map1 each1 (a: A));
maps!(map2 each2 (a: A, b: B));
maps!(map3 each3 (a: A, b: B, c: C));

/// Defines a function twice: with the vector instructions of newer processors and without,
/// and picks one when it is called. It tells whether it knows the operation.
macro_rules! wide {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> bool $body:block) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments, reason = "an instruction's fields")]
        #[allow(clippy::too_many_lines, reason = "long ones are tables: a line for each operation")]
        $vis fn $name($($arg: $ty),*) -> bool {
            #[inline(always)]
            #[allow(clippy::too_many_arguments, reason = "an instruction's fields")]
            #[allow(clippy::too_many_lines, reason = "as above")]
            fn body($($arg: $ty),*) -> bool $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt,f16c")]
                #[allow(clippy::too_many_arguments, reason = "an instruction's fields")]
                fn wide($($arg: $ty),*) -> bool { body($($arg),*) }
                if $crate::interpret::file::processor_is_wide() {
                    // SAFETY: the processor has all of them, as just asked.
                    return unsafe { wide($($arg),*) };
                }
            }
            body($($arg),*)
        }
    };
}
pub(crate) use wide;

/// Whether the vector instructions that [`wide!`] uses are there.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn processor_is_wide() -> bool {
    use std::sync::atomic::{AtomicU8, Ordering};
    // 0: not asked yet, 1: no, 2: yes.
    static ANSWER: AtomicU8 = AtomicU8::new(0);
    #[cold]
    fn ask() -> bool {
        let wide = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt")
            && is_x86_feature_detected!("f16c");
        ANSWER.store(1 + u8::from(wide), Ordering::Relaxed);
        wide
    }
    match ANSWER.load(Ordering::Relaxed) {
        0 => ask(),
        answer => answer == 2,
    }
}

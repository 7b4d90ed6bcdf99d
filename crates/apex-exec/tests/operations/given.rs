//! What the tests share: random numbers and shapes, memory at odd places, and what "equal" means for a type.

use apex_exec::{Buffer, Executor, Float, View, global};

/// The executor of all tests.
pub(crate) fn executor() -> &'static Executor {
    match global() {
        Ok(executor) => executor,
        Err(error) => panic!("the tests need a device: {error}"),
    }
}

/// Numbers that look random and are the same every time (xorshift).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// From `low` up to and without `high`.
    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        low + (self.next() % (high - low) as u64) as usize
    }

    /// A length: mostly small, sometimes at a border, sometimes some thousands.
    pub(crate) fn length(&mut self) -> usize {
        match self.next() % 8 {
            0 => [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17][self.between(0, 12)],
            1..=4 => self.between(1, 300),
            5 => (1 << self.between(3, 13)) + self.between(0, 3) - 1,
            _ => self.between(300, 6000),
        }
    }

    /// From -1 up to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }

    pub(crate) fn values<T: Float>(&mut self, len: usize, scale: f64) -> Vec<T> {
        (0..len).map(|_| T::from_f64(self.unit() * scale)).collect()
    }

    pub(crate) fn offset(&mut self) -> usize {
        // Half of the time where an allocation begins.
        let offset = self.between(0, 18);
        offset.saturating_sub(9)
    }
}

pub(crate) fn wide<T: Float>(values: &[T]) -> Vec<f64> {
    values.iter().map(|value| value.to_f64()).collect()
}

/// Values on the device, from an offset on.
pub(crate) struct Placed<T: Float> {
    buffer: Buffer<T>,
    offset: usize,
    len: usize,
}

const AROUND: usize = 5;

impl<T: Float> Placed<T> {
    pub(crate) fn new(values: &[T], offset: usize) -> Placed<T> {
        let mut all = vec![T::from_f64(f64::NAN); offset];
        all.extend_from_slice(values);
        all.extend([T::from_f64(f64::NAN); AROUND]);
        Placed { buffer: executor().upload(&all).unwrap(), offset, len: values.len() }
    }

    /// Room for results, NaN before.
    pub(crate) fn room(len: usize, offset: usize) -> Placed<T> {
        Placed { buffer: executor().poisoned(offset + len + AROUND).unwrap(), offset, len }
    }

    pub(crate) fn view(&self) -> View<'_, T> {
        self.buffer.slice(self.offset..self.offset + self.len)
    }

    pub(crate) fn view_mut(&mut self) -> apex_exec::ViewMut<'_, T> {
        self.buffer.slice_mut(self.offset..self.offset + self.len)
    }

    /// The values, after a look at what lies around them.
    pub(crate) fn values(&self, what: &str) -> Vec<T> {
        let all = executor().download(&self.buffer).unwrap();
        let (before, rest) = all.split_at(self.offset);
        let (values, after) = rest.split_at(self.len);
        let untouched = |part: &[T]| part.iter().all(|value| value.to_f64().is_nan());
        assert!(untouched(before) && untouched(after), "{what}: something was written outside");
        values.to_vec()
    }
}

/// The distance from 1 to the next number of a type.
pub(crate) fn step<T: Float>() -> f64 {
    match T::NAME {
        "f64" => f64::EPSILON,
        "f32" => f64::from(f32::EPSILON),
        "f16" => 2.0_f64.powi(-10),
        _ => 2.0_f64.powi(-7),
    }
}

/// Whether a result is the reference, rounded once, with `slack` last places of the computing type
/// and of `scale`, the size of what was added up on the way.
pub(crate) fn assert_close<T: Float>(got: &[T], want: &[f64], slack: f64, scale: f64, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    // The reference of f64 has f64's own last places.
    let computing = step::<T::Wide>() * if T::NAME == "f64" { 64.0 } else { 1.0 };
    let rounding = if T::NAME == "f64" || T::NAME == "f32" { 0.0 } else { 0.505 * step::<T>() };
    let smallest = if T::NAME == "f16" { 3.0e-8 } else { 1.0e-37 };
    for (place, (got, want)) in got.iter().zip(want).enumerate() {
        let got = got.to_f64();
        let most = if T::NAME == "f16" { 65504.0 } else { f64::INFINITY };
        let same = if want.is_nan() {
            got.is_nan()
        } else if want.is_infinite() {
            got == *want
        } else if want.abs() > most * 0.999 {
            got.abs() >= most * 0.99 && got.signum() == want.signum()
        } else {
            let allowed =
                want.abs() * (rounding + slack * computing) + slack * computing * scale + smallest;
            (got - want).abs() <= allowed
        };
        assert!(
            same,
            "{what}, {} at {place}: {got} instead of {want} (off by {:e})",
            T::NAME,
            (got - want).abs()
        );
    }
}

/// The same test for every type.
#[macro_export]
macro_rules! for_every_type {
    ($($test:ident => $check:ident;)*) => {$(
        mod $test {
            #[test]
            fn f32() {
                super::$check::<f32>(1);
            }
            #[test]
            fn f64() {
                super::$check::<f64>(2);
            }
            #[test]
            fn f16() {
                super::$check::<half::f16>(3);
            }
            #[test]
            fn bf16() {
                super::$check::<half::bf16>(4);
            }
        }
    )*};
}

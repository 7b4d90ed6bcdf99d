//! Types of numbers, as cuBLAS names them and as kernels do.

use half::f16;

/// A type of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    F32,
    F64,
    F16,
    Bf16,
    I8,
    I32,
    C64,
    C128,
}

use Number::*;

impl Number {
    /// By the number of `cudaDataType`.
    pub(crate) fn of(data_type: i32) -> Option<Number> {
        Some(match data_type {
            0 => F32,
            1 => F64,
            2 => F16,
            3 => I8,
            4 => C64,
            5 => C128,
            10 => I32,
            14 => Bf16,
            _ => return None,
        })
    }

    /// How kernels name it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            F32 => "f32",
            F64 => "f64",
            F16 => "f16",
            Bf16 => "bf16",
            I8 => "i8",
            I32 => "i32",
            C64 => "c64",
            C128 => "c128",
        }
    }

    pub(crate) fn bytes(self) -> u64 {
        match self {
            I8 => 1,
            F16 | Bf16 => 2,
            F32 | I32 => 4,
            F64 | C64 => 8,
            C128 => 16,
        }
    }

    /// What sums of it are kept in, and factors given in.
    pub(crate) fn wide(self) -> Number {
        match self {
            F16 | Bf16 => F32,
            I8 => I32,
            other => other,
        }
    }

    /// The type of the factors of a computation, by the number of `cublasComputeType_t`.
    pub(crate) fn of_factors(compute_type: i32, elements: Number) -> Option<Number> {
        let is_complex = matches!(elements, C64 | C128);
        Some(match (compute_type, is_complex) {
            (64 | 65, false) => F16,
            (68 | 69 | 74 | 75 | 77 | 78, false) => F32,
            (68 | 69 | 74 | 75 | 77 | 78, true) => C64,
            (70 | 71 | 79, false) => F64,
            (70 | 71 | 79, true) => C128,
            (72 | 73, false) => I32,
            _ => return None,
        })
    }
}

/// A number as a kernel takes it: as many of its bytes as its type has.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(16))]
pub(crate) struct Scalar(pub(crate) [u8; 16]);

impl Scalar {
    /// The number one, or a whole number.
    pub(crate) fn whole(value: i32, number: Number) -> Scalar {
        let mut bytes = [0; 16];
        match number {
            I32 | I8 => bytes[..4].copy_from_slice(&value.to_le_bytes()),
            F64 | C128 => bytes[..8].copy_from_slice(&f64::from(value).to_le_bytes()),
            _ => bytes[..4].copy_from_slice(&(value as f32).to_le_bytes()),
        }
        Scalar(bytes)
    }

    /// A number of one type as one of the type that a kernel sums in; none where the one cannot be the other.
    pub(crate) fn converted(self, from: Number, to: Number) -> Option<Scalar> {
        let mut bytes = self.0;
        match (from, to) {
            (F16, F32) => {
                let narrow = f16::from_le_bytes([bytes[0], bytes[1]]);
                bytes = [0; 16];
                bytes[..4].copy_from_slice(&narrow.to_f32().to_le_bytes());
            }
            // The real part alone is given.
            (F32, C64) => bytes[4..].fill(0),
            (F64, C128) => bytes[8..].fill(0),
            (from, to) if from == to => {}
            _ => return None,
        }
        Some(Scalar(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_become_what_kernels_sum_in() {
        let mut half_two = Scalar::default();
        half_two.0[..2].copy_from_slice(&f16::from_f32(2.0).to_le_bytes());
        assert_eq!(half_two.converted(F16, F32), Some(Scalar::whole(2, F32)));
        assert_eq!(Scalar::whole(3, F32).converted(F32, C64), Some(Scalar::whole(3, C64)));
        assert_eq!(Scalar::whole(3, F32).converted(F32, F64), None);
    }

    #[test]
    fn computations_name_the_type_of_their_factors() {
        assert_eq!(Number::of_factors(68, F16), Some(F32));
        assert_eq!(Number::of_factors(64, F16), Some(F16));
        assert_eq!(Number::of_factors(77, C64), Some(C64));
        assert_eq!(Number::of_factors(1, F32), None);
    }
}

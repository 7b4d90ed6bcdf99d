//! The logarithm that every feature is scaled with.
//!
//! Sizes span twelve decades, so models see their logarithms. Training and inference call this one function,
//! so its error of 0.00001 is the same on both sides and costs nothing; the library's own logarithm takes
//! several times as long.

/// The logarithm to base two of a positive, finite number; of anything else some finite number.
#[inline(always)]
#[must_use]
pub fn log2(value: f32) -> f32 {
    let bits = value.to_bits();
    let exponent = ((bits >> 23) as i32 - 127) as f32;
    let rest = f32::from_bits((bits & 0x007f_ffff) | 0x3f80_0000) - 1.0;
    // log2(1 + rest) / rest, interpolated at six Chebyshev points of [0, 1].
    let slope = 1.442_681_5
        + rest
            * (-0.720_358_8
                + rest
                    * (0.468_658_9
                        + rest * (-0.301_638 + rest * (0.144_471_1 + rest * -0.033_822_046))));
    exponent + rest * slope
}

/// A count as models see it: the logarithm of one more, so that nothing is zero.
#[inline(always)]
#[must_use]
pub fn counted(count: f32) -> f32 {
    log2(1.0 + count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_logarithm() {
        for step in 0..200_000 {
            let value = 1e-9 * 1.000_3_f32.powi(step);
            if !value.is_finite() {
                break;
            }
            let error = (f64::from(log2(value)) - f64::from(value).log2()).abs();
            assert!(error < 2e-5, "{value}: {error}");
        }
        assert_eq!(log2(1.0), 0.0);
        assert_eq!(log2(1024.0), 10.0);
        assert_eq!(counted(0.0), 0.0);
    }

    #[test]
    fn nothing_makes_it_infinite() {
        for value in [0.0, -1.0, f32::NAN, f32::INFINITY, f32::MIN_POSITIVE / 2.0] {
            assert!(log2(value).is_finite(), "{value}");
        }
    }
}

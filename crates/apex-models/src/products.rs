//! Multiplies a matrix of bytes with a vector: nearly all the work of the large network.
//!
//! One answer reads every weight once, so it can be as fast as memory gives them and no faster; the plain loop, which
//! must do with the instructions that every x86-64 has, is not. So there is a table of forms, widest first, and
//! the first that the processor has is taken, by asking it when the program runs. All of them add whole numbers
//! that fit, so all say the same to the last bit, whichever runs.
//!
//! This is the one file of the crate with `unsafe`: a function for instructions that a processor may lack can be
//! called in no other way. A form touches its arguments alone, as every function here does.
#![allow(unsafe_code)]

/// Rows of weights are padded to multiples of this: a cache line.
pub(crate) const CHUNK: usize = 64;
/// The most inputs of a layer: so many products of a weight and an input fit a 32-bit integer.
pub(crate) const WIDEST: usize = 8192;

/// One way to compute the products.
struct Form {
    /// What it is called in tests.
    #[cfg_attr(not(test), expect(dead_code, reason = "only tests tell forms by their names"))]
    name: &'static str,
    /// Whether this processor can.
    here: fn() -> bool,
    /// Sums, one for each row. To be called only where `here` says so.
    run: unsafe fn(&[i8], &[i16], &mut [i32]),
}

static FORMS: &[Form] = &[
    #[cfg(target_arch = "x86_64")]
    Form {
        name: "vnni",
        here: || is_x86_feature_detected!("avx512vnni") && is_x86_feature_detected!("avx512vl"),
        run: x86::vnni,
    },
    #[cfg(target_arch = "x86_64")]
    Form { name: "avx2", here: || is_x86_feature_detected!("avx2"), run: x86::avx2 },
    Form { name: "plain", here: || true, run: plain },
];

/// The product of each row with `values`, whose length is that of a row and a multiple of [`CHUNK`]. Rows that
/// `sums` has no place for are left out.
pub(crate) fn products(weights: &[i8], values: &[i16], sums: &mut [i32]) {
    if let Some(form) = FORMS.iter().find(|form| (form.here)()) {
        // SAFETY: the processor has what this form needs.
        unsafe { (form.run)(weights, values, sums) }
    }
}

fn plain(weights: &[i8], values: &[i16], sums: &mut [i32]) {
    for (row, sum) in weights.chunks_exact(values.len().max(1)).zip(sums) {
        *sum = 0;
        for (weights, values) in row.as_chunks::<CHUNK>().0.iter().zip(values.as_chunks().0) {
            let values: &[i16; CHUNK] = values;
            for at in 0..CHUNK {
                *sum += i32::from(weights[at]) * i32::from(values[at]);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::CHUNK;
    use std::arch::x86_64::*;

    /// Weights that become a vector of numbers of two bytes.
    const PART: usize = 16;
    /// Sums that grow side by side: one alone would wait for itself.
    const PARTS: usize = CHUNK / PART;
    /// How far ahead weights are asked for: what the processor asks for by itself comes too late by a third.
    const AHEAD_BYTES: usize = 2048;

    /// A form for vectors of 32 bytes, which differ in how products are added. Wider ones gain nothing: memory
    /// gives no more.
    macro_rules! form {
        ($name:ident, $features:literal, $add:expr) => {
            #[target_feature(enable = $features)]
            pub(crate) fn $name(weights: &[i8], values: &[i16], sums: &mut [i32]) {
                for (row, sum) in weights.chunks_exact(values.len().max(1)).zip(sums) {
                    let mut parts = [_mm256_setzero_si256(); PARTS];
                    let chunks = row.as_chunks::<CHUNK>().0.iter().zip(values.as_chunks().0);
                    for (weights, values) in chunks {
                        let values: &[i16; CHUNK] = values;
                        // Any address may be asked for: nothing is read by that.
                        _mm_prefetch::<_MM_HINT_T0>(weights.as_ptr().wrapping_add(AHEAD_BYTES));
                        for (nth, part) in parts.iter_mut().enumerate() {
                            // SAFETY: each load lies in one part of an array of this chunk.
                            let (weights, values) = unsafe {
                                (
                                    _mm_loadu_si128(weights.as_ptr().add(nth * PART).cast()),
                                    _mm256_loadu_si256(values.as_ptr().add(nth * PART).cast()),
                                )
                            };
                            *part = $add(*part, _mm256_cvtepi8_epi16(weights), values);
                        }
                    }
                    let [a, b, c, d] = parts;
                    *sum = total(_mm256_add_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d)));
                }
            }
        };
    }

    form!(avx2, "avx2", |part, weights, values| _mm256_add_epi32(
        part,
        _mm256_madd_epi16(weights, values)
    ));
    form!(vnni, "avx2,avx512vl,avx512vnni", |part, weights, values| _mm256_dpwssd_epi32(
        part, weights, values
    ));

    #[inline]
    #[target_feature(enable = "avx2")]
    fn total(parts: __m256i) -> i32 {
        let halves =
            _mm_add_epi32(_mm256_castsi256_si128(parts), _mm256_extracti128_si256::<1>(parts));
        let pairs = _mm_add_epi32(halves, _mm_shuffle_epi32::<0b1110>(halves));
        _mm_cvtsi128_si32(_mm_add_epi32(pairs, _mm_shuffle_epi32::<0b01>(pairs)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every form that this processor has against sums in 64 bits.
    fn check(weights: &[i8], values: &[i16]) {
        let rows = weights.chunks_exact(values.len());
        let expected: Vec<i64> = rows
            .map(|row| row.iter().zip(values).map(|(w, v)| i64::from(*w) * i64::from(*v)).sum())
            .collect();
        for form in FORMS.iter().filter(|form| (form.here)()) {
            let mut sums = vec![7; expected.len()];
            // SAFETY: the processor has what this form needs.
            unsafe { (form.run)(weights, values, &mut sums) };
            let found: Vec<i64> = sums.iter().copied().map(i64::from).collect();
            assert_eq!(found, expected, "{} with rows of {}", form.name, values.len());
        }
    }

    #[test]
    fn every_form_says_the_same_of_any_numbers() {
        let mut state = 99_u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as i32
        };
        for width in [CHUNK, 2 * CHUNK, 3 * CHUNK, 7 * CHUNK, 1024, 17 * CHUNK] {
            for rows in [0, 1, 2, 5, 33] {
                let weights: Vec<i8> = (0..rows * width).map(|_| next() as i8).collect();
                let values: Vec<i16> = (0..width).map(|_| (next() % 4095 - 2047) as i16).collect();
                check(&weights, &values);
            }
        }
    }

    #[test]
    fn the_largest_sums_fit_every_form() {
        for weight in [-128, -127, -1, 0, 1, 127] {
            for value in [-2047, -1, 0, 1, 2047] {
                check(&vec![weight; 2 * WIDEST], &vec![value; WIDEST]);
                // Sums that rise to the edge and come back.
                let turning = |at: usize| if at < WIDEST / 2 { value } else { -value };
                check(&vec![weight; WIDEST], &(0..WIDEST).map(turning).collect::<Vec<i16>>());
            }
        }
    }

    #[test]
    fn weights_are_read_wherever_they_lie() {
        let weights: Vec<i8> = (0..CHUNK * 4 + 3).map(|at| (at * 37) as i8).collect();
        let values: Vec<i16> = (0..CHUNK * 2 + 1).map(|at| at as i16 - 30).collect();
        for start in 0..3 {
            check(&weights[start..][..CHUNK * 4], &values[start % 2..][..CHUNK * 2]);
        }
    }

    #[test]
    fn the_widest_form_comes_first_and_one_is_always_there() {
        assert!(FORMS.last().is_some_and(|form| form.name == "plain" && (form.here)()));
        let mut sums = [0; 2];
        products(&[1; 2 * CHUNK], &[2; CHUNK], &mut sums);
        assert_eq!(sums, [2 * CHUNK as i32; 2]);
        products(&[], &[], &mut []);
    }
}

//! Products of matrices for training: plain loops over rows, in an order that never changes.
//!
//! Every element is the sum of its products in the order of the inner index, whatever the width of the vector
//! registers and however many threads share the rows: the same seed gives the same weights on every machine.
//! The inner loops run along rows of the second matrix, which compilers turn into vector code by themselves.

/// Threads that share the rows of a product.
#[derive(Clone, Copy, Debug)]
pub struct Threads(usize);

impl Threads {
    /// As many as the machine has.
    #[must_use]
    pub fn all() -> Threads {
        Threads(std::thread::available_parallelism().map_or(1, usize::from).min(16))
    }

    /// One.
    #[must_use]
    pub fn one() -> Threads {
        Threads(1)
    }
}

/// Rows of the inner matrix that are worked on while they are in the cache.
const BLOCK: usize = 64;
/// Products smaller than this are not worth a thread.
const WORTH: usize = 1 << 18;

/// `out += a b`, with `a` of `rows` x `inner` and `b` of `inner` x `columns`, by rows.
pub fn product(
    threads: Threads,
    out: &mut [f32],
    a: &[f32],
    b: &[f32],
    inner: usize,
    columns: usize,
) {
    let rows = out.len() / columns.max(1);
    let share = shared_rows(threads, rows, inner * columns);
    std::thread::scope(|scope| {
        let mut pieces = out.chunks_mut(share * columns).zip(a.chunks(share * inner));
        let Some((first_out, first_a)) = pieces.next() else { return };
        for (out, a) in pieces {
            scope.spawn(move || rows_product(out, a, b, inner, columns));
        }
        rows_product(first_out, first_a, b, inner, columns);
    });
}

fn rows_product(out: &mut [f32], a: &[f32], b: &[f32], inner: usize, columns: usize) {
    for from in (0..inner).step_by(BLOCK) {
        let to = (from + BLOCK).min(inner);
        for (out, a) in out.chunks_exact_mut(columns).zip(a.chunks_exact(inner)) {
            add_rows(out, &a[from..to], &b[from * columns..to * columns]);
        }
    }
}

/// `out += factors rows`, four rows at a time, so that `out` is read and written once for four.
fn add_rows(out: &mut [f32], factors: &[f32], rows: &[f32]) {
    let columns = out.len();
    let (fours, rest) = factors.as_chunks::<4>();
    for (factors, rows) in fours.iter().zip(rows.chunks_exact(4 * columns)) {
        // Half of the values behind a rectifier are zero.
        if factors.iter().all(|factor| *factor == 0.0) {
            continue;
        }
        let (first, others) = rows.split_at(columns);
        let (second, others) = others.split_at(columns);
        let (third, fourth) = others.split_at(columns);
        let rows = first.iter().zip(second).zip(third.iter().zip(fourth));
        for (out, ((first, second), (third, fourth))) in out.iter_mut().zip(rows) {
            let sum = *out + factors[0] * first + factors[1] * second;
            *out = sum + factors[2] * third + factors[3] * fourth;
        }
    }
    let done = 4 * fours.len();
    for (factor, row) in rest.iter().zip(rows[done * columns..].chunks_exact(columns)) {
        for (out, value) in out.iter_mut().zip(row) {
            *out += factor * value;
        }
    }
}

/// `out += aᵀ b`, with `a` of `count` x `rows` and `b` of `count` x `columns`: the gradient of weights.
pub fn transposed_product(
    threads: Threads,
    out: &mut [f32],
    a: &[f32],
    b: &[f32],
    rows: usize,
    columns: usize,
) {
    let share = shared_rows(threads, rows, a.len() / rows.max(1) * columns);
    std::thread::scope(|scope| {
        let mut pieces = out.chunks_mut(share * columns).enumerate();
        let Some((_, first)) = pieces.next() else { return };
        for (nth, out) in pieces {
            scope.spawn(move || gradient_rows(out, a, b, rows, columns, nth * share));
        }
        gradient_rows(first, a, b, rows, columns, 0);
    });
}

fn gradient_rows(out: &mut [f32], a: &[f32], b: &[f32], rows: usize, columns: usize, first: usize) {
    let count = a.len() / rows;
    let mut factors = vec![0.0; count];
    for (row, out) in out.chunks_exact_mut(columns).enumerate() {
        for (factor, a) in factors.iter_mut().zip(a.chunks_exact(rows)) {
            *factor = a[first + row];
        }
        add_rows(out, &factors, b);
    }
}

/// A matrix turned over: `rows` x `columns` becomes `columns` x `rows`.
#[must_use]
pub fn transposed(a: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let mut out = vec![0.0; a.len()];
    for (row, values) in a.chunks_exact(columns.max(1)).enumerate() {
        for (column, value) in values.iter().enumerate() {
            out[column * rows + row] = *value;
        }
    }
    out
}

fn shared_rows(threads: Threads, rows: usize, work_of_row: usize) -> usize {
    let worth = (rows * work_of_row / WORTH).max(1);
    rows.div_ceil(threads.0.min(worth)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn matrix(random: &mut Random, count: usize) -> Vec<f32> {
        (0..count).map(|_| random.normal()).collect()
    }

    #[test]
    fn products_are_what_they_should_be_with_any_number_of_threads() {
        let mut random = Random::new(1);
        let (rows, inner, columns) = (70, 90, 130);
        let (a, b) = (matrix(&mut random, rows * inner), matrix(&mut random, inner * columns));
        let run = |threads| {
            let mut out = vec![0.0; rows * columns];
            product(threads, &mut out, &a, &b, inner, columns);
            out
        };
        let out = run(Threads(1));
        assert_eq!(out, run(Threads(5)));
        let at = |row: usize, column: usize| -> f64 {
            (0..inner)
                .map(|i| f64::from(a[row * inner + i]) * f64::from(b[i * columns + column]))
                .sum()
        };
        for (row, column) in [(0, 0), (69, 129), (33, 7)] {
            assert!((f64::from(out[row * columns + column]) - at(row, column)).abs() < 1e-3);
        }
    }

    #[test]
    fn gradients_are_the_transposed_product() {
        let mut random = Random::new(2);
        let (count, rows, columns) = (40, 60, 50);
        let (a, b) = (matrix(&mut random, count * rows), matrix(&mut random, count * columns));
        let mut out = vec![0.0; rows * columns];
        transposed_product(Threads(3), &mut out, &a, &b, rows, columns);
        let mut expected = vec![0.0; rows * columns];
        product(Threads(1), &mut expected, &transposed(&a, count, rows), &b, count, columns);
        for (found, expected) in out.iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-4);
        }
    }
}

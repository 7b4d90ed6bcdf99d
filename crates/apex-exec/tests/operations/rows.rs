//! Softmax and layer normalisation of rows from one element to longer than registers hold.

use crate::given::{Placed, Random, assert_close, executor, wide};
use apex_exec::{Float, Norm};

crate::for_every_type! {
    softmax => check_softmax;
    long_softmax => check_long_softmax;
    layer_norm => check_layer_norm;
    long_layer_norm => check_long_layer_norm;
    layer_norm_in_registers => check_rows_in_registers;
}

fn softmax_of(x: &[f64], columns: usize) -> Vec<f64> {
    x.chunks(columns.max(1))
        .flat_map(|row| {
            let greatest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let powers: Vec<f64> = row.iter().map(|x| (x - greatest).exp()).collect();
            let sum: f64 = powers.iter().sum();
            powers.into_iter().map(move |power| power / sum).collect::<Vec<f64>>()
        })
        .collect()
}

fn softmax_case<T: Float>(random: &mut Random, rows: usize, columns: usize, alike: bool) {
    let scale = [1.0, 20.0, 300.0][random.between(0, 3)];
    let x: Vec<T> = random.values(rows * columns, scale);
    let offset = random.offset();
    let offsets = [offset, if alike { offset } else { random.offset() }];
    let input = Placed::new(&x, offsets[0]);
    let mut output = Placed::<T>::room(x.len(), offsets[1]);
    let what = format!("softmax of {rows} x {columns} at {offsets:?}, scale {scale}");
    executor().ops().softmax(input.view(), columns, output.view_mut()).unwrap();
    // The argument of an exponential has its own last place: up to `scale` of them.
    let slack = 8.0 + 2.0 * scale;
    assert_close(&output.values(&what), &softmax_of(&wide(&x), columns), slack, 0.01, &what);
}

fn check_softmax<T: Float>(seed: u64) {
    let mut random = Random::new(seed + 20);
    for shape in 0..200 {
        let columns = match shape % 4 {
            0 => random.between(1, 40),
            1 => random.between(1, 20) * 8,
            _ => random.length().max(1),
        };
        let rows = random.between(0, 1 + 12_000 / columns.max(100)).min(70);
        softmax_case::<T>(&mut random, rows, columns, shape % 2 == 0);
    }
}

fn check_long_softmax<T: Float>(seed: u64) {
    let mut random = Random::new(seed + 30);
    for (rows, columns) in
        [(2, 9000), (1, 16_000), (3, 16_384), (1, 33_001), (5, 20_000), (1, 120_000)]
    {
        softmax_case::<T>(&mut random, rows, columns, true);
        softmax_case::<T>(&mut random, rows, columns, false);
    }
}

fn norm_of(
    x: &[f64],
    columns: usize,
    gamma: Option<&[f64]>,
    beta: Option<&[f64]>,
    epsilon: f64,
) -> Vec<f64> {
    x.chunks(columns.max(1))
        .flat_map(|row| {
            let mean = row.iter().sum::<f64>() / row.len() as f64;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / row.len() as f64;
            let inverse = 1.0 / (variance + epsilon).sqrt();
            row.iter()
                .enumerate()
                .map(|(column, x)| {
                    let scaled = (x - mean) * inverse * gamma.map_or(1.0, |gamma| gamma[column]);
                    scaled + beta.map_or(0.0, |beta| beta[column])
                })
                .collect::<Vec<f64>>()
        })
        .collect()
}

fn layer_norm_case<T: Float>(random: &mut Random, rows: usize, columns: usize, alike: bool) {
    let mut x: Vec<T> = random.values(rows * columns, 2.0);
    let far = [0.0, 30.0][random.between(0, 2)];
    for value in &mut x {
        *value = T::from_f64(value.to_f64() + far);
    }
    let offset = random.offset();
    let offsets = [offset, if alike { offset } else { random.offset() }];
    let gamma: Vec<T::Wide> = random.values(columns, 1.5);
    let beta: Vec<T::Wide> = random.values(columns, 1.0);
    let (has_gamma, has_beta) = (random.between(0, 2) == 0, random.between(0, 2) == 0);
    let placed = (Placed::new(&gamma, random.between(0, 2)), Placed::new(&beta, 0));
    let mut norm = Norm::new(1e-3);
    if has_gamma {
        norm = norm.gamma(placed.0.view());
    }
    if has_beta {
        norm = norm.beta(placed.1.view());
    }
    let input = Placed::new(&x, offsets[0]);
    let mut output = Placed::<T>::room(x.len(), offsets[1]);
    let what = format!("layer_norm of {rows} x {columns} at {offsets:?} around {far}");
    executor().ops().layer_norm(input.view(), columns, &norm, output.view_mut()).unwrap();
    let (gamma, beta) = (wide(&gamma), wide(&beta));
    let want = norm_of(
        &wide(&x),
        columns,
        has_gamma.then_some(&gamma[..]),
        has_beta.then_some(&beta[..]),
        1e-3,
    );
    // The mean has the last place of what it is the mean of; epsilon keeps the inverse below 32.
    assert_close(&output.values(&what), &want, 24.0, 2.0 + far * 3.0, &what);
}

fn check_layer_norm<T: Float>(seed: u64) {
    let mut random = Random::new(seed + 40);
    for shape in 0..200 {
        let columns = match shape % 4 {
            0 => random.between(1, 40),
            1 => random.between(1, 20) * 8,
            _ => random.length().max(1),
        };
        let rows = random.between(0, 1 + 12_000 / columns.max(100)).min(70);
        layer_norm_case::<T>(&mut random, rows, columns, shape % 2 == 0);
    }
}

fn check_long_layer_norm<T: Float>(seed: u64) {
    let mut random = Random::new(seed + 50);
    for (rows, columns) in [(2, 9000), (1, 16_384), (1, 33_001), (2, 40_000)] {
        layer_norm_case::<T>(&mut random, rows, columns, true);
        layer_norm_case::<T>(&mut random, rows, columns, false);
    }
}

/// Every way in which a row lies in registers, around a mean that is far from zero: `full` columns fill a thread.
fn check_rows_in_registers<T: Float>(seed: u64) {
    let mut random = Random::new(seed + 60);
    let lanes = 16 / size_of::<T>();
    let full = lanes * if size_of::<T>() == 8 { 2 } else { 4 };
    let shapes = [
        // Full rows: of one thread, of eight with a last block that is not, of warps, of wide threads.
        (300, full),
        (21, 8 * full),
        (3, 64 * full),
        (2, 512 * full),
        (2, 1024 * full),
        // As many values in every thread, and not; some vectors, and single elements.
        (5, 32 * (full - lanes)),
        (2, 256 * (full - lanes)),
        (5, 17 * full + lanes),
        (2, 129 * full + lanes),
        (5, 7 * full + 1),
        (2, 65 * full + 1),
    ];
    for (rows, columns) in shapes {
        for far in [0.0, 60.0] {
            let mut x: Vec<T> = random.values(rows * columns, 2.0);
            for value in &mut x {
                *value = T::from_f64(value.to_f64() + far);
            }
            let gamma: Vec<T::Wide> = random.values(columns, 1.5);
            let beta: Vec<T::Wide> = random.values(columns, 1.0);
            let placed = (Placed::new(&gamma, 0), Placed::new(&beta, 0));
            let input = Placed::new(&x, 0);
            let (gamma, beta) = (wide(&gamma), wide(&beta));
            for with_beta in [false, true] {
                let mut output = Placed::<T>::room(x.len(), 0);
                let norm = Norm::new(1e-3).gamma(placed.0.view());
                let norm = if with_beta { norm.beta(placed.1.view()) } else { norm };
                executor()
                    .ops()
                    .layer_norm(input.view(), columns, &norm, output.view_mut())
                    .unwrap();
                let beta = with_beta.then_some(&beta[..]);
                let want = norm_of(&wide(&x), columns, Some(&gamma[..]), beta, 1e-3);
                let what =
                    format!("layer_norm of {rows} x {columns} around {far}, beta {with_beta}");
                assert_close(&output.values(&what), &want, 8.0, 1.0 + far, &what);
            }
        }
    }
}

#[test]
fn a_row_without_an_answer_is_nan_and_spoils_no_other() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    for columns in [4, 5, 40_000] {
        for bad in [nan, inf] {
            let mut x = vec![1.0_f32; columns * 2];
            x[1] = bad;
            let input = Placed::new(&x, 0);
            let mut output = Placed::<f32>::room(x.len(), 0);
            executor().ops().softmax(input.view(), columns, output.view_mut()).unwrap();
            let got = output.values("softmax");
            assert!(got[..columns].iter().all(|y| y.is_nan() || *y == 0.0), "{bad}");
            assert!(got[1].is_nan(), "{bad}");
            assert!(got[columns..].iter().all(|y| (y - 1.0 / columns as f32).abs() < 1e-6));
        }
        let x = vec![-inf; columns];
        let input = Placed::new(&x, 0);
        let mut output = Placed::<f32>::room(columns, 0);
        executor().ops().softmax(input.view(), columns, output.view_mut()).unwrap();
        assert!(output.values("softmax").iter().all(|y| y.is_nan()), "{columns}");
    }
    // One -infinity is a probability of zero.
    let x = [0.0_f32, -inf, 0.0, 0.0, -inf];
    let input = Placed::new(&x, 0);
    let mut output = Placed::<f32>::room(5, 0);
    executor().ops().softmax(input.view(), 5, output.view_mut()).unwrap();
    assert_close(&output.values("softmax"), &softmax_of(&wide(&x), 5), 4.0, 0.0, "softmax");
}

#[test]
fn wrong_shapes_are_told() {
    let executor = executor();
    let x = executor.zeros::<f32>(12).unwrap();
    let mut y = executor.zeros::<f32>(12).unwrap();
    let ops = executor.ops();
    let error = ops.softmax(&x, 5, &mut y).unwrap_err().to_string();
    assert_eq!(error, "softmax: 12 elements are not a whole number of rows of 5 columns");
    let error = ops.softmax(&x, 4, &mut y.slice_mut(..8)).unwrap_err().to_string();
    assert!(error.contains("the output has 8 elements"), "{error}");
    let gamma = executor.zeros::<f32>(3).unwrap();
    let norm = Norm::new(1e-5).gamma(gamma.view());
    let error = ops.layer_norm(&x, 4, &norm, &mut y).unwrap_err().to_string();
    assert_eq!(error, "layer_norm: gamma has 3 elements, the shape asks for 4");
    let error = ops.layer_norm(&x, 4, &Norm::new(-1.0), &mut y).unwrap_err().to_string();
    assert!(error.contains("epsilon is -1"), "{error}");
}

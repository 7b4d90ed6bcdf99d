//! Batch normalisation against f64 references: what it returns, what it writes, and the running statistics.

use crate::given::{Placed, Random, assert_close, executor, wide};
use apex_exec::{Channels, Float, Norm, Running};

crate::for_every_type! {
    training => check_training;
    inference => check_inference;
    large => check_large;
}

/// Mean and variance of each channel.
fn statistics(x: &[f64], shape: Channels) -> Vec<(f64, f64)> {
    (0..shape.channels)
        .map(|channel| {
            let of_channel = |sample: usize| {
                let begin = (sample * shape.channels + channel) * shape.plane;
                &x[begin..begin + shape.plane]
            };
            let values = || (0..shape.batch).flat_map(of_channel).copied();
            let count = (shape.batch * shape.plane) as f64;
            let mean = values().sum::<f64>() / count;
            (mean, values().map(|x| (x - mean).powi(2)).sum::<f64>() / count)
        })
        .collect()
}

fn normalised(
    x: &[f64],
    shape: Channels,
    statistics: &[(f64, f64)],
    gamma: Option<&[f64]>,
    beta: Option<&[f64]>,
    epsilon: f64,
) -> Vec<f64> {
    x.iter()
        .enumerate()
        .map(|(place, x)| {
            let channel = place / shape.plane % shape.channels;
            let (mean, variance) = statistics[channel];
            (x - mean) / (variance + epsilon).sqrt() * gamma.map_or(1.0, |gamma| gamma[channel])
                + beta.map_or(0.0, |beta| beta[channel])
        })
        .collect()
}

fn shape(random: &mut Random, number: usize) -> Channels {
    let (batch, channels) = (random.between(1, 9), random.between(1, 20));
    match number % 4 {
        0 => Channels::nc(random.between(2, 200), random.between(1, 70)),
        1 => Channels::nc(random.between(2, 100), random.between(1, 9) * 8),
        2 => Channels::nchw(batch, channels, random.between(1, 9), random.between(2, 9)),
        _ => Channels::nchw(batch, channels, random.between(1, 6), random.between(1, 5) * 8),
    }
}

fn given<T: Float>(random: &mut Random, shape: Channels) -> (Vec<T>, f64) {
    let far = [0.0, 50.0][random.between(0, 2)];
    let mut x: Vec<T> = random.values(shape.batch * shape.channels * shape.plane, 2.0);
    for value in &mut x {
        *value = T::from_f64(value.to_f64() + far);
    }
    (x, far)
}

fn training_case<T: Float>(random: &mut Random, shape: Channels) {
    let (x, far) = given::<T>(random, shape);
    let (has_affine, has_running) = (random.between(0, 2) == 0, random.between(0, 2) == 0);
    let has_running = has_running && shape.batch * shape.plane > 1;
    let gamma: Vec<T::Wide> = random.values(shape.channels, 1.5);
    let beta: Vec<T::Wide> = random.values(shape.channels, 1.0);
    let before: Vec<T::Wide> = random.values(shape.channels, 1.0);
    let (gamma_there, beta_there) =
        (Placed::new(&gamma, random.between(0, 2)), Placed::new(&beta, random.between(0, 2)));
    let mut norm = Norm::new(1e-3);
    if has_affine {
        norm = norm.gamma(gamma_there.view()).beta(beta_there.view());
    }
    let (mut mean, mut variance) = (Placed::new(&before, 0), Placed::new(&before, 1));
    let running = has_running.then(|| Running {
        mean: mean.view_mut(),
        variance: variance.view_mut(),
        momentum: 0.25,
    });
    let offset = random.offset();
    let offsets = [offset, if random.between(0, 2) == 0 { offset } else { random.offset() }];
    let input = Placed::new(&x, offsets[0]);
    let mut output = Placed::<T>::room(x.len(), offsets[1]);
    let what = format!("batch_norm of {shape:?} at {offsets:?} around {far}");
    let found = executor()
        .ops()
        .batch_norm_training(input.view(), shape, &norm, running, output.view_mut())
        .unwrap();
    let (x, gamma, beta, before) = (wide(&x), wide(&gamma), wide(&beta), wide(&before));
    let expected = statistics(&x, shape);
    let (gamma, beta) = (has_affine.then_some(&gamma[..]), has_affine.then_some(&beta[..]));
    let want = normalised(&x, shape, &expected, gamma, beta, 1e-3);
    assert_close(&output.values(&what), &want, 32.0, 2.0 + far * 3.0, &what);
    let means: Vec<f64> = expected.iter().map(|(mean, _)| *mean).collect();
    let inverses: Vec<f64> = expected.iter().map(|(_, var)| 1.0 / (var + 1e-3).sqrt()).collect();
    let download = |buffer| executor().download(buffer).unwrap();
    assert_close(&download(&found.mean), &means, 8.0, 2.0 + far, &what);
    assert_close(&download(&found.inverse_deviation), &inverses, 64.0, 2.0, &what);
    if has_running {
        let count = (shape.batch * shape.plane) as f64;
        let moved = |new: f64, before: f64| before + 0.25 * (new - before);
        let want: Vec<f64> = means.iter().zip(&before).map(|(m, b)| moved(*m, *b)).collect();
        assert_close(&mean.values(&what), &want, 8.0, 2.0 + far, &what);
        let unbiased = expected.iter().map(|(_, variance)| variance * count / (count - 1.0));
        let want: Vec<f64> = unbiased.zip(&before).map(|(v, b)| moved(v, *b)).collect();
        assert_close(&variance.values(&what), &want, 32.0, 2.0, &what);
    }
}

fn check_training<T: Float>(seed: u64) {
    let mut random = Random::new(seed + 110);
    for number in 0..200 {
        let shape = shape(&mut random, number);
        training_case::<T>(&mut random, shape);
    }
}

fn check_large<T: Float>(seed: u64) {
    let mut random = Random::new(seed + 120);
    for shape in [
        Channels::nchw(5, 2, 64, 64),
        Channels::nchw(3, 2, 71, 67),
        Channels::nc(3000, 16),
        Channels::nc(2500, 5),
        Channels::nchw(1, 1, 200, 200),
    ] {
        training_case::<T>(&mut random, shape);
    }
}

fn check_inference<T: Float>(seed: u64) {
    let mut random = Random::new(seed + 130);
    for number in 0..200 {
        let shape = shape(&mut random, number);
        let (x, far) = given::<T>(&mut random, shape);
        let offset = random.offset();
        let input = Placed::new(&x, offset);
        let mean: Vec<T::Wide> = random.values(shape.channels, 2.0 + far);
        let variance: Vec<T::Wide> = random.values(shape.channels, 1.0);
        let variance: Vec<T::Wide> =
            variance.iter().map(|v| T::Wide::from_f64(v.to_f64().abs() + 0.1)).collect();
        let statistics: Vec<(f64, f64)> = wide(&mean).into_iter().zip(wide(&variance)).collect();
        let (mean, variance) = (Placed::new(&mean, number % 2), Placed::new(&variance, 0));
        let mut output = Placed::<T>::room(x.len(), offset);
        let what = format!("batch_norm inference of {shape:?} at {offset} around {far}");
        executor()
            .ops()
            .batch_norm_inference(
                input.view(),
                shape,
                mean.view(),
                variance.view(),
                &Norm::new(1e-3),
                output.view_mut(),
            )
            .unwrap();
        let want = normalised(&wide(&x), shape, &statistics, None, None, 1e-3);
        assert_close(&output.values(&what), &want, 8.0, 4.0, &what);
    }
}

#[test]
fn a_mean_far_from_zero_costs_no_digits() {
    let shape = Channels::nc(4096, 1);
    let x: Vec<f32> = (0..4096).map(|i| 10_000.0 + (i % 2) as f32).collect();
    let input = Placed::new(&x, 0);
    let mut output = Placed::<f32>::room(4096, 0);
    let found = executor()
        .ops()
        .batch_norm_training(input.view(), shape, &Norm::new(0.0), None, output.view_mut())
        .unwrap();
    let inverse = executor().download(&found.inverse_deviation).unwrap()[0];
    assert!((inverse - 2.0).abs() < 1e-3, "{inverse}");
}

#[test]
fn wrong_shapes_are_told() {
    let executor = executor();
    let x = executor.zeros::<f32>(12).unwrap();
    let mut y = executor.zeros::<f32>(12).unwrap();
    let ops = executor.ops();
    let norm = Norm::new(1e-5);
    let mut check = |shape, words: &str| {
        let error =
            ops.batch_norm_training(&x, shape, &norm, None, &mut y).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    check(Channels::nc(5, 3), "the input has 12 elements, the shape asks for 15");
    check(Channels::nc(1 << 20, 1 << 20), "more than 2^31");
    let nothing = executor.zeros::<f32>(0).unwrap();
    let mut none = executor.zeros::<f32>(0).unwrap();
    let error = ops
        .batch_norm_training(&nothing, Channels::nc(0, 3), &norm, None, &mut none)
        .unwrap_err()
        .to_string();
    assert!(error.contains("a channel without values has no mean"), "{error}");
    let (mut mean, mut variance) =
        (executor.zeros::<f32>(12).unwrap(), executor.zeros::<f32>(12).unwrap());
    let running = Running { mean: mean.view_mut(), variance: variance.view_mut(), momentum: 0.1 };
    let error = ops
        .batch_norm_training(&x, Channels::nc(1, 12), &norm, Some(running), &mut y)
        .unwrap_err()
        .to_string();
    assert!(error.contains("no unbiased variance"), "{error}");
}

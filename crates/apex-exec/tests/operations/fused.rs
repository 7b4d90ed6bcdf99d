//! Formulas as one kernel, and step by step, against the same formula in f64.

use crate::given::{Placed, Random, assert_close, executor, step, wide};
use apex_exec::{Expression, Float, Fused};

crate::for_every_type! {
    chains => check_chains;
    rows => check_rows;
}

/// A formula and the same in Rust.
type Formula = (Expression, fn(f64, f64, f64) -> f64);

fn formulas() -> Vec<Formula> {
    let (x, y) = (|| Expression::input(0), || Expression::input(1));
    let p = || Expression::parameter(0);
    vec![
        ((x() * 2.0 + y()).relu(), |x, y, _| (x * 2.0 + y).max(0.0)),
        ((x() - y()).tanh() * p(), |x, y, p| (x - y).tanh() * p),
        (x() * x().sigmoid() + y() * 0.0, |x, y, _| x / (1.0 + (-x).exp()) + y * 0.0),
        ((x() * x() + y() * y() + 1.0).sqrt().ln(), |x, y, _| (x * x + y * y + 1.0).sqrt().ln()),
        (1.0 / (y().abs() + 1.0) - x(), |x, y, _| 1.0 / (y.abs() + 1.0) - x),
        (-(x().min(y())).max(Expression::constant(-1.0)), |x, y, _| -(x.min(y)).max(-1.0)),
        ((x() / 2.0).exp() * (y() + p()).reciprocal() * 0.5, |x, y, p| {
            (x / 2.0).exp() / (y + p) * 0.5
        }),
        ((p() * 2.0 + 1.0) * x() + y(), |x, y, p| (p * 2.0 + 1.0) * x + y),
    ]
}

fn check_chains<T: Float>(seed: u64) {
    let executor = executor();
    let mut random = Random::new(seed + 140);
    let count = if T::NAME == "f32" { formulas().len() } else { 4 };
    for (number, (expression, reference)) in formulas().iter().enumerate().take(count) {
        let fused = executor.fuse::<T>(expression).unwrap();
        let steps = executor.in_steps::<T>(expression).unwrap();
        for shape in 0..50 {
            let len = random.length();
            let (x, y): (Vec<T>, Vec<T>) = (random.values(len, 2.0), random.values(len, 1.5));
            let p = 3.25;
            let want: Vec<f64> =
                wide(&x).iter().zip(wide(&y)).map(|(x, y)| reference(*x, y, p)).collect();
            let first = random.offset();
            let offsets =
                if shape % 2 == 0 { [first; 3] } else { [first, random.offset(), random.offset()] };
            let (x, y) = (Placed::new(&x, offsets[0]), Placed::new(&y, offsets[1]));
            let parameters: &[f64] = if expression.to_string().contains("p0") { &[p] } else { &[] };
            let what = format!("chain {number} of {len} at {offsets:?}: {expression}");
            let inputs = [x.view(), y.view()];
            let mut output = Placed::<T>::room(len, offsets[2]);
            fused.run(&inputs, parameters, output.view_mut()).unwrap();
            assert_close(&output.values(&what), &want, slack(&fused), 4.0, &what);
            let mut output = Placed::<T>::room(len, offsets[2]);
            steps.run(&inputs, parameters, output.view_mut()).unwrap();
            assert_close(&output.values(&what), &want, slack(&steps), 4.0, &what);
        }
    }
}

/// Step by step, each step rounds to the type.
fn slack<T: Float>(fused: &Fused<T>) -> f64 {
    if fused.explain().contains("step by step") {
        32.0_f64.max(8.0 * step::<T>() / step::<T::Wide>())
    } else {
        32.0
    }
}

fn check_rows<T: Float>(seed: u64) {
    let executor = executor();
    let mut random = Random::new(seed + 150);
    let expression = (Expression::input(0) + Expression::row(1)).relu();
    let ways =
        [executor.fuse::<T>(&expression).unwrap(), executor.in_steps::<T>(&expression).unwrap()];
    for _ in 0..50 {
        let (rows, columns) = (random.between(1, 30), random.between(1, 90));
        let (x, bias): (Vec<T>, Vec<T>) =
            (random.values(rows * columns, 2.0), random.values(columns, 2.0));
        let want: Vec<f64> = wide(&x)
            .iter()
            .enumerate()
            .map(|(place, x)| (x + bias[place % columns].to_f64()).max(0.0))
            .collect();
        let offset = random.offset();
        let (x, bias) = (Placed::new(&x, offset), Placed::new(&bias, random.offset()));
        for way in &ways {
            let mut output = Placed::<T>::room(want.len(), offset);
            way.run(&[x.view(), bias.view()], &[], output.view_mut()).unwrap();
            let what = format!("{rows} x {columns} at {offset}: {}", way.explain());
            assert_close(&output.values(&what), &want, slack(way), 2.0, &what);
        }
    }
}

#[test]
fn a_formula_that_is_its_input_copies_it() {
    let x = executor().upload(&[1.0_f32, 2.0]).unwrap();
    for way in [
        executor().fuse::<f32>(&Expression::input(0)).unwrap(),
        executor().in_steps::<f32>(&Expression::input(0)).unwrap(),
    ] {
        let mut y = executor().poisoned::<f32>(2).unwrap();
        way.run(&[x.view()], &[], &mut y).unwrap();
        assert_eq!(executor().download(&y).unwrap(), [1.0, 2.0]);
    }
}

#[test]
fn five_inputs_and_five_steps() {
    let mut random = Random::new(7);
    let sum = (1..5).fold(Expression::input(0), |sum, number| sum + Expression::input(number));
    let fused = executor().fuse::<f32>(&(sum.relu() * 2.0).tanh()).unwrap();
    let inputs: Vec<Vec<f32>> = (0..5).map(|_| random.values(1003, 0.5)).collect();
    let buffers: Vec<_> = inputs.iter().map(|x| executor().upload(x).unwrap()).collect();
    let views: Vec<_> = buffers.iter().map(apex_exec::Buffer::view).collect();
    let mut y = executor().poisoned::<f32>(1003).unwrap();
    fused.run(&views, &[], &mut y).unwrap();
    let want: Vec<f64> = (0..1003)
        .map(|i| {
            let sum: f64 = inputs.iter().map(|x| f64::from(x[i])).sum();
            (sum.max(0.0) * 2.0).tanh()
        })
        .collect();
    assert_close(&executor().download(&y).unwrap(), &want, 32.0, 4.0, "five inputs");
}

#[test]
fn what_does_not_fit_is_told() {
    let fused = executor().fuse::<f32>(&(Expression::input(0) + Expression::row(1))).unwrap();
    let (x, row) = (executor().zeros::<f32>(6).unwrap(), executor().zeros::<f32>(4).unwrap());
    let mut y = executor().zeros::<f32>(6).unwrap();
    let error = fused.run(&[x.view()], &[], &mut y).unwrap_err().to_string();
    assert!(error.contains("takes 2 inputs and 0 parameters, 1 and 0 were given"), "{error}");
    let error = fused.run(&[x.view(), row.view()], &[], &mut y).unwrap_err().to_string();
    assert!(error.contains("row 1 has 4 elements, which do not divide the output's 6"), "{error}");
    let error = fused.run(&[x.slice(..3), row.slice(..3)], &[], &mut y).unwrap_err().to_string();
    assert!(error.contains("input 0 has 3 elements"), "{error}");
}

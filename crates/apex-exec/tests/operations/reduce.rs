//! Reductions over everything, rows and columns against f64 references.

use crate::given::{Placed, Random, assert_close, executor, wide};
use apex_exec::{Float, Reduction};

crate::for_every_type! {
    everything => check_everything;
    rows => check_rows;
    columns => check_columns;
    large => check_large;
}

fn reference(reduction: Reduction, values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = values.clone().count() as f64;
    match reduction {
        Reduction::Sum => values.sum(),
        Reduction::Mean => values.sum::<f64>() / count,
        Reduction::Max => values.fold(f64::NEG_INFINITY, f64::max),
        Reduction::Min => values.fold(f64::INFINITY, f64::min),
    }
}

fn check<T: Float>(random: &mut Random, rows: usize, columns: usize, by_column: bool) {
    let x: Vec<T> = random.values(rows * columns, 4.0);
    let input = Placed::new(&x, random.offset());
    let values = wide(&x);
    for reduction in Reduction::ALL {
        let (count, results) = if by_column { (rows, columns) } else { (columns, rows) };
        let what = format!("{} of {rows} x {columns}, by column: {by_column}", reduction.name());
        let want: Vec<f64> = (0..results)
            .map(|result| {
                let at =
                    move |i| if by_column { i * columns + result } else { result * columns + i };
                reference(reduction, (0..count).map(|i| values[at(i)]))
            })
            .collect();
        let mut output = Placed::<T>::room(results, random.offset());
        let ops = executor().ops();
        let view = output.view_mut();
        if by_column {
            ops.reduce_columns(reduction, input.view(), columns, view).unwrap();
        } else {
            ops.reduce_rows(reduction, input.view(), columns, view).unwrap();
        }
        let added = if reduction == Reduction::Sum { count as f64 } else { 1.0 };
        assert_close(&output.values(&what), &want, 6.0, added, &what);
    }
}

fn check_everything<T: Float>(seed: u64) {
    let mut random = Random::new(seed + 60);
    for _ in 0..200 {
        let len = random.length().max(1);
        let x: Vec<T> = random.values(len, 4.0);
        let input = Placed::new(&x, random.offset());
        let reduction = Reduction::ALL[random.between(0, 4)];
        let mut output = Placed::<T>::room(1, random.offset());
        executor().ops().reduce(reduction, input.view(), output.view_mut()).unwrap();
        let what = format!("{} of {len}", reduction.name());
        let want = [reference(reduction, wide(&x).into_iter())];
        let added = if reduction == Reduction::Sum { len as f64 } else { 1.0 };
        assert_close(&output.values(&what), &want, 6.0, added, &what);
    }
}

fn check_rows<T: Float>(seed: u64) {
    let mut random = Random::new(seed + 70);
    for _ in 0..200 {
        let columns = random.length().clamp(1, 3000);
        let rows = random.between(0, 1 + 6_000 / columns.max(50)).min(60);
        check::<T>(&mut random, rows, columns, false);
    }
}

fn check_columns<T: Float>(seed: u64) {
    let mut random = Random::new(seed + 80);
    for shape in 0..200 {
        let columns =
            if shape % 2 == 0 { random.between(1, 40) * 8 } else { random.between(1, 200) };
        let rows = random.between(1, 1 + 6_000 / columns).min(300);
        check::<T>(&mut random, rows, columns, true);
    }
}

/// Long enough to be done in parts.
fn check_large<T: Float>(seed: u64) {
    let mut random = Random::new(seed + 90);
    check::<T>(&mut random, 1, 150_001, false);
    check::<T>(&mut random, 3, 40_000, false);
    check::<T>(&mut random, 5000, 8, true);
    check::<T>(&mut random, 4099, 9, true);
}

#[test]
fn results_come_to_the_host() {
    let executor = executor();
    let x = executor.upload(&[3.0_f64, -1.0, 4.0, 2.0]).unwrap();
    let ops = executor.ops();
    let got = (ops.sum(&x), ops.mean(&x), ops.max(&x), ops.min(&x));
    assert_eq!(got, (Ok(8.0), Ok(2.0), Ok(4.0), Ok(-1.0)));
}

#[test]
fn nan_is_the_greatest_and_the_least() {
    let x = executor().upload(&[1.0_f32, f32::NAN, 3.0]).unwrap();
    let ops = executor().ops();
    assert!(ops.max(&x).unwrap().is_nan() && ops.min(&x).unwrap().is_nan());
    assert!(ops.sum(&x).unwrap().is_nan());
    let x = executor().upload(&[1.0_f32, f32::NEG_INFINITY, f32::INFINITY]).unwrap();
    assert_eq!(ops.max(&x), Ok(f32::INFINITY));
    assert_eq!(ops.min(&x), Ok(f32::NEG_INFINITY));
}

#[test]
fn nothing_has_a_sum_and_no_mean() {
    let executor = executor();
    let x = executor.zeros::<f32>(0).unwrap();
    assert_eq!(executor.ops().sum(&x), Ok(0.0));
    for result in [executor.ops().mean(&x), executor.ops().max(&x), executor.ops().min(&x)] {
        let error = result.unwrap_err().to_string();
        assert!(error.contains("it has no value over no elements"), "{error}");
    }
    let mut sums = executor.poisoned::<f32>(3).unwrap();
    executor.ops().reduce_columns(Reduction::Sum, &x, 3, &mut sums).unwrap();
    assert_eq!(executor.download(&sums).unwrap(), [0.0; 3]);
}

#[test]
fn the_same_call_gives_the_same_bits() {
    let mut random = Random::new(5);
    let x: Vec<f32> = random.values(100_000, 1.0);
    let x = executor().upload(&x).unwrap();
    let first = executor().ops().sum(&x).unwrap();
    for _ in 0..5 {
        assert_eq!(executor().ops().sum(&x).unwrap().to_bits(), first.to_bits());
    }
}

#[test]
fn wrong_shapes_are_told() {
    let executor = executor();
    let x = executor.zeros::<f32>(12).unwrap();
    let mut y = executor.zeros::<f32>(5).unwrap();
    let error = executor.ops().reduce_rows(Reduction::Sum, &x, 4, &mut y).unwrap_err().to_string();
    assert_eq!(error, "sum: the output has 5 elements, the shape asks for 3");
    let error = executor.ops().reduce(Reduction::Max, &x, &mut y).unwrap_err().to_string();
    assert_eq!(error, "max: the output has 5 elements, the shape asks for 1");
    let error =
        executor.ops().reduce_columns(Reduction::Min, &x, 5, &mut y).unwrap_err().to_string();
    assert_eq!(error, "min: 12 elements are not a whole number of rows of 5 columns");
}

//! Functions of single elements against f64 references, heads and tails of every alignment included.

use crate::given::{Placed, Random, assert_close, executor, wide};
use apex_exec::{Float, Function};

crate::for_every_type! {
    vector_add => check_vector_add;
    functions => check_functions;
    special_values => check_special_values;
}

/// erf: its series where it is short, else 1 less the tail's continued fraction.
pub(crate) fn erf(x: f64) -> f64 {
    if x < 0.0 {
        return -erf(-x);
    }
    if x < 2.5 {
        let (mut term, mut sum, mut n) = (x, x, 0.0);
        while term.abs() > 1e-18 * sum.abs() {
            n += 1.0;
            term *= -x * x / n;
            sum += term / (2.0 * n + 1.0);
            if term == 0.0 {
                break;
            }
        }
        return core::f64::consts::FRAC_2_SQRT_PI * sum;
    }
    1.0 - erfc_tail(x)
}

fn erfc_tail(x: f64) -> f64 {
    let mut fraction = 0.0;
    for n in (1..80).rev() {
        fraction = f64::from(n) / 2.0 / (x + fraction);
    }
    (-x * x).exp() / ((x + fraction) * core::f64::consts::PI.sqrt())
}

pub(crate) fn reference(function: Function, x: f64) -> f64 {
    match function {
        Function::Relu if x < 0.0 => 0.0,
        Function::Relu => x,
        Function::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Function::Tanh => x.tanh(),
        Function::Gelu => {
            let z = x * core::f64::consts::FRAC_1_SQRT_2;
            if z < -2.5 { 0.5 * x * erfc_tail(-z) } else { 0.5 * x * (1.0 + erf(z)) }
        }
        Function::GeluTanh => {
            let inner = (2.0 / core::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
            x / (1.0 + (-2.0 * inner).exp())
        }
    }
}

fn check_vector_add<T: Float>(seed: u64) {
    let mut random = Random::new(seed);
    for shape in 0..200 {
        let len = random.length();
        let (a, b): (Vec<T>, Vec<T>) = (random.values(len, 10.0), random.values(len, 1.0));
        let want: Vec<f64> = wide(&a).iter().zip(wide(&b)).map(|(a, b)| a + b).collect();
        // Every other time all lie alike, so that whole vectors are taken.
        let first = random.offset();
        let offsets =
            if shape % 2 == 0 { [first; 3] } else { [first, random.offset(), random.offset()] };
        let (a, b) = (Placed::new(&a, offsets[0]), Placed::new(&b, offsets[1]));
        let mut sum = Placed::<T>::room(len, offsets[2]);
        executor().ops().vector_add(a.view(), b.view(), sum.view_mut()).unwrap();
        let what = format!("vector_add of {len} at {offsets:?}");
        assert_close(&sum.values(&what), &want, 1.0, 0.0, &what);
    }
}

fn check_functions<T: Float>(seed: u64) {
    let mut random = Random::new(seed + 10);
    for shape in 0..200 {
        let len = random.length();
        let x: Vec<T> = random.values(len, [0.1, 3.0, 9.0][shape % 3]);
        let first = random.offset();
        let offsets = if shape % 2 == 0 { [first; 2] } else { [first, random.offset()] };
        let input = Placed::new(&x, offsets[0]);
        for function in Function::ALL {
            let want: Vec<f64> = wide(&x).iter().map(|x| reference(function, *x)).collect();
            let what = format!("{} of {len} at {offsets:?}", function.name());
            // The tail of gelu is far below its argument, whose last place counts; the 16-bit forms are
            // made for their own last place.
            let (slack, scale) = match (T::NAME, function) {
                ("f16", Function::Gelu | Function::Tanh | Function::GeluTanh) => (40.0, 0.2),
                ("bf16", Function::Gelu) => (4000.0, 0.001),
                // Here the reference's own digits end.
                ("f64", Function::Gelu) => (24.0, 1.0),
                _ => (24.0, 0.01),
            };
            let mut output = Placed::<T>::room(len, offsets[1]);
            executor().ops().apply(function, input.view(), output.view_mut()).unwrap();
            assert_close(&output.values(&what), &want, slack, scale, &what);
            if shape % 4 == 0 {
                let mut values = Placed::new(&x, offsets[0]);
                executor().ops().apply_in_place(function, values.view_mut()).unwrap();
                assert_eq!(
                    wide(&values.values(&what)),
                    wide(&output.values(&what)),
                    "{what} in place"
                );
            }
        }
    }
}

fn check_special_values<T: Float>(_seed: u64) {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let given: Vec<T> = [nan, inf, -inf, 0.0, -0.0, 100.0, -100.0].map(T::from_f64).to_vec();
    let input = Placed::new(&given, 0);
    let cases = [
        (Function::Relu, [nan, inf, 0.0, 0.0, 0.0, 100.0, 0.0]),
        (Function::Sigmoid, [nan, 1.0, 0.0, 0.5, 0.5, 1.0, 0.0]),
        (Function::Tanh, [nan, 1.0, -1.0, 0.0, 0.0, 1.0, -1.0]),
    ];
    for (function, want) in cases {
        let mut output = Placed::<T>::room(given.len(), 0);
        executor().ops().apply(function, input.view(), output.view_mut()).unwrap();
        assert_close(&output.values(function.name()), &want, 2.0, 0.0, function.name());
    }
    for function in [Function::Gelu, Function::GeluTanh] {
        let mut output = Placed::<T>::room(given.len(), 0);
        executor().ops().apply(function, input.view(), output.view_mut()).unwrap();
        let got = wide(&output.values(function.name()));
        assert!(got[0].is_nan() && got[1] == inf, "{got:?}");
        assert_eq!(&got[3..], [0.0, 0.0, 100.0, 0.0], "{}", function.name());
    }
}

#[test]
fn named_functions_are_their_functions() {
    let executor = executor();
    let x = executor.upload(&[-1.5_f32, 0.25, 2.0]).unwrap();
    let mut y = executor.poisoned::<f32>(3).unwrap();
    let ops = executor.ops();
    let mut check = |function: Function, run: &dyn Fn(&mut apex_exec::Buffer<f32>)| {
        run(&mut y);
        let want: Vec<f64> = [-1.5, 0.25, 2.0].iter().map(|x| reference(function, *x)).collect();
        assert_close(&executor.download(&y).unwrap(), &want, 16.0, 0.1, function.name());
    };
    check(Function::Relu, &|y| ops.relu(&x, y).unwrap());
    check(Function::Sigmoid, &|y| ops.sigmoid(&x, y).unwrap());
    check(Function::Tanh, &|y| ops.tanh(&x, y).unwrap());
    check(Function::Gelu, &|y| ops.gelu(&x, y).unwrap());
    check(Function::GeluTanh, &|y| ops.gelu_tanh(&x, y).unwrap());
}

#[test]
fn wrong_lengths_are_told() {
    let executor = executor();
    let (three, four) = (executor.zeros::<f32>(3).unwrap(), executor.zeros::<f32>(4).unwrap());
    let mut out = executor.zeros::<f32>(3).unwrap();
    let error = executor.ops().vector_add(&three, &four, &mut out).unwrap_err().to_string();
    assert_eq!(
        error,
        "vector_add: the right side has 4 elements, the left side has 3: they must be equal"
    );
    let error = executor.ops().relu(&four, &mut out).unwrap_err().to_string();
    assert_eq!(error, "relu: the output has 3 elements, the input has 4: they must be equal");
}

//! Products of every kernel that takes them, against f64 sums of the same rounded inputs.

use crate::elementwise::reference as function;
use crate::given::{Placed, Random, assert_close, executor, wide};
use apex_exec::{
    Activation, Error, Float, Function, Matmul, MatmulKernel, MatmulShape, measure_matmul,
};

crate::for_every_type! {
    products => check_products;
    larger => check_larger;
}

/// A product with everything about it at random.
struct Case {
    product: Matmul,
    sides: [usize; 3],
    batch: usize,
    transposes: [bool; 2],
    row_strides: [usize; 3],
    batch_strides: [usize; 3],
    alpha: f64,
    beta: f64,
    activation: Activation,
    has_bias: bool,
}

const ACTIVATIONS: [Activation; 5] =
    [Activation::None, Activation::Relu, Activation::Gelu, Activation::Sigmoid, Activation::Tanh];

impl Case {
    fn new(random: &mut Random, sides: [usize; 3]) -> Case {
        let [m, n, k] = sides;
        let transposes = [random.between(0, 2) == 1, random.between(0, 2) == 1];
        let batch = [1, 1, 1, 2, 3][random.between(0, 5)];
        let (alpha, beta) =
            ([1.0, 0.5, -2.0][random.between(0, 3)], [0.0, 0.0, 1.0, -0.5][random.between(0, 4)]);
        let activation = ACTIVATIONS[random.between(0, 8).min(4)];
        let mut product =
            Matmul::new(m, n, k).alpha(alpha).beta(beta).batch(batch).activation(activation);
        if transposes[0] {
            product = product.transpose_a();
        }
        if transposes[1] {
            product = product.transpose_b();
        }
        let stored =
            |(rows, columns), turned| if turned { (columns, rows) } else { (rows, columns) };
        let shapes = [stored((m, k), transposes[0]), stored((k, n), transposes[1]), (m, n)];
        let padding = if random.between(0, 3) == 0 { random.between(1, 9) } else { 0 };
        let row_strides = shapes.map(|(_, columns)| columns + padding);
        let mut batch_strides = [0, 1, 2].map(|i| shapes[i].0 * row_strides[i] + padding);
        if random.between(0, 4) == 0 {
            batch_strides[random.between(0, 2)] = 0;
        }
        if padding > 0 || batch > 1 {
            product = product
                .row_strides(row_strides[0], row_strides[1], row_strides[2])
                .batch_strides(batch_strides[0], batch_strides[1], batch_strides[2]);
        }
        let has_bias = random.between(0, 2) == 1;
        Case {
            product,
            sides,
            batch,
            transposes,
            row_strides,
            batch_strides,
            alpha,
            beta,
            activation,
            has_bias,
        }
    }

    /// Elements that matrix `which` (A, B, C) takes.
    fn len(&self, which: usize) -> usize {
        let [m, n, k] = self.sides;
        let (rows, columns) = [(m, k), (k, n), (m, n)][which];
        let turned = which < 2 && self.transposes[which];
        let (rows, columns) = if turned { (columns, rows) } else { (rows, columns) };
        if rows * columns == 0 {
            return 0;
        }
        self.batch_strides[which] * (self.batch - 1)
            + (rows - 1) * self.row_strides[which]
            + columns
    }

    /// C after the product; what lies between its rows stays.
    fn want(&self, a: &[f64], b: &[f64], bias: &[f64], c: &[f64]) -> Vec<f64> {
        let [m, n, k] = self.sides;
        let at = |which: usize, matrix: usize, row: usize, column: usize| {
            let turned = which < 2 && self.transposes[which];
            let (row, column) = if turned { (column, row) } else { (row, column) };
            matrix * self.batch_strides[which] + row * self.row_strides[which] + column
        };
        let mut want = c.to_vec();
        for matrix in 0..self.batch {
            for row in 0..m {
                for column in 0..n {
                    let sum: f64 = (0..k)
                        .map(|i| a[at(0, matrix, row, i)] * b[at(1, matrix, i, column)])
                        .sum();
                    let place = at(2, matrix, row, column);
                    let mut value = self.alpha * sum;
                    if self.beta != 0.0 {
                        value += self.beta * c[place];
                    }
                    if self.has_bias {
                        value += bias[column];
                    }
                    want[place] = match self.activation {
                        Activation::None => value,
                        Activation::Relu => function(Function::Relu, value),
                        Activation::Gelu => function(Function::Gelu, value),
                        Activation::Sigmoid => function(Function::Sigmoid, value),
                        Activation::Tanh => function(Function::Tanh, value),
                    };
                }
            }
        }
        want
    }
}

/// Runs a case on a kernel; `false` where that kernel cannot.
fn run<T: Float>(random: &mut Random, case: &Case, kernel: Option<MatmulKernel>) -> bool {
    let aligned = kernel == Some(MatmulKernel::Wgmma);
    let mut offset = || if aligned { 0 } else { random.offset() };
    let offsets = [offset(), offset(), offset()];
    let a: Vec<T> = random.values(case.len(0), 1.0);
    let b: Vec<T> = random.values(case.len(1), 1.0);
    let bias: Vec<T> = random.values(case.sides[1], 1.0);
    // Without beta, C is not read: what is there may be NaN.
    let c: Vec<T> = if case.beta == 0.0 {
        vec![T::from_f64(f64::NAN); case.len(2)]
    } else {
        random.values(case.len(2), 1.0)
    };
    let (a_there, b_there) = (Placed::new(&a, offsets[0]), Placed::new(&b, offsets[1]));
    let bias_there = Placed::new(&bias, 0);
    let mut c_there = Placed::new(&c, offsets[2]);
    let product = match kernel {
        Some(kernel) => case.product.clone().kernel(kernel),
        None => case.product.clone(),
    };
    let ops = executor().ops();
    let result = if case.has_bias {
        ops.matmul_bias(
            &product,
            a_there.view(),
            b_there.view(),
            bias_there.view(),
            c_there.view_mut(),
        )
    } else {
        ops.matmul(&product, a_there.view(), b_there.view(), c_there.view_mut())
    };
    match result {
        Err(Error::BadShape { reason, .. }) if reason.contains("cannot do this product") => {
            return false;
        }
        result => result.unwrap(),
    }
    let what = format!("{product:?} at {offsets:?}");
    let want = case.want(&wide(&a), &wide(&b), &wide(&bias), &wide(&c));
    let added = 2.0 + case.sides[2] as f64 * case.alpha.abs() / 3.0;
    assert_close(&c_there.values(&what), &want, 12.0, added, &what);
    true
}

fn check_products<T: Float>(seed: u64) {
    let mut random = Random::new(seed + 160);
    for number in 0..200 {
        let largest = if number % 5 == 0 { 90 } else { 30 };
        let sides = [0; 3].map(|_| random.between(usize::from(number % 20 != 0), largest));
        let case = Case::new(&mut random, sides);
        run::<T>(&mut random, &case, None);
    }
}

fn check_larger<T: Float>(seed: u64) {
    let mut random = Random::new(seed + 170);
    for sides in [[130, 70, 200], [65, 129, 33], [1, 300, 40], [200, 1, 64]] {
        let case = Case::new(&mut random, sides);
        run::<T>(&mut random, &case, None);
    }
}

/// Every kernel that this device and machine can run, on shapes around its tiles.
fn check_kernel<T: Float>(kernel: MatmulKernel, seed: u64) {
    let mut random = Random::new(seed);
    // A tool that looks for races takes a hundred times as long.
    let has_tool = std::env::var_os("APEX_TEST_SLOW").is_some();
    let (count, largest) = match executor().facts().is_software {
        true => (6, 50),
        false if has_tool => (20, 200),
        false => (200, 400),
    };
    let mut done = 0;
    for number in 0..count {
        let mut sides = [0; 3].map(|_| random.between(1, largest));
        if number % 2 == 0 {
            sides = sides.map(|side| side.div_ceil(8) * 8);
        }
        let mut case = Case::new(&mut random, sides);
        if number % 2 == 0 && case.product.clone().activation(Activation::None) != case.product {
            // Half of them as cuBLASLt takes them.
            case.activation = Activation::None;
            case.product = case.product.activation(Activation::None);
        }
        done += usize::from(run::<T>(&mut random, &case, Some(kernel)));
    }
    println!("{}, {}: {done} of {count} products", kernel.name(), T::NAME);
}

#[test]
fn small_f32() {
    check_kernel::<f32>(MatmulKernel::SmallF32, 180);
}

#[test]
fn tiled_f32() {
    check_kernel::<f32>(MatmulKernel::TiledF32, 181);
}

#[test]
fn mma_f16() {
    check_kernel::<half::f16>(MatmulKernel::Mma, 182);
}

#[test]
fn mma_bf16() {
    check_kernel::<half::bf16>(MatmulKernel::Mma, 183);
}

#[test]
fn wgmma_f16() {
    check_kernel::<half::f16>(MatmulKernel::Wgmma, 184);
}

#[test]
fn wgmma_bf16() {
    check_kernel::<half::bf16>(MatmulKernel::Wgmma, 185);
}

#[test]
fn cublaslt() {
    check_kernel::<f32>(MatmulKernel::CublasLt, 186);
    check_kernel::<half::f16>(MatmulKernel::CublasLt, 187);
    check_kernel::<half::bf16>(MatmulKernel::CublasLt, 188);
}

#[test]
fn a_kernel_that_cannot_is_refused_with_the_reason() {
    let executor = executor();
    let x = executor.zeros::<f32>(16).unwrap();
    let mut c = executor.zeros::<f32>(16).unwrap();
    let product = Matmul::new(4, 4, 4).kernel(MatmulKernel::Mma);
    let error = executor.ops().matmul(&product, &x, &x, &mut c).unwrap_err().to_string();
    assert_eq!(error, "matmul: the kernel mma cannot do this product: it takes f16 and bf16");
    if executor.facts().is_software {
        let half = executor.zeros::<half::bf16>(16).unwrap();
        let mut c = executor.zeros::<half::bf16>(16).unwrap();
        let product = Matmul::new(4, 4, 4).kernel(MatmulKernel::Wgmma);
        let error = executor.ops().matmul(&product, &half, &half, &mut c).unwrap_err().to_string();
        assert!(error.contains("software GPU has no wgmma") || error.contains("NVRTC"), "{error}");
    }
}

#[test]
fn wrong_shapes_are_told() {
    let executor = executor();
    let x = executor.zeros::<f32>(15).unwrap();
    let mut c = executor.zeros::<f32>(16).unwrap();
    let error =
        executor.ops().matmul(&Matmul::new(4, 4, 4), &x, &x, &mut c).unwrap_err().to_string();
    assert_eq!(error, "matmul: A has 15 elements, 1 matrices of 4 x 4 need 16");
}

#[test]
fn what_was_measured_is_chosen() {
    let executor = executor();
    let product = Matmul::new(48, 48, 48);
    let table = measure_matmul(executor, &[MatmulShape::new::<f32>(product.clone())]).unwrap();
    assert!(table.contains("f32 nn 48 48 48 1 "), "{table}");
    let choice = executor.ops().explain_matmul::<f32>(&product).unwrap();
    let word = if executor.facts().is_software { "software GPU" } else { "measured on" };
    assert!(choice.reason.contains(word), "{choice}");
}

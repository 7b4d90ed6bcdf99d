//! The cases: each operation of ours as something that can be run any number of times, with what it costs at
//! least in bytes or operations, and the same case in PyTorch's words.

use anyhow::Result;
use apex_exec::{
    Buffer, Channels, Executor, Expression, Float, Function, Matmul, MatmulKernel, Norm, Running,
};
use half::bf16;

/// One way to do a case, run so many times; the caller times it.
pub(super) type Way<'a> = Box<dyn FnMut(usize) -> Result<()> + 'a>;

/// A case with our ways to do it.
pub(super) struct Case<'a> {
    pub(super) name: String,
    pub(super) element: &'static str,
    pub(super) shape: String,
    /// Floating operations, for products.
    pub(super) operations: f64,
    /// Bytes that cannot be avoided, for all others.
    pub(super) bytes: f64,
    /// By column; the first is what a user gets.
    pub(super) ways: Vec<(&'static str, Way<'a>)>,
    /// The case in PyTorch's words.
    pub(super) torch: String,
    /// Which kernel a product takes, and why.
    pub(super) choice: String,
}

/// PyTorch's name of a type.
fn torch_type<T: Float>() -> &'static str {
    match T::NAME {
        "f32" => "float32",
        "f16" => "float16",
        _ => "bfloat16",
    }
}

/// Numbers between -1 and 1: a product of zeros would draw less power than one of numbers.
fn numbers<T: Float>(executor: &Executor, len: usize) -> Result<Buffer<T>> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let pattern: Vec<T> = (0..len.min(1 << 20))
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            T::from_f64((state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0)
        })
        .collect();
    let pattern = executor.upload(&pattern)?;
    let mut buffer = executor.zeros::<T>(len)?;
    for begin in (0..len).step_by(pattern.len().max(1)) {
        let end = len.min(begin + pattern.len());
        executor.stream().copy(pattern.slice(..end - begin), buffer.slice_mut(begin..end))?;
    }
    Ok(buffer)
}

/// A product of square matrices: what a user gets, cuBLASLt, and our own kernel alone.
pub(super) fn matmul<T: Float>(
    executor: &Executor,
    side: usize,
    own: MatmulKernel,
) -> Result<Case<'_>> {
    let a = std::rc::Rc::new(numbers::<T>(executor, side * side)?);
    let b = std::rc::Rc::new(numbers::<T>(executor, side * side)?);
    let product = Matmul::new(side, side, side);
    let choice = executor.ops().explain_matmul::<T>(&product)?.to_string();
    let mut ways: Vec<(&'static str, Way<'_>)> = Vec::new();
    let asked = [
        ("ours", product.clone()),
        ("cublaslt", product.clone().kernel(MatmulKernel::CublasLt)),
        ("own_kernel", product.kernel(own)),
    ];
    for (column, product) in asked {
        let (a, b) = (a.clone(), b.clone());
        let mut c = executor.zeros::<T>(side * side)?;
        // A kernel that is not possible here leaves its column empty.
        if executor.ops().matmul(&product, &*a, &*b, &mut c).is_err() {
            continue;
        }
        let run = move |repeats: usize| -> Result<()> {
            for _ in 0..repeats {
                executor.ops().matmul(&product, &*a, &*b, &mut c)?;
            }
            Ok(())
        };
        ways.push((column, Box::new(run)));
    }
    Ok(Case {
        name: "matmul".into(),
        element: T::NAME,
        shape: format!("{side} x {side} x {side}"),
        operations: 2.0 * (side as f64).powi(3),
        bytes: 0.0,
        ways,
        torch: format!("matmul {} {side} {side} {side}", torch_type::<T>()),
        choice,
    })
}

/// Floats that leave no room for anything else in any cache.
pub(super) const BEYOND_CACHES: usize = 1 << 27;

/// A case that is limited by memory.
fn memory_case<'a, T: Float>(
    name: &str,
    sides: &[usize],
    passes: f64,
    run: impl FnMut() -> apex_exec::Result<()> + 'a,
) -> Case<'a> {
    let words: Vec<String> = sides.iter().map(usize::to_string).collect();
    let elements: usize = sides.iter().product();
    let mut run = run;
    let repeated = move |repeats: usize| -> Result<()> {
        for _ in 0..repeats {
            run()?;
        }
        Ok(())
    };
    Case {
        name: name.into(),
        element: T::NAME,
        shape: words.join(" x "),
        operations: 0.0,
        bytes: passes * (elements * size_of::<T>()) as f64,
        ways: vec![("ours", Box::new(repeated))],
        torch: format!("{name} {} {}", torch_type::<T>(), words.join(" ")),
        choice: String::new(),
    }
}

pub(super) fn vector_add<T: Float>(executor: &Executor, len: usize) -> Result<Case<'_>> {
    let (a, b) = (numbers::<T>(executor, len)?, numbers::<T>(executor, len)?);
    let mut sum = executor.zeros::<T>(len)?;
    Ok(memory_case::<T>("vector_add", &[len], 3.0, move || {
        executor.ops().vector_add(&a, &b, &mut sum)
    }))
}

pub(super) fn function<T: Float>(
    executor: &Executor,
    function: Function,
    len: usize,
) -> Result<Case<'_>> {
    let x = numbers::<T>(executor, len)?;
    let mut y = executor.zeros::<T>(len)?;
    Ok(memory_case::<T>(function.name(), &[len], 2.0, move || {
        executor.ops().apply(function, &x, &mut y)
    }))
}

pub(super) fn softmax<T: Float>(
    executor: &Executor,
    rows: usize,
    columns: usize,
) -> Result<Case<'_>> {
    let x = numbers::<T>(executor, rows * columns)?;
    let mut y = executor.zeros::<T>(rows * columns)?;
    Ok(memory_case::<T>("softmax", &[rows, columns], 2.0, move || {
        executor.ops().softmax(&x, columns, &mut y)
    }))
}

pub(super) fn layer_norm<T: Float>(
    executor: &Executor,
    rows: usize,
    columns: usize,
) -> Result<Case<'_>> {
    let x = numbers::<T>(executor, rows * columns)?;
    let (gamma, beta) =
        (numbers::<T::Wide>(executor, columns)?, numbers::<T::Wide>(executor, columns)?);
    let mut y = executor.zeros::<T>(rows * columns)?;
    Ok(memory_case::<T>("layer_norm", &[rows, columns], 2.0, move || {
        let norm = Norm::new(1e-5).gamma(gamma.view()).beta(beta.view());
        executor.ops().layer_norm(&x, columns, &norm, &mut y)
    }))
}

/// Training: the input is read twice, since a channel's statistics need all of it.
pub(super) fn batch_norm<T: Float>(executor: &Executor, sides: [usize; 4]) -> Result<Case<'_>> {
    let [batch, channels, height, width] = sides;
    let shape = Channels::nchw(batch, channels, height, width);
    let len = sides.iter().product();
    let x = numbers::<T>(executor, len)?;
    let numbers = |_| numbers::<T::Wide>(executor, channels);
    let [gamma, beta] = [numbers(0)?, numbers(1)?];
    let [mut mean, mut variance] = [numbers(2)?, numbers(3)?];
    let mut y = executor.zeros::<T>(len)?;
    Ok(memory_case::<T>("batch_norm", &sides, 3.0, move || {
        let norm = Norm::new(1e-5).gamma(gamma.view()).beta(beta.view());
        let running =
            Running { mean: mean.view_mut(), variance: variance.view_mut(), momentum: 0.1 };
        executor.ops().batch_norm_training(&x, shape, &norm, Some(running), &mut y).map(drop)
    }))
}

/// Five elementwise operations as one kernel.
pub(super) fn chain(executor: &Executor, len: usize) -> Result<Case<'_>> {
    let x = Expression::input(0);
    let fused = executor.fuse::<f32>(&((x * 1.5 + 0.5).relu() * 0.9).tanh())?;
    let x = numbers::<f32>(executor, len)?;
    let mut y = executor.zeros::<f32>(len)?;
    Ok(memory_case::<f32>("chain", &[len], 2.0, move || fused.run(&[x.view()], &[], &mut y)))
}

/// What memory gives: a copy by the driver, and one by a kernel.
pub(super) fn copy(executor: &Executor, len: usize) -> Result<Case<'_>> {
    let x = numbers::<f32>(executor, len)?;
    let mut y = executor.zeros::<f32>(len)?;
    let mut case =
        memory_case::<f32>("copy", &[len], 2.0, move || executor.stream().copy(&x, &mut y));
    let kernel = executor.fuse::<f32>(&Expression::input(0))?;
    let x = numbers::<f32>(executor, len)?;
    let mut y = executor.zeros::<f32>(len)?;
    let run = move |repeats: usize| -> Result<()> {
        for _ in 0..repeats {
            kernel.run(&[x.view()], &[], &mut y)?;
        }
        Ok(())
    };
    case.ways.push(("own_kernel", Box::new(run)));
    case.torch = String::new();
    Ok(case)
}

/// How large the cases are: beyond every cache on a GPU, small on the software GPU.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    /// Elements of a four-byte array.
    pub(super) elements: usize,
    pub(super) matmuls: &'static [usize],
    pub(super) small_matmul: usize,
}

impl Sizes {
    pub(super) fn of(is_software: bool, quick: bool) -> Sizes {
        match (is_software, quick) {
            (true, _) => Sizes { elements: 1 << 14, matmuls: &[64], small_matmul: 32 },
            (false, true) => Sizes { elements: 1 << 26, matmuls: &[1024, 4096], small_matmul: 256 },
            (false, false) => {
                Sizes { elements: 1 << 26, matmuls: &[1024, 2048, 4096, 8192], small_matmul: 256 }
            }
        }
    }
}

/// A case that is made when its turn comes: not all fit on a device at once.
pub(super) type Maker = Box<dyn for<'a> Fn(&'a Executor) -> Result<Case<'a>>>;

/// All cases in their order.
pub(super) fn all(sizes: Sizes) -> Vec<Maker> {
    let Sizes { elements, matmuls, small_matmul } = sizes;
    let mut makers: Vec<Maker> = vec![
        Box::new(move |executor| copy(executor, elements)),
        Box::new(move |executor| matmul::<f32>(executor, small_matmul, MatmulKernel::SmallF32)),
    ];
    for &side in matmuls {
        makers.push(Box::new(move |executor| matmul::<bf16>(executor, side, MatmulKernel::Wgmma)));
    }
    makers.push(Box::new(move |executor| vector_add::<f32>(executor, elements)));
    makers.push(Box::new(move |executor| vector_add::<bf16>(executor, 2 * elements)));
    for kind in Function::ALL {
        makers.push(Box::new(move |executor| function::<f32>(executor, kind, elements)));
        makers.push(Box::new(move |executor| function::<bf16>(executor, kind, 2 * elements)));
    }
    for columns in [1024, 4096, 8192] {
        let columns = columns.min(elements / 4);
        let rows = elements / columns;
        makers.push(Box::new(move |executor| softmax::<f32>(executor, rows, columns)));
        makers.push(Box::new(move |executor| softmax::<bf16>(executor, 2 * rows, columns)));
        makers.push(Box::new(move |executor| layer_norm::<f32>(executor, rows, columns)));
        makers.push(Box::new(move |executor| layer_norm::<bf16>(executor, 2 * rows, columns)));
    }
    let images = (elements / (64 * 64 * 4)).clamp(1, 64);
    let channels = elements / (images * 64 * 64);
    makers.push(Box::new(move |executor| {
        batch_norm::<f32>(executor, [images, channels.max(1), 64, 64])
    }));
    makers.push(Box::new(move |executor| {
        batch_norm::<bf16>(executor, [2 * images, channels.max(1), 64, 64])
    }));
    makers.push(Box::new(move |executor| chain(executor, elements)));
    makers
}

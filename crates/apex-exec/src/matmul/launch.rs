//! Launches the kernel that was chosen.

use crate::buffer::{View, ViewMut};
use crate::error::Result;
use crate::float::Float;
use crate::foreign::ForeignCall;
use crate::grid::Grid;
use crate::kernel::Kernel;
use crate::libraries::Companion;
use crate::lock::lock;
use crate::ops::{Ops, kernels};
use crate::product::choose::{self, MatmulChoice, Site};
use crate::product::cublas::Cublas;
use crate::product::kernels::Form;
use crate::product::matmul_kernel::MatmulKernel;
use crate::product::request::Question;
use crate::product::request::{Matmul, Operands, Places};
use crate::product::state::Plan;
use crate::product::tensor_map::{Maps, batch_step};
use crate::shape;
use std::sync::Arc;

impl Ops<'_> {
    /// The kernel for a product, or the refusal of the one that was asked for.
    pub(super) fn choose<T: Float>(
        &self,
        product: &Matmul,
        operands: &Operands,
        places: Places,
    ) -> Result<MatmulChoice> {
        let question = question::<T>(product, operands, places);
        let site = self.site();
        if let Some(kernel) = product.kernel {
            return match choose::obstacle(kernel, &question, &site) {
                None => Ok(MatmulChoice { kernel, reason: "it was asked for".into() }),
                Some(why) => {
                    let reason =
                        format!("the kernel {} cannot do this product: {why}", kernel.name());
                    Err(shape::refuse("matmul", reason))
                }
            };
        }
        let state = self.executor.matmul_state();
        Ok(state.with_table(self.executor.facts(), |table| choose::choose(&question, &site, table)))
    }

    pub(super) fn site(&self) -> Site {
        let facts = self.executor.facts();
        Site {
            compute_capability: facts.compute_capability,
            multiprocessors: self.multiprocessors(),
            is_software: facts.is_software,
            has_compiler: Companion::Nvrtc.open().is_ok(),
            has_cublas: !facts.is_software && Companion::CublasLt.open().is_ok(),
        }
    }

    /// What a product runs as: decided and compiled at its first time.
    pub(super) fn plan<T: Float>(
        &self,
        product: &Matmul,
        operands: &Operands,
        places: Places,
    ) -> Result<Arc<Plan>> {
        let state = self.executor.matmul_state();
        let question = question::<T>(product, operands, places);
        if let Some(plan) = state.plan(&question, product.kernel) {
            return Ok(plan);
        }
        let choice = self.choose::<T>(product, operands, places)?;
        let plan = match Form::new(choice.kernel, &question, self.multiprocessors()) {
            Some(form) => {
                let kernel = self.compiled(&form)?;
                Plan::Compiled(form, kernel)
            }
            None if choice.kernel == MatmulKernel::CublasLt => Plan::CublasLt,
            None => Plan::Plain,
        };
        let plan = Arc::new(plan);
        state.keep(question, product.kernel, &plan);
        Ok(plan)
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "a product has three matrices, a bias and a shape"
    )]
    pub(super) fn run_matmul<T: Float>(
        &self,
        plan: &Plan,
        product: &Matmul,
        operands: &Operands,
        a: View<'_, T>,
        b: View<'_, T>,
        bias: Option<View<'_, T>>,
        mut c: ViewMut<'_, T>,
    ) -> Result<()> {
        let (form, kernel) = match plan {
            Plan::Compiled(form, kernel) => (form, kernel),
            Plan::Plain => return self.plain(product, operands, a, b, bias, c),
            Plan::CublasLt => {
                let mut cublas = lock(&self.executor.matmul_state().cublas);
                if cublas.is_none() {
                    *cublas = Some(Cublas::new(self.stream)?);
                }
                let Some(cublas) = &mut *cublas else { return Ok(()) };
                return cublas.multiply(self.stream, product, operands, a, b, bias, c);
            }
        };
        let places = Places {
            a: *a.place().address,
            b: *b.place().address,
            c: *c.place().address,
            has_bias: bias.is_some(),
        };
        let absent = [0_u64];
        let sides = [operands.m, operands.n, operands.k, operands.batch].map(u32::cast_signed);
        let (alpha, beta) = (product.alpha as f32, product.beta as f32);
        let activation = product.activation as i32;
        let strides =
            [operands.a.row_stride, operands.b.row_stride, operands.c.row_stride].map(|s| s as i64);
        let batch_strides =
            [operands.a.batch_stride, operands.b.batch_stride, operands.c.batch_stride]
                .map(|s| s as i64);
        if form.tiles.columns > 0 {
            let transposes = (product.transpose_a, product.transpose_b);
            let context = self.stream.context();
            let maps = Maps::new(context, T::NAME, operands, places, transposes, form.tiles)?;
            let steps = [batch_step(operands.a), batch_step(operands.b)];
            let group = form.tiles.group.cast_signed();
            let mut launch = self.stream.launch(kernel, form.grid);
            launch.arg(&maps.a.opaque).arg(&maps.b.opaque).arg(&maps.c.opaque).arg(&mut c);
            match &bias {
                Some(bias) => launch.arg(bias),
                None => launch.arg(&absent),
            };
            for number in sides.iter().chain(&steps) {
                launch.arg(number);
            }
            launch.arg(&strides[2]).arg(&batch_strides[2]).arg(&alpha).arg(&beta);
            launch.arg(&activation).arg(&group);
            // A and B are in the maps, where the launch does not see them.
            let mut reads = ForeignCall::new(self.stream);
            reads.reads(&a)?;
            reads.reads(&b)?;
            return reads.run(|_| launch.run());
        }
        let mut launch = self.stream.launch(kernel, form.grid);
        launch.arg(&a).arg(&b).arg(&mut c);
        match &bias {
            Some(bias) => launch.arg(bias),
            None => launch.arg(&absent),
        };
        for number in &sides {
            launch.arg(number);
        }
        for stride in strides.iter().chain(&batch_strides) {
            launch.arg(stride);
        }
        launch.arg(&alpha).arg(&beta).arg(&activation).run()
    }

    /// A form of a kernel, compiled at its first use.
    fn compiled(&self, form: &Form) -> Result<Kernel> {
        let state = self.executor.matmul_state();
        let key = form.key();
        if let Some(kernel) = lock(&state.kernels).get(&key) {
            return Ok(kernel.clone());
        }
        // Not under the lock: a compilation takes a second, and other products need not wait for it.
        let kernel = self.executor.compile(&form.source(), &form.options())?.kernel(form.entry)?;
        lock(&state.kernels).insert(key, kernel.clone());
        Ok(kernel)
    }

    fn plain<T: Float>(
        &self,
        product: &Matmul,
        operands: &Operands,
        a: View<'_, T>,
        b: View<'_, T>,
        bias: Option<View<'_, T>>,
        mut c: ViewMut<'_, T>,
    ) -> Result<()> {
        let &Operands { m, n, k, batch, .. } = operands;
        let kernel = self.kernel::<T>(&kernels::MATMUL_PLAIN, "matmul_plain")?;
        let down = m.div_ceil(64);
        if down > 65_535 || batch > 65_535 {
            let reason = format!(
                "{batch} products of {m} rows are more than this kernel takes (65535 products, 4194240 rows): \
                 multiply parts, or give NVRTC for the faster kernels"
            );
            return Err(shape::refuse("matmul", reason));
        }
        let absent = [0_u64];
        let stride = |transposed: bool, row_stride: usize| {
            if transposed { [1, row_stride as u64] } else { [row_stride as u64, 1] }
        };
        let a_strides = stride(product.transpose_a, operands.a.row_stride);
        let b_strides = stride(product.transpose_b, operands.b.row_stride);
        let rest = [
            operands.c.row_stride,
            operands.a.batch_stride,
            operands.b.batch_stride,
            operands.c.batch_stride,
        ]
        .map(|stride| stride as u64);
        let (alpha, beta) = (T::Wide::from_f64(product.alpha), T::Wide::from_f64(product.beta));
        let activation = product.activation as i32;
        let grid = Grid::new([n.div_ceil(64), down, batch], [256, 1, 1]);
        let mut launch = self.stream.launch(&kernel, grid);
        launch.arg(&a).arg(&b);
        match &bias {
            Some(bias) => launch.arg(bias),
            None => launch.arg(&absent),
        };
        launch.arg(&mut c).arg(&m).arg(&n).arg(&k);
        for stride in a_strides.iter().chain(&b_strides).chain(&rest) {
            launch.arg(stride);
        }
        launch.arg(&alpha).arg(&beta).arg(&activation).run()
    }
}

/// What the choice needs to know of a product.
pub(super) fn question<T: Float>(
    product: &Matmul,
    operands: &Operands,
    places: Places,
) -> Question {
    let &Operands { a, b, c, m, n, k, batch } = operands;
    let bytes = size_of::<T>();
    let on_border = |number: usize| (number * bytes).is_multiple_of(16);
    let strides = [a, b, c].iter().all(|stored| {
        on_border(stored.row_stride) && (batch == 1 || on_border(stored.batch_stride))
    });
    let addresses = [places.a, places.b, places.c].iter().all(|address| address % 16 == 0);
    Question {
        element: T::NAME,
        m,
        n,
        k,
        batch,
        transpose_a: product.transpose_a,
        transpose_b: product.transpose_b,
        aligned: strides && addresses,
        activation: product.activation,
        adds: places.has_bias || product.beta != 0.0,
    }
}

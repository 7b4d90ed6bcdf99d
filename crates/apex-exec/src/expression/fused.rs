//! A formula ready to run: one kernel, or steps where no compiler is there.

use super::generate::Plan;
use super::{Expression, steps};
use crate::buffer::{View, Writable};
use crate::compile::CompileOptions;
use crate::error::{Error, Result};
use crate::executor::Executor;
use crate::float::Float;
use crate::kernel::Kernel;
use crate::ops::{kernels, launch_shape};
use crate::shape;
use crate::stream::Stream;
use core::fmt;
use core::marker::PhantomData;

/// A formula that was made for elements of one type by [`Executor::fuse`].
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// use apex_exec::Expression;
///
/// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
/// let fused = executor.fuse::<f32>(&Expression::input(0).tanh().abs())?;
/// println!("{}", fused.explain());
/// # Ok(())
/// # }
/// ```
pub struct Fused<T: Float> {
    executor: Executor,
    plan: Plan,
    way: Way,
    text: String,
    element: PhantomData<T>,
}

enum Way {
    OneKernel(Kernel),
    Steps,
}

impl Executor {
    /// Makes one kernel of a formula; compiled before, it comes from the cache.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// use apex_exec::Expression;
    ///
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let x = Expression::input(0);
    /// let swish = executor.fuse::<f32>(&(x.clone() * x.sigmoid()))?;
    /// let values = executor.upload(&[0.0_f32; 3])?;
    /// let mut y = executor.zeros::<f32>(3)?;
    /// swish.run(&[values.view()], &[], &mut y)?;
    /// assert_eq!(executor.download(&y)?, [0.0; 3]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn fuse<T: Float>(&self, expression: &Expression) -> Result<Fused<T>> {
        let plan = Plan::new(expression)?;
        let source = format!("{}\n{}", kernels::PRELUDE, plan.source(T::KERNEL_NAME));
        let way = match self.compile(&source, &CompileOptions::default()) {
            Ok(module) => Way::OneKernel(module.kernel("fused")?),
            Err(Error::LibraryMissing { .. }) => Way::Steps,
            Err(error) => return Err(error),
        };
        let text = expression.to_string();
        Ok(Fused { executor: self.clone(), plan, way, text, element: PhantomData })
    }

    /// The same step by step, as it runs where there is no compiler.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// use apex_exec::Expression;
    ///
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let steps = executor.in_steps::<f32>(&(Expression::input(0).exp() + 1.0))?;
    /// assert!(steps.explain().contains("step by step"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn in_steps<T: Float>(&self, expression: &Expression) -> Result<Fused<T>> {
        let (plan, text) = (Plan::new(expression)?, expression.to_string());
        Ok(Fused { executor: self.clone(), plan, way: Way::Steps, text, element: PhantomData })
    }
}

impl<T: Float> Fused<T> {
    /// How it runs, in a sentence.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let fused = executor.fuse::<f32>(&apex_exec::Expression::input(0).gelu())?;
    /// assert!(fused.explain().starts_with("gelu(in0)"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn explain(&self) -> String {
        let Fused { text, plan, .. } = self;
        match &self.way {
            Way::OneKernel(kernel) => format!(
                "{text}: one kernel of {} registers; every input is read once and the result written \
                 once",
                kernel.attributes().registers
            ),
            Way::Steps => format!(
                "{text}: step by step, {} kernels with arrays between them, because NVRTC is not here; \
                 each step is rounded to {}",
                steps::count(plan),
                T::NAME
            ),
        }
    }

    /// Computes it on the executor's main stream.
    ///
    /// Inputs stand in the order of their numbers; arrays are as long as the output, rows divide it.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// use apex_exec::Expression;
    ///
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let fused = executor.fuse::<f32>(&(Expression::input(0) / Expression::input(1)))?;
    /// let (a, b) = (executor.upload(&[6.0_f32])?, executor.upload(&[3.0_f32])?);
    /// let mut y = executor.zeros::<f32>(1)?;
    /// fused.run(&[a.view(), b.view()], &[], &mut y)?;
    /// assert_eq!(executor.download(&y)?, [2.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run(
        &self,
        inputs: &[View<'_, T>],
        parameters: &[f64],
        output: impl Writable<T>,
    ) -> Result<()> {
        self.run_on(self.executor.stream(), inputs, parameters, output)
    }

    /// Computes it on a stream.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let stream = executor.new_stream()?;
    /// let fused = executor.fuse::<f32>(&apex_exec::Expression::input(0).sqrt())?;
    /// let x = executor.upload(&[9.0_f32])?;
    /// let mut y = executor.zeros::<f32>(1)?;
    /// fused.run_on(&stream, &[x.view()], &[], &mut y)?;
    /// assert_eq!(executor.download(&y)?, [3.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_on(
        &self,
        stream: &Stream,
        inputs: &[View<'_, T>],
        parameters: &[f64],
        mut output: impl Writable<T>,
    ) -> Result<()> {
        let mut output = output.as_view_mut();
        let (count, columns) = self.check(inputs, parameters, output.len())?;
        if count == 0 {
            return Ok(());
        }
        match &self.way {
            Way::Steps => {
                let ops = self.executor.ops().on(stream);
                steps::run(&ops, &self.plan, inputs, parameters, columns, output)
            }
            Way::OneKernel(kernel) => {
                let numbers: Vec<T::Wide> =
                    parameters.iter().map(|value| T::Wide::from_f64(*value)).collect();
                let grid = launch_shape::<T>(count, 1, self.executor.facts().multiprocessors);
                let mut launch = stream.launch(kernel, grid);
                for input in inputs {
                    launch.arg(input);
                }
                for number in &numbers {
                    launch.arg(number);
                }
                launch.arg(&mut output).arg(&count).arg(&columns).run()
            }
        }
    }

    /// The number of elements, and the length of the rows (1 where there is none).
    fn check(&self, inputs: &[View<'_, T>], parameters: &[f64], len: usize) -> Result<(u32, u32)> {
        let refuse = |reason| Err(shape::refuse("fused", reason));
        let count = shape::count("fused", len)?;
        let Plan { inputs: kinds, parameters: wanted, .. } = &self.plan;
        if inputs.len() != kinds.len() || parameters.len() != *wanted {
            return refuse(format!(
                "{} takes {} inputs and {wanted} parameters, {} and {} were given",
                self.text,
                kinds.len(),
                inputs.len(),
                parameters.len()
            ));
        }
        let mut columns = None;
        for (number, (input, is_row)) in inputs.iter().zip(kinds).enumerate() {
            if !is_row {
                let name = format!("input {number}");
                shape::same("fused", (&name, input.len()), ("the output", len))?;
            } else if len > 0 && (input.is_empty() || !len.is_multiple_of(input.len())) {
                return refuse(format!(
                    "row {number} has {} elements, which do not divide the output's {len}",
                    input.len()
                ));
            } else if *columns.get_or_insert(input.len()) != input.len() {
                return refuse(format!(
                    "row {number} has {} elements, another row more or less",
                    input.len()
                ));
            }
        }
        Ok((count, columns.unwrap_or(1).max(1) as u32))
    }
}

impl<T: Float> fmt::Debug for Fused<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Fused({})", self.explain())
    }
}

//! A formula without a compiler: one kept kernel after the other, with arrays between them.
//!
//! Numbers meet on the host in f64. An array between steps is freed, in stream order, after its last reader.

use super::generate::Plan;
use super::{Node, One, Two};
use crate::buffer::{Buffer, View, ViewMut};
use crate::error::Result;
use crate::float::Float;
use crate::grid::Grid;
use crate::ops::{Ops, kernels};

/// What a node has become.
enum Value<'a, T: Float> {
    Number(f64),
    Given(View<'a, T>),
    Made(Buffer<T>),
}

impl<T: Float> Value<'_, T> {
    fn view(&self) -> Option<View<'_, T>> {
        match self {
            Value::Number(_) => None,
            Value::Given(view) => Some(*view),
            Value::Made(buffer) => Some(buffer.view()),
        }
    }
}

/// Kernels that the formula takes.
pub(crate) fn count(plan: &Plan) -> usize {
    plan.nodes
        .iter()
        .filter(|node| matches!(*node.0, Node::Row(_) | Node::One(..) | Node::Two(..)))
        .count()
        .max(1)
}

/// Where the operands of a step come from; the numbers are those of `kernels/ops/steps.cu`.
#[derive(Clone, Copy)]
enum Operand {
    Arrays = 0,
    NumberRight = 1,
    NumberLeft = 2,
    Row = 3,
}

/// Computes the formula into `output`, which is not empty.
pub(crate) fn run<T: Float>(
    ops: &Ops<'_>,
    plan: &Plan,
    inputs: &[View<'_, T>],
    parameters: &[f64],
    columns: u32,
    output: ViewMut<'_, T>,
) -> Result<()> {
    let len = output.len();
    let last = plan.nodes.len() - 1;
    let steps = Steps { ops, columns };
    let last_reader = last_readers(plan);
    let mut values: Vec<Option<Value<'_, T>>> = Vec::with_capacity(plan.nodes.len());
    let mut output = Some(output);
    for (place, expression) in plan.nodes.iter().enumerate() {
        let operand = |expression| {
            // Operands come first, and stay until their last reader.
            values[plan.place(expression)].as_ref().expect("an operand is there until it was read")
        };
        let value = match &*expression.0 {
            Node::Input(number) if place != last => Value::Given(inputs[*number]),
            Node::Constant(value) => Value::Number(*value),
            Node::Parameter(number) => Value::Number(parameters[*number]),
            Node::One(one, x) if operand(x).view().is_none() => {
                Value::Number(one_number(*one, number(operand(x))))
            }
            Node::Two(two, x, y) if operand(x).view().is_none() && operand(y).view().is_none() => {
                Value::Number(two_numbers(*two, number(operand(x)), number(operand(y))))
            }
            node => {
                let mut made =
                    if place == last { None } else { Some(ops.stream.uninitialized(len)?) };
                let mut target = match &mut made {
                    Some(made) => made.view_mut(),
                    None => output.take().expect("only the last node writes the output"),
                };
                match node {
                    Node::One(one, x) => {
                        let x = operand(x).view().expect("numbers were met above");
                        steps.one(*one, x, &mut target)?;
                    }
                    Node::Two(two, x, y) => steps.two(*two, operand(x), operand(y), &mut target)?,
                    Node::Row(number) => steps.repeat(inputs[*number], &mut target)?,
                    // The formula is its input.
                    _ => ops.stream.copy(inputs[0], &mut target)?,
                }
                match made {
                    Some(made) => Value::Made(made),
                    None => break,
                }
            }
        };
        values.push(Some(value));
        for (before, reader) in last_reader.iter().enumerate().take(place) {
            if *reader == place {
                values[before] = None;
            }
        }
    }
    Ok(())
}

/// For each node the last node that reads it.
fn last_readers(plan: &Plan) -> Vec<usize> {
    let mut last = vec![usize::MAX; plan.nodes.len()];
    for (place, expression) in plan.nodes.iter().enumerate() {
        match &*expression.0 {
            Node::One(_, x) => last[plan.place(x)] = place,
            Node::Two(_, x, y) => {
                last[plan.place(x)] = place;
                last[plan.place(y)] = place;
            }
            _ => {}
        }
    }
    last
}

struct Steps<'a> {
    ops: &'a Ops<'a>,
    columns: u32,
}

impl Steps<'_> {
    fn one<T: Float>(&self, one: One, x: View<'_, T>, output: &mut ViewMut<'_, T>) -> Result<()> {
        let kernel = self.ops.kernel::<T>(&kernels::STEPS, "step_one")?;
        let count = output.len() as u32;
        let (grid, step) = (grid(count), one as i32);
        self.ops.stream.launch(&kernel, grid).arg(&x).arg(output).arg(&count).arg(&step).run()
    }

    fn two<T: Float>(
        &self,
        two: Two,
        x: &Value<'_, T>,
        y: &Value<'_, T>,
        output: &mut ViewMut<'_, T>,
    ) -> Result<()> {
        match (x.view(), y.view()) {
            (Some(first), Some(second)) => {
                self.launch(two, Operand::Arrays, first, Some(second), 0.0, output)
            }
            (Some(first), None) => {
                self.launch(two, Operand::NumberRight, first, None, number(y), output)
            }
            (None, Some(second)) => {
                self.launch(two, Operand::NumberLeft, second, None, number(x), output)
            }
            (None, None) => Ok(()), // numbers met on the host
        }
    }

    /// A row as often as the output has room: plus -0, which changes no number.
    fn repeat<T: Float>(&self, row: View<'_, T>, output: &mut ViewMut<'_, T>) -> Result<()> {
        self.launch(Two::Add, Operand::Row, row, None, -0.0, output)
    }

    fn launch<T: Float>(
        &self,
        two: Two,
        operand: Operand,
        first: View<'_, T>,
        second: Option<View<'_, T>>,
        number: f64,
        output: &mut ViewMut<'_, T>,
    ) -> Result<()> {
        let kernel = self.ops.kernel::<T>(&kernels::STEPS, "step_two")?;
        let count = output.len() as u32;
        let (number, absent) = (T::Wide::from_f64(number), [0_u64]);
        let (step, operand) = (two as i32, operand as i32);
        let mut launch = self.ops.stream.launch(&kernel, grid(count));
        launch.arg(&first);
        match &second {
            Some(second) => launch.arg(second),
            None => launch.arg(&absent),
        };
        launch
            .arg(&number)
            .arg(&self.columns)
            .arg(output)
            .arg(&count)
            .arg(&step)
            .arg(&operand)
            .run()
    }
}

fn grid(count: u32) -> Grid {
    Grid::for_elements(u64::from(count).div_ceil(4), 256)
}

fn number<T: Float>(value: &Value<'_, T>) -> f64 {
    match value {
        Value::Number(number) => *number,
        _ => f64::NAN,
    }
}

fn one_number(one: One, x: f64) -> f64 {
    match one {
        One::Negate => -x,
        One::Absolute => x.abs(),
        One::Exponential => x.exp(),
        One::Logarithm => x.ln(),
        One::SquareRoot => x.sqrt(),
        One::Reciprocal => 1.0 / x,
        One::Relu => {
            if x < 0.0 {
                0.0
            } else {
                x
            }
        }
        One::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        One::Tanh => x.tanh(),
        One::Gelu => 0.5 * x * (1.0 + error_function(x * core::f64::consts::FRAC_1_SQRT_2)),
        One::GeluTanh => {
            x / (1.0 + (-x * (1.595_769_121_605_730_8 + 0.071_354_816_272_600_25 * x * x)).exp())
        }
    }
}

/// erf, by Simpson's rule: its error is below 1e-11, and beyond 6 it is 1 in f64.
fn error_function(x: f64) -> f64 {
    const STEPS: u32 = 2000;
    let step = x.clamp(-6.0, 6.0) / f64::from(STEPS);
    let bell = |i: u32| (-(f64::from(i) * step).powi(2)).exp();
    let inner: f64 =
        (1..STEPS).map(|i| if i % 2 == 1 { 4.0 * bell(i) } else { 2.0 * bell(i) }).sum();
    core::f64::consts::FRAC_2_SQRT_PI * step / 3.0 * (bell(0) + inner + bell(STEPS))
}

fn two_numbers(two: Two, x: f64, y: f64) -> f64 {
    match two {
        Two::Add => x + y,
        Two::Subtract => x - y,
        Two::Multiply => x * y,
        Two::Divide => x / y,
        Two::Greater if x.is_nan() || x > y => x,
        Two::Lesser if x.is_nan() || x < y => x,
        Two::Greater | Two::Lesser => y,
    }
}

//! From a formula to the source of its kernel.
//!
//! Every node becomes one line, a shared one once, in an order where operands come first. The kernel around
//! them has the form of the elementwise operations: whole 16-byte vectors, several on their way, single
//! elements at both ends, and one by one where the arrays lie differently to 16-byte borders.

use super::{Expression, Node, One, Two};
use crate::error::{Error, Result};
use crate::shape::refuse;
use core::fmt::Write as _;
use std::collections::HashMap;

/// What a launch takes at most; output, count and columns take three of them.
const MOST_ARGUMENTS: usize = 32 - 3;

/// Nodes of a formula at most: beyond that a compiler takes longer than the kernel saves.
const MOST_NODES: usize = 2000;

/// A formula in the order it is computed, and what it reads.
pub(crate) struct Plan {
    /// Its nodes, operands first; the last is the result.
    pub(crate) nodes: Vec<Expression>,
    /// For each input whether it is a row.
    pub(crate) inputs: Vec<bool>,
    /// How many parameters it has.
    pub(crate) parameters: usize,
    /// Where each node stands in `nodes`.
    places: HashMap<*const Node, usize>,
}

impl Plan {
    pub(crate) fn new(expression: &Expression) -> Result<Plan> {
        let mut plan =
            Plan { nodes: Vec::new(), inputs: Vec::new(), parameters: 0, places: HashMap::new() };
        let mut kinds: Vec<Option<bool>> = Vec::new();
        plan.add(expression, &mut kinds)?;
        if kinds.iter().all(|kind| *kind != Some(false)) {
            return Err(refuse("fuse", "the formula reads no array: use Expression::input(0)"));
        }
        for (number, kind) in kinds.iter().enumerate() {
            plan.inputs.push(kind.ok_or_else(|| {
                refuse(
                    "fuse",
                    format!("the formula has no input {number}: number inputs from 0 without gaps"),
                )
            })?);
        }
        if plan.inputs.len() + plan.parameters > MOST_ARGUMENTS {
            let reason = format!(
                "{} inputs and {} parameters are more than the {MOST_ARGUMENTS} that a kernel takes: \
                 divide the formula",
                plan.inputs.len(),
                plan.parameters
            );
            return Err(refuse("fuse", reason));
        }
        Ok(plan)
    }

    /// The place of a node's operand.
    pub(crate) fn place(&self, expression: &Expression) -> usize {
        self.places[&std::sync::Arc::as_ptr(&expression.0)]
    }

    fn add(&mut self, root: &Expression, kinds: &mut Vec<Option<bool>>) -> Result<()> {
        // Without recursion: a formula made by a loop may be deep.
        let mut waiting = vec![(root.clone(), false)];
        while let Some((expression, operands_are_there)) = waiting.pop() {
            let key = std::sync::Arc::as_ptr(&expression.0);
            if self.places.contains_key(&key) {
                continue;
            }
            if !operands_are_there {
                let operands: Vec<Expression> = match &*expression.0 {
                    Node::One(_, x) => vec![x.clone()],
                    Node::Two(_, x, y) => vec![y.clone(), x.clone()],
                    _ => Vec::new(),
                };
                waiting.push((expression, true));
                waiting.extend(operands.into_iter().map(|operand| (operand, false)));
                continue;
            }
            if self.nodes.len() == MOST_NODES {
                return Err(refuse(
                    "fuse",
                    format!("the formula has more than {MOST_NODES} parts: divide it"),
                ));
            }
            self.note(&expression, kinds)?;
            self.places.insert(key, self.nodes.len());
            self.nodes.push(expression);
        }
        Ok(())
    }

    fn note(&mut self, expression: &Expression, kinds: &mut Vec<Option<bool>>) -> Result<()> {
        let (number, is_row) = match &*expression.0 {
            Node::Input(number) => (*number, false),
            Node::Row(number) => (*number, true),
            Node::Parameter(number) => {
                self.parameters = self.parameters.max(number.saturating_add(1));
                return self.limit(*number);
            }
            _ => return Ok(()),
        };
        self.limit(number)?;
        if kinds.len() <= number {
            kinds.resize(number + 1, None);
        }
        match kinds[number].replace(is_row) {
            Some(before) if before != is_row => Err(refuse(
                "fuse",
                format!("input {number} is used as an array and as a row: give it twice"),
            )),
            _ => Ok(()),
        }
    }

    fn limit(&self, number: usize) -> Result<()> {
        if number < MOST_ARGUMENTS {
            return Ok(());
        }
        Err(Error::BadShape {
            operation: "fuse",
            reason: format!("number {number} is beyond the {MOST_ARGUMENTS} arguments of a kernel"),
        })
    }

    /// The source of the kernel, without the prelude.
    pub(crate) fn source(&self, type_name: &str) -> String {
        let mut text = format!("typedef {type_name} T;\ntypedef Wide<T> W;\n\n");
        self.write_chain(&mut text);
        self.write_kernel(&mut text);
        text
    }

    fn write_chain(&self, text: &mut String) {
        let inputs = (0..self.inputs.len()).map(|i| format!("W in{i}"));
        let parameters = (0..self.parameters).map(|i| format!("W p{i}"));
        let list: Vec<String> = inputs.chain(parameters).collect();
        let _ = writeln!(text, "__device__ __forceinline__ W chain({}) {{", list.join(", "));
        for (place, expression) in self.nodes.iter().enumerate() {
            let _ = writeln!(text, "    const W v{place} = {};", self.line(expression));
        }
        let _ = writeln!(text, "    return v{};\n}}\n", self.nodes.len() - 1);
    }

    fn line(&self, expression: &Expression) -> String {
        let at = |operand: &Expression| self.place(operand);
        match &*expression.0 {
            Node::Input(number) | Node::Row(number) => format!("in{number}"),
            Node::Parameter(number) => format!("p{number}"),
            // By its bits, so that it is this very number, also if it is none.
            Node::Constant(value) => format!("(W)__longlong_as_double(0x{:x}LL)", value.to_bits()),
            Node::One(one, x) => {
                let x = at(x);
                match one {
                    One::Negate => format!("-v{x}"),
                    One::Absolute => format!("fabs(v{x})"),
                    One::Exponential => format!("Math<T>::exp(v{x})"),
                    One::Logarithm => format!("log(v{x})"),
                    One::SquareRoot => format!("sqrt(v{x})"),
                    One::Reciprocal => format!("(W)1 / v{x}"),
                    One::Tanh => format!("Math<T>::tanh(v{x})"),
                    One::Relu | One::Sigmoid | One::Gelu | One::GeluTanh => {
                        format!("{}<T>(v{x})", one.name())
                    }
                }
            }
            Node::Two(two, x, y) => {
                let (x, y) = (at(x), at(y));
                match two {
                    Two::Add => format!("v{x} + v{y}"),
                    Two::Subtract => format!("v{x} - v{y}"),
                    Two::Multiply => format!("v{x} * v{y}"),
                    Two::Divide => format!("v{x} / v{y}"),
                    Two::Greater => format!("greater_of(v{x}, v{y})"),
                    Two::Lesser => format!("lesser_of(v{x}, v{y})"),
                }
            }
        }
    }

    fn write_kernel(&self, text: &mut String) {
        let each = |form: &dyn Fn(usize, bool) -> String| -> String {
            self.inputs.iter().enumerate().map(|(i, is_row)| form(i, *is_row)).collect()
        };
        let arrays = |form: &dyn Fn(usize) -> String| -> String {
            each(&|i, is_row| if is_row { String::new() } else { form(i) })
        };
        let parameters: String = (0..self.parameters).map(|i| format!(", p{i}")).collect();
        let declared: String = (0..self.parameters).map(|i| format!(", W p{i}")).collect();
        let pointers: Vec<String> =
            (0..self.inputs.len()).map(|i| format!("const T *a{i}")).collect();
        // The chain of one element, and of element `i` of a vector.
        let single: Vec<String> = self
            .inputs
            .iter()
            .enumerate()
            .map(|(i, is_row)| {
                if *is_row {
                    format!("widen(a{i}[at % columns])")
                } else {
                    format!("widen(a{i}[at])")
                }
            })
            .collect();
        let lane: Vec<String> = self
            .inputs
            .iter()
            .enumerate()
            .map(
                |(i, is_row)| {
                    if *is_row { format!("widen(a{i}[column])") } else { format!("x{i}[i]") }
                },
            )
            .collect();
        let has_rows = self.inputs.contains(&true);
        let first_column =
            if has_rows { "        u32 column = (head + vector * LANES) % columns;\n" } else { "" };
        let next_column =
            if has_rows { " column = column + 1 == columns ? 0 : column + 1;" } else { "" };
        let _ = write!(
            text,
            "extern \"C\" __global__ void __launch_bounds__(256) fused({pointers}{declared}, T *out, u32 count, u32 columns) {{
    constexpr u32 LANES = Lanes<T>::count;
    if (!(true{alike})) {{
        for (u32 at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += gridDim.x * blockDim.x)
            out[at] = narrow<T>(chain({single}{parameters}));
        return;
    }}
    const u32 head = head_of(out, count), vectors = (count - head) / LANES;
    const u32 vector = blockIdx.x * blockDim.x + threadIdx.x;
    if (vector < vectors) {{
        const u64 at = head + (u64)vector * LANES;
        W y[LANES]{values};
{unpack}{first_column}#pragma unroll
        for (u32 i = 0; i < LANES; i++) {{ y[i] = chain({lane}{parameters});{next_column} }}
        store_quad(out + at, Packed<T>::pack(y));
    }}
    if (blockIdx.x == 0) {{
        const u32 tail = head + vectors * LANES;
        for (u32 i = threadIdx.x; i < head + (count - tail); i += blockDim.x) {{
            const u32 at = i < head ? i : tail + (i - head);
            out[at] = narrow<T>(chain({single}{parameters}));
        }}
    }}
}}
",
            pointers = pointers.join(", "),
            alike = arrays(&|i| format!(" && alike(a{i}, out)")),
            single = single.join(", "),
            values = arrays(&|i| format!(", x{i}[LANES]")),
            unpack = arrays(&|i| format!("        Packed<T>::unpack(load_quad(a{i} + at), x{i});\n")),
            lane = lane.join(", "),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_part_is_one_line() {
        let shared = Expression::input(0) + 1.0;
        let plan = Plan::new(&(shared.clone() * shared)).unwrap();
        let source = plan.source("float");
        assert_eq!(source.matches("= v0 + v1;").count(), 1, "{source}");
        assert!(source.contains("= v2 * v2;"), "{source}");
    }

    #[test]
    fn what_cannot_be_fused_is_said() {
        for (expression, words) in [
            (Expression::constant(1.0) + 2.0, "reads no array"),
            (Expression::input(1) + 2.0, "no input 0"),
            (Expression::input(0) + Expression::row(0), "as an array and as a row"),
            (Expression::input(40) + 2.0, "beyond the 29"),
            (Expression::row(0) + 2.0, "reads no array"),
        ] {
            let error = Plan::new(&expression).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_formula_has_a_size() {
        let mut expression = Expression::input(0);
        for _ in 0..900 {
            expression = expression + 1.0;
        }
        assert_eq!(Plan::new(&expression).unwrap().nodes.len(), 1801);
        for _ in 0..200 {
            expression = expression + 1.0;
        }
        let error = Plan::new(&expression).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("more than 2000"), "{error}");
    }
}

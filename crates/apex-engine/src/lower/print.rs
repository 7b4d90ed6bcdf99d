//! Lowered code as text, for tests and for people.

use super::{GraphedFunction, Lowering};
use crate::code::{Code, Reg, Step};
use std::fmt::{self, Display, Formatter};

/// What the last pass has left: the draft, the graphs made of it, or the code made of these.
impl Display for Lowering<'_, '_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        if !self.code.steps.is_empty() {
            let Code { width, file_bytes, local_bytes, stack_bytes, .. } = self.code;
            writeln!(
                out,
                "width {width} file {file_bytes} local {local_bytes} stack {stack_bytes}"
            )?;
            return write!(out, "{}", self.code);
        }
        for body in &self.draft.bodies {
            writeln!(out, "{}:", self.program.functions[body.function].name)?;
            let mut labels: Vec<(u32, usize)> = body.labels.iter().copied().zip(0..).collect();
            labels.sort_unstable();
            let mut labels = labels.into_iter().peekable();
            for (index, step) in body.steps.iter().enumerate() {
                while let Some((_, label)) = labels.next_if(|(at, _)| *at as usize == index) {
                    writeln!(out, "label {label}:")?;
                }
                write_step(out, index, step)?;
            }
        }
        for function in &self.functions {
            writeln!(
                out,
                "{}: frame {}",
                self.program.functions[function.function].name, function.frame
            )?;
            write!(out, "{function}")?;
        }
        Ok(())
    }
}

impl Display for GraphedFunction {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        for slot in &self.slots {
            writeln!(out, "variable r{}: {} bytes", slot.base.0, slot.bytes)?;
        }
        if !self.order.is_empty() {
            writeln!(out, "order {:?}", self.order)?;
        }
        for (index, node) in self.graph.nodes.iter().enumerate() {
            write!(out, "n{index}:")?;
            if let Some(fall) = node.fall {
                write!(out, " then {fall}")?;
            }
            write_alive(out, self.live_in.get(index).map_or(&[], Vec::as_slice))?;
            writeln!(out)?;
            for (number, step) in node.steps.iter().enumerate() {
                write_step(out, number, step)?;
            }
        }
        Ok(())
    }
}

fn write_alive(out: &mut Formatter<'_>, registers: &[Reg]) -> fmt::Result {
    if !registers.is_empty() {
        write!(out, " live")?;
    }
    registers.iter().try_for_each(|register| write!(out, " r{}", register.0))
}

fn write_step(out: &mut Formatter<'_>, number: usize, step: &Step) -> fmt::Result {
    write!(out, "{number:5} ")?;
    if let Some(guard) = step.guard {
        let not = if guard.negated { "!" } else { "" };
        write!(out, "@{not}r{} ", guard.predicate.0)?;
    }
    writeln!(out, "{}", shorten(&format!("{:?}", step.inst)))
}

impl Display for Code {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        for (index, block) in self.blocks.iter().enumerate() {
            write!(out, "b{index}:")?;
            if !block.successors.is_empty() {
                write!(out, " -> {:?}", block.successors)?;
            }
            if let Some(meets) = block.meets {
                write!(out, " meets {meets}")?;
            }
            write_alive(out, &block.live_in)?;
            writeln!(out)?;
            for pc in block.steps.clone() {
                write_step(out, pc as usize, &self.steps[pc as usize])?;
            }
        }
        Ok(())
    }
}

/// An instruction's fields without what says nothing: usual modes, and wrappers around numbers.
fn shorten(text: &str) -> String {
    let mut text = text.to_owned();
    for usual in [
        "mode: Mode { rounding: Rn, ftz: false, sat: false, relu: false, nan: false, \
         xorsign_abs: false }, ",
        "order: Weak, ",
        "ftz: false, ",
        ", ftz: false",
        "not_dst: None, ",
        ", join: None",
        ", compare: None",
    ] {
        text = text.replace(usual, "");
    }
    for (open, close, lead) in
        [("Reg(Reg(", "))", "r"), ("Reg(", ")", "r"), ("Imm(", ")", ""), ("Some(", ")", "")]
    {
        text = unwrap(&text, open, close, lead);
    }
    bracket(&text).replace("{ ", "{").replace(" }", "}")
}

/// `Address { base: r1, offset: 4 }` is `[r1 + 4]`.
fn bracket(text: &str) -> String {
    const OPEN: &str = "Address { base: ";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(OPEN) {
        let inner = &rest[at + OPEN.len()..];
        let (Some(end), Some(middle)) = (inner.find(" }"), inner.find(", offset: ")) else {
            break;
        };
        out.push_str(&rest[..at]);
        let (base, offset) = (&inner[..middle], &inner[middle + ", offset: ".len()..end]);
        out.push_str(&if offset == "0" {
            format!("[{base}]")
        } else {
            format!("[{base} + {offset}]")
        });
        rest = &inner[end + " }".len()..];
    }
    out.push_str(rest);
    out
}

/// Takes the wrapper away from every word or number in it.
fn unwrap(text: &str, open: &str, close: &str, lead: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(open) {
        let inner = &rest[at + open.len()..];
        let end = inner.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(0);
        out.push_str(&rest[..at]);
        if end > 0 && inner[end..].starts_with(close) {
            out.push_str(lead);
            out.push_str(&inner[..end]);
            rest = &inner[end + close.len()..];
        } else {
            out.push_str(open);
            rest = inner;
        }
    }
    out.push_str(rest);
    out
}

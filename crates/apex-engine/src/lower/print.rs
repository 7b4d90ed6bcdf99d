//! Lowered code as text, for tests and for people.

use crate::code::Code;
use std::fmt::{self, Display, Formatter};

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
            if !block.live_in.is_empty() {
                write!(out, " live")?;
                for register in &block.live_in {
                    write!(out, " r{}", register.0)?;
                }
            }
            writeln!(out)?;
            for pc in block.steps.clone() {
                let step = &self.steps[pc as usize];
                write!(out, "{pc:5} ")?;
                if let Some(guard) = step.guard {
                    let not = if guard.negated { "!" } else { "" };
                    write!(out, "@{not}r{} ", guard.predicate.0)?;
                }
                writeln!(out, "{}", shorten(&format!("{:?}", step.inst)))?;
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

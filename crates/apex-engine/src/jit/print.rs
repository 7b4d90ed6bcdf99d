//! A kernel on its way to machine code as text: what the last pass has found or made.

use super::flow::Flow;
use super::shape::{Shape, Shapes};
use super::{Compilation, Job, toucher};
use crate::code::Reg;
use std::fmt::{self, Display, Formatter};

/// What tells one compilation of a kernel from another: block, how it is held to the window, and whether it is for a
/// last warp that is not whole.
impl Display for Job<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.threads;
        let way = match self.window {
            None => "free",
            Some(_) if self.trusting => "trusting",
            Some(_) => "asking",
        };
        write!(out, ".{x}x{y}x{z}.{way}")?;
        if self.lanes == self.code.width { Ok(()) } else { write!(out, ".last") }
    }
}

impl Display for Compilation<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        if !self.sources.is_empty() {
            return self.sources.iter().try_for_each(|&(offset, place)| {
                let (step, toucher) = toucher::read(place);
                writeln!(out, "{offset:#6x} step {step} {toucher:?}")
            });
        }
        if let Some(compiled) = self.context.compiled_code() {
            let text = self.context.func.display();
            writeln!(out, "{} bytes for {}", compiled.code_buffer().len(), self.job)?;
            return write!(out, "{}", compiled.vcode.as_deref().unwrap_or(&text.to_string()));
        }
        if self.context.func.layout.blocks().next().is_some() {
            return write!(out, "{}", self.context.func.display());
        }
        if !self.writers.is_empty() {
            return self.writers.iter().enumerate().try_for_each(
                |(register, writer)| match writer {
                    Some(step) => writeln!(out, "r{register} by step {step}"),
                    None => Ok(()),
                },
            );
        }
        match (&self.flow, &self.shapes) {
            (Some(flow), _) => write!(out, "{flow}"),
            (None, Some(shapes)) => write!(out, "{shapes}"),
            (None, None) => Ok(()),
        }
    }
}

impl Display for Shapes<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        for register in (0..self.code.registers.len() as u32).map(Reg) {
            match self.of(register) {
                Shape::Regular { stride: 0, .. } => writeln!(out, "r{} even", register.0)?,
                Shape::Regular { stride, align } => {
                    writeln!(out, "r{} rises by {stride}, {align} bits zero", register.0)?;
                }
                other => writeln!(out, "r{} {other:?}", register.0)?,
            }
        }
        Ok(())
    }
}

impl Display for Flow<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        for (index, block) in self.blocks.iter().enumerate() {
            write!(out, "b{index}: -> {:?}", block.next)?;
            if let Some(entry) = block.entry {
                write!(out, " entry {entry}, loads")?;
                block.needed.iter().try_for_each(|register| write!(out, " r{}", register.0))?;
            }
            write!(out, "{}, changed", if block.header { " counts fuel" } else { "" })?;
            block.dirty.iter().try_for_each(|register| write!(out, " r{}", register.0))?;
            writeln!(out)?;
        }
        Ok(())
    }
}

//! Where in a kernel something happened, and what kind of access it was.
//!
//! Faults and the reports of checked mode say both in the same words, and neither needs the other for it.

use std::fmt;

/// Where it happened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Site {
    /// The kernel.
    pub kernel: String,
    /// Line in its PTX; 0 when unknown.
    pub line: u32,
    /// `%ctaid`.
    pub block: [u32; 3],
    /// `%tid`, where one thread can be named.
    pub thread: Option<[u32; 3]>,
}

/// What an access does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Loads.
    Read,
    /// Stores.
    Write,
    /// Both, or either with an order.
    Atomic,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel {}", self.kernel)?;
        if self.line != 0 {
            write!(f, ", line {} of its PTX", self.line)?;
        }
        let [x, y, z] = self.block;
        write!(f, ", block ({x},{y},{z})")?;
        if let Some([x, y, z]) = self.thread {
            write!(f, " thread ({x},{y},{z})")?;
        }
        Ok(())
    }
}

//! What is wrong with a text, and where.

use core::fmt;

/// A text that is not PTX. The module as a whole is refused: after a syntax error nobody can say
/// what the rest was meant to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// The line, from 1.
    pub line: u32,
    /// The column in bytes, from 1.
    pub column: u32,
    /// What was expected and what stands there instead.
    pub message: String,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

impl core::error::Error for SyntaxError {}

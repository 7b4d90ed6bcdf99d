//! PTX text to tree and back, and what can be known of it without running it.
//!
//! Everything here is a pure function over text or tree: nothing is executed, no file is read,
//! and no input makes it panic. An instruction this crate has never heard of is kept and
//! printed again; only who must understand it can refuse it.
#![forbid(unsafe_code)]

mod asked;
pub mod cfg;
pub mod classes;
pub mod code;
pub mod container;
mod error;
mod lex;
mod link;
pub mod liveness;
pub mod lower;
pub mod machine;
pub mod mix;
mod parse;
mod print;
mod rename;
pub mod reshape;
pub mod roles;
pub mod specialise;
pub mod totals;
pub mod touches;
pub mod tree;
pub mod walk;
mod without_lines;

pub use asked::ask_registers;
pub use error::SyntaxError;
pub use link::{LinkError, Linked, Unresolved, link};
pub use parse::{DEEPEST, parse};

//! PTX text to tree and back, and what can be known of it without running it.
//!
//! Everything here is a pure function over text or tree: nothing is executed, no file is read,
//! and no input makes it panic. An instruction this crate has never heard of is kept and
//! printed again; only who must understand it can refuse it.
#![forbid(unsafe_code)]

pub mod tree;

//! Graphs: their nodes, how they are recorded and how they run.
//!
//! From the lowest: `user_object`, `nodes`; on these `capturing` and `executable`, which do not know each other.

pub(crate) mod capturing;
pub(crate) mod executable;
pub(crate) mod nodes;
pub(crate) mod user_object;

//! Memory of every kind that the driver gives out, and what is done with it.
//!
//! | storey | files, the lowest first |
//! |---|---|
//! | the map | `range` |
//! | what is noted beside it | `hold`, `shared`, `pool`, `physical`, `advice` |
//! | taken and given back | `allocation` |
//! | made of it | `heap`, `graph_memory`, `texel`, `array`, `texture`, `texture_reference` |
//! | done with it | `operation`, `fill`, `copy` |
//!
//! Nothing here knows a context's work: whoever takes memory says for which context.

pub(crate) mod advice;
pub(crate) mod allocation;
pub(crate) mod array;
pub(crate) mod copy;
pub(crate) mod fill;
pub(crate) mod graph_memory;
pub(crate) mod heap;
pub(crate) mod hold;
pub(crate) mod operation;
pub(crate) mod physical;
pub(crate) mod pool;
pub(crate) mod range;
pub(crate) mod shared;
pub(crate) mod texel;
pub(crate) mod texture;
pub(crate) mod texture_reference;

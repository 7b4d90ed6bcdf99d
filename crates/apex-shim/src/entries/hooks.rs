//! What each function of the driver does, in the words of an event; one file per family.
//!
//! A function for a `note(…)` row gets the driver's answer and the program's arguments and says what
//! happened. It reads through the program's pointers only what a successful driver call has read or
//! written; where the driver may have read less (an image claims a length) or has not read yet, it asks
//! [`apex_cuda::foreign`]. `_ptsz` and `_ptds` twins are described by their base: only their null stream differs, and
//! `record` knows.

#![allow(
    non_snake_case,
    clippy::too_many_arguments,
    reason = "hooks bear the names and the arguments of the functions they describe"
)]

mod answer;
pub(crate) mod capture;
pub(crate) mod code;
pub(crate) mod compile;
pub(crate) mod copy;
pub(crate) mod current;
pub(crate) mod graph;
pub(crate) mod launch;
pub(crate) mod life;
pub(crate) mod memory;
pub(crate) mod resolve;
pub(crate) mod set;
pub(crate) mod sync;

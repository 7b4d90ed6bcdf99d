//! Random programs of driver calls, run with accelerators and without.
//!
//! An accelerator must not be seen: what a program may observe stays as if each call had gone down at once.
//! [`make`] makes a program from a seed so that everything in it can be observed in one way only; [`perform`] runs it on a
//! [`side`] and notes answers, words and the order of callbacks; [`compare`] says where two sides differ. [`worker`] does
//! so for many programs in a process of its own, which [`supervise`] starts and, where asked, disturbs. [`pairs`]
//! asks which launches are kept in order, and which must be.

mod compare;
mod hazards;
mod kernels;
mod make;
mod perform;
mod program;
mod random;
mod record;
mod side;
mod supervise;
mod worker;

pub use hazards::{Pairs, pairs};
pub use supervise::{Asked, Outcome, run};
pub use worker::{Way, work};

/// The program of a seed, to be read.
#[must_use]
pub fn show(seed: u64) -> String {
    format!("{:#?}", make::program(seed))
}

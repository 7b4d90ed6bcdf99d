//! Every operation against a reference in f64, on at least two hundred random shapes per type.
//!
//! Inputs and outputs lie at random offsets, so that heads and tails are met; outputs are NaN before, and what
//! lies around them must be NaN after. The same tests run on the software GPU and, where `APEX_DEVICE=gpu` or
//! a GPU is there, on the hardware. Seeds are fixed.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

mod batch_norm;
mod elementwise;
mod fused;
mod given;
mod matmul;
mod reduce;
mod rows;
mod transpose;

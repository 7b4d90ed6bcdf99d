//! Collects measured launches and trains the predictor's models from them.
//!
//! The way of the data: [`collect`] measures the kernel zoo and [`rows`] keeps what was measured, raw, so
//! that a changed list of features needs no new measurement; [`walks`] adds what the warps of each launch do; [`split`] parts rows by kernel and by
//! configuration, never at random; [`fit`] trains every model on one part, sets its intervals on a second and
//! judges it on the third, beside plain baselines; [`models`] writes what came out with all that is needed to
//! trust it. Everything follows from the rows and a seed.
#![forbid(unsafe_code)]

pub mod ask;
pub mod baselines;
pub mod boost;
pub mod card;
pub mod chart;
pub mod collect;
pub mod costs;
pub mod error;
pub mod examples;
pub mod fit;
pub mod foresee;
pub mod likeness;
mod manifest;
pub mod matmul;
pub mod metrics;
mod mix;
pub mod model_card;
pub mod models;
pub mod ncu;
pub mod network;
pub mod peaks;
pub mod programs;
pub mod random;
pub mod reload;
pub mod rows;
pub mod session_rows;
pub mod split;
pub mod transformer;
pub mod walks;

pub use error::Error;
pub use models::replace;

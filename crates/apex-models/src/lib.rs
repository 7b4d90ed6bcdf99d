//! Files of the predictor's models: read with every check, written, and replaced while they are in use.
//!
//! What a model says of a launch is decided in `apex-policy`; here stands how it comes to be there. Models come as
//! bytes, whoever reads them from a disk, and a broken one is refused with a reason ([`Refusal`]). The small network
//! and the trees are [`tensor_file`]s; the large network is an [`onnx`] file. It runs here too ([`dense`]): only its
//! trainer and its bench ask it. No library is needed for any of this, because the shim reads the small network's
//! file inside the program.
// All but `products.rs`, which says why.
#![deny(unsafe_code)]

mod check_set;
pub mod dense;
mod float16;
mod golden;
mod json;
mod likeness;
mod model;
pub mod onnx;
mod products;
pub mod programs;
mod protobuf;
mod refusal;
mod small_network;
mod swap;
pub mod tensor_file;
mod trees;

pub use check_set::{CheckSet, consider};
pub use model::Model;
pub use refusal::Refusal;
pub use swap::{Reader, Shared};

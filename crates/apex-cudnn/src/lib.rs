//! cuDNN for the software GPU: handles, streams and versions, and no operation.
//!
//! Stands under the name `libcudnn.so.9`, set up by `apex run` with the software GPU and never beside a GPU. XLA wants
//! a handle before it compiles anything, whether or not a program has a convolution. What would compute answers "not
//! supported", so that callers take another way or say what is missing.

mod answers;
mod exports;
mod names;

//! cuBLAS and cuBLASLt for the software GPU, on kernels of `apex-exec`.
//!
//! Stands under the names `libcublas.so.12` and `.13` and those of cuBLASLt, set up by `apex run` with the software GPU
//! and never beside a GPU. Matrix products in all their forms and the calls on vectors are answered, everything else
//! says "not supported". Results are as exact as sums in the named type are; tensor cores and TF32 are not imitated.
//!
//! | module | what it holds |
//! |---|---|
//! | `names` | the one table: every name that is exported |
//! | `exports`, `answers` | a jump for each name, and what answers |
//! | `matrix`, `vector`, `matmul` | cuBLAS's products, its calls on vectors, cuBLASLt |
//! | `product` | any product as one launch |
//! | `handle` | handles, and numbers that a call gives or takes by a pointer |
//! | `kernels` | the driver and the kernels |
//! | `number` | types of numbers |

mod answers;
mod exports;
mod handle;
mod kernels;
mod matmul;
mod matrix;
mod names;
mod number;
mod product;
mod status;
mod vector;

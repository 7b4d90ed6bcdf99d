//! Matrix products without the operations: what is asked, which kernel takes it, and what an executor remembers.
//!
//! The choice is a pure function of device, shape, alignment and the [table](table::Table) of what was measured. An
//! executor keeps a [`MatmulState`] and knows nothing else of products; [`crate::matmul`] runs them.

pub(crate) mod choose;
pub(crate) mod kernels;
pub(crate) mod matmul_kernel;
pub(crate) mod request;
pub(crate) mod state;
pub(crate) mod table;

// Where products meet cuBLASLt and the driver's tensor maps.
#[allow(unsafe_code)]
pub(crate) mod cublas;
#[allow(unsafe_code)]
pub(crate) mod tensor_map;

pub use choose::MatmulChoice;
pub use matmul_kernel::MatmulKernel;
pub use request::{Activation, Matmul};
pub(crate) use state::MatmulState;

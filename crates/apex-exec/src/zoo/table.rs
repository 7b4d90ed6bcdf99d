//! The list of the zoo's kernels: one line for each group, one entry in the group for each kernel.

mod arithmetic;
mod control;
mod matrix;
mod memory;
mod reduce;
mod rows;
mod stencil;

use super::kernel::ZooKernel;

/// Every kernel, group by group.
pub(crate) static GROUPS: &[&[ZooKernel]] = &[
    memory::KERNELS,
    stencil::KERNELS,
    reduce::KERNELS,
    matrix::KERNELS,
    rows::KERNELS,
    arithmetic::KERNELS,
    control::KERNELS,
];

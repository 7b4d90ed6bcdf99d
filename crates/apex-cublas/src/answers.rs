//! The functions that are answered, in one list for the table.

pub(crate) use crate::handle::*;
pub(crate) use crate::matmul::*;
pub(crate) use crate::matrix::*;
pub(crate) use crate::vector::*;

//! The lowest storey: the driver itself, as a table of its functions.
//!
//! [`own`] knows this library as the dynamic loader does, [`load`] finds the driver and fills the [`table`];
//! [`capability`] has it say that the device is another; [`stand_ins`] knows what answers for NVIDIA's other libraries and programs on the software GPU.

pub(crate) mod capability;
pub(crate) mod load;
pub(crate) mod own;
pub(crate) mod stand_ins;
mod table;

pub(crate) use table::{apex_driver, driver, replace};

/// The driver's functions for questions about what it was given already: no call that waits in a queue goes down for them.
pub(crate) fn beneath() -> &'static apex_cuda::Driver {
    apex_fast::beneath().unwrap_or_else(driver)
}

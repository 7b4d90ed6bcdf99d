//! The devices that the software GPU poses as, the addresses that they give out, and their time.
//!
//! From the lowest: `identity` and `arena`, `device`, `clock`.

pub(crate) mod arena;
pub(crate) mod clock;
pub(crate) mod device;
pub(crate) mod identity;

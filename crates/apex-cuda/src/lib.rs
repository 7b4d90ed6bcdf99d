//! The driver's face: what libcuda offers, said once and without judging it.
//!
//! [`driver_functions!`] is the one table of driver functions; [`Driver`],
//! [`Function`] and the coverage page are made from it, and so are the exports of
//! the shim and of the stand-in. [`types`] gives the C types of its signatures,
//! [`Library`] opens a driver by path and its management library, [`image`] recognises the code a program
//! hands to the driver, [`foreign`] reads memory that may not be there, [`soft`] is what the
//! software GPU tells beside the driver's functions. Nothing here decides anything,
//! reads the environment or calls a driver function. [`stand_in_exports!`] makes the exports of other libraries' stand-ins.

pub mod coverage;
pub mod driver;
pub mod foreign;
pub mod image;
pub mod library;
pub mod soft;
mod stand_in;
mod table;
pub mod types;

pub use coverage::coverage_page;
pub use driver::{Driver, Function, Kind, Order};
pub use library::{Library, LibraryError};

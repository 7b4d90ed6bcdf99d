//! Code: what an image holds, and the kernels in it.
//!
//! From the lowest: `fatbin` and `load_options`; `kernel`, `code` and `link`; `loaded`; `library`.

pub(crate) mod code;
pub(crate) mod fatbin;
pub(crate) mod kernel;
pub(crate) mod library;
pub(crate) mod link;
pub(crate) mod load_options;
pub(crate) mod loaded;

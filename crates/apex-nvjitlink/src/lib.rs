//! nvJitLink for the software GPU: links PTX, alone or in fatbins, and its machine code is the PTX of it all.
//!
//! Stands under the names `libnvJitLink.so.12` and `.13`, set up by `apex run` with the software GPU and never beside a
//! GPU. [`link`] does the work on plain bytes; [`exports`] is the C side, with one table of the functions.
//!
//! Code of link-time optimisation (LTO-IR) is a format of NVIDIA's own and is refused. Callers choose it by the
//! version of the library, from 12.3 on, so this one says [`VERSION`]: numba-cuda then compiles to PTX, and cuda.core
//! still links here.

#[cfg_attr(test, expect(dead_code, reason = "a test binary exports nothing"))]
mod exports;
mod link;

/// The last version for which callers make PTX and no LTO-IR.
const VERSION: (u32, u32) = (12, 2);

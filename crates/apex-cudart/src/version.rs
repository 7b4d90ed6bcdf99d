//! Which of the two libraries this is.
//!
//! One archive serves both, so the number is not known here: it stands in
//! `link/version.c`, which is compiled at the link.

#[cfg(not(test))]
unsafe extern "C" {
    /// 12090 or 13000.
    static apex_cudart_version: i32;
}

/// The version of the interface that the program was linked with.
#[cfg(not(test))]
pub(crate) fn version() -> i32 {
    // SAFETY: the link gives the constant, and nothing writes it.
    unsafe { apex_cudart_version }
}

#[cfg(test)]
pub(crate) fn version() -> i32 {
    13_000
}

/// Whether the program was linked with CUDA 12.
pub(crate) fn is_12() -> bool {
    version() < 13_000
}

//! CUDA sources of this crate with the PTX kept for them.
//!
//! Each `kernels/NAME.cu` has a `kernels/NAME.ptx` beside it: what NVRTC makes of it for compute capability 8.0,
//! so that it runs on every newer GPU and on the software GPU without a compiler. `cargo run -p apex-exec
//! --example keep-kernels` makes them, and a test compares. How a source is compiled stands in its own leading
//! comment lines, which the command, the test and the executor all read:
//!
//! ```text
//! // keep: architecture compute_90a
//! // keep: flag --maxrregcount=128
//! ```

/// A CUDA source and the PTX kept for it; made by [`crate::kept_source!`].
///
/// ```
/// use apex_exec::EXAMPLE;
///
/// assert_eq!(EXAMPLE.name, "example");
/// assert!(EXAMPLE.source.contains("__global__") && EXAMPLE.ptx.contains(".entry add"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptSource {
    /// Path below `kernels/`, without its ending.
    pub name: &'static str,
    /// The CUDA source.
    pub source: &'static str,
    /// The PTX made of it.
    pub ptx: &'static str,
}

/// Includes `kernels/NAME.cu` and `kernels/NAME.ptx` of the crate that calls it.
///
/// ```
/// static KERNELS: apex_exec::KeptSource = apex_exec::kept_source!("example");
/// # fn main() -> apex_exec::Result<()> {
/// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
/// assert!(executor.kept(&KERNELS)?.kernel("add").is_ok());
/// # Ok(())
/// # }
/// ```
#[macro_export]
macro_rules! kept_source {
    ($name:literal) => {
        $crate::KeptSource {
            name: $name,
            source: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/", $name, ".cu")),
            ptx: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/", $name, ".ptx")),
        }
    };
}

/// Two small kernels for examples: `add(a, b, sum, length)` and `scale(values, factor, length)` over `f32`.
pub static EXAMPLE: KeptSource = kept_source!("example");

//! The kernels that multiply, by name.

/// A way to multiply matrices.
///
/// ```
/// assert_eq!(apex_exec::MatmulKernel::Wgmma.name(), "wgmma");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MatmulKernel {
    /// Ours, for small f32 products: warps divide k, so that every multiprocessor has work.
    SmallF32,
    /// Ours, for large f32 products, by plain multiply-adds.
    TiledF32,
    /// Ours, for 16-bit types on tensor cores from compute capability 8.0 on (mma.sync).
    Mma,
    /// Ours, for 16-bit types on the tensor cores of compute capability 9.0 (wgmma, and tiles by the copy engine).
    Wgmma,
    /// NVIDIA's cuBLASLt, with the algorithm that it puts first.
    CublasLt,
    /// Ours, for every type, stride and device, also without a compiler.
    Plain,
}

impl MatmulKernel {
    /// All of them.
    ///
    /// ```
    /// assert_eq!(apex_exec::MatmulKernel::ALL.len(), 6);
    /// ```
    pub const ALL: [MatmulKernel; 6] = [
        MatmulKernel::SmallF32,
        MatmulKernel::TiledF32,
        MatmulKernel::Mma,
        MatmulKernel::Wgmma,
        MatmulKernel::CublasLt,
        MatmulKernel::Plain,
    ];

    /// Its name in tables and benchmarks.
    ///
    /// ```
    /// assert_eq!(apex_exec::MatmulKernel::CublasLt.name(), "cublaslt");
    /// ```
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MatmulKernel::SmallF32 => "small_f32",
            MatmulKernel::TiledF32 => "tiled_f32",
            MatmulKernel::Mma => "mma",
            MatmulKernel::Wgmma => "wgmma",
            MatmulKernel::CublasLt => "cublaslt",
            MatmulKernel::Plain => "plain",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<MatmulKernel> {
        MatmulKernel::ALL.into_iter().find(|kernel| kernel.name() == name)
    }
}

//! A kernel as the driver sees it, and one launch of it.

use crate::code::Code;
use apex_ptx::tree;
use std::sync::Arc;

/// One parameter of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Param {
    /// Byte offset in the parameter block.
    pub offset: u32,
    /// Its size.
    pub bytes: u32,
    /// Its alignment.
    pub align: u32,
}

/// A kernel of a loaded module.
#[derive(Debug)]
pub struct Kernel {
    /// Its name in the PTX text.
    pub name: String,
    /// Its parameters, in order.
    pub params: Vec<Param>,
    /// Bytes of all parameters with their padding.
    pub param_bytes: u32,
    /// Registers per thread, estimated from the values alive at once: 8 to 255.
    pub registers: u32,
    /// Static shared memory.
    pub static_shared: u32,
    /// Local memory per thread.
    pub local: u32,
    /// Bytes of constant variables of the module.
    pub constant: u32,
    /// Where they lie: first address and bytes of each.
    pub constants: Arc<[(u64, u64)]>,
    /// Threads per block it allows (`.maxntid`, `.reqntid`), else 1024.
    pub max_threads: u32,
    /// Block it demands (`.reqntid`).
    pub required_block: Option<[u32; 3]>,
    /// Cluster it demands (`.reqnctapercluster`).
    pub cluster: Option<[u32; 3]>,
    /// PTX version times ten: 90 for `.target sm_90`.
    pub ptx_version: u32,
    /// The same for the binary.
    pub binary_version: u32,
    /// Why it cannot run: instruction and line. Everything else of its module can.
    pub unsupported: Option<String>,
    /// What is executed; empty when unsupported.
    pub code: Arc<Code>,
}

/// One launch.
#[derive(Debug, Clone)]
pub struct Launch {
    /// What.
    pub kernel: Arc<Kernel>,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads per block.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
    /// All parameters, `Kernel::param_bytes` long.
    pub params: Vec<u8>,
    /// All blocks are alive at once and may wait for each other.
    pub cooperative: bool,
    /// Blocks per cluster; `[1, 1, 1]` without clusters.
    pub cluster: [u32; 3],
}

/// Bytes of a parameter or a variable of a function; what is beyond 32 bits fits nowhere.
pub(crate) fn bounded_bytes(variable: &tree::Variable) -> u32 {
    variable.bytes().and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(u32::MAX)
}

/// Offsets of parameters, and the bytes of all.
pub(crate) fn layout(params: &[tree::Variable]) -> (Vec<Param>, u32) {
    let mut end = 0_u32;
    let mut places = Vec::with_capacity(params.len());
    for param in params {
        let align = u32::try_from(param.alignment()).unwrap_or(1).max(1);
        let bytes = bounded_bytes(param);
        let offset = end.checked_next_multiple_of(align).unwrap_or(end);
        places.push(Param { offset, bytes, align });
        end = offset.saturating_add(bytes);
    }
    (places, end)
}

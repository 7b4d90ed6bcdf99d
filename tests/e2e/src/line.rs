//! An exported event, as the tests read it.

use serde::Deserialize;

/// One event as `apex export --format ndjson` has it; what does not apply is null.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the columns are described in apex-daemon")]
pub struct Line {
    pub process: u32,
    pub pid: u32,
    pub tid: u32,
    pub function: String,
    pub kind: String,
    pub result: u16,
    pub context: u16,
    pub stream: u64,
    pub kernel_name: Option<String>,
    pub grid_x: u32,
    pub grid_y: u32,
    pub grid_z: u32,
    pub block_x: u32,
    pub block_y: u32,
    pub block_z: u32,
    pub cluster_x: u32,
    pub cluster_y: u32,
    pub cluster_z: u32,
    pub dynamic_shared: u32,
    pub cooperative: bool,
    pub captured: bool,
    pub graph_kernels: u64,
    pub memory: Option<String>,
    pub bytes: u64,
    pub direction: Option<String>,
    pub pageable: Option<bool>,
    pub object: Option<String>,
    pub begins: bool,
    pub gpu_ns: Option<u64>,
}

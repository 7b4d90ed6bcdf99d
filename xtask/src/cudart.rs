//! Links the CUDA runtime's two libraries.
//!
//! Cargo makes an archive of them only: rustc's own version script has no place for the symbol
//! versions that programs ask for. They go into a folder of their own, `cudart`, because they stand in
//! for NVIDIA's runtime on the software GPU alone and must not be found beside anything else.

use crate::run::{command, root, run};
use anyhow::{Context, Result};
use std::path::Path;

/// Puts `libcudart.so.12` and `libcudart.so.13` into `folder/cudart`, from the archive in `built`.
pub(crate) fn link(built: &Path, folder: &Path) -> Result<()> {
    let folder = folder.join("cudart");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("{} cannot be made", folder.display()))?;
    run(command("sh", &[])
        .arg(root().join("crates/apex-cudart/link/link.sh"))
        .arg(built.join("libapex_cudart.a"))
        .arg(folder))
}

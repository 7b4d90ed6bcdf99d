//! The pages that come from tables: rendered here, kept in the repository, compared by `tidy`.

use crate::run::root;
use anyhow::{Context, Result};

/// Path and content of every generated page.
pub(crate) fn pages() -> Vec<(&'static str, String)> {
    vec![
        ("docs/coverage.md", apex_cuda::coverage_page()),
        ("docs/knobs.md", apex_core::knobs::page()),
    ]
}

/// Writes every page anew.
pub(crate) fn renew() -> Result<()> {
    for (path, content) in pages() {
        std::fs::write(root().join(path), content)
            .with_context(|| format!("{path} is not written"))?;
    }
    Ok(())
}

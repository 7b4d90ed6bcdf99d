//! Where the predictor's models and the rows that they were trained from lie.
//!
//! A folder named by the user is taken; else `models` beside the executable, where apex is installed, or in the source
//! tree it was built in.

use anyhow::{Context, Result};
use apex_core::knobs::Knobs;
use apex_daemon::user_setup::knobs;
use apex_train::models::MANIFEST_FILE;
use std::path::{Path, PathBuf};

/// The measured rows that come with the models.
const ROWS_FILE: &str = "h200.parquet";

/// The folder of models, if there is one.
pub fn folder(knobs: &Knobs, executable: &Path) -> Option<PathBuf> {
    if let Some(named) = &knobs.models {
        return Some(named.clone());
    }
    let beside = executable.parent()?;
    let places = ["models", "../lib/apex/models", "../../models"];
    places.iter().map(|place| beside.join(place)).find(|place| place.join(MANIFEST_FILE).is_file())
}

/// The folder that a command asks: one that is named, or that `apex run` would take, or `models` here.
pub fn found(named: Option<&Path>) -> Result<PathBuf> {
    let executable = std::env::current_exe().context("apex cannot find its own executable")?;
    let here = || Some(PathBuf::from("models")).filter(|here| here.join(MANIFEST_FILE).is_file());
    named.map(Path::to_owned).or_else(|| folder(knobs(), &executable)).or_else(here).with_context(|| {
        "no trained models are found here or beside apex: name their folder with --models DIR or APEX_MODELS, \
         or make some with apex train collect and apex train fit"
    })
}

/// The file of measured rows that a command asks: one that is named, or the one among the models.
pub fn rows(named: Option<&Path>, models: Option<&Path>) -> Result<PathBuf> {
    match named {
        Some(path) => Ok(path.to_owned()),
        None => Ok(found(models)
            .context("no measured rows: name a file with --rows FILE")?
            .join(ROWS_FILE)),
    }
}

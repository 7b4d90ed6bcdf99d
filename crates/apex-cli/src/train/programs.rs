//! `apex train programs`: forests for launches of programs, grown from rows of real ones.

use crate::arguments::Programs;
use anyhow::{Context, Result};
use apex_daemon::progress::Progress;
use apex_daemon::speech::say;
use apex_models::programs::write;
use apex_policy::predict::features::{FNV_START, fnv};
use apex_train::fit::News;
use apex_train::programs::{
    CARD_FILE, Options, PROGRAMS_FILE, SEED_WORD, card, grow, judge, lines,
};
use apex_train::rows::{self, Row};
use apex_train::{models, replace};
use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) fn grow_forests(arguments: &Programs) -> Result<ExitCode> {
    let loaded = models::load(&arguments.output)
        .context("forests are added to a folder of models: make one with apex train fit first")?;
    let (found, again) = (read(&arguments.rows)?, read(&arguments.again)?);
    let mut hash = FNV_START;
    for path in &arguments.rows {
        hash = fnv(hash, &std::fs::read(path).with_context(|| path.display().to_string())?);
    }
    let options = Options { seed: arguments.seed, trees: arguments.trees };
    let devices = &loaded.manifest.devices;
    let mut progress = Progress::on_stderr();
    let grown = grow(&found, devices, &options, &mut |news| match news {
        News::Step { what, done, all } => progress.step(what, done, all),
        News::Found(sentence) => say(sentence),
    })?;
    drop(progress);
    let (data, seed) = (format!("{hash:016x}"), options.seed.to_string());
    let bytes = write(&grown.programs, &grown.golden, &[("data", &data), (SEED_WORD, &seed)]);
    let path = arguments.output.join(PROGRAMS_FILE);
    replace(&path, &bytes)?;
    let table = judge(&grown.programs, &found, &again, devices, options.seed);
    let page = card(&table, &data, options.seed);
    replace(&arguments.output.join(CARD_FILE), page.as_bytes())?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&table)?);
    } else {
        lines(&table).iter().for_each(|line| println!("{line}"));
    }
    say(&format!("the forests are in {}", path.display()));
    Ok(ExitCode::SUCCESS)
}

fn read(paths: &[PathBuf]) -> Result<Vec<Row>> {
    let mut found = Vec::new();
    for path in paths {
        found.extend(rows::read(path)?);
    }
    Ok(found)
}

//! The pages of the manual: one for apex and one for each verb, under the names that the pages give each other.

use crate::arguments::Arguments;
use crate::pages::print_page;
use anyhow::{Context, Result};
use clap::CommandFactory;
use std::path::Path;
use std::process::ExitCode;

/// Prints the page of a verb, or writes all pages into a folder.
pub(crate) fn manual(verb: &[String], folder: Option<&Path>) -> Result<ExitCode> {
    if let Some(folder) = folder {
        std::fs::create_dir_all(folder)
            .and_then(|()| clap_mangen::generate_to(Arguments::command(), folder))
            .with_context(|| format!("{} cannot hold the manual", folder.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut command = Arguments::command().disable_help_subcommand(true);
    // Gives every verb its whole name.
    command.build();
    let mut named = &command;
    for word in verb {
        named = named.find_subcommand(word).with_context(|| {
            format!(
                "{} has no verb {word}: its --help lists them",
                named.get_bin_name().unwrap_or(named.get_name())
            )
        })?;
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(named.clone()).render(&mut page)?;
    print_page(&page)
}

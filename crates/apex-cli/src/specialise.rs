//! `apex specialise`: a kernel as it is rewritten for one call, for the curious.

use crate::arguments::Specialise;
use crate::pages::print_page;
use anyhow::{Context, Result, anyhow, bail};
use apex_core::small_file::{self, read};
use apex_daemon::speech::say;
use apex_ptx::specialise::{Call, PASSES, entry, given, needs_check, places, specialise};
use apex_ptx::tree::{FunctionKind, Module};
use apex_ptx::{container, parse};
use std::process::ExitCode;

pub(crate) fn specialised(arguments: &Specialise) -> Result<ExitCode> {
    if let Some(word) = arguments.without.iter().find(|word| !is_pass(word)) {
        let passes: Vec<&str> = PASSES.iter().map(|pass| pass.name).collect();
        bail!("{word} is no pass; there are: {}", passes.join(", "));
    }
    let module = module(arguments)?;
    let kernel = kernel(&module, arguments.kernel.as_deref())?;
    let found = entry(&module, &kernel).ok_or_else(|| {
        anyhow!("there is no kernel {kernel}; the text has: {}", kernels(&module).join(", "))
    })?;
    let places = places(found).ok_or_else(|| anyhow!("{kernel} has parameters of unknown size"))?;
    let mut call = Call { grid: arguments.grid, block: arguments.block, ..Call::default() };
    for value in &arguments.set {
        call.known
            .push(given(&places, value).map_err(|reason| anyhow!("--set {value}: {reason}"))?);
    }
    for variable in &arguments.address {
        call.addresses.push(address(variable)?);
    }
    let without: Vec<&str> = arguments.without.iter().map(String::as_str).collect();
    let made = specialise(&module, &kernel, &call, &without)
        .map_err(|reason| anyhow!("{kernel} is left alone: {reason}"))?;
    match made.changed.as_slice() {
        [] => say("no pass changed anything: nothing of the call is in the kernel"),
        changed => say(&format!("changed by: {}", changed.join(", "))),
    }
    if let Some(reason) = needs_check(&module, &kernel) {
        say(&format!("its bits might change when it is compiled again: {reason}"));
    }
    print_page(made.module.to_string().as_bytes())
}

fn is_pass(word: &str) -> bool {
    PASSES.iter().any(|pass| pass.name == word)
}

/// The text itself, or of a program the newest text that has the kernel.
fn module(arguments: &Specialise) -> Result<Module> {
    let path = arguments.file.display();
    let bytes = read(&arguments.file, small_file::MADE)
        .with_context(|| format!("{path} cannot be read"))?;
    let mut texts = match container::begin(&bytes) {
        Some(_) => container::texts_anywhere(&bytes),
        None => vec![(0, String::from_utf8(bytes).map_err(|_| anyhow!("{path} is no text"))?)],
    };
    texts.sort_by_key(|(architecture, _)| std::cmp::Reverse(*architecture));
    let mut first = None;
    for (_, text) in &texts {
        let module = parse(text).map_err(|error| anyhow!("{path} is no PTX: {error}"))?;
        let wanted = arguments.kernel.as_deref();
        if wanted.is_none_or(|kernel| entry(&module, kernel).is_some()) {
            return Ok(module);
        }
        first.get_or_insert(module);
    }
    first.ok_or_else(|| anyhow!("{path} has no PTX in it"))
}

fn kernels(module: &Module) -> Vec<&str> {
    let defined = |function: &&apex_ptx::tree::Function| {
        function.kind == FunctionKind::Entry && function.body.is_some()
    };
    module.functions().filter(defined).map(|function| &*function.name).collect()
}

/// The kernel that is asked for, or the only one.
fn kernel(module: &Module, asked: Option<&str>) -> Result<String> {
    match (asked, kernels(module).as_slice()) {
        (Some(asked), _) => Ok(asked.to_owned()),
        (None, [only]) => Ok((*only).to_owned()),
        (None, []) => bail!("the text has no kernel"),
        (None, several) => bail!("name one of its kernels with --kernel: {}", several.join(", ")),
    }
}

fn address(text: &str) -> Result<(apex_ptx::tree::Name, u64)> {
    let wanted =
        || anyhow!("--address takes NAME=ADDRESS, such as table=0x7f0012345600; not {text}");
    let (name, address) = text.split_once('=').ok_or_else(wanted)?;
    let number = match address.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => address.parse(),
    };
    Ok((name.into(), number.map_err(|_| wanted())?))
}

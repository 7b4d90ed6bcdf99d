//! The kernels of a run that are worth tuning, with what may be done to each.

use super::file::Refused;
use super::trial::Ran;
use apex_core::facts;
use apex_daemon::summarise::chip;
use apex_daemon::summary::{ConfigSummary, KernelSummary};
use apex_exec::{BlockFreedom, block_freedom_in};
use apex_policy::tune::{Change, Subject, Tier, candidates};
use apex_policy::{Carveout, KernelNeeds, LaunchShape};
use std::path::Path;

/// A kernel with less of the GPU time is left alone: nobody would notice.
const LEAST_SHARE: f64 = 0.02;

/// One kernel to tune.
pub(crate) struct Kernel {
    pub(crate) mangled: String,
    pub(crate) name: String,
    pub(crate) image: u64,
    pub(crate) share: f64,
    pub(crate) candidates: Vec<Change>,
}

/// The heaviest kernels, and what is not tried on them for which reason.
pub(crate) fn subjects(
    ran: &Ran,
    most: usize,
    blocks: Result<(), &str>,
) -> (Vec<Kernel>, Vec<Refused>) {
    let (mut kernels, mut refused) = (Vec::new(), Vec::new());
    for summary in &ran.summary.kernels {
        let share = summary.gpu.as_ref().map_or(0.0, |gpu| gpu.share);
        if summary.graph || share < LEAST_SHARE || kernels.len() >= most {
            continue;
        }
        let mut refuse = |reason: &str| {
            refused.push(Refused { kernel: summary.name.clone(), reason: reason.into() });
        };
        match subject(ran, summary) {
            Err(reason) => refuse(&reason),
            Ok((image, subject, freedom)) => {
                let mut list = candidates(&subject);
                let side = (0..3).find(|side| subject.shape.block[*side] > 1).unwrap_or(0);
                match (freedom, blocks) {
                    (Err(reason), _) => refuse(&format!("its block stays: {reason}")),
                    (Ok(freedom), _) if freedom.sides[side].is_err() => {
                        let reason = freedom.sides[side].clone().err().unwrap_or_default();
                        refuse(&format!("its block stays: {reason}"));
                    }
                    (Ok(_), Err(reason)) => {
                        list.retain(|change| change.tier() < Tier::Block);
                        refuse(&format!("its block stays: {reason}"));
                    }
                    (Ok(_), Ok(())) => {}
                }
                kernels.push(Kernel {
                    mangled: summary.mangled.clone(),
                    name: summary.name.clone(),
                    image,
                    share,
                    candidates: list,
                });
            }
        }
    }
    (kernels, refused)
}

type Found = (u64, Subject, Result<BlockFreedom, String>);

fn subject(ran: &Ran, summary: &KernelSummary) -> Result<Found, String> {
    let (facts, image, device) = described(ran, &summary.mangled)?;
    let heaviest: &ConfigSummary = ran
        .summary
        .configs
        .iter()
        .find(|config| config.name == summary.name)
        .ok_or("no launch of it was recorded")?;
    if heaviest.cluster.iter().any(|side| *side > 1) {
        return Err("it is launched in clusters".into());
    }
    let chip = chip(device).ok_or("apex does not know this device's compute capability")?;
    let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let architecture = small(facts.ptx_version);
    let freedom = bytes(ran, image)
        .and_then(|bytes| block_freedom_in(&bytes, architecture, &summary.mangled));
    let free = |side: usize| freedom.as_ref().is_ok_and(|freedom| freedom.sides[side].is_ok());
    let limit = freedom.as_ref().ok().and_then(|freedom| freedom.most_threads);
    let subject = Subject {
        chip,
        multiprocessors: small(device.sms),
        needs: KernelNeeds {
            registers: small(facts.registers),
            static_shared: small(facts.static_shared),
            dynamic_shared: heaviest.dynamic_shared,
            max_dynamic_shared: small(facts.max_dynamic_shared).max(heaviest.dynamic_shared),
            carveout: Carveout::from_attribute(i32::try_from(facts.carveout).unwrap_or(-1)),
        },
        shape: LaunchShape { grid: heaviest.grid, block: heaviest.block.map(u32::from) },
        most_threads: small(facts.max_threads).min(limit.unwrap_or(u32::MAX)),
        // What comes from a file is loaded by its name, and takes no options.
        is_compiled: image.kind == "ptx" && image.file.is_empty(),
        free_sides: [0, 1, 2].map(|side| heaviest.dynamic_shared == 0 && free(side)),
    };
    Ok((facts.image_hash, subject, freedom))
}

/// The one code of that name, with its image and a device that it ran on.
fn described<'a>(
    ran: &'a Ran,
    mangled: &str,
) -> Result<(&'a facts::Kernel, &'a facts::Image, &'a facts::Device), String> {
    let all = ran
        .known
        .processes
        .iter()
        .flat_map(|process| process.kernels.values().map(move |kernel| (process, kernel)));
    let mut named = all.filter(|(_, kernel)| kernel.name == mangled);
    let (process, kernel) = named.next().ok_or("nothing is known of it")?;
    if named.any(|(_, other)| other.image_hash != kernel.image_hash) {
        return Err("several kernels bear this name".into());
    }
    let image = process.images.values().find(|image| image.hash == kernel.image_hash);
    let image = image.ok_or("its code was loaded unseen")?;
    let device = process.devices.values().next().ok_or("its device is not known")?;
    Ok((kernel, image, device))
}

/// The bytes of an image: what the driver was given, or the file that it was named.
fn bytes(ran: &Ran, image: &facts::Image) -> Result<Vec<u8>, String> {
    let kept = ran.images.join(facts::image_file(image.hash));
    let path = if kept.exists() { kept.as_path() } else { Path::new(&image.file) };
    std::fs::read(path).map_err(|_| "there is no PTX of it".to_owned())
}

//! Code for newer chips runs on the GPU that is there.
//!
//! An image that offers this device nothing but PTX for a newer chip is loaded as that PTX, brought down by
//! [`apex_ptx::lower`]. So is one that the driver refuses because its PTX is too new (errors 209, 218 and 222). Where
//! nothing can be brought down, or the driver refuses what came out, the program's own call is made and its own error
//! returned. What an image offers is read from its headers: of the code of a library that has some for this device,
//! nothing is touched. A text that came out stays for good, because a driver may keep its address.

mod options;

use crate::driver::capability::{claimed, real_attribute, tell_by};
use crate::driver::driver;
use crate::settings::{knobs, log_line};
use crate::state::lock::{Lock, locked};
use crate::state::process::{guard, tell};
use apex_core::facts::{Claimed, Fact, Lowered as LoweredFact};
use apex_core::kept::Kept;
use apex_cuda::image::{self, Entry, ImageKind, Offer, copy_at, offer, offer_at, offer_in};
use apex_cuda::types::*;
use apex_ptx::container;
use apex_ptx::lower::{Goal, Target, lower, newest_ptx};
use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};

/// The driver found no code for the device, PTX that it does not take, or a version that it does not read.
const REFUSALS: [CUresult; 3] =
    [CUDA_ERROR_NO_BINARY_FOR_GPU, CUDA_ERROR_INVALID_PTX, CUDA_ERROR_UNSUPPORTED_PTX_VERSION];
/// No image that is brought down is longer.
const MOST_BYTES: usize = 256 << 20;
/// First word of a file that is kept; the number rises with its form, and with the table of features.
const KEPT_MAGIC: &str = "apex-lowered-1";
/// What all files together may take.
const KEPT_BYTES: u64 = 256 << 20;
const MAJOR: CUdevice_attribute = 75;
const MINOR: CUdevice_attribute = 76;

pub(crate) use options::Plain as PlainOptions;

/// PTX that was brought down, or a fatbin with several.
pub(crate) struct Older {
    /// The image that takes the place of the program's; a text ends with NUL.
    pub(crate) image: &'static [u8],
    /// It is one text.
    pub(crate) is_text: bool,
    /// The newer chip that the program's PTX is for.
    newer: Option<u32>,
    said: LoweredFact,
}

impl Older {
    /// Where it lies.
    pub(crate) fn start(&self) -> *const c_void {
        self.image.as_ptr().cast()
    }
}

/// An image of the program.
#[derive(Clone, Copy)]
pub(crate) enum Program<'a> {
    /// At an address, which may be any.
    At(*const c_void),
    /// These bytes.
    Bytes(&'a [u8]),
    /// What is in a file.
    In(&'a File),
}

impl Program<'_> {
    fn offer(self, enough: &dyn Fn(&Entry) -> bool) -> Option<Offer> {
        match self {
            Program::At(address) => offer_at(address, enough),
            Program::Bytes(bytes) => offer(bytes, enough),
            Program::In(file) => offer_in(file, enough),
        }
    }

    fn copy(self) -> Option<(ImageKind, Vec<u8>)> {
        match self {
            Program::At(address) => copy_at(address, MOST_BYTES),
            Program::Bytes(bytes) => {
                let image = image::identify(bytes)?;
                (image.length <= MOST_BYTES).then(|| (image.kind, bytes[..image.length].to_vec()))
            }
            Program::In(mut file) => {
                let mut bytes = Vec::new();
                file.by_ref().take(MOST_BYTES as u64).read_to_end(&mut bytes).ok()?;
                Program::Bytes(&bytes).copy()
            }
        }
    }
}

/// The process has begun: answers that claim another capability are told.
pub(crate) fn begin() {
    tell_by(|answers| {
        let Some(claimed) = claimed() else { return };
        let real = guard(|| Some((real_attribute(MAJOR, 0), real_attribute(MINOR, 0)))).flatten();
        let (major, minor) = real.unwrap_or_default();
        let (claimed, real) = (claimed.to_string(), format!("{major}.{minor}"));
        guard(|| tell(&Fact::Claimed(Claimed { claimed, real, answers })));
    });
}

/// Loads an image: as PTX that was brought down, where it offers this device nothing else or the driver refuses it, and
/// as it is everywhere else. `handle` says what came of it.
pub(crate) fn load(
    program: Program<'_>,
    make_older: impl Fn(&Older) -> CUresult,
    handle: impl Fn() -> Option<Code>,
    own: impl FnOnce() -> CUresult,
) -> CUresult {
    let attempt = |device: Device| {
        let older = guard(|| older(program, device)).flatten()?;
        (make_older(&older) == CUDA_SUCCESS).then(|| {
            if let (Some(newer), Some(handle)) = (older.newer, handle()) {
                remember(handle, newer);
            }
            tell(&Fact::Lowered(older.said));
        })
    };
    let device = guard(Device::current).flatten();
    let needing = device.filter(|device| is_needed(program, device.target));
    if needing.and_then(attempt).is_some() {
        return CUDA_SUCCESS;
    }
    let result = own();
    let refused = device.filter(|_| needing.is_none() && REFUSALS.contains(&result));
    if refused.and_then(attempt).is_some() { CUDA_SUCCESS } else { result }
}

/// What the driver made of an image.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Code {
    Module(usize),
    Library(usize),
}

/// Code that was brought down, and the chip that its own PTX is for.
static OLDER: Lock<Vec<(Code, u32)>> = Lock::new(Vec::new());
static IS_ANY_OLDER: AtomicBool = AtomicBool::new(false);

fn remember(handle: Code, newer: u32) {
    if let Some(older) = &mut locked(&OLDER) {
        older.retain(|&(known, _)| known != handle);
        older.push((handle, newer));
        IS_ANY_OLDER.store(true, Ordering::Release);
    }
}

/// The code is no more, and its handle may come again.
pub(crate) fn forget(code: Code) {
    if IS_ANY_OLDER.load(Ordering::Acquire)
        && let Some(older) = &mut locked(&OLDER)
    {
        older.retain(|&(known, _)| known != code);
    }
}

/// The chip that a kernel's own PTX is for, where it was brought down: libraries like CUB choose by it among the forms
/// that they were compiled in. `is_of` says whether the kernel is of this code.
pub(crate) fn newer_chip(is_of: impl Fn(Code) -> bool) -> Option<u32> {
    if !IS_ANY_OLDER.load(Ordering::Acquire) {
        return None;
    }
    // The driver is not asked while the list is held.
    let older: Vec<(Code, u32)> = locked(&OLDER).as_ref()?.to_vec();
    older.into_iter().find(|&(handle, _)| is_of(handle)).map(|(_, newer)| newer)
}

/// Whether an image offers a chip nothing but PTX for newer ones.
fn is_needed(program: Program<'_>, own: Target) -> bool {
    let offered = || program.offer(&|entry| fits(entry, own));
    guard(offered).flatten().is_some_and(|offer| is_only_newer(&offer, own))
}

/// The device that code is loaded for, and what its driver reads.
#[derive(Clone, Copy)]
struct Device {
    target: Target,
    driver: u32,
}

impl Device {
    /// The current context's, or the first: a library may be loaded before there is a context. None where the user
    /// wants nothing brought down.
    fn current() -> Option<Device> {
        if !knobs().enabled || !knobs().compatibility {
            return None;
        }
        let (mut device, mut version) = (0, 0);
        // SAFETY: valid places for the answers.
        unsafe {
            if (driver().cuCtxGetDevice)(&raw mut device) != CUDA_SUCCESS {
                device = 0;
            }
            (driver().cuDriverGetVersion)(&raw mut version);
        }
        let (major, minor) = (real_attribute(MAJOR, device), real_attribute(MINOR, device));
        let number = |value: i32| u32::try_from(value).ok();
        let target = Target::of_device(number(major)?, number(minor)?);
        (major > 0).then_some(Device { target, driver: number(version)? })
    }
}

/// Whether there is nothing for a chip but PTX for newer ones.
fn is_only_newer(offer: &Offer, own: Target) -> bool {
    match offer {
        Offer::Text(head) => target_of(head).is_some_and(|target| !own.runs(target)),
        Offer::Entries(entries) => {
            let is_fit = entries.iter().any(|entry| fits(entry, own));
            !is_fit && entries.iter().any(|entry| entry.is_ptx)
        }
    }
}

/// Whether a chip runs an entry of a fatbin.
fn fits(entry: &Entry, own: Target) -> bool {
    let same_major = entry.architecture / 10 == own.number / 10;
    entry.architecture <= own.number && (entry.is_ptx || same_major)
}

/// The target that stands in the first piece of a text.
fn target_of(head: &[u8]) -> Option<Target> {
    let head = String::from_utf8_lossy(head);
    // A remark may say anything: the directive stands at the beginning of its line.
    let line = head.lines().find_map(|line| line.trim_start().strip_prefix(".target"))?;
    Target::named(line.split([',', '/']).next()?.trim())
}

/// Brings the PTX of an image down; nothing where that is impossible or changes nothing.
fn older(program: Program<'_>, device: Device) -> Option<Older> {
    let (kind, bytes) = program.copy()?;
    let texts = match kind {
        ImageKind::Ptx => vec![String::from_utf8_lossy(&bytes).into_owned()],
        ImageKind::Fatbin => container::best(container::texts(&bytes), device.target.number),
        ImageKind::Cubin | ImageKind::Wrapper => return None,
    };
    let mut said = LoweredFact { to: device.target.plain_name(), ..LoweredFact::default() };
    let mut lowered = Vec::new();
    for text in &texts {
        lowered.push(lower_one(text, device, &mut said)?);
    }
    let is_changed = lowered.iter().zip(&texts).any(|(new, old)| new != old);
    if !is_changed {
        return None;
    }
    let image = match lowered.as_slice() {
        [one] => CString::new(one.as_str()).ok()?.into_bytes_with_nul(),
        several => container::of_texts(several, device.target.number),
    };
    let newer =
        texts.iter().filter_map(|text| newer_target(text, device)).map(|it| it.number).max();
    Some(Older { image: forever(image), is_text: lowered.len() == 1, newer, said })
}

/// The same bytes at one address for the rest of the process: a program that loads an image often costs its memory once.
fn forever(image: Vec<u8>) -> &'static [u8] {
    static IMAGES: Lock<Vec<&'static [u8]>> = Lock::new(Vec::new());
    let mut images = locked(&IMAGES);
    let same = |known: &&&'static [u8]| ***known == *image;
    let known = images.as_ref().and_then(|images| images.iter().find(same).copied());
    if let Some(known) = known {
        return known;
    }
    let kept: &'static [u8] = Box::leak(image.into_boxed_slice());
    if let Some(images) = &mut images {
        images.push(kept);
    }
    kept
}

/// PTX that was brought down by earlier processes.
fn kept() -> Option<Kept> {
    let knobs = knobs();
    let named = knobs.compatibility_cache.as_deref();
    Kept::new(knobs, named, "apex/lowered", KEPT_MAGIC, KEPT_BYTES)
}

/// One text, from the disk where it lies there.
fn lower_one(text: &str, device: Device, said: &mut LoweredFact) -> Option<String> {
    let name = format!("{} {}", device.target.plain_name(), device.driver);
    if let Some(entry) = kept().and_then(|kept| kept.get(&name, text)) {
        let (features, lowered) = entry.split_once('\n')?;
        let features = features.split('\t').filter(|one| !one.is_empty()).map(str::to_owned);
        note(said, features, text, device);
        said.kept += 1;
        return Some(lowered.to_owned());
    }
    let began = std::time::Instant::now();
    let goal = Goal { target: device.target, version: newest_ptx(device.driver) };
    match lower(text, goal) {
        Ok(lowered) => {
            let names = lowered.changes.iter().map(|change| change.feature.name.to_owned());
            let names: Vec<String> = names.collect();
            if let Some(kept) = kept() {
                // Without a disk it costs time, not the result.
                let _ = kept.put(&name, text, &format!("{}\n{}", names.join("\t"), lowered.text));
            }
            note(said, names.into_iter(), text, device);
            said.micros += u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
            Some(lowered.text)
        }
        Err(error) => {
            let error = error.to_string();
            let first = error.lines().next().unwrap_or_default();
            log_line(&format!("PTX for a newer chip is not brought down: {first}"));
            None
        }
    }
}

/// The chip that a text is for, where it is newer than the device.
fn newer_target(text: &str, device: Device) -> Option<Target> {
    let head = &text.as_bytes()[..text.len().min(16 << 10)];
    target_of(head).filter(|target| !device.target.runs(*target))
}

/// Adds what was found in one text to what is said of its image.
fn note(
    said: &mut LoweredFact,
    features: impl Iterator<Item = String>,
    text: &str,
    device: Device,
) {
    said.was = newer_target(text, device).map_or("a newer PTX".into(), Target::plain_name);
    for feature in features {
        if !said.features.contains(&feature) {
            said.features.push(feature);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: Target = Target { number: 90, is_own: true };

    fn check(entries: &[(bool, u32)], expected: bool) {
        let entries = entries.iter().map(|&(is_ptx, architecture)| Entry { is_ptx, architecture });
        assert_eq!(is_only_newer(&Offer::Entries(entries.collect()), H200), expected);
    }

    #[test]
    fn only_what_has_nothing_else_is_brought_down() {
        check(&[(true, 120)], true);
        check(&[(false, 120), (true, 120)], true);
        check(&[(false, 80), (true, 120)], true);
        check(&[(false, 90), (true, 120)], false);
        check(&[(true, 80), (true, 120)], false);
        check(&[(false, 120)], false);
        check(&[], false);
    }

    #[test]
    fn the_target_is_found_behind_remarks() {
        let text = b"//\n// .target sm_50\n//\n.version 8.7\n.target sm_120a, debug\n";
        assert_eq!(target_of(text), Target::named("sm_120a"));
        assert_eq!(target_of(b".version 8.0\n"), None);
        assert!(is_only_newer(&Offer::Text(text.to_vec()), H200));
        assert!(!is_only_newer(&Offer::Text(b".target sm_80 // old\n".to_vec()), H200));
    }

    #[test]
    fn an_image_is_kept_once() {
        let one = forever(b"one".to_vec());
        assert!(std::ptr::eq(one, forever(b"one".to_vec())));
        assert!(!std::ptr::eq(one, forever(b"two".to_vec())));
    }
}

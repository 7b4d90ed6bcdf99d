//! What a launch will take, for whoever must decide before it runs.
//!
//! Answers stand in the table of times ([`times`]), by kernel and shape. What is not in it is worked out once: from times
//! measured in this process, the kernel's own line, or the small network where its file is at hand. A number from the
//! small network, or from none at all, is a guess and marked as one. Whoever asks for a guess looks whether the
//! collector's trees have answered meanwhile, and takes their number. That costs one load of a word that seldom
//! changes. Only for programs that are scheduled, or where `APEX_PREDICT` says so.

use crate::driver::{capability::real_attribute, driver};
use crate::settings::knobs;
use crate::state::shape::grid_and_block;
use crate::state::{
    extras::{self, Extra},
    kernels::Named,
    lock::{Lock, locked},
    process::{guard, tell},
    thread,
    times::{self, LaunchKey, Origin, Time},
};
use apex_core::KernelId;
use apex_core::answer_page::{DeviceKey, Page, kernel_key, launch_key};
use apex_core::event::LaunchShape;
use apex_core::facts::{self, Fact, Foresight};
use apex_core::small_file::{MADE, read};
use apex_cuda::types::CUdevice;
use apex_models::Model as _;
use apex_policy::predict::answer::{Knowledge, Models, Source};
use apex_policy::predict::network::SmallNetwork;
use apex_policy::predict::question::{Device, Kernel, Question};
use apex_policy::{Carveout, Chip};
use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

static LEARNED: Lock<Option<Learned>> = Lock::new(None);
/// What the collector answers, where it does.
static ANSWERS: OnceLock<Option<Page>> = OnceLock::new();
/// Answers that were there when guesses were last compared with them.
static COMPARED: AtomicU64 = AtomicU64::new(0);

const CONFIGURATIONS: usize = 1 << 12;
const KERNELS: usize = 1 << 9;
/// Guesses that wait for an answer at most; later ones stay guesses until they are measured.
const MOST_GUESSES: usize = 1 << 12;
const SMALL_FILE: &str = "small-network.safetensors";

/// What this process has learned.
struct Learned {
    knowledge: Knowledge,
    kernels: HashMap<u32, Known>,
    device: Device,
    device_key: DeviceKey,
    /// What was guessed and not yet answered: its key here, and on the page of answers.
    guesses: Vec<(LaunchKey, u64)>,
    small: Option<SmallNetwork>,
    foresight: Foresight,
}

/// A kernel that was looked up.
#[derive(Clone, Copy)]
struct Known {
    kernel: Kernel,
    /// Its part of keys on the page of answers.
    key: u64,
}

/// The time that a launch will take in nanoseconds, where it or its kernel is known.
#[inline(always)]
pub(crate) fn predicted_ns(kernel: KernelId, shape: &LaunchShape) -> Option<u64> {
    let key = LaunchKey::of(kernel, shape);
    match times::find(key) {
        Some(Time { origin: Origin::Guess, .. }) if are_answers_new() => {
            guard(|| compare(key)).flatten()
        }
        Some(time) => Some(time.nanos),
        None => guard(|| work_out(kernel, shape, key)).flatten(),
    }
}

/// Whether the collector has answered anything since the last comparison.
#[inline(always)]
fn are_answers_new() -> bool {
    let page = ANSWERS.get().copied().flatten();
    page.is_some_and(|page| page.count() != COMPARED.load(Ordering::Relaxed))
}

/// Puts the answers there are in the place of guesses; says what is known under a key afterwards.
#[cold]
fn compare(key: LaunchKey) -> Option<u64> {
    let page = ANSWERS.get().copied().flatten();
    let news = with_learned(|learned| {
        let page = page?;
        // Before the look: what comes meanwhile is found by the next.
        COMPARED.store(page.count(), Ordering::Relaxed);
        let before = learned.guesses.len();
        learned.guesses.retain(|&(key, asked)| {
            // A guess that made room for another, or for a measured time, waits for nothing.
            let stands = times::find(key).is_some_and(|time| time.origin == Origin::Guess);
            let answer = page.find(asked).filter(|_| stands);
            if let Some(nanos) = answer {
                times::suppose(key, nanos as u64, Origin::Model);
                learned.foresight.answered += 1;
            }
            stands && answer.is_none()
        });
        (learned.guesses.len() < before).then(|| learned.foresight.clone())
    });
    if let Some(foresight) = news.flatten() {
        tell(&Fact::Foresight(foresight));
    }
    times::find(key).map(|time| time.nanos)
}

/// A kernel got its number.
pub(crate) fn named(named: &Named) {
    if named.is_new && extras::has(Extra::Predictions) {
        kernel_known(named.number, named.facts);
    }
}

#[cold]
fn kernel_known(number: u32, facts: &facts::Kernel) {
    let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let kernel = Kernel {
        identity: u64::from(number),
        registers: small(facts.registers),
        static_shared: small(facts.static_shared),
        max_dynamic_shared: small(facts.max_dynamic_shared),
        local_bytes: small(facts.local),
        carveout: Carveout::from_attribute(i32::try_from(facts.carveout).unwrap_or(-1)),
        ..Kernel::default()
    };
    with_learned(|learned| {
        let key = kernel_key(facts, &learned.device_key);
        learned.kernels.insert(number, Known { kernel, key });
    });
}

/// A launch was timed that was `foretold` to take so long: the models get the better number.
#[cold]
pub(crate) fn measured(kernel: KernelId, shape: &LaunchShape, nanos: u64, foretold: Option<u64>) {
    let news = with_learned(|learned| {
        let known = *learned.kernels.get(&kernel.0)?;
        let device = learned.device;
        learned.knowledge.learn(&question(&device, &known.kernel, shape), nanos as f32);
        let foresight = &mut learned.foresight;
        foresight.timed += 1;
        let near = foretold.is_some_and(|foretold| foretold.abs_diff(nanos) * 10 <= nanos);
        foresight.near += u64::from(near);
        foresight.timed.is_power_of_two().then(|| foresight.clone())
    });
    if let Some(foresight) = news.flatten() {
        tell(&Fact::Foresight(foresight));
    }
}

/// In a forked child: its kernels have other numbers.
pub(crate) fn forget() {
    COMPARED.store(0, Ordering::Relaxed);
    if let Some(mut learned) = locked(&LEARNED) {
        *learned = None;
    }
}

fn work_out(kernel: KernelId, shape: &LaunchShape, key: LaunchKey) -> Option<u64> {
    let time = with_learned(|learned| {
        let known = learned.kernels.get(&kernel.0)?;
        let models = Models { small: learned.small.as_ref(), trees: None };
        let question = question(&learned.device, &known.kernel, shape);
        let time = learned.knowledge.predict(&question, models).time;
        if !(time.nanos.is_finite() && time.nanos > 0.0) {
            return None;
        }
        let is_guess = matches!(time.source, Source::SmallNetwork | Source::Bound);
        if is_guess && learned.guesses.len() < MOST_GUESSES {
            learned.guesses.push((key, launch_key(known.key, shape)));
            times::suppose(key, time.nanos as u64, Origin::Guess);
        } else {
            times::suppose(key, time.nanos as u64, Origin::Model);
        }
        Some(time.nanos)
    });
    time.flatten().map(|nanos| nanos as u64)
}

fn question<'a>(device: &'a Device, kernel: &'a Kernel, shape: &LaunchShape) -> Question<'a> {
    Question::by_shape(device, kernel, grid_and_block(shape), shape.dynamic_shared)
}

fn with_learned<T>(part: impl FnOnce(&mut Learned) -> T) -> Option<T> {
    // The driver is asked before the lock is taken: it may call back.
    let fresh = match locked(&LEARNED)?.is_some() {
        true => None,
        false => {
            let fresh = begin();
            if fresh.is_none() {
                // A device that nothing is known of stays so: it is not asked at every launch.
                thread::switch(Extra::Predictions, false);
            }
            Some(fresh?)
        }
    };
    let mut learned = locked(&LEARNED)?;
    if learned.is_none() {
        *learned = fresh;
    }
    learned.as_mut().map(part)
}

fn begin() -> Option<Learned> {
    let (device, device_key) = device()?;
    let knobs = knobs();
    let small = knobs
        .models
        .as_ref()
        .and_then(|folder| SmallNetwork::read(&read(&folder.join(SMALL_FILE), MADE).ok()?).ok());
    ANSWERS.get_or_init(|| Page::map(knobs.rings.as_deref()?).ok());
    // The collector answers those who want predictions, and this says so.
    tell(&Fact::Foresight(Foresight::default()));
    Some(Learned {
        knowledge: Knowledge::new(CONFIGURATIONS, KERNELS),
        kernels: HashMap::new(),
        device,
        device_key,
        guesses: Vec::new(),
        small,
        foresight: Foresight::default(),
    })
}

/// The current device, by what the driver says of it, and how it is named on the page of answers.
fn device() -> Option<(Device, DeviceKey)> {
    let mut device: CUdevice = 0;
    // SAFETY: a valid place for the answer.
    unsafe { (driver().cuCtxGetDevice)(&raw mut device) };
    let attribute = |number| u32::try_from(real_attribute(number, device)).unwrap_or(0);
    let (major, minor) = (attribute(75), attribute(76));
    let chip = Chip::for_capability(major, minor)?;
    // Kilohertz of the memory times the bits of its bus, twice a clock.
    let bytes_per_second = attribute(36) as f32 * 1e3 * 2.0 * attribute(37) as f32 / 8.0;
    let (sms, clock_khz, l2) = (attribute(16), attribute(13), u64::from(attribute(38)));
    let key = DeviceKey {
        capability: (major.into(), minor.into()),
        sms: sms.into(),
        clock_khz: clock_khz.into(),
    };
    Some((Device::from_attributes(chip, sms, clock_khz, bytes_per_second.max(1e11), l2), key))
}

//! What earlier runs measured of the kernels of this one, and what this one measures for later runs.
//!
//! The files are asked once for each kernel, when the first of its launches is seen. What a time is worth depends on how it
//! was taken. A time by CUPTI serves where events measure, with what these tell beyond it; no other time is converted.
//! A kernel whose code was loaded unseen is not remembered: its name alone does not tell it from others.

use crate::history::{self, History, MOST_SHAPES, Measured, Past, Timed};
use apex_core::event::LaunchShape;
use apex_core::facts;
use apex_policy::predict::programs::EVENTS_OVER_CUPTI;
use apex_policy::predict::repeats::Repeat;
use std::collections::{HashMap, HashSet};

/// Kernels of a session that are told to later runs at most, and shapes of each.
const MOST_KERNELS: usize = 20_000;
const MOST_SEEN_SHAPES: usize = 4 * MOST_SHAPES;

/// The past of a session's kernels.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    /// The user's own first.
    histories: Vec<History>,
    asked: HashSet<(u64, Timed)>,
    /// Configurations that are known from earlier runs alone, by the keys of their questions.
    from_earlier: HashSet<u64>,
    seen: HashMap<u64, Seen>,
}

/// A kernel of this session.
#[derive(Debug)]
struct Seen {
    device: String,
    driver: u32,
    code: u64,
    kernel: String,
    shapes: HashMap<(LaunchShape, Timed), u64>,
}

/// A kernel as later runs find it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) kernel: &'a facts::Kernel,
    pub(super) device: &'a str,
    pub(super) driver: u32,
    pub(super) timed: Timed,
}

impl Place<'_> {
    fn code(&self) -> u64 {
        history::code(self.kernel.image_hash, &self.kernel.name)
    }

    fn key(&self) -> u64 {
        history::key(self.device, self.driver, self.code())
    }
}

/// Half of an interval, in log2, of a time by events that follows from CUPTI's.
const CONVERTED: f32 = 0.12;

/// Times by CUPTI as events would tell them, where these are wanted.
fn by_events(shapes: &[Measured], wanted: Timed) -> Vec<Measured> {
    let by_cupti = shapes.iter().filter(|one| wanted == Timed::Events && one.timed == Timed::Cupti);
    let converted = |one: &Measured| Measured {
        timed: Timed::Events,
        nanos: one.nanos + EVENTS_OVER_CUPTI,
        half_width: one.half_width.max(CONVERTED),
        ..*one
    };
    by_cupti.map(converted).collect()
}

impl Remembered {
    pub(super) fn of(histories: Vec<History>) -> Remembered {
        Remembered { histories, ..Remembered::default() }
    }

    /// What earlier runs measured of a kernel; nothing when it was asked before.
    pub(super) fn recalled(&mut self, place: &Place<'_>) -> Vec<Measured> {
        if self.histories.is_empty() || place.kernel.image_hash == 0 {
            return Vec::new();
        }
        let key = place.key();
        if self.asked.len() >= MOST_KERNELS || !self.asked.insert((key, place.timed)) {
            return Vec::new();
        }
        let found = self.histories.iter().find_map(|history| {
            let shapes = history.find(key)?.shapes;
            let alike: Vec<Measured> =
                shapes.iter().filter(|one| one.timed == place.timed).copied().collect();
            let by_cupti = || by_events(&shapes, place.timed);
            Some(if alike.is_empty() { by_cupti() } else { alike }).filter(|list| !list.is_empty())
        });
        found.unwrap_or_default()
    }

    /// A configuration is known from an earlier run.
    pub(super) fn is_from_earlier(&mut self, key: u64) {
        self.from_earlier.insert(key);
    }

    /// Whether a configuration is known from earlier runs alone.
    pub(super) fn knows(&self, key: u64) -> bool {
        self.from_earlier.contains(&key)
    }

    /// A configuration was measured in this session; `key` is that of its question.
    pub(super) fn measured(&mut self, place: &Place<'_>, shape: &LaunchShape, key: u64) {
        self.from_earlier.remove(&key);
        if place.kernel.image_hash == 0 || (shape.cluster != [0; 3] && shape.cluster != [1; 3]) {
            return;
        }
        let own = place.key();
        if self.seen.len() >= MOST_KERNELS && !self.seen.contains_key(&own) {
            return;
        }
        let seen = self.seen.entry(own).or_insert_with(|| Seen {
            device: place.device.to_owned(),
            driver: place.driver,
            code: place.code(),
            kernel: place.kernel.name.clone(),
            shapes: HashMap::new(),
        });
        if seen.shapes.len() < MOST_SEEN_SHAPES {
            seen.shapes.insert((LaunchShape { cluster: [0; 3], ..*shape }, place.timed), key);
        }
    }

    /// What later runs are told; `find` says what is known of a configuration by the key of its question.
    pub(super) fn pasts(&self, day: u32, find: impl Fn(u64) -> Option<Repeat>) -> Vec<Past> {
        let measured = |((shape, timed), key): (&(LaunchShape, Timed), &u64)| {
            let Repeat { nanos, half_width, count } = find(*key)?;
            let LaunchShape { grid, block, dynamic_shared, .. } = *shape;
            Some(Measured { grid, block, dynamic_shared, timed: *timed, nanos, half_width, count })
        };
        let past = |seen: &Seen| Past {
            device: seen.device.clone(),
            driver: seen.driver,
            code: seen.code,
            kernel: seen.kernel.clone(),
            day,
            shapes: seen.shapes.iter().filter_map(measured).collect(),
        };
        self.seen.values().map(past).collect()
    }
}

//! Parts rows by kernel and by configuration, never at random.
//!
//! Some kernels are held out entirely: nothing of them is trained on, so they show what happens with a kernel
//! never seen. Of the others, some configurations are held out: what happens with a known kernel in a new shape
//! or with new arguments. A third share of both kinds is kept for the intervals alone. Rows of one configuration
//! always go together, so no measured time is ever asked for that was learned.

use crate::random::{Random, named};
use crate::rows::Row;
use apex_policy::predict::repeats::key_of;

/// The part a row belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Models are trained on it.
    Train,
    /// Known kernels, unseen configurations; intervals are set on it.
    CalibrateKnown,
    /// Unseen kernels; intervals are set on it.
    CalibrateUnseen,
    /// Known kernels, unseen configurations; models are judged on it.
    JudgeKnown,
    /// Unseen kernels; models are judged on it.
    JudgeUnseen,
}

/// Of twenty kernels, so many are held out to judge, and so many to set intervals.
const KERNELS: (usize, usize) = (4, 3);
/// Of a hundred configurations of the others, likewise.
const CONFIGURATIONS: (u64, u64) = (12, 10);

/// The part of every row.
#[must_use]
pub fn parts(rows: &[Row], seed: u64) -> Vec<Part> {
    let mut kernels: Vec<&str> = rows.iter().map(|row| row.kernel.as_str()).collect();
    kernels.sort_unstable();
    kernels.dedup();
    Random::new(seed).shuffle(&mut kernels);
    let judged = (kernels.len() * KERNELS.0 / 20).max(1);
    let calibrated = (kernels.len() * KERNELS.1 / 20).max(1);
    let of_kernel = |name: &str| {
        let place = kernels.iter().position(|kernel| *kernel == name).unwrap_or(usize::MAX);
        match place {
            place if place < judged => Some(Part::JudgeUnseen),
            place if place < judged + calibrated => Some(Part::CalibrateUnseen),
            _ => None,
        }
    };
    rows.iter()
        .map(|row| of_kernel(&row.kernel).unwrap_or_else(|| of_configuration(row, seed)))
        .collect()
}

fn of_configuration(row: &Row, seed: u64) -> Part {
    let key = key_of(row.identity, &row.shape(), row.dynamic_shared, &row.arguments());
    match named(seed, &format!("{} {key:016x}", row.entry)) % 100 {
        share if share < CONFIGURATIONS.0 => Part::JudgeKnown,
        share if share < CONFIGURATIONS.0 + CONFIGURATIONS.1 => Part::CalibrateKnown,
        _ => Part::Train,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn rows() -> Vec<Row> {
        let row = |nth: u32| Row {
            kernel: format!("kernel{}", nth % 20),
            grid_x: nth / 40,
            block_x: 32,
            ..Row::default()
        };
        (0..8_000).map(row).collect()
    }

    #[test]
    fn kernels_and_configurations_never_cross() {
        let rows = rows();
        let parts = parts(&rows, 3);
        let mut of_kernel: BTreeMap<&str, BTreeSet<Part>> = BTreeMap::new();
        let mut of_configuration: BTreeMap<(&str, u32), BTreeSet<Part>> = BTreeMap::new();
        for (row, part) in rows.iter().zip(&parts) {
            of_kernel.entry(&row.kernel).or_default().insert(*part);
            of_configuration.entry((&row.kernel, row.grid_x)).or_default().insert(*part);
        }
        let unseen = |parts: &&BTreeSet<Part>| parts.contains(&Part::JudgeUnseen);
        assert!(of_configuration.values().all(|parts| parts.len() == 1));
        assert_eq!(of_kernel.values().filter(unseen).count(), 4);
        assert!(of_kernel.values().filter(unseen).all(|parts| parts.len() == 1));
        let trained = parts.iter().filter(|part| **part == Part::Train).count() as f32 / 8_000.0;
        assert!((0.45..0.57).contains(&trained), "{trained}");
    }

    #[test]
    fn a_seed_decides() {
        let rows = rows();
        assert_eq!(parts(&rows, 1), parts(&rows, 1));
        assert_ne!(parts(&rows, 1), parts(&rows, 2));
    }
}

//! Which rows are for what, and what each is shown with.

use crate::Error;
use crate::costs::costs;
use crate::examples::{Example, Shown, Source, question};
use crate::peaks::Peaks;
use crate::random::named;
use crate::rows::{Facts, Row};
use crate::split::Part;
use apex_policy::predict::features::unseen_doubt;
use apex_policy::predict::likeness::Likeness;
use apex_policy::predict::parts::Group;
use apex_policy::predict::question::Device;
use std::collections::BTreeMap;

const KERNEL_FOLDS: u64 = 5;

/// The device of every row, by its name.
pub(super) fn devices<'a>(
    rows: &[Row],
    peaks: &'a BTreeMap<String, Peaks>,
) -> Result<BTreeMap<&'a str, Device>, Error> {
    let found = peaks.iter().filter_map(|(name, peaks)| Some((name.as_str(), peaks.device()?)));
    let devices: BTreeMap<&str, Device> = found.collect();
    match rows.iter().find(|row| !devices.contains_key(row.device.as_str())) {
        None => Ok(devices),
        Some(row) => Err(Error::Device(format!(
            "nothing is known of {} (compute capability {}.{}): collect rows on it first",
            row.device, row.major, row.minor
        ))),
    }
}

/// How far a launch of a kernel never seen is from what is expected of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Apart {
    /// log2 of expected over measured time, by costs that were found without the kernel.
    pub(super) error: f32,
    /// How much what is expected was doubted.
    pub(super) doubt: f32,
    /// Whether nobody walked its text.
    pub(super) blind: bool,
}

/// A launch of a kernel that was measured once.
#[derive(Clone, Debug)]
pub(super) struct Once {
    pub(super) example: Example,
    /// Whether nobody walked its text.
    pub(super) blind: bool,
}

/// What to expect of the expectation for a kernel never seen, and for one that was measured once: each row by costs
/// from rows of other kernels, because a kernel whose rows found the costs is explained by them too well. Rows whose
/// text was walked are shown as if nobody had, too. Kernels that judge have no part in it.
pub(super) fn expected_apart(
    rows: &[Row],
    parts: &[Part],
    devices: &BTreeMap<&str, Device>,
    likeness: &Likeness,
    seed: u64,
) -> (Vec<Apart>, Vec<Once>) {
    let (mut errors, mut after_one) = (Vec::new(), Vec::new());
    let unwalked = |row: &Row| Row { walked: String::new(), ..row.clone() };
    let blind: Vec<Row> = rows.iter().map(unwalked).collect();
    for (name, device) in devices {
        let used: Vec<usize> = (0..rows.len())
            .filter(|&place| rows[place].device == *name && parts[place] != Part::JudgeUnseen)
            .collect();
        let facts: Vec<(&Row, Facts)> =
            used.iter().map(|&place| (&rows[place], rows[place].facts())).collect();
        for fold in 0..KERNEL_FOLDS {
            let apart = |row: &Row| named(7, &row.kernel) % KERNEL_FOLDS == fold;
            let others = facts.iter().filter(|(row, _)| !apart(row));
            let costs =
                costs(others.map(|(row, facts)| (question(row, device, facts), row.median_ns)));
            let device = Device { costs, ..*device };
            for shown in [rows, &blind] {
                let walked = |place: usize| !shown[place].walked.is_empty();
                // Rows that nobody walked are the same in both.
                let new =
                    |place: usize| std::ptr::eq(shown, rows) || !rows[place].walked.is_empty();
                let of_fold = |place: usize| {
                    shown[place].device == *name && apart(&shown[place]) && new(place)
                };
                let mut source = Source::new(shown, |_| device);
                source.set_likeness(likeness);
                let once = source.examples(parts, Part::Train, Shown::Some(1), seed ^ (30 + fold));
                for example in once.into_iter().filter(|example| of_fold(example.row)) {
                    after_one.push(Once { blind: !walked(example.row), example });
                }
                for &place in used.iter().filter(|&&place| of_fold(place)) {
                    let bound = source.bound(place);
                    let expected = bound.expected();
                    let doubt = unseen_doubt(bound.anatomy.share(Group::Launch));
                    let error = (f64::from(expected) / shown[place].median_ns).log2() as f32;
                    errors.push(Apart { error, doubt, blind: !walked(place) });
                }
            }
        }
    }
    (errors, after_one)
}

/// Examples by what they are for.
pub(super) struct Sets {
    pub(super) train: Vec<Example>,
    /// Training rows without a history.
    pub(super) cold: Vec<Example>,
    pub(super) calibrate: Vec<Example>,
    /// Launches of kernels as if these had never been seen.
    pub(super) apart: Vec<Apart>,
    /// Launches of kernels as if these had been measured once and had told nothing of the device.
    pub(super) after_one: Vec<Once>,
}

pub(super) const COLD_SALT: u64 = 1;
/// How often a row is shown, each time with another history.
pub(super) const SHOWN: usize = 6;

impl Sets {
    pub(super) fn new(
        source: &Source<'_>,
        parts: &[Part],
        seed: u64,
        (apart, after_one): (Vec<Apart>, Vec<Once>),
    ) -> Sets {
        let of = |part, shown, salt: u64| source.examples(parts, part, shown, seed ^ salt);
        let cold = of(Part::Train, Shown::Nothing, COLD_SALT);
        let mut train = cold.clone();
        const FURTHER: [Shown; SHOWN - 1] =
            [Shown::Some(1), Shown::Some(3), Shown::Some(9), Shown::AllOthers, Shown::AllOthers];
        for (salt, shown) in (2..).zip(FURTHER) {
            train.extend(of(Part::Train, shown, salt));
        }
        let mut calibrate = of(Part::CalibrateKnown, Shown::AllOthers, 10);
        for (salt, shown) in (11..).zip([
            Shown::Nothing,
            Shown::Some(1),
            Shown::Some(3),
            Shown::Some(9),
            Shown::Some(10),
        ]) {
            calibrate.extend(of(Part::CalibrateUnseen, shown, salt));
        }
        Sets { train, cold, calibrate, apart, after_one }
    }

    /// Rows kept apart, in two halves: the first chooses, the second sets intervals for what was chosen.
    pub(super) fn halves(&self) -> (Vec<&Example>, Vec<&Example>) {
        self.calibrate.iter().partition(|example| example.row.is_multiple_of(2))
    }
}

/// Rows that no model has seen, as they are asked about.
pub(super) fn judged_sets(
    source: &Source<'_>,
    parts: &[Part],
    seed: u64,
) -> Vec<(&'static str, Vec<Example>)> {
    let of = |part, shown, salt: u64| source.examples(parts, part, shown, seed ^ salt);
    vec![
        ("known", of(Part::JudgeKnown, Shown::AllOthers, 20)),
        ("unseen", of(Part::JudgeUnseen, Shown::Nothing, 21)),
        ("unseen after 1", of(Part::JudgeUnseen, Shown::Some(1), 22)),
        ("unseen after 3", of(Part::JudgeUnseen, Shown::Some(3), 23)),
        ("unseen after 10", of(Part::JudgeUnseen, Shown::Some(10), 24)),
    ]
}

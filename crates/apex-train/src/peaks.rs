//! What a device reached at best in the measured rows: the bound that every model corrects.
//!
//! The driver tells neither what memory gives in practice nor what an empty kernel costs, so both are taken from
//! the data: the fastest rows, a little above the crowd, so that one wrong row sets no bound. They are written
//! with the models, because a model is true only over the bound it was trained with. So are the costs of a launch's
//! parts, from which the time to expect is added up.

use crate::costs::costs;
use crate::examples::question;
use crate::rows::{Facts, Row};
use apex_policy::Chip;
use apex_policy::predict::parts::{Costs, NAMES, USUAL};
use apex_policy::predict::question::Device;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The peaks of one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Peaks {
    /// Compute capability, major.
    pub major: u32,
    /// Compute capability, minor.
    pub minor: u32,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of second-level cache.
    pub l2_bytes: u64,
    /// Bytes a second beyond the cache.
    pub bytes_per_second: f32,
    /// Single-precision operations a second.
    pub flops_per_second: f32,
    /// Double precision relative to single.
    pub double_rate: f32,
    /// Matrix units relative to single precision.
    pub tensor_rate: f32,
    /// Nanoseconds of the shortest kernels.
    pub floor_nanos: f32,
    /// What the parts of a launch cost in nanoseconds, by their names.
    pub costs: BTreeMap<String, f32>,
}

impl Peaks {
    /// The device that models see.
    #[must_use]
    pub fn device(&self) -> Option<Device> {
        Some(Device {
            chip: Chip::for_capability(self.major, self.minor)?,
            multiprocessors: self.multiprocessors,
            bytes_per_second: self.bytes_per_second,
            flops_per_second: self.flops_per_second,
            double_rate: self.double_rate,
            tensor_rate: self.tensor_rate,
            l2_bytes: self.l2_bytes,
            floor_nanos: self.floor_nanos,
            costs: self.costs(),
        })
    }
}

impl Peaks {
    /// The costs by their places; a part that is not listed has its usual one.
    fn costs(&self) -> Costs {
        std::array::from_fn(|part| self.costs.get(NAMES[part]).copied().unwrap_or(USUAL[part]))
    }
}

/// The peaks of every device in the rows, by its name.
#[must_use]
pub fn peaks(rows: &[Row]) -> BTreeMap<String, Peaks> {
    let mut by_device: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.is_usable()) {
        by_device.entry(row.device.clone()).or_default().push(row);
    }
    let found = |(name, rows): (String, Vec<&Row>)| Some((name, of_device(&rows)?));
    by_device.into_iter().filter_map(found).collect()
}

fn of_device(rows: &[&Row]) -> Option<Peaks> {
    let first = rows.first()?;
    let beyond_cache =
        |row: &&&Row| row.bytes_read + row.bytes_written > 2.0 * first.l2_bytes as f64;
    let mut speeds: Vec<f64> =
        rows.iter().filter(beyond_cache).map(|row| bytes_rate(row)).collect();
    if speeds.len() < 8 {
        speeds = rows.iter().map(|row| bytes_rate(row)).collect();
    }
    let rate = |pipe: &str| {
        let rates = rows.iter().filter(|row| row.pipe == pipe && row.flops > 0.0);
        upper(rates.map(|row| row.flops / row.median_ns * 1e9).collect())
    };
    let single = rate("single").unwrap_or(1e12);
    let floor = lower(rows.iter().map(|row| row.median_ns).collect())?;
    let mut peaks = Peaks {
        major: first.major,
        minor: first.minor,
        multiprocessors: first.multiprocessors,
        l2_bytes: first.l2_bytes,
        bytes_per_second: upper(speeds).filter(|speed| *speed > 0.0).unwrap_or(1e12) as f32,
        flops_per_second: single as f32,
        double_rate: (rate("double").unwrap_or(single / 2.0) / single) as f32,
        tensor_rate: (rate("tensor").unwrap_or(single * 10.0) / single) as f32,
        floor_nanos: floor as f32,
        costs: BTreeMap::new(),
    };
    if let Some(device) = peaks.device() {
        let facts: Vec<Facts> = rows.iter().map(|row| row.facts()).collect();
        let measured = rows
            .iter()
            .zip(&facts)
            .map(|(row, facts)| (question(row, &device, facts), row.median_ns));
        let found = costs(measured);
        peaks.costs = NAMES.iter().map(|name| (*name).to_owned()).zip(found).collect();
    }
    Some(peaks)
}

fn bytes_rate(row: &Row) -> f64 {
    (row.bytes_read + row.bytes_written) / row.median_ns * 1e9
}

/// Nearly the largest: one in two hundred may lie above.
fn upper(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get((values.len().checked_sub(1)?) * 199 / 200).copied()
}

/// Nearly the smallest.
fn lower(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 200).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_what_the_fastest_rows_reached() {
        let row = |nth: u32, bytes: f64, flops: f64, ns: f64| Row {
            device: "d".into(),
            major: 9,
            multiprocessors: 132,
            l2_bytes: 1000,
            pipe: if nth.is_multiple_of(10) { "double" } else { "single" }.into(),
            bytes_read: bytes,
            flops,
            grid_x: 1,
            grid_y: 1,
            grid_z: 1,
            block_x: 32,
            block_y: 1,
            block_z: 1,
            median_ns: ns,
            ..Row::default()
        };
        let rows: Vec<Row> =
            (1..=100).map(|nth| row(nth, 1e6, f64::from(nth) * 1e3, 2_000.0)).collect();
        let found = peaks(&rows);
        let peaks = &found["d"];
        assert_eq!(peaks.bytes_per_second, 5e11);
        assert_eq!(peaks.floor_nanos, 2_000.0);
        assert!((peaks.flops_per_second / 49e9 - 1.0).abs() < 0.02);
        assert!(peaks.double_rate > 0.8 && peaks.double_rate < 1.05);
        assert_eq!(peaks.device().unwrap().multiprocessors, 132);
    }
}

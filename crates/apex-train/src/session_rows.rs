//! Makes rows of a recorded session, so that a user's own programs become training data.
//!
//! A session knows kernels, shapes and times, but neither arguments nor work: those stay empty. Times of one
//! configuration are put together; times from a stream that had run dry are upper bounds and are left out.

use crate::rows::Row;
use apex_core::event::{LaunchShape, TimeBasis};
use apex_core::facts::{Device, Kernel};
use apex_policy::predict::features::{FNV_START, fnv};
use std::collections::BTreeMap;

/// Times of one session by configuration.
#[derive(Debug, Default)]
pub struct SessionRows {
    times: BTreeMap<(u64, u64, LaunchShape), (Row, Vec<f64>)>,
    /// Times that were left out because they are upper bounds.
    pub left_out: u64,
}

impl SessionRows {
    /// Takes in one measured time.
    pub fn add(
        &mut self,
        kernel: &Kernel,
        device: &Device,
        shape: &LaunchShape,
        nanos: u64,
        basis: TimeBasis,
    ) {
        if basis == TimeBasis::EventPairIdle || nanos == 0 {
            self.left_out += 1;
            return;
        }
        let identity = fnv(FNV_START ^ kernel.image_hash, kernel.name.as_bytes());
        let key = (identity, device.ordinal, *shape);
        let entry = self
            .times
            .entry(key)
            .or_insert_with(|| (row(kernel, device, shape, identity), Vec::new()));
        entry.1.push(nanos as f64);
    }

    /// The rows, marked as coming from `source`. A configuration with a single time has no spread and is kept
    /// all the same: the count of runs says so.
    #[must_use]
    pub fn rows(self, source: &str, driver: u32) -> Vec<Row> {
        let finish = |(row, mut times): (Row, Vec<f64>)| {
            times.sort_by(f64::total_cmp);
            let at = |share: usize| times[(times.len() - 1) * share / 4];
            Row {
                source: source.into(),
                driver,
                runs: times.len() as u32,
                median_ns: at(2),
                quartiles_ns: at(3) - at(1),
                ..row
            }
        };
        self.times.into_values().map(finish).collect()
    }
}

fn row(kernel: &Kernel, device: &Device, shape: &LaunchShape, identity: u64) -> Row {
    let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    Row {
        kernel: kernel.name.clone(),
        entry: kernel.name.clone(),
        identity,
        device: device.name.clone(),
        major: small(device.major),
        minor: small(device.minor),
        multiprocessors: small(device.sms),
        l2_bytes: device.l2,
        grid_x: shape.grid[0],
        grid_y: shape.grid[1],
        grid_z: shape.grid[2],
        block_x: u32::from(shape.block[0]),
        block_y: u32::from(shape.block[1]),
        block_z: u32::from(shape.block[2]),
        dynamic_shared: shape.dynamic_shared,
        registers: small(kernel.registers),
        static_shared: small(kernel.static_shared),
        max_dynamic_shared: small(kernel.max_dynamic_shared),
        local_bytes: small(kernel.local),
        carveout: i32::try_from(kernel.carveout).unwrap_or(-1),
        ..Row::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_one_configuration_are_put_together() {
        let kernel = Kernel { name: "k".into(), registers: 40, image_hash: 9, ..Kernel::default() };
        let device = Device { name: "d".into(), major: 9, sms: 132, ..Device::default() };
        let shape =
            |x| LaunchShape { grid: [x, 1, 1], block: [256, 1, 1], ..LaunchShape::default() };
        let mut session = SessionRows::default();
        for (x, nanos) in [(1, 100), (1, 120), (1, 110), (2, 300)] {
            session.add(&kernel, &device, &shape(x), nanos, TimeBasis::Cupti);
        }
        session.add(&kernel, &device, &shape(3), 50, TimeBasis::EventPairIdle);
        assert_eq!(session.left_out, 1);
        let rows = session.rows("s", 13_000);
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].runs, rows[0].median_ns, rows[0].registers), (3, 110.0, 40));
        assert_eq!((rows[1].runs, rows[1].median_ns), (1, 300.0));
        assert!(rows.iter().all(Row::is_usable) && !rows[0].work_known);
    }
}

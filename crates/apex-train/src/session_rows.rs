//! Makes rows of a recorded session, so that a user's own programs become training data.
//!
//! A session knows kernels, shapes and times. What launches passed and what their code says is known of those that were
//! looked at closely; operations and bytes nobody counted. Times of one configuration are put together; times from a
//! stream that had run dry are upper bounds and are left out.

use crate::rows::{Row, joined, joined_words};
use apex_core::event::{LaunchShape, TimeBasis};
use apex_core::facts::{Device, Kernel};
use apex_policy::predict::features::{FNV_START, fnv};
use std::collections::{BTreeMap, HashMap};

/// What the code of a kernel says.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Its instructions by kind.
    pub mix: Vec<u32>,
    /// The operations of its machine code.
    pub machine: String,
}

/// What a launch passed and did.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Sizes of its parameters.
    pub sizes: Vec<u64>,
    /// Values of parameters of eight bytes or fewer.
    pub values: Vec<u64>,
    /// Bytes of the allocation that each points to.
    pub bytes: Vec<u64>,
    /// Words of longer parameters.
    pub inside: Vec<u64>,
    /// Bytes of the allocation that each of these points to.
    pub inside_bytes: Vec<u64>,
    /// What its warps do; empty where they were not walked.
    pub walked: Vec<f32>,
}

/// A kernel by the hash of its image and its name.
pub type Name = (u64, String);

/// Kernel, device, shape, and how times were taken.
type Configuration = (u64, u64, LaunchShape, &'static str);

/// Times of one session by configuration.
#[derive(Debug, Default)]
pub struct SessionRows {
    times: BTreeMap<Configuration, (Row, Vec<f64>)>,
    /// What the code of kernels says.
    pub told: HashMap<Name, Told>,
    /// What launches passed, by kernel and shape: sides of grid, block and cluster, and dynamic shared memory.
    pub seen: HashMap<(Name, Vec<u64>), Seen>,
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
        let word = if basis == TimeBasis::Cupti { "cupti" } else { "events" };
        let identity = fnv(FNV_START ^ kernel.image_hash, kernel.name.as_bytes());
        let key = (identity, device.ordinal, *shape, word);
        let SessionRows { times, told, seen, .. } = self;
        let order = times.len() as u32;
        let entry = times.entry(key).or_insert_with(|| {
            let mut row = row(kernel, device, shape, identity);
            (row.basis, row.order, row.first_ns) = (word.into(), order, nanos as f64);
            let name = (kernel.image_hash, kernel.name.clone());
            if let Some(told) = told.get(&name) {
                row.mix = joined_words(&told.mix);
                row.machine.clone_from(&told.machine);
            }
            if let Some(seen) = seen.get(&(name, sides(shape))) {
                take_seen(&mut row, seen);
            }
            (row, Vec::new())
        });
        entry.1.push(nanos as f64);
    }

    /// The rows, marked as coming from `source`. A configuration with a single time has no spread and is kept
    /// all the same: the count of runs says so.
    #[must_use]
    pub fn rows(self, source: &str, driver: u32, unix_seconds: u64) -> Vec<Row> {
        let finish = |(row, mut times): (Row, Vec<f64>)| {
            times.sort_by(f64::total_cmp);
            let at = |share: usize| times[(times.len() - 1) * share / 4];
            Row {
                source: source.into(),
                driver,
                unix_seconds,
                runs: times.len() as u32,
                median_ns: at(2),
                quartiles_ns: at(3) - at(1),
                ..row
            }
        };
        self.times.into_values().map(finish).collect()
    }
}

/// A shape as sessions write it.
fn sides(shape: &LaunchShape) -> Vec<u64> {
    let LaunchShape { grid, block, cluster, dynamic_shared } = *shape;
    let sides = grid.into_iter().chain(block.map(u32::from)).chain(cluster.map(u32::from));
    sides.chain([dynamic_shared]).map(u64::from).collect()
}

/// Eight bytes that lie in an allocation are a pointer, everything else of eight bytes or fewer an integer.
fn take_seen(row: &mut Row, seen: &Seen) {
    let small =
        || seen.values.iter().zip(&seen.bytes).zip(&seen.sizes).filter(|(_, size)| **size <= 8);
    row.integers =
        joined(small().filter(|((_, bytes), _)| **bytes == 0).map(|((value, _), _)| *value));
    row.allocations = joined(small().map(|((_, bytes), _)| *bytes).filter(|bytes| *bytes > 0));
    row.sizes = joined(seen.sizes.iter().copied());
    row.walked = joined_words(&seen.walked);
    let inside = seen.inside.iter().zip(&seen.inside_bytes);
    row.inside = joined_words(inside.map(|(value, bytes)| match bytes {
        0 => value.to_string(),
        bytes => format!("@{bytes}"),
    }));
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
        let rows = session.rows("s", 13_000, 5);
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].runs, rows[0].median_ns, rows[0].registers), (3, 110.0, 40));
        assert_eq!((rows[0].basis.as_str(), rows[0].first_ns, rows[1].order), ("cupti", 100.0, 1));
        assert_eq!((rows[1].runs, rows[1].median_ns), (1, 300.0));
        assert!(rows.iter().all(Row::is_usable) && !rows[0].work_known);
    }

    #[test]
    fn what_was_seen_of_a_launch_stands_in_its_row() {
        let kernel = Kernel { name: "k".into(), image_hash: 9, ..Kernel::default() };
        let device = Device { name: "d".into(), major: 9, sms: 132, ..Device::default() };
        let shape = LaunchShape { grid: [4, 1, 1], block: [64, 1, 1], ..LaunchShape::default() };
        let name = (9, "k".to_owned());
        let mut session = SessionRows::default();
        let told = Told { mix: vec![7, 1], machine: "0 118/0:1:0:0".into() };
        session.told.insert(name.clone(), told);
        let seen = Seen {
            sizes: vec![8, 4, 24],
            values: vec![0, 100, 0],
            bytes: vec![4096, 0, 0],
            inside: vec![5, 0, 3],
            inside_bytes: vec![0, 512, 0],
            walked: vec![1.5],
        };
        session.seen.insert((name, sides(&shape)), seen);
        session.add(&kernel, &device, &shape, 50, TimeBasis::EventPair);
        session.add(&kernel, &device, &shape, 40, TimeBasis::Cupti);
        let rows = session.rows("s", 13_000, 5);
        assert_eq!(rows.len(), 2, "times that were taken otherwise are other rows");
        let row = rows.iter().find(|row| row.basis == "events").unwrap();
        assert_eq!((row.integers.as_str(), row.allocations.as_str()), ("100", "4096"));
        assert_eq!((row.inside.as_str(), row.sizes.as_str()), ("5,@512,3", "8,4,24"));
        assert_eq!((row.mix.as_str(), row.walked.as_str()), ("7,1", "1.5"));
        assert_eq!(row.machine, "0 118/0:1:0:0");
    }
}

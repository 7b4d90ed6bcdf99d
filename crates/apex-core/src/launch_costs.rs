//! What launches cost each driver, as `apex bench launch --calibrate` has measured it on this machine.
//!
//! A small file of lines like facts, one for each model of device and version of the driver. The shim reads it once a
//! process, bounded and without believing it: a line that is not understood, or that holds an impossible number, is none.

use crate::facts::{Field, facts};
use crate::small_file::{self, WRITTEN};
use std::io;
use std::path::Path;

/// Its name in the state directory.
pub const FILE: &str = "launch-costs";

facts! {
    /// One device with one driver; times in nanoseconds.
    "costs" Costs {
        /// The device's name.
        device: String,
        /// The driver's version, as `cuDriverGetVersion` gives it.
        driver: u64,
        /// A launch in a row of dependent ones, end to end.
        launch_ns: u64,
        /// A launch of a graph, without its nodes.
        graph_ns: u64,
        /// A node of a graph, end to end.
        node_ns: u64,
        /// Giving a node other parameters.
        changed_ns: u64,
        /// Building a graph, a node.
        build_ns: u64,
    }
}

/// Longer than this nothing of it takes: ten milliseconds.
const MOST_NS: u64 = 10_000_000;

impl Costs {
    /// Whether a driver may take such times.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        let Costs { launch_ns, graph_ns, node_ns, changed_ns, build_ns, .. } = *self;
        // Changing nodes and launching a graph may be too short to tell; launching a kernel is not.
        (1..=MOST_NS).contains(&launch_ns)
            && [graph_ns, node_ns, changed_ns, build_ns].iter().all(|&ns| ns <= MOST_NS)
    }

    fn is_of(&self, device: &str, driver: u64) -> bool {
        (self.device.as_str(), self.driver) == (device, driver)
    }
}

/// All that a file holds and that is possible.
#[must_use]
pub fn read_all(text: &str) -> Vec<Costs> {
    let parsed = text.lines().filter_map(Fact::parse);
    parsed.map(|Fact::Costs(costs)| costs).filter(Costs::is_possible).collect()
}

/// What a file says of a device and its driver.
#[must_use]
pub fn find(file: &Path, device: &str, driver: u64) -> Option<Costs> {
    let text = small_file::read_text(file, WRITTEN).ok()?;
    read_all(&text).into_iter().rev().find(|costs| costs.is_of(device, driver))
}

/// Writes costs into a file in the place of what it said of that device and driver.
pub fn keep(file: &Path, costs: &Costs) -> io::Result<()> {
    let before = match small_file::read_text(file, WRITTEN) {
        Ok(text) => read_all(&text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    let others = before.into_iter().filter(|old| !old.is_of(&costs.device, costs.driver));
    let lines: String =
        others.chain([costs.clone()]).map(|costs| Fact::Costs(costs).line()).collect();
    // Whoever reads meanwhile finds the old file or the new one.
    let fresh = file.with_extension(format!("{}", std::process::id()));
    std::fs::write(&fresh, lines).and_then(|()| std::fs::rename(&fresh, file)).inspect_err(|_| {
        let _ = std::fs::remove_file(&fresh);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(device: &str, launch_ns: u64) -> Costs {
        Costs {
            device: device.into(),
            driver: 13_000,
            launch_ns,
            build_ns: 4_700,
            ..Costs::default()
        }
    }

    #[test]
    fn each_device_keeps_its_own_costs() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join(FILE);
        assert_eq!(find(&file, "a b", 13_000), None);
        keep(&file, &costs("a b", 3_600)).unwrap();
        keep(&file, &costs("c", 2_000)).unwrap();
        keep(&file, &costs("a b", 3_000)).unwrap();
        assert_eq!(find(&file, "a b", 13_000), Some(costs("a b", 3_000)));
        assert_eq!(find(&file, "c", 13_000), Some(costs("c", 2_000)));
        assert_eq!(find(&file, "c", 12_080), None);
        assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 2);
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_be_is_passed_over() {
        let text = "costs device=a driver=1 launch_ns=0\nrubbish\ncosts device=a driver=1 launch_ns=10000001\n\
                    costs device=a driver=1 launch_ns=5 build_ns=99999999\n\ncosts device=a driver=1 launch_ns=5";
        assert_eq!(read_all(text).len(), 1);
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join(FILE);
        std::fs::write(&file, vec![b'a'; WRITTEN as usize + 1]).unwrap();
        assert_eq!(find(&file, "a", 1), None);
        assert!(keep(&file, &costs("a", 5)).is_err());
        std::fs::write(&file, [0xff, 0xfe]).unwrap();
        assert_eq!(find(&file, "a", 1), None);
    }
}

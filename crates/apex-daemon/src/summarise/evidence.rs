//! The counts of launches as the adviser wants them: by kernel with its needs, by device with its time.

use super::fit::{chip, narrow, needs};
use super::times::Times;
use super::{ConfigKey, HostTime, Tally};
use crate::known::Known;
use crate::names::Demangled;
use apex_policy::LaunchShape;
use apex_policy::advise::{Calls, Device, Kernel, Shape};
use std::collections::{BTreeMap, HashMap};

/// Mean GPU times of one tally.
pub(crate) struct Means<'a> {
    tally: &'a Tally,
    of_kernel: HashMap<(u32, u32), Times>,
    scale: f64,
}

impl Means<'_> {
    /// Of a kernel with a shape, or of the kernel where the shape was never timed.
    pub(crate) fn of(&self, key: &ConfigKey) -> Option<f64> {
        let own = self.tally.configs.get(key).and_then(|config| config.times.mean());
        let mean = own.or_else(|| self.of_kernel.get(&(key.process, key.kernel))?.mean())?;
        Some(mean.nanos * self.scale)
    }
}

impl Tally {
    /// Mean GPU times, to be asked by kernel and shape.
    pub(crate) fn means(&self, known: &Known) -> Means<'_> {
        let mut means = Means { tally: self, of_kernel: self.times_of_kernels(), scale: 1.0 };
        // A few launches speak for all, and those on an idle stream too loudly: together they cannot have
        // taken longer than there was time.
        let executed = self
            .configs
            .iter()
            .map(|(key, config)| means.of(key).unwrap_or(0.0) * config.executed as f64);
        let (all, room) = (executed.sum::<f64>(), self.room_ns(known));
        if all > room && room > 0.0 {
            means.scale = room / all;
        }
        means
    }

    /// The GPU phase, once for each device used.
    fn room_ns(&self, known: &Known) -> f64 {
        let phase = self.last_call_ns.saturating_sub(self.first_call_ns.unwrap_or(0));
        phase as f64 * self.devices_used(known) as f64
    }

    /// The devices that were used, and every kernel that was launched plainly.
    pub(crate) fn kernels_for_advice(
        &self,
        known: &Known,
        names: &mut Demangled,
    ) -> (Vec<Device>, Vec<Kernel>) {
        let means = self.means(known);
        let mut devices: Vec<Device> = Vec::new();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        let mut kernels: BTreeMap<(String, u64), Kernel> = BTreeMap::new();
        let mut keys: Vec<&ConfigKey> = self.configs.keys().collect();
        keys.sort_unstable();
        for key in keys {
            let config = &self.configs[key];
            if config.executed == 0 && config.times.mean().is_none() {
                continue;
            }
            let device = known.device(key.process, key.device);
            let name = device.map_or_else(
                || format!("device {:?} of process {}", key.device, key.process),
                |device| format!("{} {} {}", device.name, device.uuid, device.ordinal),
            );
            let place = *places.entry(name).or_insert_with(|| {
                devices.push(device.map_or_else(Device::default, |device| Device {
                    name: device.name.clone(),
                    chip: chip(device),
                    sms: narrow(device.sms),
                    memory_bytes: device.memory,
                    ..Device::default()
                }));
                devices.len() - 1
            });
            let gpu_ns = means.of(key).map(|mean| mean * config.executed as f64);
            devices[place].busy_ns += gpu_ns.unwrap_or(0.0);
            devices[place].launches += config.executed;
            let facts = known.kernel(key.process, key.kernel);
            let mangled =
                facts.map_or_else(|| format!("(kernel {})", key.kernel), |f| f.name.clone());
            let registers = facts.map_or(0, |facts| facts.registers);
            let kernel = kernels.entry((mangled.clone(), registers)).or_insert_with(|| Kernel {
                name: names.name(&mangled).to_owned(),
                needs: facts.map(|facts| needs(facts, 0)),
                local_bytes: facts.map_or(0, |facts| narrow(facts.local)),
                max_threads: facts.map_or(0, |facts| narrow(facts.max_threads)),
                shapes: Vec::new(),
            });
            // Shapes beyond the limit are counted under one that cannot be launched.
            if key.shape.block == [0; 3] {
                continue;
            }
            kernel.shapes.push(Shape {
                shape: LaunchShape { grid: key.shape.grid, block: key.shape.block.map(u32::from) },
                dynamic_shared: key.shape.dynamic_shared,
                clustered: key.shape.cluster.iter().any(|&side| side > 1),
                device: place,
                calls: config.executed,
                gpu_ns,
            });
        }
        (devices, kernels.into_values().collect())
    }

    /// Launches of each graph that was launched.
    pub(crate) fn graph_launches(&self, process: u32, graph: u32) -> u64 {
        self.graphs.get(&(process, graph)).map_or(0, |graph| graph.launches)
    }

    /// Plain launches and graph launches, and the time in their calls without what first launches loaded.
    pub(crate) fn launch_calls(&self) -> (Calls, Calls) {
        let usual_ns = self.launch_host().mean_ns().unwrap_or(0.0);
        let plain = self.configs.values().fold(Calls::default(), |mut calls, config| {
            calls.count += config.executed;
            calls.host_ns += config.host.without_loading_ns(usual_ns);
            calls
        });
        let graphs = self.graphs.values().fold(Calls::default(), |mut calls, graph| {
            calls.count += graph.launches;
            calls.host_ns += graph.host_ns as f64;
            calls
        });
        (plain, graphs)
    }

    /// Kernels whose first launch took longer than the others, and by how much in all.
    pub(super) fn first_launches(&self) -> (u64, f64) {
        let usual_ns = self.launch_host().mean_ns().unwrap_or(0.0);
        let longer = self.configs.values().map(|config| config.host.loading_ns(usual_ns));
        let longer = longer.filter(|&loading_ns| loading_ns > 0.0);
        longer.fold((0, 0.0), |(count, sum), loading_ns| (count + 1, sum + loading_ns))
    }

    fn launch_host(&self) -> HostTime {
        self.configs.values().fold(HostTime::default(), |sum, config| sum.plus(&config.host))
    }
}

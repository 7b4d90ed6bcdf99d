//! Puts the counts of launches together by kernel and by shape, with their GPU time.
//!
//! GPU time of a shape is the mean of its timed launches times its launches; a shape that was never
//! timed takes the mean of its kernel. Pairs taken on a busy stream are used where there are any,
//! because a pair on an idle stream includes the wait for the launch. CUPTI times every kernel, so there
//! the sum itself is taken.

use super::fit::fit;
use super::times::{Mean, Times, share, total};
use super::{ConfigKey, ConfigTally, GraphTally, Tally};
use crate::known::Known;
use crate::names::Demangled;
use crate::summary::{ConfigSummary, GpuTime, KernelSummary, Summary};
use apex_core::event::TimeBasis;
use apex_policy::amounts::counted;
use std::collections::{BTreeMap, HashMap};

/// Kernels of one name, as they are put together.
#[derive(Default)]
struct Named {
    summary: KernelSummary,
    times: Times,
    total_ns: f64,
    heaviest: f64,
}

impl Tally {
    /// Measured times by process and kernel, all shapes together.
    pub(super) fn times_of_kernels(&self) -> HashMap<(u32, u32), Times> {
        let mut of_kernel: HashMap<(u32, u32), Times> = HashMap::new();
        for (key, config) in &self.configs {
            let times = of_kernel.entry((key.process, key.kernel)).or_default();
            *times = times.plus(&config.times);
        }
        of_kernel
    }

    pub(super) fn kernels(&self, known: &Known, names: &mut Demangled, summary: &mut Summary) {
        let of_kernel = self.times_of_kernels();
        // In a fixed order, so that equal counts give equal documents.
        let configs: BTreeMap<&ConfigKey, &ConfigTally> = self.configs.iter().collect();
        let mut named: BTreeMap<String, Named> = BTreeMap::new();
        for (key, config) in configs {
            let facts = known.kernel(key.process, key.kernel);
            let mangled = facts.map_or_else(|| unnamed(key.kernel), |facts| facts.name.clone());
            let own = config.times.mean();
            let borrowed = own.or_else(|| of_kernel[&(key.process, key.kernel)].mean());
            let total_ns = borrowed.map_or(0.0, |mean| total(mean, config.executed));
            let fit = facts
                .and_then(|facts| fit(known.device(key.process, key.device)?, facts, &key.shape));
            let name = names.name(&mangled).to_owned();
            let entry = named.entry(mangled.clone()).or_default();
            entry.summary.calls += config.executed;
            entry.summary.host_ns += config.host.total_ns();
            entry.summary.shapes += 1;
            entry.times = entry.times.plus(&config.times);
            entry.total_ns += total_ns;
            // The shape that takes the most time stands for the kernel; without times, the most launched.
            let weight = if total_ns > 0.0 { 1e9 + total_ns } else { config.executed as f64 };
            if weight >= entry.heaviest {
                entry.heaviest = weight;
                entry.summary.fit.clone_from(&fit);
            }
            entry.summary.registers = facts.map(|facts| facts.registers);
            entry.summary.static_shared = facts.map(|facts| facts.static_shared);
            entry.summary.name.clone_from(&name);
            entry.summary.mangled = mangled;
            summary.configs.push(ConfigSummary {
                name,
                grid: key.shape.grid,
                block: key.shape.block,
                cluster: key.shape.cluster,
                dynamic_shared: key.shape.dynamic_shared,
                calls: config.executed,
                gpu: own.map(|mean| gpu_time(mean, total_ns)),
                fit,
                work: None,
                work_unknown: None,
            });
        }
        self.graph_kernels(known, names, &mut named);
        summary.kernels = named.into_values().map(Named::finish).collect();
        summary.kernels.extend(self.timed_graphs(known));
        rank(summary);
    }

    /// Kernels that ran as nodes of graphs.
    fn graph_kernels(
        &self,
        known: &Known,
        names: &mut Demangled,
        named: &mut BTreeMap<String, Named>,
    ) {
        for (&(process, graph), tally) in &self.graphs {
            let facts = known.process(process).and_then(|known| known.graphs.get(&graph));
            for pair in facts.map_or(&[][..], |facts| &facts.kernels).chunks_exact(2) {
                let kernel = u32::try_from(pair[0]).unwrap_or(0);
                let facts = known.kernel(process, kernel);
                let mangled = facts.map_or_else(|| unnamed(kernel), |facts| facts.name.clone());
                let entry = named.entry(mangled.clone()).or_default();
                let executed = pair[1].saturating_mul(tally.launches);
                entry.summary.calls += executed;
                entry.summary.graph_calls += executed;
                entry.summary.registers = facts.map(|facts| facts.registers);
                entry.summary.static_shared = facts.map(|facts| facts.static_shared);
                names.name(&mangled).clone_into(&mut entry.summary.name);
                entry.summary.mangled = mangled;
            }
        }
    }

    fn timed_graphs(&self, known: &Known) -> Vec<KernelSummary> {
        let mut graphs: Vec<_> = self.graphs.iter().collect();
        graphs.sort_by_key(|(key, _)| **key);
        let summary = |(&(process, graph), tally): (&(u32, u32), &GraphTally)| {
            let mean = tally.times.mean()?;
            let facts = known.process(process).and_then(|known| known.graphs.get(&graph));
            let nodes = facts.map_or(0, |facts| facts.kernel_nodes);
            Some(KernelSummary {
                name: format!("graph {graph} of {}", counted(nodes, "kernel", "kernels")),
                mangled: format!("graph {process}.{graph}"),
                graph: true,
                calls: tally.launches,
                host_ns: tally.host_ns,
                gpu: Some(gpu_time(mean, total(mean, tally.launches))),
                ..KernelSummary::default()
            })
        };
        graphs.into_iter().filter_map(summary).collect()
    }
}

impl Named {
    fn finish(self) -> KernelSummary {
        let gpu = self.times.mean().map(|mean| {
            let executed = self.summary.calls - self.summary.graph_calls;
            let executions = if mean.basis == TimeBasis::Cupti { mean.timed } else { executed };
            let mut gpu = gpu_time(mean, self.total_ns);
            // Over all shapes, each with its own weight.
            gpu.mean_ns =
                if executions > 0 { self.total_ns / executions as f64 } else { mean.nanos };
            gpu
        });
        KernelSummary { gpu, ..self.summary }
    }
}

fn gpu_time(mean: Mean, total_ns: f64) -> GpuTime {
    GpuTime {
        mean_ns: mean.nanos,
        total_ns,
        share: 0.0,
        timed: mean.timed,
        basis: mean.basis.word().into(),
    }
}

/// Gives every entry its share of the GPU time and puts the heaviest first.
fn rank(summary: &mut Summary) {
    let all: f64 = summary
        .kernels
        .iter()
        .filter_map(|kernel| kernel.gpu.as_ref())
        .map(|gpu| gpu.total_ns)
        .sum();
    let set = |gpu: &mut Option<GpuTime>| {
        if let Some(gpu) = gpu {
            gpu.share = share(gpu.total_ns, all);
        }
    };
    let weight = |gpu: &Option<GpuTime>| gpu.as_ref().map_or(-1.0, |gpu| gpu.total_ns);
    summary.kernels.iter_mut().for_each(|kernel| set(&mut kernel.gpu));
    summary.kernels.sort_by(|a, b| {
        let by_time = weight(&b.gpu).total_cmp(&weight(&a.gpu));
        by_time.then(b.calls.cmp(&a.calls)).then_with(|| a.mangled.cmp(&b.mangled))
    });
    summary.configs.iter_mut().for_each(|config| set(&mut config.gpu));
    summary
        .configs
        .sort_by(|a, b| weight(&b.gpu).total_cmp(&weight(&a.gpu)).then(b.calls.cmp(&a.calls)));
}

fn unnamed(kernel: u32) -> String {
    if kernel == 0 { "(unknown kernel)".into() } else { format!("(kernel {kernel})") }
}

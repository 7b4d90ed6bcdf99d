//! Whether launches are done sooner as branches than one after the other.
//!
//! A kernel that fills the device gains nothing from a neighbour, and a branch costs about a microsecond where it begins
//! and where it ends. So both forms are reckoned: the chain, and the branches on a device that has room for one.

/// What the driver takes, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// A node behind its only predecessor. Measured on an H200 with driver 580.
    pub node: u64,
    /// More of it where a branch begins or ends: 1 to 2 µs on the same device.
    pub branch: u64,
}

impl Default for Costs {
    fn default() -> Costs {
        Costs { node: 730, branch: 1_500 }
    }
}

/// A launch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Task {
    /// The launches before it on which it depends, one bit each.
    pub depends: u128,
    /// The share of the device that its blocks fill; 1 and more is all of it.
    pub fills: f32,
    /// How long it runs alone.
    pub ns: u64,
}

/// Branches must take less than this share of the chain: the model is crude.
const WORTH: f64 = 0.9;

/// The predecessors of each launch as a node of a graph, where branches pay. Those that others imply are left out.
#[must_use]
pub fn place(tasks: &[Task], costs: Costs) -> Option<Vec<u128>> {
    let tasks = tasks.get(..tasks.len().min(128))?;
    let edges = reduced(&tasks.iter().map(|task| task.depends).collect::<Vec<_>>());
    let chain: u64 = tasks.iter().map(|task| task.ns + costs.node).sum();
    let branches = span(tasks, &edges, costs);
    (branches < chain as f64 * WORTH).then_some(edges)
}

/// All launches that each depends on, through others too.
#[must_use]
pub fn ancestors(edges: &[u128]) -> Vec<u128> {
    let mut all: Vec<u128> = Vec::with_capacity(edges.len());
    for &edge in edges {
        let through = (0..all.len()).filter(|at| edge >> at & 1 != 0);
        let through = through.fold(edge, |found, at| found | all[at]);
        all.push(through);
    }
    all
}

/// The predecessors that no others imply.
#[must_use]
pub fn reduced(direct: &[u128]) -> Vec<u128> {
    let all = ancestors(direct);
    let reduce = |&edge: &u128| {
        let implied = (0..direct.len()).filter(|at| edge >> at & 1 != 0);
        edge & !implied.fold(0, |found, at| found | all[at])
    };
    direct.iter().map(reduce).collect()
}

/// How long the branches take. A launch begins when those before it are done and there is room.
fn span(tasks: &[Task], edges: &[u128], costs: Costs) -> f64 {
    let mut followers = vec![0_u32; tasks.len()];
    for &edge in edges {
        (0..tasks.len()).filter(|at| edge >> at & 1 != 0).for_each(|at| followers[at] += 1);
    }
    // End and share of each launch that was placed.
    let mut placed: Vec<(f64, f64)> = Vec::with_capacity(tasks.len());
    let mut last = 0.0_f64;
    for (task, &edge) in tasks.iter().zip(edges) {
        let before = (0..placed.len()).filter(|at| edge >> at & 1 != 0);
        let ready = before.clone().map(|at| placed[at].0).fold(0.0, f64::max);
        let is_branch = edge.count_ones() != 1 || before.clone().any(|at| followers[at] > 1);
        let cost = costs.node + if is_branch && !placed.is_empty() { costs.branch } else { 0 };
        let share = f64::from(task.fills.clamp(0.0, 1.0));
        let begin = room(&placed, ready, share);
        let end = begin + (cost + task.ns) as f64;
        placed.push((end, share));
        last = last.max(end);
    }
    last
}

/// The first moment from `ready` on at which a share of the device is free.
fn room(placed: &[(f64, f64)], ready: f64, share: f64) -> f64 {
    let mut ends: Vec<f64> =
        placed.iter().map(|(end, _)| *end).filter(|end| *end > ready).collect();
    ends.sort_by(f64::total_cmp);
    let is_free = |at: f64| {
        let used: f64 = placed.iter().filter(|(end, _)| *end > at).map(|(_, share)| share).sum();
        used + share <= 1.0 + 1e-6
    };
    if is_free(ready) {
        return ready;
    }
    ends.into_iter().find(|&at| is_free(at)).unwrap_or(ready)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(depends: u128, fills: f32, micros: u64) -> Task {
        Task { depends, fills, ns: micros * 1_000 }
    }

    #[test]
    fn small_independent_kernels_become_branches() {
        let tasks = [task(0, 0.1, 20), task(0, 0.1, 20), task(0, 0.1, 20), task(0b111, 0.1, 20)];
        assert_eq!(place(&tasks, Costs::default()), Some(vec![0, 0, 0, 0b111]));
    }

    #[test]
    fn kernels_that_fill_the_device_or_are_short_stay_a_chain() {
        let full = [task(0, 1.0, 50), task(0, 2.0, 50), task(0, 1.0, 50)];
        assert_eq!(place(&full, Costs::default()), None);
        let short = [task(0, 0.1, 1), task(0, 0.1, 1), task(0b11, 0.1, 1)];
        assert_eq!(place(&short, Costs::default()), None);
        let dependent = [task(0, 0.1, 20), task(0b1, 0.1, 20), task(0b10, 0.1, 20)];
        assert_eq!(place(&dependent, Costs::default()), None);
        assert_eq!(place(&[], Costs::default()), None);
    }

    #[test]
    fn what_others_imply_is_no_edge() {
        let tasks = [task(0, 0.1, 30), task(0, 0.1, 30), task(0b1, 0.1, 30), task(0b101, 0.1, 30)];
        assert_eq!(place(&tasks, Costs::default()), Some(vec![0, 0, 0b1, 0b100]));
        assert_eq!(ancestors(&[0, 0, 0b1, 0b100]), [0, 0, 0b1, 0b101]);
    }
}

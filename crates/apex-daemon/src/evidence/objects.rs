//! Memory, streams, events, graphs and code that come and go while launches are under way.

use crate::known::Known;
use crate::row::Row;
use crate::summarise::Tally;
use apex_core::event::{AllocKind, ObjectKind, What};
use apex_policy::advise::{Act, ActKind, Calls, GraphMade, Load};
use std::collections::{BTreeMap, HashMap, HashSet};

/// What came and went.
#[derive(Default)]
pub(super) struct Objects {
    acts: BTreeMap<ActKind, (Calls, Calls)>,
    made: HashMap<u32, Calls>,
    loaded: HashSet<(u32, u64)>,
    late: BTreeMap<String, (Calls, u64)>,
}

const MOST_LOADED: usize = 1 << 16;

impl Objects {
    pub(super) fn add(
        &mut self,
        known: &Known,
        row: &Row,
        steady: bool,
        launched: u64,
        total: u64,
    ) {
        match row.what {
            What::Alloc { kind, .. } => self.act(allocation(kind, false), row, steady),
            What::Free { kind, .. } => self.act(allocation(kind, true), row, steady),
            What::Life(life) => match life.object {
                ObjectKind::Stream => self.act(Some(ActKind::Stream), row, steady),
                ObjectKind::Event => self.act(Some(ActKind::Event), row, steady),
                ObjectKind::GraphExec if life.begins => {
                    self.made.entry(row.process).or_default().add(row.host_ns);
                }
                _ => {}
            },
            What::Load { image, hash, .. } => {
                let first =
                    self.loaded.len() >= MOST_LOADED || self.loaded.insert((row.process, hash));
                // Before the first launch and after the last one code is not in anyone's way.
                if launched > 0 && launched < total {
                    let images = known.process(row.process).map(|process| &process.images);
                    let kind = images.and_then(|images| Some(images.get(&image)?.kind.clone()));
                    let (calls, again) = self.late.entry(kind.unwrap_or_default()).or_default();
                    calls.add(row.host_ns);
                    *again += u64::from(!first);
                }
            }
            _ => {}
        }
    }

    fn act(&mut self, kind: Option<ActKind>, row: &Row, steady: bool) {
        let Some(kind) = kind else { return };
        let (all, in_steady) = self.acts.entry(kind).or_default();
        all.add(row.host_ns);
        if steady {
            in_steady.add(row.host_ns);
        }
    }

    pub(super) fn finish(
        self,
        known: &Known,
        tally: &Tally,
    ) -> (Vec<Act>, Vec<GraphMade>, Vec<Load>) {
        let acts = self.acts.into_iter().map(|(kind, (all, steady))| Act { kind, all, steady });
        let mut graphs: BTreeMap<(u32, u64, Vec<u64>), GraphMade> = BTreeMap::new();
        for (number, process) in (0..).zip(&known.processes) {
            let mean = self.made.get(&number).map_or(0.0, Calls::mean_ns);
            for (&id, graph) in &process.graphs {
                let key = (number, graph.nodes, graph.kernels.clone());
                let same = graphs.entry(key).or_default();
                same.kernels = graph.kernel_nodes;
                same.made.count += 1;
                // The driver's call is not linked with the graph's number: all cost the mean.
                same.made.host_ns += mean;
                same.launches += tally.graph_launches(number, id);
            }
        }
        let late = self
            .late
            .into_iter()
            .map(|(kind, (calls, again))| Load { kind, calls, again })
            .collect();
        (acts.collect(), graphs.into_values().collect(), late)
    }
}

fn allocation(kind: AllocKind, free: bool) -> Option<ActKind> {
    match kind {
        AllocKind::Plain | AllocKind::Managed | AllocKind::Array if free => Some(ActKind::Free),
        AllocKind::Plain | AllocKind::Managed | AllocKind::Array => Some(ActKind::Allocate),
        AllocKind::Async | AllocKind::Pool => Some(ActKind::AllocateInOrder),
        AllocKind::Host | AllocKind::Registered => Some(ActKind::Pin),
        AllocKind::Reserved | AllocKind::Physical | AllocKind::Mapped => None,
    }
}

//! Sequences of launches that the driver keeps as graphs.
//!
//! A graph is a chain: each launch waits for the one before, as on a stream. Where it is proven that launches touch
//! nothing in common, and it pays, it has branches ([`crate::overlap`]); before each launch with other parameters it is
//! proven again. Its nodes keep the parameters that they were launched with last; only those that differ are set again.
//! The driver takes such a change while the graph still runs and applies it to later launches alone, so one graph of each
//! sequence is enough.

use super::known::{Launch, mixed};
use super::pointers::Pointers;
use super::ring::{Entry, What};
use crate::counts::{COUNTERS, add};
use crate::overlap::{Launched, Placing};
use apex_cuda::Driver;
use apex_cuda::types::*;
use apex_policy::submit::{Repeats, Step};
use core::ffi::c_void;

/// The graphs that are kept, and the sequences that have come.
pub(super) struct Graphs {
    repeats: Repeats,
    kept: Vec<Option<Graph>>,
}

struct Graph {
    graph: CUgraph,
    executable: CUgraphExec,
    nodes: Vec<Node>,
    placing: Placing,
    /// Times that the branches held, and that they did not.
    held: u32,
    missed: u32,
}

/// Branches that did not hold so often and as often as they did are given up.
const MOST_MISSED: u32 = 4;

/// Why the launches of a graph have not gone down.
pub(super) enum NotLaunched {
    /// A change of a node was refused, or the graph is not there: nothing was launched.
    Before,
    /// The driver's answer to the launch of the graph.
    Refused(CUresult),
}

struct Node {
    node: CUgraphNode,
    grid: [u32; 3],
    parameters: Vec<u8>,
}

impl Default for Graphs {
    fn default() -> Graphs {
        Graphs { repeats: Repeats::new(super::costs::known()), kept: Vec::new() }
    }
}

impl Graphs {
    /// What to do with a piece of these words.
    pub(super) fn came(&mut self, words: &[u64]) -> Step {
        self.repeats.came(mixed(words), words.len())
    }

    /// Launches a kept graph with the parameters of these launches.
    pub(super) fn launch(
        &mut self,
        number: u32,
        entries: &[&Entry],
        driver: &Driver,
    ) -> Result<(), NotLaunched> {
        let graph = self
            .kept
            .get_mut(number as usize)
            .and_then(Option::as_mut)
            .ok_or(NotLaunched::Before)?;
        graph.place_again(entries, driver);
        if !graph.holds(entries) {
            add(&COUNTERS.overlap_fell_back, entries.len() as u64);
            return Err(NotLaunched::Before);
        }
        let mut stream = core::ptr::null_mut();
        let mut pointers = Pointers::default();
        let mut changed = 0;
        for (entry, node) in entries.iter().zip(&mut graph.nodes) {
            let Some(launch) = launch_of(entry) else { continue };
            stream = launch.stream;
            if !node.differs(entry) {
                continue;
            }
            let parameters = packed(entry, launch);
            let described = describe(launch, entry, &mut pointers);
            // SAFETY: a node of this graph, described by a launch of the same kernel.
            check(unsafe {
                (driver.cuGraphExecKernelNodeSetParams_v2)(
                    graph.executable,
                    node.node,
                    &raw const described,
                )
            })
            .map_err(|_| {
                graph.placing.doubt();
                NotLaunched::Before
            })?;
            node.grid = entry.grid;
            node.parameters.clear();
            node.parameters.extend_from_slice(parameters);
            changed += 1;
        }
        // SAFETY: an executable graph of ours and the program's own stream.
        check(unsafe { (driver.cuGraphLaunch)(graph.executable, stream) })
            .map_err(NotLaunched::Refused)?;
        add(&COUNTERS.graphs, 1);
        add(&COUNTERS.in_graphs, entries.len() as u64);
        add(&COUNTERS.changed, changed);
        if matches!(graph.placing, Placing::Branches(_)) {
            add(&COUNTERS.overlap_beside, entries.len() as u64);
        }
        Ok(())
    }

    /// Makes a graph of these launches and keeps it.
    pub(super) fn build(&mut self, words: &[u64], entries: &[&Entry], driver: &Driver) {
        let key = mixed(words);
        match Graph::new(entries, Placing::of(&launched(entries), driver), driver) {
            Ok(graph) => {
                let free = self.kept.iter().position(Option::is_none);
                let number = free.unwrap_or(self.kept.len());
                match self.kept.get_mut(number) {
                    Some(place) => *place = Some(graph),
                    None => self.kept.push(Some(graph)),
                }
                add(&COUNTERS.made, 1);
                add(&COUNTERS.built, words.len() as u64);
                self.repeats.built(key, number as u32, words.len());
            }
            Err(_) => self.repeats.refused(key),
        }
        while let Some(number) = self.repeats.give_up() {
            if let Some(graph) = self.kept.get_mut(number as usize).and_then(Option::take) {
                graph.destroy(driver);
            }
        }
    }

    /// Gives all graphs back.
    pub(super) fn forget(&mut self, driver: &Driver) {
        self.kept.drain(..).flatten().for_each(|graph| graph.destroy(driver));
        self.repeats.forget();
    }
}

impl Graph {
    fn new(entries: &[&Entry], placing: Placing, driver: &Driver) -> Result<Graph, CUresult> {
        let mut graph = Graph {
            graph: core::ptr::null_mut(),
            executable: core::ptr::null_mut(),
            nodes: Vec::with_capacity(entries.len()),
            placing,
            held: 0,
            missed: 0,
        };
        // SAFETY: a valid place for the answer.
        check(unsafe { (driver.cuGraphCreate)(&raw mut graph.graph, 0) })?;
        let made = graph.add_nodes(entries, driver).and_then(|()| {
            // SAFETY: a graph of ours and a valid place for the answer.
            check(unsafe {
                (driver.cuGraphInstantiateWithFlags)(&raw mut graph.executable, graph.graph, 0)
            })
        });
        match made {
            Ok(()) => {
                let is_branched = matches!(graph.placing, Placing::Branches(_));
                add(&COUNTERS.overlap_branched, u64::from(is_branched));
                Ok(graph)
            }
            Err(result) => {
                graph.destroy(driver);
                Err(result)
            }
        }
    }

    fn add_nodes(&mut self, entries: &[&Entry], driver: &Driver) -> Result<(), CUresult> {
        let mut pointers = Pointers::default();
        for (nth, entry) in entries.iter().enumerate() {
            let launch = launch_of(entry).ok_or(CUDA_ERROR_INVALID_VALUE)?;
            let described = describe(launch, entry, &mut pointers);
            let before = self.before(nth);
            let mut node = core::ptr::null_mut();
            // SAFETY: a graph of ours, nodes of it, and the description of a launch that went well.
            check(unsafe {
                (driver.cuGraphAddKernelNode_v2)(
                    &raw mut node,
                    self.graph,
                    before.as_ptr(),
                    before.len(),
                    &raw const described,
                )
            })?;
            let parameters = packed(entry, launch).to_vec();
            self.nodes.push(Node { node, grid: entry.grid, parameters });
        }
        Ok(())
    }

    /// The nodes that the next one waits for.
    fn before(&self, nth: usize) -> Vec<CUgraphNode> {
        match &self.placing {
            Placing::Branches(piece) => {
                let edge = piece.edges[nth];
                let nodes = self.nodes.iter().enumerate();
                nodes.filter(|(at, _)| edge >> at & 1 != 0).map(|(_, node)| node.node).collect()
            }
            Placing::Chain | Placing::NotYet(_) => {
                self.nodes.last().map(|node| node.node).into_iter().collect()
            }
        }
    }

    /// Makes the graph again where more is known of its kernels, or where its branches do not hold.
    fn place_again(&mut self, entries: &[&Entry], driver: &Driver) {
        let is_missed = self.missed > MOST_MISSED && self.missed > self.held;
        let placing = if self.placing.may_be_known() {
            Placing::of(&launched(entries), driver)
        } else if is_missed && matches!(self.placing, Placing::Branches(_)) {
            Placing::Chain
        } else {
            return;
        };
        if !is_missed && !matches!(placing, Placing::Branches(_)) {
            self.placing = placing;
            return;
        }
        if let Ok(graph) = Graph::new(entries, placing, driver) {
            std::mem::replace(self, graph).destroy(driver);
        }
    }

    /// Whether these launches may run as the graph orders them.
    fn holds(&mut self, entries: &[&Entry]) -> bool {
        let Placing::Branches(piece) = &mut self.placing else { return true };
        let is_changed: Vec<bool> =
            entries.iter().zip(&self.nodes).map(|(entry, node)| node.differs(entry)).collect();
        let holds = piece.holds(&launched(entries), &is_changed);
        let count = if holds { &mut self.held } else { &mut self.missed };
        *count = count.saturating_add(1);
        holds
    }

    fn destroy(self, driver: &Driver) {
        // SAFETY: both are ours, and nobody names them any more; a graph that still runs is kept by the driver until it
        // is done.
        unsafe {
            if !self.executable.is_null() {
                (driver.cuGraphExecDestroy)(self.executable);
            }
            (driver.cuGraphDestroy)(self.graph);
        }
    }
}

impl Node {
    /// Whether a launch has another grid or other parameters than the node.
    fn differs(&self, entry: &Entry) -> bool {
        launch_of(entry).is_some_and(|launch| {
            self.grid != entry.grid || self.parameters != packed(entry, launch)
        })
    }
}

/// The launches as they are asked what they touch.
fn launched<'a>(entries: &[&'a Entry]) -> Vec<Launched<'a>> {
    let of = |entry: &&'a Entry| {
        let launch: &'a Launch = launch_of(entry)?;
        Some(Launched {
            function: launch.function,
            node: launch.kernel.node,
            parameters: &launch.kernel.parameters,
            packed: packed(entry, launch),
            grid: entry.grid,
            block: launch.block,
            shared: launch.shared,
        })
    };
    entries.iter().filter_map(of).collect()
}

fn launch_of<'a>(entry: &Entry) -> Option<&'a Launch> {
    match entry.what {
        // SAFETY: what is known stays as long as something waits.
        What::Launch(launch) => Some(unsafe { &*launch }),
        What::Pad | What::Call(_) => None,
    }
}

fn packed<'a>(entry: &'a Entry, launch: &Launch) -> &'a [u8] {
    // SAFETY: an entry has its kernel's parameters behind it, and the ring is set from the beginning.
    unsafe { core::slice::from_raw_parts(entry.arguments(), launch.kernel.bytes) }
}

fn describe(launch: &Launch, entry: &Entry, pointers: &mut Pointers) -> CUDA_KERNEL_NODE_PARAMS {
    let [gx, gy, gz] = entry.grid;
    let [bx, by, bz] = launch.block;
    CUDA_KERNEL_NODE_PARAMS {
        func: launch.kernel.node,
        gridDimX: gx,
        gridDimY: gy,
        gridDimZ: gz,
        blockDimX: bx,
        blockDimY: by,
        blockDimZ: bz,
        sharedMemBytes: launch.shared,
        kernelParams: pointers.to(launch, entry.arguments()),
        extra: core::ptr::null_mut::<*mut c_void>(),
        kern: core::ptr::null_mut(),
        ctx: core::ptr::null_mut(),
    }
}

fn check(result: CUresult) -> Result<(), CUresult> {
    if result == CUDA_SUCCESS { Ok(()) } else { Err(result) }
}

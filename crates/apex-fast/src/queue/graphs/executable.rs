//! A graph of the driver's, made of launches. Its nodes keep the parameters that they were launched with last; only those
//! that differ are set again.

use super::super::known::Launch;
use super::super::pointers::Pointers;
use super::super::ring::{Entry, What};
use crate::overlap::Launched;
use apex_cuda::Driver;
use apex_cuda::types::*;
use core::ffi::c_void;

/// The driver's handles of a graph.
pub(super) struct Executable {
    graph: CUgraph,
    executable: CUgraphExec,
    nodes: Vec<Node>,
}

struct Node {
    node: CUgraphNode,
    grid: [u32; 3],
    parameters: Vec<u8>,
}

impl Executable {
    /// Makes a graph of these launches: with these predecessors of each, one bit each, or as a chain.
    pub(super) fn new(
        entries: &[&Entry],
        edges: Option<&[u128]>,
        driver: &Driver,
    ) -> Result<Executable, CUresult> {
        let mut made = Executable {
            graph: core::ptr::null_mut(),
            executable: core::ptr::null_mut(),
            nodes: Vec::with_capacity(entries.len()),
        };
        // SAFETY: a valid place for the answer.
        check(unsafe { (driver.cuGraphCreate)(&raw mut made.graph, 0) })?;
        let result = made.add_nodes(entries, edges, driver).and_then(|()| {
            // SAFETY: a graph of ours and a valid place for the answer.
            check(unsafe {
                (driver.cuGraphInstantiateWithFlags)(&raw mut made.executable, made.graph, 0)
            })
        });
        match result {
            Ok(()) => Ok(made),
            Err(refused) => {
                made.destroy(driver);
                Err(refused)
            }
        }
    }

    fn add_nodes(
        &mut self,
        entries: &[&Entry],
        edges: Option<&[u128]>,
        driver: &Driver,
    ) -> Result<(), CUresult> {
        let mut pointers = Pointers::default();
        for (nth, entry) in entries.iter().enumerate() {
            let launch = launch_of(entry).ok_or(CUDA_ERROR_INVALID_VALUE)?;
            let described = describe(launch, entry, &mut pointers);
            let before = self.before(nth, edges);
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
    fn before(&self, nth: usize, edges: Option<&[u128]>) -> Vec<CUgraphNode> {
        let Some(edges) = edges else {
            return self.nodes.last().map(|node| node.node).into_iter().collect();
        };
        let nodes = self.nodes.iter().enumerate();
        nodes.filter(|(at, _)| edges[nth] >> at & 1 != 0).map(|(_, node)| node.node).collect()
    }

    /// Which of these launches have another grid or other parameters than their nodes.
    pub(super) fn changes(&self, entries: &[&Entry]) -> Vec<bool> {
        entries.iter().zip(&self.nodes).map(|(entry, node)| node.differs(entry)).collect()
    }

    /// Gives the nodes the parameters of these launches. Says how many had others.
    pub(super) fn change(&mut self, entries: &[&Entry], driver: &Driver) -> Result<u64, CUresult> {
        let mut pointers = Pointers::default();
        let mut changed = 0;
        for (entry, node) in entries.iter().zip(&mut self.nodes) {
            let Some(launch) = launch_of(entry).filter(|_| node.differs(entry)) else { continue };
            let described = describe(launch, entry, &mut pointers);
            // SAFETY: a node of this graph, described by a launch of the same kernel.
            check(unsafe {
                (driver.cuGraphExecKernelNodeSetParams_v2)(
                    self.executable,
                    node.node,
                    &raw const described,
                )
            })?;
            node.grid = entry.grid;
            node.parameters.clear();
            node.parameters.extend_from_slice(packed(entry, launch));
            changed += 1;
        }
        Ok(changed)
    }

    pub(super) fn launch(&self, stream: CUstream, driver: &Driver) -> Result<(), CUresult> {
        // SAFETY: an executable graph of ours and the program's own stream.
        check(unsafe { (driver.cuGraphLaunch)(self.executable, stream) })
    }

    pub(super) fn destroy(self, driver: &Driver) {
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
    fn differs(&self, entry: &Entry) -> bool {
        launch_of(entry).is_some_and(|launch| {
            self.grid != entry.grid || self.parameters != packed(entry, launch)
        })
    }
}

/// The launches as they are asked what they touch.
pub(super) fn launched<'a>(entries: &[&'a Entry]) -> Vec<Launched<'a>> {
    let of = |entry: &&'a Entry| {
        let launch: &'a Launch = launch_of(entry)?;
        Some(Launched {
            function: launch.function,
            node: launch.kernel.node,
            parameters: &launch.kernel.parameters,
            packed: packed(entry, launch),
            grid: entry.grid,
            block: launch.block,
        })
    };
    entries.iter().filter_map(of).collect()
}

/// The launch of an entry, if it is one.
pub(super) fn launch_of<'a>(entry: &Entry) -> Option<&'a Launch> {
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

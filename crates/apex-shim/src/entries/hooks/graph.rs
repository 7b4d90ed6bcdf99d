//! Graphs made ready to launch. Their kernels are counted here, once, because a graph's launch is one
//! call however many kernels it runs. What the GPU itself decides to run (the body of a conditional node, a
//! launch from a kernel) cannot be counted: the graph is marked, and whoever adds up says "at least".

use super::answer::answer;
use crate::aspects::{self, Note};
use crate::driver::driver;
use crate::state::{graphs, process::tell};
use apex_core::event::{Life, ObjectKind, What};
use apex_core::facts::{self, Fact};
use apex_cuda::types::*;
use std::collections::BTreeMap;

pub(crate) unsafe fn cuGraphInstantiate(
    result: CUresult,
    place: *mut CUgraphExec,
    graph: CUgraph,
    _error_node: *mut CUgraphNode,
    _log: *mut c_char,
    _log_bytes: usize,
) -> Note {
    // SAFETY: the driver's out-pointer and the program's graph.
    unsafe { instantiated(result, place, graph, 0) }
}

pub(crate) use cuGraphInstantiate as cuGraphInstantiate_v2;

pub(crate) unsafe fn cuGraphInstantiateWithFlags(
    result: CUresult,
    place: *mut CUgraphExec,
    graph: CUgraph,
    flags: u64,
) -> Note {
    // SAFETY: the driver's out-pointer and the program's graph.
    unsafe { instantiated(result, place, graph, flags) }
}

pub(crate) unsafe fn cuGraphInstantiateWithParams(
    result: CUresult,
    place: *mut CUgraphExec,
    graph: CUgraph,
    params: *mut CUDA_GRAPH_INSTANTIATE_PARAMS,
) -> Note {
    // SAFETY: the driver's out-pointer and the program's graph; a driver that succeeded has read the flags.
    unsafe {
        let flags = answer(result, &raw const (*params).flags, 0);
        instantiated(result, place, graph, flags)
    }
}

pub(crate) use cuGraphInstantiateWithParams as cuGraphInstantiateWithParams_ptsz;

pub(crate) unsafe fn cuGraphExecDestroy(_: CUresult, exec: CUgraphExec) -> Note {
    graphs::forget(exec);
    life(exec as u64, false)
}

/// An update keeps the shape of the graph, so the counts stay; the event keeps its time.
pub(crate) unsafe fn cuGraphExecUpdate(
    _: CUresult,
    _exec: CUgraphExec,
    _graph: CUgraph,
    _error_node: *mut CUgraphNode,
    _update: *mut CUgraphExecUpdateResult,
) -> Note {
    Note::plain(What::Other)
}

pub(crate) unsafe fn cuGraphExecUpdate_v2(
    _: CUresult,
    _exec: CUgraphExec,
    _graph: CUgraph,
    _info: *mut CUgraphExecUpdateResultInfo,
) -> Note {
    Note::plain(What::Other)
}

pub(crate) unsafe fn cuGraphNodeSetEnabled(
    result: CUresult,
    exec: CUgraphExec,
    node: CUgraphNode,
    enabled: u32,
) -> Note {
    // SAFETY: a node the driver has just accepted.
    if result == CUDA_SUCCESS && unsafe { node_kind(node) } == NODE_KERNEL {
        graphs::switch_kernel_node(exec, node, enabled != 0);
    }
    Note::plain(What::Other)
}

const NODE_KERNEL: u32 = 0;
const NODE_CHILD: u32 = 4;
const NODE_CONDITIONAL: u32 = 13;
/// Flag of a graph that kernels may launch.
const DEVICE_LAUNCH: u64 = 4;

/// # Safety
///
/// `place` is the driver's out-pointer and `graph` the graph it was given.
unsafe fn instantiated(
    result: CUresult,
    place: *mut CUgraphExec,
    graph: CUgraph,
    flags: u64,
) -> Note {
    // SAFETY: the driver's out-pointer.
    let exec = unsafe { answer(result, place, core::ptr::null_mut()) };
    if exec.is_null() {
        return life(0, true);
    }
    let mut found = Walk::default();
    // SAFETY: the driver has just read this graph.
    unsafe { found.walk(graph, 0) };
    let kernel_nodes: u64 = found.kernels.values().sum();
    let number = graphs::number(exec, kernel_nodes, found.nodes);
    tell(&Fact::Graph(facts::Graph {
        id: number,
        kernel_nodes,
        nodes: found.nodes,
        conditional_nodes: found.conditionals,
        device_launch: flags & DEVICE_LAUNCH != 0,
        kernels: found
            .kernels
            .iter()
            .flat_map(|(&kernel, &count)| [u64::from(kernel), count])
            .collect(),
    }));
    life(exec as u64, true)
}

#[derive(Default)]
struct Walk {
    nodes: u64,
    conditionals: u64,
    kernels: BTreeMap<u32, u64>,
}

impl Walk {
    /// # Safety
    ///
    /// `graph` is a graph of the driver.
    unsafe fn walk(&mut self, graph: CUgraph, depth: u32) {
        const DEEPEST: u32 = 64;
        let mut count = 0;
        // SAFETY: asked without a place for nodes, the driver gives their number.
        let result =
            unsafe { (driver().cuGraphGetNodes)(graph, core::ptr::null_mut(), &raw mut count) };
        if result != CUDA_SUCCESS || count == 0 || depth > DEEPEST {
            return;
        }
        let mut nodes = vec![core::ptr::null_mut(); count];
        // SAFETY: a place for as many nodes as the driver said there are.
        let result =
            unsafe { (driver().cuGraphGetNodes)(graph, nodes.as_mut_ptr(), &raw mut count) };
        if result != CUDA_SUCCESS {
            return;
        }
        nodes.truncate(count);
        for node in nodes {
            // SAFETY: a node the driver has just named.
            unsafe { self.visit(node, depth) };
        }
    }

    /// # Safety
    ///
    /// `node` is a node of the driver.
    unsafe fn visit(&mut self, node: CUgraphNode, depth: u32) {
        self.nodes += 1;
        // SAFETY: the caller's promise; valid places for the answers.
        unsafe {
            match node_kind(node) {
                NODE_KERNEL => *self.kernels.entry(node_kernel(node)).or_default() += 1,
                NODE_CHILD => {
                    let mut child = core::ptr::null_mut();
                    if (driver().cuGraphChildGraphNodeGetGraph)(node, &raw mut child)
                        == CUDA_SUCCESS
                    {
                        self.walk(child, depth + 1);
                    }
                }
                NODE_CONDITIONAL => self.conditionals += 1,
                _ => {}
            }
        }
    }
}

/// # Safety
///
/// `node` is a node of the driver.
unsafe fn node_kind(node: CUgraphNode) -> u32 {
    let mut kind = u32::MAX;
    // SAFETY: the caller's promise and a valid place.
    unsafe { (driver().cuGraphNodeGetType)(node, &raw mut kind) };
    kind
}

/// The kernel of a node. Its handle is a function, or a kernel where the program gave one.
///
/// # Safety
///
/// `node` is a kernel node of the driver.
unsafe fn node_kernel(node: CUgraphNode) -> u32 {
    // SAFETY: an all-zero struct is a valid place for the answer; the caller's promise.
    unsafe {
        let mut params: CUDA_KERNEL_NODE_PARAMS = core::mem::zeroed();
        if (driver().cuGraphKernelNodeGetParams_v2)(node, &raw mut params) != CUDA_SUCCESS {
            return 0;
        }
        let handle = if params.func.is_null() { params.kern.cast() } else { params.func };
        if handle.is_null() { 0 } else { aspects::kernel_number(handle).0 }
    }
}

fn life(handle: u64, begins: bool) -> Note {
    Note::plain(What::Life(Life {
        object: ObjectKind::GraphExec,
        begins,
        handle,
        flags: 0,
        priority: 0,
    }))
}

//! Nodes of any kind through one struct, `cudaGraphNodeParams`.
//!
//! It is a union of the kinds' parameters. Those that the driver lays out otherwise,
//! namely kernels, copies, fills and conditions, are turned into its form; the rest is
//! copied as it is. What the driver writes into its own copy (the address of memory,
//! the graphs of a condition) is brought back.

use core::ffi::c_void;
use core::ptr::null;

use apex_cuda::Driver;
use apex_cuda::types::{
    CUDA_KERNEL_NODE_PARAMS, CUcontext, CUgraph, CUgraphEdgeData, CUgraphExec, CUgraphNode,
    CUgraphNodeParams,
};

use crate::border::{Answer, check, get, put, wanted};
use crate::context::{current, current_context};
use crate::copy3d::{from_driver, to_driver};
use crate::errors::Error;
use crate::layouts::{Copy3D, DriverCopy3D};
use crate::node::{KernelNode, kernel_from_driver, kernel_to_driver};

/// Bytes of the union.
const UNION_BYTES: usize = 29 * 8;

/// `cudaGraphNodeParams`, and `CUgraphNodeParams`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct NodeParams {
    kind: u32,
    reserved: [i32; 3],
    parameters: [u64; UNION_BYTES / 8],
    reserved_end: i64,
}

const _: () = assert!(size_of::<NodeParams>() == size_of::<CUgraphNodeParams>());

/// `cudaGraphNodeType`, of the kinds that need a change.
const KERNEL: u32 = 0;
const COPY: u32 = 1;
const FILL: u32 = 2;
const CONDITION: u32 = 13;

/// `cudaMemcpyNodeParams`.
#[repr(C)]
#[derive(Clone, Copy)]
struct CopyNode {
    flags: i32,
    reserved: [i32; 3],
    copy: Copy3D,
}

/// `CUDA_MEMCPY_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
struct DriverCopyNode {
    flags: i32,
    reserved: i32,
    context: CUcontext,
    copy: DriverCopy3D,
}

/// `cudaMemsetParamsV2`.
#[repr(C)]
#[derive(Clone, Copy)]
struct FillNode {
    address: u64,
    pitch: usize,
    value: u32,
    element_bytes: u32,
    width: usize,
    height: usize,
}

/// `CUDA_MEMSET_NODE_PARAMS_v2`.
#[repr(C)]
#[derive(Clone, Copy)]
struct DriverFillNode {
    fill: FillNode,
    context: CUcontext,
}

/// `cudaConditionalNodeParams`.
#[repr(C)]
#[derive(Clone, Copy)]
struct ConditionNode {
    handle: u64,
    kind: u32,
    size: u32,
    graphs: *mut CUgraph,
}

/// `CUDA_CONDITIONAL_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
struct DriverConditionNode {
    condition: ConditionNode,
    context: CUcontext,
}

impl NodeParams {
    const NOTHING: NodeParams =
        NodeParams { kind: 0, reserved: [0; 3], parameters: [0; UNION_BYTES / 8], reserved_end: 0 };

    /// Reads the union as one of its kinds.
    ///
    /// # Safety
    ///
    /// The node is of that kind.
    unsafe fn read<T: Copy>(&self) -> T {
        const { assert!(size_of::<T>() <= UNION_BYTES) };
        // SAFETY: it fits, and the caller vouches for the kind.
        unsafe { (&raw const self.parameters).cast::<T>().read() }
    }

    fn write<T: Copy>(&mut self, value: T) {
        const { assert!(size_of::<T>() <= UNION_BYTES) };
        self.parameters = [0; UNION_BYTES / 8];
        // SAFETY: it fits, and the union is aligned for all its kinds.
        unsafe { (&raw mut self.parameters).cast::<T>().write(value) };
    }
}

/// The driver's form of a node.
///
/// # Safety
///
/// `given` holds the parameters of its kind.
unsafe fn node_to_driver(driver: &Driver, given: &NodeParams) -> Result<NodeParams, Error> {
    let mut there = *given;
    let context = current_context(driver)?;
    // SAFETY: the caller vouches that the union holds what the kind says.
    unsafe {
        match given.kind {
            KERNEL => {
                let kernel: CUDA_KERNEL_NODE_PARAMS =
                    kernel_to_driver(driver, &given.read::<KernelNode>())?;
                there.write(kernel);
            }
            COPY => {
                let CopyNode { flags, copy, .. } = given.read();
                let copy = to_driver(driver, &copy)?;
                there.write(DriverCopyNode { flags, reserved: 0, context, copy });
            }
            FILL => there.write(DriverFillNode { fill: given.read(), context }),
            CONDITION => there.write(DriverConditionNode { condition: given.read(), context }),
            _ => {}
        }
    }
    Ok(there)
}

/// The runtime's form of a node.
fn node_from_driver(driver: &Driver, there: &NodeParams) -> Result<NodeParams, Error> {
    let mut found = *there;
    // SAFETY: the driver wrote what the kind says.
    unsafe {
        match there.kind {
            KERNEL => found.write(kernel_from_driver(&there.read())),
            COPY => {
                let DriverCopyNode { flags, copy, .. } = there.read();
                let copy = from_driver(driver, &copy)?;
                found.write(CopyNode { flags, reserved: [0; 3], copy });
            }
            FILL => found.write(there.read::<DriverFillNode>().fill),
            CONDITION => found.write(there.read::<DriverConditionNode>().condition),
            _ => {}
        }
    }
    Ok(found)
}

/// Brings back what the driver wrote into its form of a node.
fn bring_back(given: &mut NodeParams, there: &NodeParams) {
    match given.kind {
        KERNEL | COPY | FILL => {}
        // SAFETY: both hold a condition, by their kind.
        CONDITION => unsafe {
            let DriverConditionNode { condition, .. } = there.read();
            given.write(condition);
        },
        _ => given.parameters = there.parameters,
    }
}

/// # Safety
///
/// The handles are the program's; dependencies and edges can be read.
unsafe fn add(
    out: *mut CUgraphNode,
    graph: CUgraph,
    dependencies: *const CUgraphNode,
    edges: *const CUgraphEdgeData,
    count: usize,
    node: *mut NodeParams,
) -> Answer {
    let driver = current()?;
    // SAFETY: the caller vouches for all of it; the layout is the driver's.
    unsafe {
        let mut given = get(node.cast_const())?;
        let mut there = node_to_driver(driver, &given)?;
        let params: *mut c_void = (&raw mut there).cast();
        let out = wanted(out)?;
        check(if edges.is_null() {
            (driver.cuGraphAddNode)(out, graph, dependencies, count, params.cast())
        } else {
            (driver.cuGraphAddNode_v2)(out, graph, dependencies, edges, count, params.cast())
        })?;
        bring_back(&mut given, &there);
        node.write(given);
    }
    Ok(())
}

runtime! {
    fn cudart13_cudaGraphAddNode(
        out: *mut CUgraphNode,
        graph: CUgraph,
        dependencies: *const CUgraphNode,
        edges: *const CUgraphEdgeData,
        count: usize,
        node: *mut NodeParams,
    ) {
        add(out, graph, dependencies, edges, count, node)
    }

    fn cudart12_cudaGraphAddNode(
        out: *mut CUgraphNode,
        graph: CUgraph,
        dependencies: *const CUgraphNode,
        count: usize,
        node: *mut NodeParams,
    ) {
        add(out, graph, dependencies, null(), count, node)
    }

    fn cudaGraphNodeGetParams(node: CUgraphNode, out: *mut NodeParams) {
        let driver = current()?;
        let mut there = NodeParams::NOTHING;
        check((driver.cuGraphNodeGetParams)(node, (&raw mut there).cast()))?;
        put(out, node_from_driver(driver, &there)?)
    }

    fn cudaGraphNodeSetParams(node: CUgraphNode, given: *mut NodeParams) {
        let driver = current()?;
        let mut there = node_to_driver(driver, &get(given.cast_const())?)?;
        check((driver.cuGraphNodeSetParams)(node, (&raw mut there).cast()))
    }

    fn cudaGraphExecNodeSetParams(exec: CUgraphExec, node: CUgraphNode, given: *mut NodeParams) {
        let driver = current()?;
        let mut there = node_to_driver(driver, &get(given.cast_const())?)?;
        check((driver.cuGraphExecNodeSetParams)(exec, node, (&raw mut there).cast()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(kind: u32) -> NodeParams {
        NodeParams { kind, ..NodeParams::NOTHING }
    }

    #[test]
    fn the_graphs_of_a_condition_are_brought_back() {
        let (mut given, mut there) = (node(CONDITION), node(CONDITION));
        let graphs = core::ptr::without_provenance_mut(0x80);
        let condition = ConditionNode { handle: 5, kind: 1, size: 1, graphs };
        there.write(DriverConditionNode { condition, context: core::ptr::null_mut() });
        bring_back(&mut given, &there);
        // SAFETY: the node is a condition.
        assert_eq!(unsafe { given.read::<ConditionNode>() }.graphs, graphs);
    }

    #[test]
    fn what_a_kernel_was_given_stays() {
        let (mut given, mut there) = (node(KERNEL), node(KERNEL));
        there.parameters[0] = 99;
        bring_back(&mut given, &there);
        assert_eq!(given.parameters[0], 0);
    }
}

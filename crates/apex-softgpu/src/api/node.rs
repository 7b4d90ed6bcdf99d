//! The nodes of graphs: made, asked and changed.

use apex_cuda::types::*;

use crate::api::node_work::{allocate, read_any, read_host, read_orders, read_set};
use crate::border::{Answer, get, list, put, put_list};
use crate::graph::nodes::{Graph, Node, add, copy_graph};
use crate::machine::device::device;
use crate::memory::copy::Copy;
use crate::object::{live, lock};
use crate::run::context::current;
use crate::run::launch::Launch;
use crate::run::work::Work;

const ATTRIBUTE_COOPERATIVE: CUkernelNodeAttrID = 2;
const ATTRIBUTE_CLUSTER: CUkernelNodeAttrID = 4;

/// # Safety
///
/// The pointers and handles are the program's.
unsafe fn insert(
    out: *mut CUgraphNode,
    graph: CUgraph,
    dependencies: *const CUgraphNode,
    count: usize,
    work: Work,
) -> Answer {
    if out.is_null() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller vouches for pointers and handles.
    unsafe { put(out, add(graph, list(dependencies, count)?, work)?) }
}

/// # Safety
///
/// The handle is the program's.
unsafe fn work_of(node: CUgraphNode) -> Result<Work, CUresult> {
    // SAFETY: the caller vouches for the handle.
    Ok(lock(&unsafe { live::<Node, _>(node) }?.work).clone())
}

/// Gives a node other work of the kind it has.
///
/// # Safety
///
/// The handle is the program's.
unsafe fn change(node: CUgraphNode, work: Work) -> Answer {
    // SAFETY: the caller vouches for the handle.
    let mut kept = lock(&unsafe { live::<Node, _>(node) }?.work);
    if kept.node_type() != work.node_type() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    *kept = work;
    Ok(())
}

answers! {
    fn cuGraphAddMemAllocNode(
        out: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize,
        params: *mut CUDA_MEM_ALLOC_NODE_PARAMS,
    ) {
        insert(out, graph, dependencies, count, allocate(params)?)
    }

    fn cuGraphAddMemFreeNode(
        out: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize,
        address: CUdeviceptr,
    ) {
        insert(out, graph, dependencies, count, Work::Free { address })
    }

    fn cuGraphAddBatchMemOpNode(
        out: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize,
        params: *const CUDA_BATCH_MEM_OP_NODE_PARAMS,
    ) {
        insert(out, graph, dependencies, count, read_orders(params)?)
    }

    fn cuGraphBatchMemOpNodeSetParams(node: CUgraphNode, params: *const CUDA_BATCH_MEM_OP_NODE_PARAMS) {
        change(node, read_orders(params)?)
    }

    fn cuDeviceGetGraphMemAttribute(dev: CUdevice, attribute: CUgraphMem_attribute, value: *mut c_void) {
        device(dev)?;
        let (used, highest) = crate::memory::graph_memory::used();
        match attribute {
            0 | 2 => put(value.cast(), used),
            1 | 3 => put(value.cast(), highest),
            _ => Err(CUDA_ERROR_INVALID_VALUE),
        }
    }

    fn cuDeviceSetGraphMemAttribute(dev: CUdevice, attribute: CUgraphMem_attribute, value: *mut c_void) {
        device(dev)?;
        if !matches!(attribute, 1 | 3) || get(value.cast::<u64>())? != 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        crate::memory::graph_memory::forget_highest();
        Ok(())
    }

    fn cuDeviceGraphMemTrim(dev: CUdevice) {
        device(dev).map(|_| ())
    }

    fn cuGraphAddKernelNode_v2(
        out: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize,
        params: *const CUDA_KERNEL_NODE_PARAMS,
    ) {
        current()?;
        insert(out, graph, dependencies, count, Work::Kernel(Launch::read(params)?))
    }

    fn cuGraphAddKernelNode(
        out: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize,
        params: *const CUDA_KERNEL_NODE_PARAMS_v1,
    ) {
        current()?;
        insert(out, graph, dependencies, count, Work::Kernel(Launch::read_short(params)?))
    }

    fn cuGraphAddMemcpyNode(
        out: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize,
        params: *const CUDA_MEMCPY3D, _context: CUcontext,
    ) {
        insert(out, graph, dependencies, count, Work::Copy(Copy::read(params)?))
    }

    fn cuGraphAddMemsetNode(
        out: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize,
        params: *const CUDA_MEMSET_NODE_PARAMS, _context: CUcontext,
    ) {
        insert(out, graph, dependencies, count, read_set(params)?)
    }

    fn cuGraphAddHostNode(
        out: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize,
        params: *const CUDA_HOST_NODE_PARAMS,
    ) {
        insert(out, graph, dependencies, count, read_host(params)?)
    }

    fn cuGraphAddEmptyNode(
        out: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize,
    ) {
        insert(out, graph, dependencies, count, Work::Empty)
    }

    fn cuGraphAddChildGraphNode(
        out: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize,
        child: CUgraph,
    ) {
        insert(out, graph, dependencies, count, Work::Graph(copy_graph(child)?))
    }

    fn cuGraphAddEventRecordNode(
        out: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize,
        event: CUevent,
    ) {
        insert(out, graph, dependencies, count, Work::Record(event))
    }

    fn cuGraphAddEventWaitNode(
        out: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize,
        event: CUevent,
    ) {
        insert(out, graph, dependencies, count, Work::Wait(event))
    }

    fn cuGraphAddNode(
        out: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize,
        params: *mut CUgraphNodeParams,
    ) {
        insert(out, graph, dependencies, count, read_any(params)?)
    }

    fn cuGraphAddNode_v2(
        out: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
        _edges: *const CUgraphEdgeData, count: usize, params: *mut CUgraphNodeParams,
    ) {
        insert(out, graph, dependencies, count, read_any(params)?)
    }

    fn cuGraphNodeGetType(node: CUgraphNode, out: *mut CUgraphNodeType) {
        put(out, work_of(node)?.node_type())
    }

    fn cuGraphNodeGetLocalId(node: CUgraphNode, out: *mut u32) {
        put(out, live::<Node, _>(node)?.local_id)
    }

    fn cuGraphNodeGetContainingGraph(node: CUgraphNode, out: *mut CUgraph) {
        put(out, live::<Node, _>(node)?.graph)
    }

    fn cuGraphNodeGetDependencies(node: CUgraphNode, out: *mut CUgraphNode, count: *mut usize) {
        let dependencies = lock(&live::<Node, _>(node)?.dependencies).clone();
        put_list(out, count, &dependencies)
    }

    fn cuGraphNodeGetDependentNodes(node: CUgraphNode, out: *mut CUgraphNode, count: *mut usize) {
        let graph = live::<Graph, _>(live::<Node, _>(node)?.graph)?;
        let mut nodes = lock(&graph.nodes).clone();
        nodes.retain(|&other| {
            live::<Node, _>(other).is_ok_and(|other| lock(&other.dependencies).contains(&node))
        });
        put_list(out, count, &nodes)
    }

    fn cuGraphNodeGetDependencies_v2(
        node: CUgraphNode, out: *mut CUgraphNode, edges: *mut CUgraphEdgeData, count: *mut usize,
    ) {
        if !edges.is_null() {
            edges.write_bytes(0, get(count)?);
        }
        let dependencies = lock(&live::<Node, _>(node)?.dependencies).clone();
        put_list(out, count, &dependencies)
    }

    fn cuGraphNodeGetDependentNodes_v2(
        node: CUgraphNode, out: *mut CUgraphNode, edges: *mut CUgraphEdgeData, count: *mut usize,
    ) {
        if !edges.is_null() {
            edges.write_bytes(0, get(count)?);
        }
        match cuGraphNodeGetDependentNodes(node, out, count) {
            CUDA_SUCCESS => Ok(()),
            error => Err(error),
        }
    }

    fn cuGraphKernelNodeCopyAttributes(to: CUgraphNode, from: CUgraphNode) {
        let (Work::Kernel(source), Work::Kernel(kept)) = (work_of(from)?, work_of(to)?) else {
            return Err(CUDA_ERROR_INVALID_VALUE);
        };
        let (cooperative, cluster) = (source.cooperative, source.cluster);
        change(to, Work::Kernel(Launch { cooperative, cluster, ..kept }))
    }

    fn cuGraphKernelNodeGetParams_v2(node: CUgraphNode, out: *mut CUDA_KERNEL_NODE_PARAMS) {
        match work_of(node)? {
            Work::Kernel(launch) => launch.write(out),
            _ => Err(CUDA_ERROR_INVALID_VALUE),
        }
    }

    fn cuGraphKernelNodeGetParams(node: CUgraphNode, out: *mut CUDA_KERNEL_NODE_PARAMS_v1) {
        match work_of(node)? {
            Work::Kernel(launch) => launch.write_short(out),
            _ => Err(CUDA_ERROR_INVALID_VALUE),
        }
    }

    fn cuGraphKernelNodeSetParams_v2(node: CUgraphNode, params: *const CUDA_KERNEL_NODE_PARAMS) {
        change(node, Work::Kernel(Launch::read(params)?))
    }

    fn cuGraphKernelNodeSetParams(node: CUgraphNode, params: *const CUDA_KERNEL_NODE_PARAMS_v1) {
        change(node, Work::Kernel(Launch::read_short(params)?))
    }

    fn cuGraphKernelNodeGetAttribute(
        node: CUgraphNode, attribute: CUkernelNodeAttrID, out: *mut CUkernelNodeAttrValue,
    ) {
        let Work::Kernel(launch) = work_of(node)? else { return Err(CUDA_ERROR_INVALID_VALUE) };
        let mut words = [0_u32; size_of::<CUkernelNodeAttrValue>() / 4];
        match attribute {
            ATTRIBUTE_COOPERATIVE => words[0] = u32::from(launch.cooperative),
            ATTRIBUTE_CLUSTER => words[..3].copy_from_slice(&launch.cluster),
            _ => {}
        }
        put(out.cast(), words)
    }

    fn cuGraphKernelNodeSetAttribute(
        node: CUgraphNode, attribute: CUkernelNodeAttrID, value: *const CUkernelNodeAttrValue,
    ) {
        let Work::Kernel(launch) = work_of(node)? else { return Err(CUDA_ERROR_INVALID_VALUE) };
        let words = get(value.cast::<[u32; 3]>())?;
        match attribute {
            ATTRIBUTE_COOPERATIVE => {
                change(node, Work::Kernel(Launch { cooperative: words[0] != 0, ..launch }))
            }
            ATTRIBUTE_CLUSTER => change(node, Work::Kernel(Launch { cluster: words, ..launch })),
            // The others are hints that change no result here.
            _ => Ok(()),
        }
    }

    fn cuGraphMemcpyNodeGetParams(node: CUgraphNode, out: *mut CUDA_MEMCPY3D) {
        match work_of(node)? {
            Work::Copy(copy) => copy.write(out),
            _ => Err(CUDA_ERROR_INVALID_VALUE),
        }
    }

    fn cuGraphMemcpyNodeSetParams(node: CUgraphNode, params: *const CUDA_MEMCPY3D) {
        change(node, Work::Copy(Copy::read(params)?))
    }

    fn cuGraphMemsetNodeGetParams(node: CUgraphNode, out: *mut CUDA_MEMSET_NODE_PARAMS) {
        let Work::Fill(set) = work_of(node)? else { return Err(CUDA_ERROR_INVALID_VALUE) };
        put(out, CUDA_MEMSET_NODE_PARAMS {
            dst: set.address,
            pitch: set.pitch,
            value: set.value,
            elementSize: set.element_bytes,
            width: set.width,
            height: set.height,
        })
    }

    fn cuGraphMemsetNodeSetParams(node: CUgraphNode, params: *const CUDA_MEMSET_NODE_PARAMS) {
        change(node, read_set(params)?)
    }

    fn cuGraphHostNodeGetParams(node: CUgraphNode, out: *mut CUDA_HOST_NODE_PARAMS) {
        let Work::Host { function, data } = work_of(node)? else {
            return Err(CUDA_ERROR_INVALID_VALUE);
        };
        put(out, CUDA_HOST_NODE_PARAMS { fn_: function, userData: data })
    }

    fn cuGraphHostNodeSetParams(node: CUgraphNode, params: *const CUDA_HOST_NODE_PARAMS) {
        change(node, read_host(params)?)
    }

    fn cuGraphChildGraphNodeGetGraph(node: CUgraphNode, out: *mut CUgraph) {
        match work_of(node)? {
            Work::Graph(graph) => put(out, graph),
            _ => Err(CUDA_ERROR_INVALID_VALUE),
        }
    }

    fn cuGraphEventRecordNodeGetEvent(node: CUgraphNode, out: *mut CUevent) {
        match work_of(node)? {
            Work::Record(event) => put(out, event),
            _ => Err(CUDA_ERROR_INVALID_VALUE),
        }
    }

    fn cuGraphEventWaitNodeGetEvent(node: CUgraphNode, out: *mut CUevent) {
        match work_of(node)? {
            Work::Wait(event) => put(out, event),
            _ => Err(CUDA_ERROR_INVALID_VALUE),
        }
    }

    fn cuGraphEventRecordNodeSetEvent(node: CUgraphNode, event: CUevent) {
        change(node, Work::Record(event))
    }

    fn cuGraphEventWaitNodeSetEvent(node: CUgraphNode, event: CUevent) {
        change(node, Work::Wait(event))
    }

    fn cuGraphNodeSetParams(node: CUgraphNode, params: *mut CUgraphNodeParams) {
        change(node, read_any(params)?)
    }

    fn cuGraphMemAllocNodeGetParams(node: CUgraphNode, out: *mut CUDA_MEM_ALLOC_NODE_PARAMS) {
        let Work::Allocate(memory) = work_of(node)? else {
            return Err(CUDA_ERROR_INVALID_VALUE);
        };
        if out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        out.write_bytes(0, 1);
        (&raw mut (*out).bytesize).write(memory.bytes);
        (&raw mut (*out).dptr).write(memory.address);
        Ok(())
    }

    fn cuGraphMemFreeNodeGetParams(node: CUgraphNode, out: *mut CUdeviceptr) {
        match work_of(node)? {
            Work::Free { address } => put(out, address),
            _ => Err(CUDA_ERROR_INVALID_VALUE),
        }
    }
}

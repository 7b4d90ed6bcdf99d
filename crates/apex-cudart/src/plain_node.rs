//! Nodes whose parameters are laid out like the driver's: fills, host functions, graphs in
//! graphs, nothing, events and memory.

use core::ffi::c_void;

use apex_cuda::types::{
    CUDA_HOST_NODE_PARAMS, CUDA_MEM_ALLOC_NODE_PARAMS, CUDA_MEMSET_NODE_PARAMS, CUevent, CUgraph,
    CUgraphExec, CUgraphNode,
};

use crate::border::{check, wanted};
use crate::context::{current, current_context};

runtime! {
    fn cudaGraphAddMemsetNode(
        out: *mut CUgraphNode,
        graph: CUgraph,
        dependencies: *const CUgraphNode,
        count: usize,
        node: *const CUDA_MEMSET_NODE_PARAMS,
    ) {
        let driver = current()?;
        wanted(node.cast_mut())?;
        let context = current_context(driver)?;
        check((driver.cuGraphAddMemsetNode)(wanted(out)?, graph, dependencies, count, node, context))
    }

    fn cudaGraphMemsetNodeGetParams(node: CUgraphNode, out: *mut CUDA_MEMSET_NODE_PARAMS) {
        check((current()?.cuGraphMemsetNodeGetParams)(node, wanted(out)?))
    }

    fn cudaGraphMemsetNodeSetParams(node: CUgraphNode, given: *const CUDA_MEMSET_NODE_PARAMS) {
        wanted(given.cast_mut())?;
        check((current()?.cuGraphMemsetNodeSetParams)(node, given))
    }

    fn cudaGraphExecMemsetNodeSetParams(
        exec: CUgraphExec,
        node: CUgraphNode,
        given: *const CUDA_MEMSET_NODE_PARAMS,
    ) {
        let driver = current()?;
        wanted(given.cast_mut())?;
        let context = current_context(driver)?;
        check((driver.cuGraphExecMemsetNodeSetParams)(exec, node, given, context))
    }

    fn cudaGraphAddHostNode(
        out: *mut CUgraphNode,
        graph: CUgraph,
        dependencies: *const CUgraphNode,
        count: usize,
        node: *const CUDA_HOST_NODE_PARAMS,
    ) {
        wanted(node.cast_mut())?;
        check((current()?.cuGraphAddHostNode)(wanted(out)?, graph, dependencies, count, node))
    }

    fn cudaGraphHostNodeGetParams(node: CUgraphNode, out: *mut CUDA_HOST_NODE_PARAMS) {
        check((current()?.cuGraphHostNodeGetParams)(node, wanted(out)?))
    }

    fn cudaGraphHostNodeSetParams(node: CUgraphNode, given: *const CUDA_HOST_NODE_PARAMS) {
        wanted(given.cast_mut())?;
        check((current()?.cuGraphHostNodeSetParams)(node, given))
    }

    fn cudaGraphExecHostNodeSetParams(
        exec: CUgraphExec,
        node: CUgraphNode,
        given: *const CUDA_HOST_NODE_PARAMS,
    ) {
        wanted(given.cast_mut())?;
        check((current()?.cuGraphExecHostNodeSetParams)(exec, node, given))
    }

    fn cudaGraphAddChildGraphNode(
        out: *mut CUgraphNode,
        graph: CUgraph,
        dependencies: *const CUgraphNode,
        count: usize,
        child: CUgraph,
    ) {
        check((current()?.cuGraphAddChildGraphNode)(wanted(out)?, graph, dependencies, count, child))
    }

    fn cudaGraphChildGraphNodeGetGraph(node: CUgraphNode, out: *mut CUgraph) {
        check((current()?.cuGraphChildGraphNodeGetGraph)(node, wanted(out)?))
    }

    fn cudaGraphExecChildGraphNodeSetParams(exec: CUgraphExec, node: CUgraphNode, child: CUgraph) {
        check((current()?.cuGraphExecChildGraphNodeSetParams)(exec, node, child))
    }

    fn cudaGraphAddEmptyNode(
        out: *mut CUgraphNode,
        graph: CUgraph,
        dependencies: *const CUgraphNode,
        count: usize,
    ) {
        check((current()?.cuGraphAddEmptyNode)(wanted(out)?, graph, dependencies, count))
    }
}

// Events and memory.
runtime! {
    fn cudaGraphAddEventRecordNode(
        out: *mut CUgraphNode,
        graph: CUgraph,
        dependencies: *const CUgraphNode,
        count: usize,
        event: CUevent,
    ) {
        check((current()?.cuGraphAddEventRecordNode)(wanted(out)?, graph, dependencies, count, event))
    }

    fn cudaGraphAddEventWaitNode(
        out: *mut CUgraphNode,
        graph: CUgraph,
        dependencies: *const CUgraphNode,
        count: usize,
        event: CUevent,
    ) {
        check((current()?.cuGraphAddEventWaitNode)(wanted(out)?, graph, dependencies, count, event))
    }

    fn cudaGraphEventRecordNodeGetEvent(node: CUgraphNode, out: *mut CUevent) {
        check((current()?.cuGraphEventRecordNodeGetEvent)(node, wanted(out)?))
    }

    fn cudaGraphEventRecordNodeSetEvent(node: CUgraphNode, event: CUevent) {
        check((current()?.cuGraphEventRecordNodeSetEvent)(node, event))
    }

    fn cudaGraphEventWaitNodeGetEvent(node: CUgraphNode, out: *mut CUevent) {
        check((current()?.cuGraphEventWaitNodeGetEvent)(node, wanted(out)?))
    }

    fn cudaGraphEventWaitNodeSetEvent(node: CUgraphNode, event: CUevent) {
        check((current()?.cuGraphEventWaitNodeSetEvent)(node, event))
    }

    fn cudaGraphExecEventRecordNodeSetEvent(exec: CUgraphExec, node: CUgraphNode, event: CUevent) {
        check((current()?.cuGraphExecEventRecordNodeSetEvent)(exec, node, event))
    }

    fn cudaGraphExecEventWaitNodeSetEvent(exec: CUgraphExec, node: CUgraphNode, event: CUevent) {
        check((current()?.cuGraphExecEventWaitNodeSetEvent)(exec, node, event))
    }

    fn cudaGraphAddMemAllocNode(
        out: *mut CUgraphNode,
        graph: CUgraph,
        dependencies: *const CUgraphNode,
        count: usize,
        node: *mut CUDA_MEM_ALLOC_NODE_PARAMS,
    ) {
        let add = current()?.cuGraphAddMemAllocNode;
        check(add(wanted(out)?, graph, dependencies, count, wanted(node)?))
    }

    fn cudaGraphMemAllocNodeGetParams(node: CUgraphNode, out: *mut CUDA_MEM_ALLOC_NODE_PARAMS) {
        check((current()?.cuGraphMemAllocNodeGetParams)(node, wanted(out)?))
    }

    fn cudaGraphAddMemFreeNode(
        out: *mut CUgraphNode,
        graph: CUgraph,
        dependencies: *const CUgraphNode,
        count: usize,
        address: *mut c_void,
    ) {
        let address = address.expose_provenance() as u64;
        check((current()?.cuGraphAddMemFreeNode)(wanted(out)?, graph, dependencies, count, address))
    }

    fn cudaGraphMemFreeNodeGetParams(node: CUgraphNode, out: *mut c_void) {
        check((current()?.cuGraphMemFreeNodeGetParams)(node, wanted(out)?.cast()))
    }
}

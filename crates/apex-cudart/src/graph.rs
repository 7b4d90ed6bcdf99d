//! Graphs, their nodes and edges.

use core::ffi::{c_char, c_void};

use apex_cuda::types::{
    CUgraph, CUgraphConditionalHandle, CUgraphEdgeData, CUgraphNode, CUgraphNodeType, CUhostFn,
    CUuserObject,
};

use crate::border::{check, wanted};
use crate::context::{current, current_context};
use crate::errors::cudaErrorNotSupported;

runtime! {
    fn cudaGraphCreate(out: *mut CUgraph, flags: u32) {
        check((current()?.cuGraphCreate)(wanted(out)?, flags))
    }

    fn cudaGraphDestroy(graph: CUgraph) {
        check((current()?.cuGraphDestroy)(graph))
    }

    fn cudaGraphClone(out: *mut CUgraph, graph: CUgraph) {
        check((current()?.cuGraphClone)(wanted(out)?, graph))
    }

    fn cudaGraphDestroyNode(node: CUgraphNode) {
        check((current()?.cuGraphDestroyNode)(node))
    }

    fn cudaGraphGetNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize) {
        check((current()?.cuGraphGetNodes)(graph, nodes, wanted(count)?))
    }

    fn cudaGraphGetRootNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize) {
        check((current()?.cuGraphGetRootNodes)(graph, nodes, wanted(count)?))
    }

    fn cudaGraphNodeGetType(node: CUgraphNode, out: *mut CUgraphNodeType) {
        check((current()?.cuGraphNodeGetType)(node, wanted(out)?))
    }

    fn cudaGraphNodeFindInClone(out: *mut CUgraphNode, node: CUgraphNode, clone: CUgraph) {
        check((current()?.cuGraphNodeFindInClone)(wanted(out)?, node, clone))
    }

    fn cudaGraphDebugDotPrint(graph: CUgraph, path: *const c_char, flags: u32) {
        wanted(path.cast_mut())?;
        check((current()?.cuGraphDebugDotPrint)(graph, path, flags))
    }

    fn cudaGraphConditionalHandleCreate(
        out: *mut CUgraphConditionalHandle,
        graph: CUgraph,
        default_value: u32,
        flags: u32,
    ) {
        let driver = current()?;
        let context = current_context(driver)?;
        let create = driver.cuGraphConditionalHandleCreate;
        check(create(wanted(out)?, graph, context, default_value, flags))
    }

    fn cudaGraphConditionalHandleCreate_v2(
        out: *mut CUgraphConditionalHandle,
        graph: CUgraph,
        execution_context: *mut c_void,
        default_value: u32,
        flags: u32,
    ) {
        // Execution contexts of the program's own are not supported, so it can have none.
        if !execution_context.is_null() {
            return Err(cudaErrorNotSupported);
        }
        let driver = current()?;
        let context = current_context(driver)?;
        let create = driver.cuGraphConditionalHandleCreate;
        check(create(wanted(out)?, graph, context, default_value, flags))
    }

    fn cudaGraphGetId(graph: CUgraph, out: *mut u32) {
        check((current()?.cuGraphGetId)(graph, wanted(out)?))
    }

    fn cudaGraphNodeGetContainingGraph(node: CUgraphNode, out: *mut CUgraph) {
        check((current()?.cuGraphNodeGetContainingGraph)(node, wanted(out)?))
    }

    fn cudaGraphNodeGetLocalId(node: CUgraphNode, out: *mut u32) {
        check((current()?.cuGraphNodeGetLocalId)(node, wanted(out)?))
    }

    fn cudaGraphNodeGetToolsId(node: CUgraphNode, out: *mut u64) {
        check((current()?.cuGraphNodeGetToolsId)(node, wanted(out)?))
    }

    fn cudaUserObjectCreate(
        out: *mut CUuserObject,
        data: *mut c_void,
        destroy: CUhostFn,
        references: u32,
        flags: u32,
    ) {
        check((current()?.cuUserObjectCreate)(wanted(out)?, data, destroy, references, flags))
    }

    fn cudaUserObjectRetain(object: CUuserObject, count: u32) {
        check((current()?.cuUserObjectRetain)(object, count))
    }

    fn cudaUserObjectRelease(object: CUuserObject, count: u32) {
        check((current()?.cuUserObjectRelease)(object, count))
    }

    fn cudaGraphRetainUserObject(graph: CUgraph, object: CUuserObject, count: u32, flags: u32) {
        check((current()?.cuGraphRetainUserObject)(graph, object, count, flags))
    }

    fn cudaGraphReleaseUserObject(graph: CUgraph, object: CUuserObject, count: u32) {
        check((current()?.cuGraphReleaseUserObject)(graph, object, count))
    }
}

// Edges: CUDA 13 has their data in every function, CUDA 12 in those of version 2. Where
// none is given or wanted, the driver's function without it is asked, which refuses to
// hide data that is there.
runtime! {
    fn cudart13_cudaGraphAddDependencies(
        graph: CUgraph,
        from: *const CUgraphNode,
        to: *const CUgraphNode,
        edges: *const CUgraphEdgeData,
        count: usize,
    ) {
        let driver = current()?;
        check(if edges.is_null() {
            (driver.cuGraphAddDependencies)(graph, from, to, count)
        } else {
            (driver.cuGraphAddDependencies_v2)(graph, from, to, edges, count)
        })
    }

    fn cudart12_cudaGraphAddDependencies(
        graph: CUgraph,
        from: *const CUgraphNode,
        to: *const CUgraphNode,
        count: usize,
    ) {
        check((current()?.cuGraphAddDependencies)(graph, from, to, count))
    }

    fn cudart13_cudaGraphRemoveDependencies(
        graph: CUgraph,
        from: *const CUgraphNode,
        to: *const CUgraphNode,
        edges: *const CUgraphEdgeData,
        count: usize,
    ) {
        let driver = current()?;
        check(if edges.is_null() {
            (driver.cuGraphRemoveDependencies)(graph, from, to, count)
        } else {
            (driver.cuGraphRemoveDependencies_v2)(graph, from, to, edges, count)
        })
    }

    fn cudart12_cudaGraphRemoveDependencies(
        graph: CUgraph,
        from: *const CUgraphNode,
        to: *const CUgraphNode,
        count: usize,
    ) {
        check((current()?.cuGraphRemoveDependencies)(graph, from, to, count))
    }

    fn cudart13_cudaGraphGetEdges(
        graph: CUgraph,
        from: *mut CUgraphNode,
        to: *mut CUgraphNode,
        edges: *mut CUgraphEdgeData,
        count: *mut usize,
    ) {
        let (driver, count) = (current()?, wanted(count)?);
        check(if edges.is_null() {
            (driver.cuGraphGetEdges)(graph, from, to, count)
        } else {
            (driver.cuGraphGetEdges_v2)(graph, from, to, edges, count)
        })
    }

    fn cudart12_cudaGraphGetEdges(
        graph: CUgraph,
        from: *mut CUgraphNode,
        to: *mut CUgraphNode,
        count: *mut usize,
    ) {
        check((current()?.cuGraphGetEdges)(graph, from, to, wanted(count)?))
    }

    fn cudart13_cudaGraphNodeGetDependencies(
        node: CUgraphNode,
        nodes: *mut CUgraphNode,
        edges: *mut CUgraphEdgeData,
        count: *mut usize,
    ) {
        let (driver, count) = (current()?, wanted(count)?);
        check(if edges.is_null() {
            (driver.cuGraphNodeGetDependencies)(node, nodes, count)
        } else {
            (driver.cuGraphNodeGetDependencies_v2)(node, nodes, edges, count)
        })
    }

    fn cudart12_cudaGraphNodeGetDependencies(
        node: CUgraphNode,
        nodes: *mut CUgraphNode,
        count: *mut usize,
    ) {
        check((current()?.cuGraphNodeGetDependencies)(node, nodes, wanted(count)?))
    }

    fn cudart13_cudaGraphNodeGetDependentNodes(
        node: CUgraphNode,
        nodes: *mut CUgraphNode,
        edges: *mut CUgraphEdgeData,
        count: *mut usize,
    ) {
        let (driver, count) = (current()?, wanted(count)?);
        check(if edges.is_null() {
            (driver.cuGraphNodeGetDependentNodes)(node, nodes, count)
        } else {
            (driver.cuGraphNodeGetDependentNodes_v2)(node, nodes, edges, count)
        })
    }

    fn cudart12_cudaGraphNodeGetDependentNodes(
        node: CUgraphNode,
        nodes: *mut CUgraphNode,
        count: *mut usize,
    ) {
        check((current()?.cuGraphNodeGetDependentNodes)(node, nodes, wanted(count)?))
    }
}

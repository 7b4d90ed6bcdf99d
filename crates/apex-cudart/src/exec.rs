//! Graphs made executable, changed and launched.

use apex_cuda::types::{
    CUDA_GRAPH_INSTANTIATE_PARAMS, CUgraph, CUgraphExec, CUgraphExecUpdateResultInfo, CUgraphNode,
    CUstream,
};

use crate::border::{check, wanted};
use crate::context::current;

runtime! {
    fn cudaGraphInstantiate(out: *mut CUgraphExec, graph: CUgraph, flags: u64) {
        check((current()?.cuGraphInstantiateWithFlags)(wanted(out)?, graph, flags))
    }

    fn cudaGraphInstantiateWithFlags(out: *mut CUgraphExec, graph: CUgraph, flags: u64) {
        check((current()?.cuGraphInstantiateWithFlags)(wanted(out)?, graph, flags))
    }

    fn cudaGraphInstantiateWithParams(
        out: *mut CUgraphExec,
        graph: CUgraph,
        parameters: *mut CUDA_GRAPH_INSTANTIATE_PARAMS,
    ) {
        check((current()?.cuGraphInstantiateWithParams)(wanted(out)?, graph, wanted(parameters)?))
    }

    fn cudaGraphInstantiateWithParams_ptsz(
        out: *mut CUgraphExec,
        graph: CUgraph,
        parameters: *mut CUDA_GRAPH_INSTANTIATE_PARAMS,
    ) {
        let instantiate = current()?.cuGraphInstantiateWithParams_ptsz;
        check(instantiate(wanted(out)?, graph, wanted(parameters)?))
    }

    fn cudaGraphLaunch / cudaGraphLaunch_ptsz(exec: CUgraphExec, stream: CUstream) {
        check((current()?.cuGraphLaunch)(exec, stream))
    }

    fn cudaGraphUpload / cudaGraphUpload_ptsz(exec: CUgraphExec, stream: CUstream) {
        check((current()?.cuGraphUpload)(exec, stream))
    }

    fn cudaGraphExecDestroy(exec: CUgraphExec) {
        check((current()?.cuGraphExecDestroy)(exec))
    }

    fn cudaGraphExecGetFlags(exec: CUgraphExec, out: *mut u64) {
        check((current()?.cuGraphExecGetFlags)(exec, wanted(out)?))
    }

    fn cudaGraphExecGetId(exec: CUgraphExec, out: *mut u32) {
        check((current()?.cuGraphExecGetId)(exec, wanted(out)?))
    }

    fn cudaGraphExecUpdate(
        exec: CUgraphExec,
        graph: CUgraph,
        out: *mut CUgraphExecUpdateResultInfo,
    ) {
        check((current()?.cuGraphExecUpdate_v2)(exec, graph, wanted(out)?))
    }

    fn cudaGraphNodeGetEnabled(exec: CUgraphExec, node: CUgraphNode, out: *mut u32) {
        check((current()?.cuGraphNodeGetEnabled)(exec, node, wanted(out)?))
    }

    fn cudaGraphNodeSetEnabled(exec: CUgraphExec, node: CUgraphNode, is_enabled: u32) {
        check((current()?.cuGraphNodeSetEnabled)(exec, node, is_enabled))
    }
}

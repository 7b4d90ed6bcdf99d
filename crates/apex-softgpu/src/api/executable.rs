//! The driver's functions for executable graphs.

use apex_cuda::types::*;

use crate::api::node_work::{read_any, read_host, read_orders, read_set};
use crate::border::{put, put_if_wanted};
use crate::graph::executable::{Exec, change, instantiate, launch, lay_out, update};
use crate::graph::nodes::{add, make_graph};
use crate::memory::copy::Copy;
use crate::object::{destroy, live, lock};
use crate::run::capture_rules::for_work;
use crate::run::context::current;
use crate::run::launch::Launch;
use crate::run::stream::{queue_of, resolve};
use crate::run::work::{Work, is_capturing};

answers! {
    fn cuGraphInstantiateWithFlags(out: *mut CUgraphExec, graph: CUgraph, flags: u64) {
        instantiate(out, graph, flags)
    }

    fn cuGraphInstantiateWithParams(
        out: *mut CUgraphExec,
        graph: CUgraph,
        params: *mut CUDA_GRAPH_INSTANTIATE_PARAMS,
    ) {
        if params.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        (&raw mut (*params).hErrNode_out).write(core::ptr::null_mut());
        let answer = instantiate(out, graph, (*params).flags);
        (&raw mut (*params).result_out).cast::<u32>().write(u32::from(answer.is_err()));
        answer
    }

    fn cuGraphInstantiate_v2(
        out: *mut CUgraphExec,
        graph: CUgraph,
        error_node: *mut CUgraphNode,
        log: *mut c_char,
        log_bytes: usize,
    ) {
        put_if_wanted(error_node, core::ptr::null_mut());
        if log_bytes > 0 {
            put_if_wanted(log, 0);
        }
        instantiate(out, graph, 0)
    }

    fn cuGraphExecDestroy(exec: CUgraphExec) {
        // A launch under way keeps what it needs.
        destroy::<Exec, _>(exec)
    }

    fn cuGraphExecGetFlags(exec: CUgraphExec, out: *mut u64) {
        put(out, live::<Exec, _>(exec)?.flags)
    }

    fn cuGraphUpload(exec: CUgraphExec, stream: CUstream) {
        current()?;
        live::<Exec, _>(exec)?;
        resolve(stream).map(|_| ())
    }

    fn cuGraphLaunch(exec: CUgraphExec, stream: CUstream) {
        let context = current()?;
        let exec: &Exec = live(exec)?;
        let stream = for_work(context, stream)?;
        if is_capturing(stream) {
            let steps = lock(&exec.steps).clone();
            let graph = make_graph();
            let mut nodes: Vec<CUgraphNode> = Vec::new();
            for step in steps {
                let after: Vec<CUgraphNode> = step.after.iter().map(|&index| nodes[index]).collect();
                let work = if step.enabled { step.work } else { Work::Empty };
                nodes.push(add(graph, &after, work)?);
            }
            return crate::graph::capturing::append(stream, Work::Graph(graph));
        }
        let (domain, queue) = queue_of(context, stream);
        launch(exec, domain, queue)
    }

    fn cuGraphExecGetId(exec: CUgraphExec, out: *mut u32) {
        put(out, live::<Exec, _>(exec)?.id)
    }

    fn cuGraphExecBatchMemOpNodeSetParams(
        exec: CUgraphExec,
        node: CUgraphNode,
        params: *const CUDA_BATCH_MEM_OP_NODE_PARAMS,
    ) {
        change(exec, node, read_orders(params)?)
    }

    fn cuGraphExecChildGraphNodeSetParams(exec: CUgraphExec, node: CUgraphNode, child: CUgraph) {
        let mut wanted = Vec::new();
        lay_out(child, &[], &mut wanted)?;
        let exec: &Exec = live(exec)?;
        let mut steps = lock(&exec.steps);
        let begin = steps.iter().position(|step| step.node == node).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        // The child's steps follow the one that stands for its node.
        let inner = steps.get_mut(begin + 1..begin + 1 + wanted.len());
        let inner = inner.ok_or(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE)?;
        let same = inner.iter().zip(&wanted).all(|(step, other)| step.work.node_type() == other.work.node_type());
        if !same {
            return Err(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
        }
        inner.iter_mut().zip(wanted).for_each(|(step, other)| step.work = other.work);
        Ok(())
    }

    fn cuGraphExecUpdate_v2(exec: CUgraphExec, graph: CUgraph, out: *mut CUgraphExecUpdateResultInfo) {
        if out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let (node, result) = update(exec, graph)?.err().unwrap_or((core::ptr::null_mut(), 0));
        (&raw mut (*out).result).cast::<u32>().write(result);
        (&raw mut (*out).errorNode).write(node);
        (&raw mut (*out).errorFromNode).write(core::ptr::null_mut());
        if result == 0 { Ok(()) } else { Err(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE) }
    }

    fn cuGraphExecUpdate(
        exec: CUgraphExec,
        graph: CUgraph,
        error_node: *mut CUgraphNode,
        out: *mut CUgraphExecUpdateResult,
    ) {
        let (node, result) = update(exec, graph)?.err().unwrap_or((core::ptr::null_mut(), 0));
        put_if_wanted(error_node, node);
        put(out, result)?;
        if result == 0 { Ok(()) } else { Err(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE) }
    }

    fn cuGraphExecKernelNodeSetParams_v2(
        exec: CUgraphExec,
        node: CUgraphNode,
        params: *const CUDA_KERNEL_NODE_PARAMS,
    ) {
        change(exec, node, Work::Kernel(Launch::read(params)?))
    }

    fn cuGraphExecKernelNodeSetParams(
        exec: CUgraphExec,
        node: CUgraphNode,
        params: *const CUDA_KERNEL_NODE_PARAMS_v1,
    ) {
        change(exec, node, Work::Kernel(Launch::read_short(params)?))
    }

    fn cuGraphExecMemcpyNodeSetParams(
        exec: CUgraphExec,
        node: CUgraphNode,
        params: *const CUDA_MEMCPY3D,
        _context: CUcontext,
    ) {
        change(exec, node, Work::Copy(Copy::read(params)?))
    }

    fn cuGraphExecMemsetNodeSetParams(
        exec: CUgraphExec,
        node: CUgraphNode,
        params: *const CUDA_MEMSET_NODE_PARAMS,
        _context: CUcontext,
    ) {
        change(exec, node, read_set(params)?)
    }

    fn cuGraphExecHostNodeSetParams(
        exec: CUgraphExec,
        node: CUgraphNode,
        params: *const CUDA_HOST_NODE_PARAMS,
    ) {
        change(exec, node, read_host(params)?)
    }

    fn cuGraphExecEventRecordNodeSetEvent(exec: CUgraphExec, node: CUgraphNode, event: CUevent) {
        change(exec, node, Work::Record(event))
    }

    fn cuGraphExecEventWaitNodeSetEvent(exec: CUgraphExec, node: CUgraphNode, event: CUevent) {
        change(exec, node, Work::Wait(event))
    }

    fn cuGraphExecNodeSetParams(exec: CUgraphExec, node: CUgraphNode, params: *mut CUgraphNodeParams) {
        change(exec, node, read_any(params)?)
    }

    fn cuGraphNodeSetEnabled(exec: CUgraphExec, node: CUgraphNode, enabled: u32) {
        let mut steps = lock(&live::<Exec, _>(exec)?.steps);
        let step = steps.iter_mut().find(|step| step.node == node).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        if !matches!(step.work, Work::Kernel(_) | Work::Copy(_) | Work::Fill(_)) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        step.enabled = enabled != 0;
        Ok(())
    }

    fn cuGraphNodeGetEnabled(exec: CUgraphExec, node: CUgraphNode, out: *mut u32) {
        let steps = lock(&live::<Exec, _>(exec)?.steps);
        let step = steps.iter().find(|step| step.node == node).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        put(out, u32::from(step.enabled))
    }
}

pub(crate) use self::cuGraphInstantiate_v2 as cuGraphInstantiate;

#[cfg(test)]
mod tests {
    use core::ptr::null_mut;

    use super::*;
    use crate::api::context::tests::with_context;
    use crate::api::graph::cuGraphDestroy;
    use crate::api::stream::cuStreamSynchronize;
    use crate::graph::nodes::Node;
    use crate::memory::fill::Fill;

    unsafe fn exec_of(graph: CUgraph) -> CUgraphExec {
        let mut exec = null_mut();
        // SAFETY: the test's own graph.
        assert_eq!(unsafe { cuGraphInstantiateWithFlags(&raw mut exec, graph, 0) }, CUDA_SUCCESS);
        exec
    }

    #[test]
    fn a_launch_does_the_enabled_steps() {
        with_context(|| {
            let mut address = 0;
            // SAFETY: the test's own handles and memory.
            unsafe {
                assert_eq!(crate::api::memory::cuMemAlloc_v2(&raw mut address, 4), CUDA_SUCCESS);
                let byte = core::ptr::with_exposed_provenance::<u8>(address as usize);
                let fill = |value| {
                    Work::Fill(Fill {
                        address,
                        pitch: 0,
                        value,
                        element_bytes: 1,
                        width: 4,
                        height: 1,
                    })
                };
                let graph = make_graph();
                let first = add(graph, &[], fill(1)).unwrap();
                let second = add(graph, &[first], fill(2)).unwrap();
                let exec = exec_of(graph);
                assert_eq!(cuGraphLaunch(exec, null_mut()), CUDA_SUCCESS);
                assert_eq!(cuStreamSynchronize(null_mut()), CUDA_SUCCESS);
                assert_eq!(byte.read(), 2);
                assert_eq!(cuGraphNodeSetEnabled(exec, second, 0), CUDA_SUCCESS);
                assert_eq!(cuGraphLaunch(exec, null_mut()), CUDA_SUCCESS);
                assert_eq!(cuStreamSynchronize(null_mut()), CUDA_SUCCESS);
                assert_eq!(byte.read(), 1);
                *lock(&live::<Node, _>(first).unwrap().work) = fill(9);
                let mut result = 7;
                assert_eq!(
                    cuGraphExecUpdate(exec, graph, null_mut(), &raw mut result),
                    CUDA_SUCCESS
                );
                assert_eq!(cuGraphLaunch(exec, null_mut()), CUDA_SUCCESS);
                assert_eq!(cuStreamSynchronize(null_mut()), CUDA_SUCCESS);
                assert_eq!((byte.read(), result), (9, 0));
                add(graph, &[], Work::Empty).unwrap();
                assert_eq!(
                    cuGraphExecUpdate(exec, graph, null_mut(), &raw mut result),
                    CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE
                );
                assert_eq!(cuGraphDestroy(graph), CUDA_SUCCESS);
                assert_eq!(
                    cuGraphLaunch(exec, null_mut()),
                    CUDA_SUCCESS,
                    "it needs its graph no more"
                );
                assert_eq!(cuGraphExecDestroy(exec), CUDA_SUCCESS);
            }
        });
    }
}

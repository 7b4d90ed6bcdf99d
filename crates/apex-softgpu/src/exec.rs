//! Graphs made executable, and run.
//!
//! An executable graph is a list of steps in an order that respects the
//! dependencies, with the graphs inside laid out flat; it keeps nothing of the graph
//! it came from but the names of the nodes. A launch gives each step to the schedule
//! as a task that follows the tasks of the steps it depends on, so steps that do not
//! depend on each other run side by side. Launches of one executable follow each
//! other, in whatever streams they are.

use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use apex_cuda::types::*;

use crate::arguments::Launch;
use crate::border::{Answer, put, put_if_wanted};
use crate::context::current;
use crate::copy::Copy;
use crate::domain::{Domain, Queue};
use crate::graph::{add, in_order, make_graph};
use crate::node::{Node, read_any, read_host, read_orders, read_set};
use crate::object::{create, destroy, live, lock, object};
use crate::schedule::{Job, Task, submit, submit_aside};
use crate::stream::{for_work, place, resolve};
use crate::work::{Work, is_capturing};

/// One executable graph.
pub(crate) struct Exec {
    id: u32,
    flags: u64,
    steps: Mutex<Vec<Step>>,
    /// The end of its last launch.
    last: Mutex<Option<Arc<Task>>>,
}
object!(Exec, b"exec----");

#[derive(Clone)]
struct Step {
    node: CUgraphNode,
    work: Work,
    enabled: bool,
    /// The steps it follows, all of them earlier in the list.
    after: Vec<usize>,
}

/// The graph's update was refused because nodes came, went or changed their kind.
const UPDATE_TOPOLOGY_CHANGED: u32 = 2;
const UPDATE_TYPE_CHANGED: u32 = 3;

/// Lays a graph out after the steps `before`; the steps that end it.
///
/// # Safety
///
/// The handle is the program's.
unsafe fn lay_out(
    graph: CUgraph,
    before: &[usize],
    steps: &mut Vec<Step>,
) -> Result<Vec<usize>, CUresult> {
    // SAFETY: the caller vouches for the handle; its nodes are alive with it.
    unsafe {
        // For each node the steps that must be done for it to be done.
        let mut ends: HashMap<CUgraphNode, Vec<usize>> = HashMap::new();
        let mut followed = std::collections::HashSet::new();
        let order = in_order(graph)?;
        for &node in &order {
            let dependencies = lock(&live::<Node, _>(node)?.dependencies).clone();
            let mut after: Vec<usize> =
                dependencies.iter().filter_map(|one| ends.get(one)).flatten().copied().collect();
            followed.extend(dependencies);
            if after.is_empty() {
                after = before.to_vec();
            }
            let work = lock(&live::<Node, _>(node)?.work).clone();
            let end = match work {
                Work::Graph(inner) => {
                    // A step of its own, so that a graph with nothing inside has an end.
                    steps.push(Step { node, work: Work::Empty, enabled: true, after });
                    lay_out(inner, &[steps.len() - 1], steps)?
                }
                work => {
                    steps.push(Step { node, work, enabled: true, after });
                    vec![steps.len() - 1]
                }
            };
            ends.insert(node, end);
        }
        let leaves = order.iter().filter(|node| !followed.contains(*node));
        let mut last: Vec<usize> =
            leaves.filter_map(|node| ends.get(node)).flatten().copied().collect();
        if last.is_empty() {
            last = before.to_vec();
        }
        Ok(last)
    }
}

/// Gives the steps to the schedule.
///
/// # Safety
///
/// What the steps name is there until the launch is done.
unsafe fn launch(exec: &Exec, domain: &Arc<Domain>, queue: &Arc<Queue>) -> Answer {
    domain.check()?;
    let steps = lock(&exec.steps).clone();
    let mut last = lock(&exec.last);
    let begin = submit(domain, queue, last.as_slice(), Job::Nothing);
    let mut tasks: Vec<Arc<Task>> = Vec::with_capacity(steps.len());
    for step in steps {
        let mut after: Vec<Arc<Task>> =
            step.after.iter().map(|&index| Arc::clone(&tasks[index])).collect();
        if after.is_empty() {
            after.push(Arc::clone(&begin));
        }
        let work = if step.enabled { step.work } else { Work::Empty };
        // SAFETY: the caller vouches for the steps.
        let task = unsafe {
            work.queue(|further, job| {
                let all: Vec<Arc<Task>> = after.iter().chain(further).cloned().collect();
                submit_aside(domain, queue, &all, job)
            })
        };
        tasks.push(task?);
    }
    // All steps, and not only the last ones: an error above must not leave one behind.
    *last = Some(submit(domain, queue, &tasks, Job::Nothing));
    Ok(())
}

/// # Safety
///
/// The pointer and handle are the program's.
unsafe fn instantiate(out: *mut CUgraphExec, graph: CUgraph, flags: u64) -> Answer {
    current()?;
    if out.is_null() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    static NEXT_ID: AtomicU32 = AtomicU32::new(1);
    let mut steps = Vec::new();
    // SAFETY: the caller vouches for pointer and handle.
    unsafe {
        lay_out(graph, &[], &mut steps)?;
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        put(out, create(Exec { id, flags, steps: Mutex::new(steps), last: Mutex::new(None) }))
    }
}

/// Takes over the work of a graph of the same shape; else the first step that differs
/// and why.
///
/// # Safety
///
/// The handles are the program's.
unsafe fn update(
    exec: CUgraphExec,
    graph: CUgraph,
) -> Result<Result<(), (CUgraphNode, u32)>, CUresult> {
    let mut wanted = Vec::new();
    // SAFETY: the caller vouches for the handles.
    let mut steps = unsafe {
        let exec = live::<Exec, _>(exec)?;
        lay_out(graph, &[], &mut wanted)?;
        lock(&exec.steps)
    };
    if steps.len() != wanted.len() {
        let node = wanted.first().map_or(core::ptr::null_mut(), |step| step.node);
        return Ok(Err((node, UPDATE_TOPOLOGY_CHANGED)));
    }
    let pairs = || steps.iter().zip(&wanted);
    if let Some((_, other)) = pairs().find(|(step, other)| step.after != other.after) {
        return Ok(Err((other.node, UPDATE_TOPOLOGY_CHANGED)));
    }
    if let Some((_, other)) =
        pairs().find(|(step, other)| step.work.node_type() != other.work.node_type())
    {
        return Ok(Err((other.node, UPDATE_TYPE_CHANGED)));
    }
    for (step, other) in steps.iter_mut().zip(wanted) {
        step.work = other.work;
    }
    Ok(Ok(()))
}

/// # Safety
///
/// The handles are the program's.
unsafe fn change(exec: CUgraphExec, node: CUgraphNode, work: Work) -> Answer {
    // SAFETY: the caller vouches for the handles.
    let mut steps = lock(&unsafe { live::<Exec, _>(exec) }?.steps);
    let kind = work.node_type();
    let same = |step: &&mut Step| step.node == node && step.work.node_type() == kind;
    steps.iter_mut().find(same).ok_or(CUDA_ERROR_INVALID_VALUE)?.work = work;
    Ok(())
}

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
            return crate::session::append(stream, Work::Graph(graph));
        }
        let (domain, queue) = place(context, stream);
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
        if !matches!(step.work, Work::Kernel(_) | Work::Copy(_) | Work::Set(_)) {
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
    use crate::context::tests::with_context;
    use crate::graph::cuGraphDestroy;
    use crate::set::Set;
    use crate::stream::cuStreamSynchronize;

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
                assert_eq!(crate::memory::cuMemAlloc_v2(&raw mut address, 4), CUDA_SUCCESS);
                let byte = core::ptr::with_exposed_provenance::<u8>(address as usize);
                let fill = |value| {
                    Work::Set(Set {
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

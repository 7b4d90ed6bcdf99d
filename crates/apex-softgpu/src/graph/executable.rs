//! Graphs made executable, and run.
//!
//! An executable graph is a list of steps in an order that respects the
//! dependencies, with the graphs inside laid out flat; it keeps nothing of the graph
//! it came from but the names of the nodes. A launch gives each step to the scheduler
//! as a task, which follows the tasks of the steps it depends on. Steps that do not
//! depend on each other run side by side. Launches of one executable follow each
//! other, in whatever streams they are.

use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use apex_cuda::types::*;

use crate::border::{Answer, put};
use crate::graph::nodes::{Node, in_order};
use crate::object::{create, live, lock, object};
use crate::run::context::current;
use crate::run::domain::{Domain, Job, Queue, Task};
use crate::run::scheduler::{enqueue, enqueue_aside};
use crate::run::work::Work;

/// One executable graph.
pub(crate) struct Exec {
    pub(crate) id: u32,
    pub(crate) flags: u64,
    pub(crate) steps: Mutex<Vec<Step>>,
    /// The end of its last launch.
    last: Mutex<Option<Arc<Task>>>,
}
object!(Exec, b"exec----");

#[derive(Clone)]
pub(crate) struct Step {
    pub(crate) node: CUgraphNode,
    pub(crate) work: Work,
    pub(crate) enabled: bool,
    /// The steps it follows, all of them earlier in the list.
    pub(crate) after: Vec<usize>,
}

/// The graph's update was refused because nodes came, went or changed their kind.
const UPDATE_TOPOLOGY_CHANGED: u32 = 2;
const UPDATE_TYPE_CHANGED: u32 = 3;

/// Lays a graph out after the steps `before`; the steps that end it.
///
/// # Safety
///
/// The handle is the program's.
pub(crate) unsafe fn lay_out(
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

/// Gives the steps to the scheduler.
///
/// # Safety
///
/// What the steps name is there until the launch is done.
pub(crate) unsafe fn launch(exec: &Exec, domain: &Arc<Domain>, queue: &Arc<Queue>) -> Answer {
    domain.check()?;
    let steps = lock(&exec.steps).clone();
    let mut last = lock(&exec.last);
    let begin = enqueue(domain, queue, last.as_slice(), Job::Nothing);
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
                enqueue_aside(domain, queue, &all, job)
            })
        };
        tasks.push(task?);
    }
    // All steps, and not only the last ones: an error above must not leave one behind.
    *last = Some(enqueue(domain, queue, &tasks, Job::Nothing));
    Ok(())
}

/// # Safety
///
/// The pointer and handle are the program's.
pub(crate) unsafe fn instantiate(out: *mut CUgraphExec, graph: CUgraph, flags: u64) -> Answer {
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
pub(crate) unsafe fn update(
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
pub(crate) unsafe fn change(exec: CUgraphExec, node: CUgraphNode, work: Work) -> Answer {
    // SAFETY: the caller vouches for the handles.
    let mut steps = lock(&unsafe { live::<Exec, _>(exec) }?.steps);
    let kind = work.node_type();
    let same = |step: &&mut Step| step.node == node && step.work.node_type() == kind;
    steps.iter_mut().find(same).ok_or(CUDA_ERROR_INVALID_VALUE)?.work = work;
    Ok(())
}

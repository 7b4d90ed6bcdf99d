//! Graphs: nodes and what they depend on.
//!
//! A graph owns its nodes, a node with a graph inside owns that graph. Nodes stand
//! in the order in which they were added; [`in_order`] gives an order that respects
//! the dependencies.

use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Mutex;

use apex_cuda::types::*;

use crate::border::Answer;
use crate::graph::user_object::release;
use crate::object::{create, destroy, live, lock, object};
use crate::run::work::Work;

/// One graph.
pub(crate) struct Graph {
    pub(crate) id: u32,
    pub(crate) nodes: Mutex<Vec<CUgraphNode>>,
    /// Objects of the program that the graph keeps alive, with its references to each.
    pub(crate) user_objects: Mutex<Vec<(CUuserObject, u32)>>,
}
object!(Graph, b"graph---");

/// One node.
pub(crate) struct Node {
    pub(crate) graph: CUgraph,
    pub(crate) local_id: u32,
    /// The node that this one is a copy of.
    pub(crate) original: CUgraphNode,
    pub(crate) work: Mutex<Work>,
    pub(crate) dependencies: Mutex<Vec<CUgraphNode>>,
}
object!(Node, b"node----");

pub(crate) fn make_graph() -> CUgraph {
    static NEXT_ID: AtomicU32 = AtomicU32::new(1);
    create(Graph {
        id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
        nodes: Mutex::default(),
        user_objects: Mutex::default(),
    })
}

/// Adds a node.
///
/// # Safety
///
/// The handles are the program's.
pub(crate) unsafe fn add(
    graph: CUgraph,
    dependencies: &[CUgraphNode],
    work: Work,
) -> Result<CUgraphNode, CUresult> {
    // SAFETY: the caller vouches for the handles.
    let nodes = unsafe { live::<Graph, _>(graph) }?;
    let mut nodes = lock(&nodes.nodes);
    if !dependencies.iter().all(|dependency| nodes.contains(dependency)) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let node = create(Node {
        graph,
        local_id: nodes.len() as u32,
        original: core::ptr::null_mut(),
        work: Mutex::new(work),
        dependencies: Mutex::new(dependencies.to_vec()),
    });
    nodes.push(node);
    Ok(node)
}

/// Ends a graph with its nodes and the graphs inside them.
///
/// # Safety
///
/// The handle is the program's, and nobody uses the graph.
pub(crate) unsafe fn destroy_graph(graph: CUgraph) -> Answer {
    // SAFETY: the caller vouches for the handle; nodes belong to this graph alone.
    unsafe {
        let nodes = core::mem::take(&mut *lock(&live::<Graph, _>(graph)?.nodes));
        for node in nodes {
            destroy_node(node)?;
        }
        let objects = core::mem::take(&mut *lock(&live::<Graph, _>(graph)?.user_objects));
        destroy::<Graph, _>(graph)?;
        objects.into_iter().try_for_each(|(object, count)| release(object, count))
    }
}

pub(crate) unsafe fn destroy_node(node: CUgraphNode) -> Answer {
    // SAFETY: the caller vouches for the handle; a graph inside belongs to the node.
    unsafe {
        let work = lock(&live::<Node, _>(node)?.work).clone();
        if let Work::Graph(inner) = work {
            destroy_graph(inner)?;
        }
        destroy::<Node, _>(node)
    }
}

/// A copy of a graph, with copies of the graphs inside.
///
/// # Safety
///
/// The handle is the program's.
pub(crate) unsafe fn copy_graph(graph: CUgraph) -> Result<CUgraph, CUresult> {
    // SAFETY: the caller vouches for the handle; its nodes are alive with it.
    unsafe {
        let originals = lock(&live::<Graph, _>(graph)?.nodes).clone();
        let copy = make_graph();
        let mut copies: Vec<CUgraphNode> = Vec::with_capacity(originals.len());
        for &original in &originals {
            let node: &Node = live(original)?;
            let work = match lock(&node.work).clone() {
                Work::Graph(inner) => Work::Graph(copy_graph(inner)?),
                work => work,
            };
            copies.push(create(Node {
                graph: copy,
                local_id: node.local_id,
                original,
                work: Mutex::new(work),
                dependencies: Mutex::default(),
            }));
        }
        for (&original, &copied) in originals.iter().zip(&copies) {
            let dependencies = lock(&live::<Node, _>(original)?.dependencies).clone();
            let moved = dependencies.iter().filter_map(|dependency| {
                let index = originals.iter().position(|node| node == dependency)?;
                Some(copies[index])
            });
            *lock(&live::<Node, _>(copied)?.dependencies) = moved.collect();
        }
        *lock(&live::<Graph, _>(copy)?.nodes) = copies;
        Ok(copy)
    }
}

/// The nodes, each after all that it depends on.
///
/// # Safety
///
/// The handle is the program's.
pub(crate) unsafe fn in_order(graph: CUgraph) -> Result<Vec<CUgraphNode>, CUresult> {
    // SAFETY: the caller vouches for the handle; its nodes are alive with it.
    unsafe {
        let mut waiting = lock(&live::<Graph, _>(graph)?.nodes).clone();
        let mut ordered = Vec::with_capacity(waiting.len());
        let mut done = std::collections::HashSet::new();
        while !waiting.is_empty() {
            let before = waiting.len();
            let mut later = Vec::new();
            for handle in waiting {
                let dependencies = lock(&live::<Node, _>(handle)?.dependencies);
                if dependencies.iter().all(|dependency| done.contains(dependency)) {
                    done.insert(handle);
                    ordered.push(handle);
                } else {
                    later.push(handle);
                }
            }
            // A round that places no node has met a circle.
            if later.len() == before {
                return Err(CUDA_ERROR_INVALID_VALUE);
            }
            waiting = later;
        }
        Ok(ordered)
    }
}

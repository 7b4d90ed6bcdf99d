//! Graphs: nodes and what they depend on.
//!
//! A graph owns its nodes, a node with a graph inside owns that graph. Nodes stand
//! in the order in which they were added; [`in_order`] gives an order that respects
//! the dependencies.

use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Mutex;

use apex_cuda::types::*;

use crate::border::{Answer, list, put, put_list};
use crate::node::Node;
use crate::object::{create, destroy, live, lock, object};
use crate::user_object::release;
use crate::work::Work;

/// One graph.
pub(crate) struct Graph {
    id: u32,
    pub(crate) nodes: Mutex<Vec<CUgraphNode>>,
    /// Objects of the program that the graph keeps alive, with its references to each.
    pub(crate) user_objects: Mutex<Vec<(CUuserObject, u32)>>,
}
object!(Graph, b"graph---");

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

unsafe fn destroy_node(node: CUgraphNode) -> Answer {
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

/// # Safety
///
/// The handles are the program's.
unsafe fn edges(graph: CUgraph) -> Result<(Vec<CUgraphNode>, Vec<CUgraphNode>), CUresult> {
    let (mut from, mut to) = (Vec::new(), Vec::new());
    // SAFETY: the caller vouches for the handle; its nodes are alive with it.
    unsafe {
        for &node in lock(&live::<Graph, _>(graph)?.nodes).iter() {
            for &dependency in lock(&live::<Node, _>(node)?.dependencies).iter() {
                from.push(dependency);
                to.push(node);
            }
        }
    }
    Ok((from, to))
}

/// # Safety
///
/// The pointers and handles are the program's.
unsafe fn change_dependencies(
    graph: CUgraph,
    from: *const CUgraphNode,
    to: *const CUgraphNode,
    count: usize,
    adds: bool,
) -> Answer {
    // SAFETY: the caller vouches for pointers and handles.
    unsafe {
        let nodes = lock(&live::<Graph, _>(graph)?.nodes).clone();
        for (from, to) in list(from, count)?.iter().zip(list(to, count)?) {
            if !nodes.contains(from) || !nodes.contains(to) || from == to {
                return Err(CUDA_ERROR_INVALID_VALUE);
            }
            let mut dependencies = lock(&live::<Node, _>(*to)?.dependencies);
            let place = dependencies.iter().position(|dependency| dependency == from);
            match (place, adds) {
                (None, true) => dependencies.push(*from),
                (Some(place), false) => {
                    dependencies.remove(place);
                }
                _ => return Err(CUDA_ERROR_INVALID_VALUE),
            }
        }
    }
    Ok(())
}

answers! {
    fn cuGraphCreate(out: *mut CUgraph, flags: u32) {
        if flags != 0 || out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        put(out, make_graph())
    }

    fn cuGraphDestroy(graph: CUgraph) {
        destroy_graph(graph)
    }

    fn cuGraphDestroyNode(node: CUgraphNode) {
        let graph = live::<Graph, _>(live::<Node, _>(node)?.graph)?;
        let mut nodes = lock(&graph.nodes);
        nodes.retain(|other| *other != node);
        for &other in nodes.iter() {
            lock(&live::<Node, _>(other)?.dependencies).retain(|dependency| *dependency != node);
        }
        drop(nodes);
        destroy_node(node)
    }

    fn cuGraphClone(out: *mut CUgraph, graph: CUgraph) {
        put(out, copy_graph(graph)?)
    }

    fn cuGraphGetId(graph: CUgraph, out: *mut u32) {
        put(out, live::<Graph, _>(graph)?.id)
    }

    fn cuGraphGetNodes(graph: CUgraph, out: *mut CUgraphNode, count: *mut usize) {
        let nodes = lock(&live::<Graph, _>(graph)?.nodes).clone();
        put_list(out, count, &nodes)
    }

    fn cuGraphGetRootNodes(graph: CUgraph, out: *mut CUgraphNode, count: *mut usize) {
        let mut nodes = lock(&live::<Graph, _>(graph)?.nodes).clone();
        nodes.retain(|&node| {
            live::<Node, _>(node).is_ok_and(|node| lock(&node.dependencies).is_empty())
        });
        put_list(out, count, &nodes)
    }

    fn cuGraphGetEdges(graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode, count: *mut usize) {
        let (sources, destinations) = edges(graph)?;
        if !from.is_null() && !to.is_null() {
            let mut room = crate::border::get(count)?;
            put_list(from, &raw mut room, &sources)?;
        }
        put_list(to, count, &destinations)
    }

    fn cuGraphGetEdges_v2(
        graph: CUgraph,
        from: *mut CUgraphNode,
        to: *mut CUgraphNode,
        edges: *mut CUgraphEdgeData,
        count: *mut usize,
    ) {
        let room = crate::border::get(count)?;
        if !edges.is_null() {
            // Edges are plain: the whole node before the whole node after.
            edges.write_bytes(0, room);
        }
        match cuGraphGetEdges(graph, from, to, count) {
            CUDA_SUCCESS => Ok(()),
            error => Err(error),
        }
    }

    fn cuGraphDebugDotPrint(graph: CUgraph, path: *const c_char, _flags: u32) {
        let (from, to) = edges(graph)?;
        let mut page = String::from("digraph dot {\n");
        for &handle in lock(&live::<Graph, _>(graph)?.nodes).iter() {
            let node: &Node = live(handle)?;
            let kind = lock(&node.work).name();
            page += &format!("\"node_{}\" [label=\"{} {kind}\"];\n", node.local_id, node.local_id);
        }
        for (&from, &to) in from.iter().zip(&to) {
            let (from, to) = (live::<Node, _>(from)?.local_id, live::<Node, _>(to)?.local_id);
            page += &format!("\"node_{from}\" -> \"node_{to}\";\n");
        }
        page += "}\n";
        let path = crate::border::text(path)?.to_str().map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
        std::fs::write(path, page).map_err(|_| CUDA_ERROR_OPERATING_SYSTEM)
    }

    fn cuGraphAddDependencies(
        graph: CUgraph,
        from: *const CUgraphNode,
        to: *const CUgraphNode,
        count: usize,
    ) {
        change_dependencies(graph, from, to, count, true)
    }

    fn cuGraphAddDependencies_v2(
        graph: CUgraph,
        from: *const CUgraphNode,
        to: *const CUgraphNode,
        _edges: *const CUgraphEdgeData,
        count: usize,
    ) {
        change_dependencies(graph, from, to, count, true)
    }

    fn cuGraphRemoveDependencies(
        graph: CUgraph,
        from: *const CUgraphNode,
        to: *const CUgraphNode,
        count: usize,
    ) {
        change_dependencies(graph, from, to, count, false)
    }

    fn cuGraphRemoveDependencies_v2(
        graph: CUgraph,
        from: *const CUgraphNode,
        to: *const CUgraphNode,
        _edges: *const CUgraphEdgeData,
        count: usize,
    ) {
        change_dependencies(graph, from, to, count, false)
    }

    fn cuGraphNodeFindInClone(out: *mut CUgraphNode, original: CUgraphNode, copy: CUgraph) {
        let nodes = lock(&live::<Graph, _>(copy)?.nodes).clone();
        let found = nodes.into_iter().find(|&node| {
            live::<Node, _>(node).is_ok_and(|node| node.original == original)
        });
        put(out, found.ok_or(CUDA_ERROR_INVALID_VALUE)?)
    }
}

#[cfg(test)]
mod tests {
    use core::ptr::null_mut;

    use super::*;

    #[test]
    fn nodes_are_ordered_by_what_they_depend_on() {
        let graph = make_graph();
        // SAFETY: all handles are of this test.
        unsafe {
            let first = add(graph, &[], Work::Empty).unwrap();
            let second = add(graph, &[], Work::Empty).unwrap();
            assert_eq!(cuGraphAddDependencies(graph, &second, &first, 1), CUDA_SUCCESS);
            assert_eq!(in_order(graph), Ok(vec![second, first]));
            let (mut roots, mut count) = ([null_mut(); 2], 2);
            assert_eq!(
                cuGraphGetRootNodes(graph, roots.as_mut_ptr(), &raw mut count),
                CUDA_SUCCESS
            );
            assert_eq!((roots[0], count), (second, 1));
            let copy = copy_graph(graph).unwrap();
            let mut found = null_mut();
            assert_eq!(cuGraphNodeFindInClone(&raw mut found, first, copy), CUDA_SUCCESS);
            assert_eq!(in_order(copy).unwrap()[1], found);
            assert_eq!(cuGraphAddDependencies(graph, &first, &second, 1), CUDA_SUCCESS);
            assert_eq!(in_order(graph), Err(CUDA_ERROR_INVALID_VALUE), "a circle");
            assert_eq!(cuGraphDestroy(graph), CUDA_SUCCESS);
            assert_eq!(cuGraphDestroy(graph), CUDA_ERROR_INVALID_HANDLE);
            assert_eq!(cuGraphDestroy(copy), CUDA_SUCCESS);
        }
    }
}

//! The driver's functions for graphs as a whole: made, copied, asked, linked up.

use apex_cuda::types::*;

use crate::border::{Answer, list, put, put_list};
use crate::graph::nodes::{Graph, Node, copy_graph, destroy_graph, destroy_node, make_graph};
use crate::object::{live, lock};

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
    use crate::graph::nodes::{add, in_order};
    use crate::run::work::Work;

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

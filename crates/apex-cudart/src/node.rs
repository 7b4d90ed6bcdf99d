//! Nodes whose parameters the driver lays out otherwise: kernels and copies.
//!
//! A kernel node is given a host function and gives it back: the driver knows only
//! the function, and the registry the way back. Copies are turned into the driver's
//! form and back. The other kinds stand in `plain_node.rs`.

use core::ffi::c_void;

use apex_cuda::Driver;
use apex_cuda::types::{
    CUDA_KERNEL_NODE_PARAMS, CUgraph, CUgraphExec, CUgraphNode, CUkernelNodeAttrID,
    CUkernelNodeAttrValue,
};

use crate::border::{Answer, check, get, put, wanted};
use crate::context::{current, current_context};
use crate::copy3d::{from_driver, to_driver};
use crate::errors::Error;
use crate::function::function;
use crate::launch::Dim3;
use crate::layouts::{Copy3D, DriverCopy3D, Extent, PitchedPointer, Position};
use crate::registry::{self, Handle};
use crate::symbol::{from_variable, part, to_variable};

/// `cudaKernelNodeParams`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct KernelNode {
    func: *mut c_void,
    grid: Dim3,
    block: Dim3,
    shared_bytes: u32,
    arguments: *mut *mut c_void,
    extra: *mut *mut c_void,
}

/// The driver's form of a kernel node.
pub(crate) fn kernel_to_driver(
    driver: &Driver,
    node: &KernelNode,
) -> Result<CUDA_KERNEL_NODE_PARAMS, Error> {
    let func = function(driver, registry::code(driver, node.func)?)?;
    registry::add_handle(func, Handle::Function, registry::host_function(node.func));
    Ok(CUDA_KERNEL_NODE_PARAMS {
        func,
        gridDimX: node.grid.x,
        gridDimY: node.grid.y,
        gridDimZ: node.grid.z,
        blockDimX: node.block.x,
        blockDimY: node.block.y,
        blockDimZ: node.block.z,
        sharedMemBytes: node.shared_bytes,
        kernelParams: node.arguments,
        extra: node.extra,
        kern: core::ptr::null_mut(),
        ctx: core::ptr::null_mut(),
    })
}

/// The runtime's form of a kernel node.
pub(crate) fn kernel_from_driver(node: &CUDA_KERNEL_NODE_PARAMS) -> KernelNode {
    let handle: *mut c_void = if node.func.is_null() { node.kern.cast() } else { node.func.cast() };
    KernelNode {
        func: registry::host_function(handle),
        grid: Dim3 { x: node.gridDimX, y: node.gridDimY, z: node.gridDimZ },
        block: Dim3 { x: node.blockDimX, y: node.blockDimY, z: node.blockDimZ },
        shared_bytes: node.sharedMemBytes,
        arguments: node.kernelParams,
        extra: node.extra,
    }
}

/// A copy of bytes as a copy in three dimensions.
fn line(target: u64, source: u64, bytes: usize, kind: u32) -> Copy3D {
    let place = |address| PitchedPointer { address, pitch: bytes, row_bytes: bytes, rows: 1 };
    Copy3D {
        source_array: core::ptr::null_mut(),
        source_position: Position::default(),
        source: place(source),
        target_array: core::ptr::null_mut(),
        target_position: Position::default(),
        target: place(target),
        extent: Extent { width: bytes, height: 1, depth: 1 },
        kind,
    }
}

fn line_to_variable(
    symbol: *const c_void,
    source: *const c_void,
    bytes: usize,
    offset: usize,
    kind: u32,
) -> Result<Copy3D, Error> {
    to_variable(kind)?;
    Ok(line(part(symbol, offset, bytes)?, source.expose_provenance() as u64, bytes, kind))
}

fn line_from_variable(
    target: *mut c_void,
    symbol: *const c_void,
    bytes: usize,
    offset: usize,
    kind: u32,
) -> Result<Copy3D, Error> {
    from_variable(kind)?;
    Ok(line(target.expose_provenance() as u64, part(symbol, offset, bytes)?, bytes, kind))
}

fn plain_line(target: *mut c_void, source: *const c_void, bytes: usize, kind: u32) -> Copy3D {
    let (target, source) = (target.expose_provenance(), source.expose_provenance());
    line(target as u64, source as u64, bytes, kind)
}

/// # Safety
///
/// The handles are the program's; as many dependencies can be read.
unsafe fn add_copy(
    out: *mut CUgraphNode,
    graph: CUgraph,
    dependencies: *const CUgraphNode,
    count: usize,
    copy: &Copy3D,
) -> Answer {
    let driver = current()?;
    let (copy, context) = (to_driver(driver, copy)?, current_context(driver)?);
    let copy = (&raw const copy).cast();
    let add = driver.cuGraphAddMemcpyNode;
    // SAFETY: the caller vouches for the rest; the layout is the driver's.
    check(unsafe { add(wanted(out)?, graph, dependencies, count, copy, context) })
}

/// # Safety
///
/// The handle is the program's.
unsafe fn set_copy(node: CUgraphNode, copy: &Copy3D) -> Answer {
    let driver = current()?;
    let copy = to_driver(driver, copy)?;
    // SAFETY: the caller vouches for the handle; the layout is the driver's.
    check(unsafe { (driver.cuGraphMemcpyNodeSetParams)(node, (&raw const copy).cast()) })
}

/// # Safety
///
/// The handles are the program's.
unsafe fn set_copy_in(exec: CUgraphExec, node: CUgraphNode, copy: &Copy3D) -> Answer {
    let driver = current()?;
    let (copy, context) = (to_driver(driver, copy)?, current_context(driver)?);
    let copy = (&raw const copy).cast();
    // SAFETY: the caller vouches for the handles; the layout is the driver's.
    check(unsafe { (driver.cuGraphExecMemcpyNodeSetParams)(exec, node, copy, context) })
}

// Kernels.
runtime! {
    fn cudaGraphAddKernelNode(
        out: *mut CUgraphNode,
        graph: CUgraph,
        dependencies: *const CUgraphNode,
        count: usize,
        node: *const KernelNode,
    ) {
        let driver = current()?;
        let node = kernel_to_driver(driver, &get(node)?)?;
        let add = driver.cuGraphAddKernelNode_v2;
        check(add(wanted(out)?, graph, dependencies, count, &raw const node))
    }

    fn cudaGraphKernelNodeGetParams(node: CUgraphNode, out: *mut KernelNode) {
        let mut found = core::mem::MaybeUninit::<CUDA_KERNEL_NODE_PARAMS>::zeroed();
        check((current()?.cuGraphKernelNodeGetParams_v2)(node, found.as_mut_ptr()))?;
        put(out, kernel_from_driver(&found.assume_init()))
    }

    fn cudaGraphKernelNodeSetParams(node: CUgraphNode, given: *const KernelNode) {
        let driver = current()?;
        let given = kernel_to_driver(driver, &get(given)?)?;
        check((driver.cuGraphKernelNodeSetParams_v2)(node, &raw const given))
    }

    fn cudaGraphExecKernelNodeSetParams(
        exec: CUgraphExec,
        node: CUgraphNode,
        given: *const KernelNode,
    ) {
        let driver = current()?;
        let given = kernel_to_driver(driver, &get(given)?)?;
        check((driver.cuGraphExecKernelNodeSetParams_v2)(exec, node, &raw const given))
    }

    fn cudaGraphKernelNodeCopyAttributes(target: CUgraphNode, source: CUgraphNode) {
        check((current()?.cuGraphKernelNodeCopyAttributes)(target, source))
    }

    fn cudaGraphKernelNodeGetAttribute(
        node: CUgraphNode,
        attribute: CUkernelNodeAttrID,
        out: *mut CUkernelNodeAttrValue,
    ) {
        check((current()?.cuGraphKernelNodeGetAttribute)(node, attribute, wanted(out)?))
    }

    fn cudaGraphKernelNodeSetAttribute(
        node: CUgraphNode,
        attribute: CUkernelNodeAttrID,
        value: *const CUkernelNodeAttrValue,
    ) {
        wanted(value.cast_mut())?;
        check((current()?.cuGraphKernelNodeSetAttribute)(node, attribute, value))
    }
}

// Copies.
runtime! {
    fn cudaGraphAddMemcpyNode(
        out: *mut CUgraphNode,
        graph: CUgraph,
        dependencies: *const CUgraphNode,
        count: usize,
        copy: *const Copy3D,
    ) {
        add_copy(out, graph, dependencies, count, &get(copy)?)
    }

    fn cudaGraphAddMemcpyNode1D(
        out: *mut CUgraphNode,
        graph: CUgraph,
        dependencies: *const CUgraphNode,
        count: usize,
        target: *mut c_void,
        source: *const c_void,
        bytes: usize,
        kind: u32,
    ) {
        let copy = plain_line(target, source, bytes, kind);
        add_copy(out, graph, dependencies, count, &copy)
    }

    fn cudaGraphAddMemcpyNodeToSymbol(
        out: *mut CUgraphNode,
        graph: CUgraph,
        dependencies: *const CUgraphNode,
        count: usize,
        symbol: *const c_void,
        source: *const c_void,
        bytes: usize,
        offset: usize,
        kind: u32,
    ) {
        let copy = line_to_variable(symbol, source, bytes, offset, kind)?;
        add_copy(out, graph, dependencies, count, &copy)
    }

    fn cudaGraphAddMemcpyNodeFromSymbol(
        out: *mut CUgraphNode,
        graph: CUgraph,
        dependencies: *const CUgraphNode,
        count: usize,
        target: *mut c_void,
        symbol: *const c_void,
        bytes: usize,
        offset: usize,
        kind: u32,
    ) {
        let copy = line_from_variable(target, symbol, bytes, offset, kind)?;
        add_copy(out, graph, dependencies, count, &copy)
    }

    fn cudaGraphMemcpyNodeGetParams(node: CUgraphNode, out: *mut Copy3D) {
        let driver = current()?;
        let mut found = DriverCopy3D::NOTHING;
        check((driver.cuGraphMemcpyNodeGetParams)(node, (&raw mut found).cast()))?;
        put(out, from_driver(driver, &found)?)
    }

    fn cudaGraphMemcpyNodeSetParams(node: CUgraphNode, copy: *const Copy3D) {
        set_copy(node, &get(copy)?)
    }

    fn cudaGraphMemcpyNodeSetParams1D(
        node: CUgraphNode,
        target: *mut c_void,
        source: *const c_void,
        bytes: usize,
        kind: u32,
    ) {
        set_copy(node, &plain_line(target, source, bytes, kind))
    }

    fn cudaGraphMemcpyNodeSetParamsToSymbol(
        node: CUgraphNode,
        symbol: *const c_void,
        source: *const c_void,
        bytes: usize,
        offset: usize,
        kind: u32,
    ) {
        set_copy(node, &line_to_variable(symbol, source, bytes, offset, kind)?)
    }

    fn cudaGraphMemcpyNodeSetParamsFromSymbol(
        node: CUgraphNode,
        target: *mut c_void,
        symbol: *const c_void,
        bytes: usize,
        offset: usize,
        kind: u32,
    ) {
        set_copy(node, &line_from_variable(target, symbol, bytes, offset, kind)?)
    }

    fn cudaGraphExecMemcpyNodeSetParams(
        exec: CUgraphExec,
        node: CUgraphNode,
        copy: *const Copy3D,
    ) {
        set_copy_in(exec, node, &get(copy)?)
    }

    fn cudaGraphExecMemcpyNodeSetParams1D(
        exec: CUgraphExec,
        node: CUgraphNode,
        target: *mut c_void,
        source: *const c_void,
        bytes: usize,
        kind: u32,
    ) {
        set_copy_in(exec, node, &plain_line(target, source, bytes, kind))
    }

    fn cudaGraphExecMemcpyNodeSetParamsToSymbol(
        exec: CUgraphExec,
        node: CUgraphNode,
        symbol: *const c_void,
        source: *const c_void,
        bytes: usize,
        offset: usize,
        kind: u32,
    ) {
        set_copy_in(exec, node, &line_to_variable(symbol, source, bytes, offset, kind)?)
    }

    fn cudaGraphExecMemcpyNodeSetParamsFromSymbol(
        exec: CUgraphExec,
        node: CUgraphNode,
        target: *mut c_void,
        symbol: *const c_void,
        bytes: usize,
        offset: usize,
        kind: u32,
    ) {
        set_copy_in(exec, node, &line_from_variable(target, symbol, bytes, offset, kind)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_node_comes_back_as_it_went() {
        assert_eq!(size_of::<KernelNode>(), 56);
        let handle = core::ptr::without_provenance_mut::<c_void>(0x3333_0000);
        let host = core::ptr::without_provenance::<c_void>(0x4444_0000);
        registry::add_handle(handle, Handle::Function, host);
        // SAFETY: zeros are parameters of a node that names nothing.
        let mut there: CUDA_KERNEL_NODE_PARAMS = unsafe { core::mem::zeroed() };
        there.func = handle.cast();
        there.gridDimY = 7;
        let back = kernel_from_driver(&there);
        assert_eq!((back.func.addr(), back.grid.y), (host.addr(), 7));
    }

    #[test]
    fn a_line_is_one_row() {
        let copy = line(16, 32, 100, 4);
        assert_eq!(copy.extent, Extent { width: 100, height: 1, depth: 1 });
        assert_eq!((copy.target.address, copy.source.address), (16, 32));
    }
}

//! The work in C's descriptions of nodes.
//!
//! C's enums are read as the numbers that they are: they may hold what a Rust enum does not know.

use apex_cuda::types::*;

use crate::border::{get, list};
use crate::graph::nodes::copy_graph;
use crate::machine::device::device;
use crate::memory::copy::Copy;
use crate::memory::fill::Fill;
use crate::memory::graph_memory::GraphMemory;
use crate::memory::operation::MemoryOperation;
use crate::run::launch::Launch;
use crate::run::work::Work;

/// # Safety
///
/// `params` is null or holds the parameters of a set.
pub(crate) unsafe fn read_set(params: *const CUDA_MEMSET_NODE_PARAMS) -> Result<Work, CUresult> {
    // SAFETY: the caller vouches for `params`.
    let params = unsafe { get(params) }?;
    Ok(Work::Fill(Fill {
        address: params.dst,
        pitch: params.pitch,
        value: params.value,
        element_bytes: params.elementSize,
        width: params.width,
        height: params.height,
    }))
}

/// # Safety
///
/// `params` is null or holds the parameters of a host call.
pub(crate) unsafe fn read_host(params: *const CUDA_HOST_NODE_PARAMS) -> Result<Work, CUresult> {
    // SAFETY: the caller vouches for `params`.
    let params = unsafe { get(params) }?;
    if params.fn_.is_none() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    Ok(Work::Host { function: params.fn_, data: params.userData })
}

/// The work in the parameters that serve for every kind of node.
///
/// # Safety
///
/// `params` is null or holds such parameters.
pub(crate) unsafe fn read_any(params: *mut CUgraphNodeParams) -> Result<Work, CUresult> {
    if params.is_null() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not null; the type is read as the number that it is, and only the
    // part of the union that it names.
    unsafe {
        let part = &raw const (*params).__bindgen_anon_1;
        Ok(match get((&raw const (*params).type_).cast::<u32>())? {
            0 => Work::Kernel(Launch::read(part.cast())?),
            1 => {
                let copy = part.cast::<CUDA_MEMCPY_NODE_PARAMS>();
                Work::Copy(Copy::read(&raw const (*copy).copyParams)?)
            }
            2 => read_set(part.cast())?,
            3 => read_host(part.cast())?,
            4 => Work::Graph(copy_graph(get(part.cast::<CUgraph>())?)?),
            5 => Work::Empty,
            6 => Work::Wait(get(part.cast())?),
            7 => Work::Record(get(part.cast())?),
            10 => {
                let params = part.cast::<CUDA_MEM_ALLOC_NODE_PARAMS>().cast_mut();
                allocate(params)?
            }
            11 => Work::Free { address: get(part.cast::<CUdeviceptr>())? },
            12 => read_orders(part.cast())?,
            _ => return Err(CUDA_ERROR_NOT_SUPPORTED),
        })
    }
}

/// Takes the memory of a node and tells its address.
///
/// # Safety
///
/// `params` is null or holds the parameters of such a node, and can be written.
pub(crate) unsafe fn allocate(params: *mut CUDA_MEM_ALLOC_NODE_PARAMS) -> Result<Work, CUresult> {
    if params.is_null() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not null; the location is read as the numbers that it is.
    unsafe {
        let location = get((&raw const (*params).poolProps.location).cast::<CUmemLocation>())?;
        let memory = GraphMemory::take(device(location.id)?, (*params).bytesize)?;
        (&raw mut (*params).dptr).write(memory.address);
        Ok(Work::Allocate(memory))
    }
}

/// # Safety
///
/// `params` is null or holds orders to memory.
pub(crate) unsafe fn read_orders(
    params: *const CUDA_BATCH_MEM_OP_NODE_PARAMS,
) -> Result<Work, CUresult> {
    // SAFETY: the caller vouches for `params` and its array.
    unsafe {
        let params = get(params)?;
        let mut orders = Vec::new();
        for &order in list(params.paramArray.cast::<[u64; 6]>(), params.count as usize)? {
            orders.extend(MemoryOperation::read(order)?);
        }
        Ok(Work::Memory(orders.into()))
    }
}

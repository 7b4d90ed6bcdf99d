//! Variables of the device, by the host's name for them.

use core::ffi::c_void;

use apex_cuda::types::CUstream;

use crate::border::{Answer, put};
use crate::context::current;
use crate::copy::{DEFAULT, DEVICE_TO_DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE, StreamOrder, copy};
use crate::errors::{Error, cudaErrorInvalidMemcpyDirection, cudaErrorInvalidValue};
use crate::registry;

/// The address of a part of a variable. What would reach beyond its end is refused.
pub(crate) fn part(symbol: *const c_void, offset: usize, bytes: usize) -> Result<u64, Error> {
    let (address, size) = registry::variable(current()?, symbol)?;
    match offset.checked_add(bytes) {
        Some(end) if end <= size => Ok(address + offset as u64),
        _ => Err(cudaErrorInvalidValue),
    }
}

/// Which way a copy to a variable may go.
pub(crate) fn to_variable(kind: u32) -> Answer {
    match kind {
        HOST_TO_DEVICE | DEVICE_TO_DEVICE | DEFAULT => Ok(()),
        _ => Err(cudaErrorInvalidMemcpyDirection),
    }
}

/// Which way a copy from a variable may go.
pub(crate) fn from_variable(kind: u32) -> Answer {
    match kind {
        DEVICE_TO_HOST | DEVICE_TO_DEVICE | DEFAULT => Ok(()),
        _ => Err(cudaErrorInvalidMemcpyDirection),
    }
}

/// # Safety
///
/// `source` has as many bytes as are copied.
unsafe fn to(
    symbol: *const c_void,
    source: *const c_void,
    bytes: usize,
    offset: usize,
    kind: u32,
    order: StreamOrder,
) -> Answer {
    to_variable(kind)?;
    // SAFETY: the variable has the part; the caller vouches for the source.
    unsafe { copy(part(symbol, offset, bytes)?, source.addr() as u64, bytes, kind, order) }
}

/// # Safety
///
/// `target` has room for as many bytes as are copied.
unsafe fn from(
    target: *mut c_void,
    symbol: *const c_void,
    bytes: usize,
    offset: usize,
    kind: u32,
    order: StreamOrder,
) -> Answer {
    from_variable(kind)?;
    // SAFETY: the variable has the part; the caller vouches for the target.
    unsafe { copy(target.addr() as u64, part(symbol, offset, bytes)?, bytes, kind, order) }
}

runtime! {
    fn cudaGetSymbolAddress(out: *mut *mut c_void, symbol: *const c_void) {
        let (address, _) = registry::variable(current()?, symbol)?;
        put(out, core::ptr::with_exposed_provenance_mut(address as usize))
    }

    fn cudaGetSymbolSize(out: *mut usize, symbol: *const c_void) {
        let (_, bytes) = registry::variable(current()?, symbol)?;
        put(out, bytes)
    }

    fn cudaMemcpyToSymbol(
        symbol: *const c_void,
        source: *const c_void,
        bytes: usize,
        offset: usize,
        kind: u32,
    ) {
        to(symbol, source, bytes, offset, kind, StreamOrder::Waiting)
    }

    fn cudaMemcpyToSymbol_ptds(
        symbol: *const c_void,
        source: *const c_void,
        bytes: usize,
        offset: usize,
        kind: u32,
    ) {
        to(symbol, source, bytes, offset, kind, StreamOrder::WaitingOwn)
    }

    fn cudaMemcpyToSymbolAsync / cudaMemcpyToSymbolAsync_ptsz(
        symbol: *const c_void,
        source: *const c_void,
        bytes: usize,
        offset: usize,
        kind: u32,
        stream: CUstream,
    ) {
        to(symbol, source, bytes, offset, kind, StreamOrder::Stream(stream))
    }

    fn cudaMemcpyFromSymbol(
        target: *mut c_void,
        symbol: *const c_void,
        bytes: usize,
        offset: usize,
        kind: u32,
    ) {
        from(target, symbol, bytes, offset, kind, StreamOrder::Waiting)
    }

    fn cudaMemcpyFromSymbol_ptds(
        target: *mut c_void,
        symbol: *const c_void,
        bytes: usize,
        offset: usize,
        kind: u32,
    ) {
        from(target, symbol, bytes, offset, kind, StreamOrder::WaitingOwn)
    }

    fn cudaMemcpyFromSymbolAsync / cudaMemcpyFromSymbolAsync_ptsz(
        target: *mut c_void,
        symbol: *const c_void,
        bytes: usize,
        offset: usize,
        kind: u32,
        stream: CUstream,
    ) {
        from(target, symbol, bytes, offset, kind, StreamOrder::Stream(stream))
    }
}

//! Device memory and pinned memory: taken, given back, filled and copied, in the order of a queue.
//!
//! Device memory comes from a pool of our own, by calls that wait for nothing; where a device has no pools, from
//! the driver directly. Pinned memory is slow to get and is kept for the next who asks. Whoever calls here owns
//! or borrows the memory it names for as long as the queue needs it: a [`crate::Buffer`], a part of one, or a
//! [`crate::Pinned`].

use crate::buffer::bytes_of;
use crate::calls::{Handle, PinnedHandle, call};
use crate::context::Context;
use crate::element::Element;
use crate::error::{Error, Result};
use crate::lock::lock;
use crate::queue::Queue;
use apex_cuda::types::*;
use cudarc::driver::sys;

/// The smallest piece of pinned memory, and how many bytes are kept idle at most.
const PINNED_LEAST: usize = 4096;
const PINNED_KEPT: usize = 256 << 20;

impl Context {
    /// A pool of our own that keeps what is freed: the device's common pool is shared with every other library
    /// of the process, whose settings are not ours to change.
    pub(crate) fn make_pool(&self, device: i32) -> Result<Handle<sys::CUmemPoolHandle_st>> {
        let mut pool = core::ptr::null_mut();
        let mut threshold = u64::MAX;
        // SAFETY: all fields of the properties may be zero; the two that matter are written. The pool's
        // threshold is a number of 64 bits.
        unsafe {
            let mut properties: CUmemPoolProps = core::mem::zeroed();
            properties.allocType = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
            properties.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
            properties.location.__bindgen_anon_1.id = device;
            call!(self.driver, cuMemPoolCreate(&raw mut pool, &raw const properties))?;
            let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
            call!(
                self.driver,
                cuMemPoolSetAttribute(pool, attribute as u32, (&raw mut threshold).cast())
            )?;
        }
        Ok(Handle(pool))
    }

    /// Bytes free and bytes in all.
    pub(crate) fn memory(&self) -> Result<(u64, u64)> {
        self.bind()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: out-pointers to locals.
        unsafe { call!(self.driver, cuMemGetInfo_v2(&raw mut free, &raw mut total))? };
        Ok((free as u64, total as u64))
    }

    /// Device memory, usable by what is put into `queue` from now on.
    pub(crate) fn allocate(&self, bytes: usize, queue: &Queue) -> Result<u64> {
        self.bind()?;
        match self.allocate_once(bytes, queue) {
            Err(Error::Driver { code: CUDA_ERROR_OUT_OF_MEMORY, .. }) => {
                // What was freed may still lie in the pool or wait for its stream.
                self.synchronize()?;
                if let Some(pool) = self.pool {
                    // SAFETY: the pool is ours.
                    unsafe { call!(self.driver, cuMemPoolTrimTo(pool.0, 0))? };
                }
                self.allocate_once(bytes, queue).map_err(|error| match error {
                    Error::Driver { code: CUDA_ERROR_OUT_OF_MEMORY, .. } => Error::OutOfMemory {
                        asked: bytes as u64,
                        free: self.memory().map_or(0, |(free, _)| free),
                    },
                    other => other,
                })
            }
            other => other,
        }
    }

    fn allocate_once(&self, bytes: usize, queue: &Queue) -> Result<u64> {
        let mut address = 0;
        // SAFETY: an out-pointer to a local; pool and stream are ours.
        unsafe {
            match self.pool {
                Some(pool) => call!(
                    self.driver,
                    cuMemAllocFromPoolAsync(&raw mut address, bytes, pool.0, queue.stream().0)
                )?,
                None => call!(self.driver, cuMemAlloc_v2(&raw mut address, bytes))?,
            }
        }
        Ok(address)
    }

    /// Gives device memory back after everything that is in `queue` now.
    pub(crate) fn free(&self, address: u64, queue: &Queue) {
        if self.bind().is_err() {
            return;
        }
        // SAFETY: the address came from `allocate` and its only owner is being dropped. A context that is lost
        // answers with an error, which there is nothing to do about.
        unsafe {
            if self.pool.is_some() {
                (self.driver.cuMemFreeAsync)(address, queue.stream().0);
            } else {
                (self.driver.cuStreamSynchronize)(queue.stream().0);
                (self.driver.cuMemFree_v2)(address);
            }
        }
    }

    /// Fills device memory with one byte, in the queue's order.
    pub(crate) fn fill(&self, to: u64, byte: u8, bytes: usize, queue: &Queue) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller owns `bytes` bytes at `to`.
        unsafe { call!(self.driver, cuMemsetD8Async(to, byte, bytes, queue.stream().0)) }
            .map_err(|error| self.blame(error, queue))
    }

    /// Copies between device memories, in the queue's order.
    pub(crate) fn copy(&self, from: u64, to: u64, bytes: usize, queue: &Queue) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller has `bytes` bytes borrowed at `from` and owned at `to`.
        unsafe { call!(self.driver, cuMemcpyDtoDAsync_v2(to, from, bytes, queue.stream().0)) }
            .map_err(|error| self.blame(error, queue))
    }

    /// Begins a copy to the device.
    ///
    /// # Safety
    ///
    /// `from` stays readable and unchanged until the queue has done it; `to` has `bytes` bytes.
    pub(crate) unsafe fn copy_in(
        &self,
        from: *const c_void,
        to: u64,
        bytes: usize,
        queue: &Queue,
    ) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise.
        unsafe { call!(self.driver, cuMemcpyHtoDAsync_v2(to, from, bytes, queue.stream().0)) }
            .map_err(|error| self.blame(error, queue))
    }

    /// Begins a copy from the device.
    ///
    /// # Safety
    ///
    /// `to` stays writable, and is touched by nobody, until the queue has done it; `from` has `bytes` bytes.
    pub(crate) unsafe fn copy_out(
        &self,
        from: u64,
        to: *mut c_void,
        bytes: usize,
        queue: &Queue,
    ) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise.
        unsafe { call!(self.driver, cuMemcpyDtoHAsync_v2(to, from, bytes, queue.stream().0)) }
            .map_err(|error| self.blame(error, queue))
    }

    /// Pinned host memory of at least so many bytes; how many it has comes along.
    pub(crate) fn take_pinned(&self, bytes: usize) -> Result<(usize, PinnedHandle)> {
        let bytes = bytes.checked_next_power_of_two().unwrap_or(bytes).max(PINNED_LEAST);
        let mut idle = lock(&self.idle_pinned);
        if let Some(place) = idle.iter().position(|(size, _)| *size == bytes) {
            return Ok(idle.swap_remove(place));
        }
        drop(idle);
        self.bind()?;
        let mut address = core::ptr::null_mut();
        // SAFETY: an out-pointer to a local.
        unsafe { call!(self.driver, cuMemHostAlloc(&raw mut address, bytes, 0)) }.map_err(
            |error| match error {
                Error::Driver { code: CUDA_ERROR_OUT_OF_MEMORY, .. } => {
                    Error::OutOfPinnedMemory { asked: bytes as u64 }
                }
                other => other,
            },
        )?;
        Ok((bytes, Handle(address)))
    }

    /// Takes pinned memory back; kept for the next, up to a limit.
    pub(crate) fn give_back_pinned(&self, bytes: usize, address: PinnedHandle) {
        let mut idle = lock(&self.idle_pinned);
        let kept: usize = idle.iter().map(|(size, _)| size).sum();
        if kept + bytes <= PINNED_KEPT {
            idle.push((bytes, address));
            return;
        }
        drop(idle);
        self.free_pinned(address);
    }

    fn free_pinned(&self, address: PinnedHandle) {
        if self.bind().is_ok() {
            // SAFETY: from `take_pinned`, and no longer owned by anybody.
            unsafe { (self.driver.cuMemFreeHost)(address.0) };
        }
    }

    /// Copies a slice to the device and waits until that is done. `to` has as many bytes.
    pub(crate) fn write_slice<T: Element>(&self, host: &[T], to: u64, queue: &Queue) -> Result<()> {
        // SAFETY: the slice is borrowed until the queue has been waited for.
        unsafe { self.copy_in(host.as_ptr().cast(), to, size_of_val(host), queue)? };
        queue.advance();
        self.synchronize_queue(queue)
    }

    /// Copies so many elements from the device and waits until that is done.
    pub(crate) fn read_vector<T: Element>(
        &self,
        from: u64,
        len: usize,
        queue: &Queue,
    ) -> Result<Vec<T>> {
        let mut host: Vec<T> = Vec::new();
        let bytes = bytes_of::<T>(len);
        host.try_reserve_exact(len)
            .map_err(|_| Error::OutOfPinnedMemory { asked: bytes as u64 })?;
        // SAFETY: the vector has room for `len` elements, and is not touched until the queue was waited for.
        unsafe { self.copy_out(from, host.as_mut_ptr().cast(), bytes, queue)? };
        queue.advance();
        self.synchronize_queue(queue)?;
        // SAFETY: the copy is done, so `len` elements are written; any bits are a value of `T`.
        unsafe { host.set_len(len) };
        Ok(host)
    }
}

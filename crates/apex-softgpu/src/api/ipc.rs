//! The driver's functions for memory and events shared between processes, and the handles
//! that carry them.

use core::ptr::{null_mut, with_exposed_provenance_mut};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;

use apex_cuda::types::*;

use crate::border::put;
use crate::machine::device::machine;
use crate::memory::allocation::free;
use crate::memory::range::{MemoryKind, Range, next_id, range_of, ranges_to_change};
use crate::memory::shared::{PAGE, SharedEvent, map, share};
use crate::object::{create, live};
use crate::run::context::current;
use crate::run::event::Event;

/// What the opaque bytes of a handle hold.
#[repr(C)]
#[derive(Clone, Copy)]
struct Handle {
    magic: u64,
    process: u32,
    file: i32,
    /// Where in the file the memory begins, and how long the file and it are.
    offset: u64,
    file_bytes: u64,
    bytes: u64,
    /// Tells the file from a later one of the same number.
    id: u64,
    reserved: u64,
    unused: u64,
}

const MEMORY_MAGIC: u64 = u64::from_le_bytes(*b"apexmem1");
const EVENT_MAGIC: u64 = u64::from_le_bytes(*b"apexevt1");
const _: () = assert!(size_of::<Handle>() == size_of::<CUipcMemHandle>());
const _: () = assert!(size_of::<Handle>() == size_of::<CUipcEventHandle>());

fn open(handle: &Handle, magic: u64) -> Result<File, CUresult> {
    if handle.magic != magic {
        return Err(CUDA_ERROR_INVALID_HANDLE);
    }
    let path = format!("/proc/{}/fd/{}", handle.process, handle.file);
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.map_err(|_| CUDA_ERROR_INVALID_HANDLE)?;
    let length = file.metadata().map_err(|_| CUDA_ERROR_INVALID_HANDLE)?.len();
    if length == handle.file_bytes { Ok(file) } else { Err(CUDA_ERROR_INVALID_HANDLE) }
}

/// # Safety
///
/// `C` is one of the two handles of C.
unsafe fn as_c<C>(handle: Handle) -> C {
    const { assert!(size_of::<C>() == size_of::<Handle>()) };
    // SAFETY: both are as many bytes, and any bytes are a handle of C.
    unsafe { core::mem::transmute_copy(&handle) }
}

/// # Safety
///
/// As for [`as_c`].
unsafe fn from_c<C>(handle: &C) -> Handle {
    const { assert!(size_of::<C>() == size_of::<Handle>()) };
    // SAFETY: both are as many bytes, and any bytes are numbers.
    unsafe { core::mem::transmute_copy(handle) }
}

answers! {
    fn cuIpcGetMemHandle(out: *mut CUipcMemHandle, address: CUdeviceptr) {
        let context = current()?;
        let (start, range) = range_of(address).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        if range.kind != MemoryKind::Device {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        context.domain.drain(context.spins())?;
        let (file, id) = share(start, range.length)?;
        let (first, file_bytes) = machine()?.arena.pages(start, range.length);
        put(out, as_c(Handle {
            magic: MEMORY_MAGIC,
            process: std::process::id(),
            file,
            offset: start - first,
            file_bytes,
            bytes: range.length,
            id,
            reserved: 0,
            unused: 0,
        }))
    }

    fn cuIpcOpenMemHandle_v2(out: *mut CUdeviceptr, handle: CUipcMemHandle, _flags: u32) {
        let context = current()?;
        let handle = from_c(&handle);
        // The maker has the memory already.
        if handle.process == std::process::id() || out.is_null() {
            return Err(if out.is_null() { CUDA_ERROR_INVALID_VALUE } else { CUDA_ERROR_INVALID_CONTEXT });
        }
        let file = open(&handle, MEMORY_MAGIC)?;
        if handle.offset.checked_add(handle.bytes).is_none_or(|end| end > handle.file_bytes) {
            return Err(CUDA_ERROR_INVALID_HANDLE);
        }
        let arena = &machine()?.arena;
        let bytes = handle.file_bytes.checked_next_multiple_of(PAGE).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
        let start = arena.take_addresses(bytes, PAGE).ok_or(CUDA_ERROR_OUT_OF_MEMORY)?;
        let place = with_exposed_provenance_mut(start as usize);
        map(&file, handle.file_bytes, 0, place).inspect_err(|_| arena.give_back_addresses(start, bytes))?;
        let address = start + handle.offset;
        ranges_to_change().insert(address, Range {
            length: handle.bytes,
            kind: MemoryKind::Imported,
            context: context.handle(),
            device: context.device.ordinal,
            pool: null_mut(),
            physical: handle.file_bytes,
            flags: handle.offset as u32,
            id: next_id(),
            accessible: true,
        });
        put(out, address)
    }

    fn cuIpcCloseMemHandle(address: CUdeviceptr) {
        let context = current()?;
        context.domain.drain(context.spins())?;
        free(address, |range| range.kind == MemoryKind::Imported)
    }

    fn cuIpcGetEventHandle(out: *mut CUipcEventHandle, event: CUevent) {
        current()?;
        let event: &Event = live(event)?;
        let shared = event.shared.as_ref().ok_or(CUDA_ERROR_INVALID_VALUE)?;
        put(out, as_c(Handle {
            magic: EVENT_MAGIC,
            process: std::process::id(),
            file: shared.file.as_raw_fd(),
            offset: 0,
            file_bytes: PAGE,
            bytes: PAGE,
            id: shared.id,
            reserved: 0,
            unused: 0,
        }))
    }

    fn cuIpcOpenEventHandle(out: *mut CUevent, handle: CUipcEventHandle) {
        let context = current()?;
        let handle = from_c(&handle);
        let file = open(&handle, EVENT_MAGIC)?;
        let shared = SharedEvent::over(file, handle.id)?;
        put(out, create(Event::new(context, SHARED_EVENT_FLAGS, Some(shared))))
    }
}

/// Shared between processes, and without a time.
const SHARED_EVENT_FLAGS: u32 = 6;

pub(crate) use self::cuIpcOpenMemHandle_v2 as cuIpcOpenMemHandle;

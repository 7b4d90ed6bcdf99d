//! Arrays: plain rows of elements, without the device's own layout.

use apex_cuda::types::*;

use crate::border::{get, put};
use crate::context::current;
use crate::memory::{Place, allocate, free};
use crate::object::{create, destroy, live, object};

/// One array; its rows lie one after the other.
pub(crate) struct Array {
    pub(crate) address: u64,
    pub(crate) row_bytes: usize,
    width: usize,
    pub(crate) height: usize,
    depth: usize,
    format: CUarray_format,
    channels: u32,
    flags: u32,
}
object!(Array, b"array---");

impl Array {
    /// How many bytes the array holds.
    pub(crate) fn bytes(&self) -> usize {
        self.row_bytes * self.height.max(1) * self.depth.max(1)
    }
}

/// The array behind a handle.
///
/// # Safety
///
/// As for [`live`].
pub(crate) unsafe fn array<'a>(handle: CUarray) -> Result<&'a Array, CUresult> {
    // SAFETY: the caller vouches for the handle.
    unsafe { live(handle) }
}

fn element_bytes(format: CUarray_format) -> Option<usize> {
    match format {
        0x01 | 0x08 => Some(1),
        0x02 | 0x09 | 0x10 => Some(2),
        0x03 | 0x0a | 0x20 => Some(4),
        _ => None,
    }
}

fn make(
    (width, height, depth): (usize, usize, usize),
    format: CUarray_format,
    channels: u32,
    flags: u32,
) -> Result<CUarray, CUresult> {
    let context = current()?;
    let element = element_bytes(format).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    if width == 0 || !matches!(channels, 1 | 2 | 4) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let row_bytes =
        width.checked_mul(element * channels as usize).ok_or(CUDA_ERROR_OUT_OF_MEMORY)?;
    let rows = height.max(1).checked_mul(depth.max(1)).ok_or(CUDA_ERROR_OUT_OF_MEMORY)?;
    let bytes = row_bytes.checked_mul(rows).ok_or(CUDA_ERROR_OUT_OF_MEMORY)?;
    let none = core::ptr::null_mut();
    let address = allocate(context.device, context.handle(), bytes, Place::Device, 0, none)?;
    Ok(create(Array { address, row_bytes, width, height, depth, format, channels, flags }))
}

answers! {
    fn cuArrayCreate_v2(out: *mut CUarray, description: *const CUDA_ARRAY_DESCRIPTOR) {
        if description.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let format = get((&raw const (*description).Format).cast::<u32>())?;
        let size = ((*description).Width, (*description).Height, 0);
        put(out, make(size, format, (*description).NumChannels, 0)?)
    }

    fn cuArray3DCreate_v2(out: *mut CUarray, description: *const CUDA_ARRAY3D_DESCRIPTOR) {
        if description.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let format = get((&raw const (*description).Format).cast::<u32>())?;
        let size = ((*description).Width, (*description).Height, (*description).Depth);
        put(out, make(size, format, (*description).NumChannels, (*description).Flags)?)
    }

    fn cuArrayDestroy(handle: CUarray) {
        let address = array(handle)?.address;
        destroy::<Array, _>(handle)?;
        free(address, |_| true)
    }

    fn cuArrayGetDescriptor_v2(out: *mut CUDA_ARRAY_DESCRIPTOR, handle: CUarray) {
        let array = array(handle)?;
        if out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        (&raw mut (*out).Width).write(array.width);
        (&raw mut (*out).Height).write(array.height);
        (&raw mut (*out).Format).cast::<u32>().write(array.format);
        (&raw mut (*out).NumChannels).write(array.channels);
        Ok(())
    }

    fn cuArray3DGetDescriptor_v2(out: *mut CUDA_ARRAY3D_DESCRIPTOR, handle: CUarray) {
        let array = array(handle)?;
        if out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        (&raw mut (*out).Width).write(array.width);
        (&raw mut (*out).Height).write(array.height);
        (&raw mut (*out).Depth).write(array.depth);
        (&raw mut (*out).Format).cast::<u32>().write(array.format);
        (&raw mut (*out).NumChannels).write(array.channels);
        (&raw mut (*out).Flags).write(array.flags);
        Ok(())
    }
}

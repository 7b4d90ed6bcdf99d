//! The driver's functions for arrays and mipmapped arrays.

use apex_cuda::types::*;

use crate::border::{get, put};
use crate::memory::array::{Mipmap, Size, array, destroy_array};
use crate::object::{create, destroy, live};
use crate::run::context::current;

/// An array in the current context.
fn make(size: Size, is_level: bool) -> Result<CUarray, CUresult> {
    let context = current()?;
    size.make(context.device, context.handle(), is_level)
}

answers! {
    fn cuArrayCreate_v2(out: *mut CUarray, description: *const CUDA_ARRAY_DESCRIPTOR) {
        if description.is_null() || out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let size = Size {
            width: (*description).Width,
            height: (*description).Height,
            depth: 0,
            format: get((&raw const (*description).Format).cast::<u32>())?,
            channels: (*description).NumChannels,
            flags: 0,
        };
        put(out, make(size, false)?)
    }

    fn cuArray3DCreate_v2(out: *mut CUarray, description: *const CUDA_ARRAY3D_DESCRIPTOR) {
        if out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        put(out, make(Size::read(description)?, false)?)
    }

    fn cuArrayDestroy(handle: CUarray) {
        let context = current()?;
        // A level belongs to its mipmapped array.
        if array(handle)?.is_level {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        context.domain.drain(context.spins())?;
        destroy_array(handle)
    }

    fn cuArrayGetDescriptor_v2(out: *mut CUDA_ARRAY_DESCRIPTOR, handle: CUarray) {
        let size = array(handle)?.size;
        if out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        (&raw mut (*out).Width).write(size.width);
        (&raw mut (*out).Height).write(size.height);
        (&raw mut (*out).Format).cast::<u32>().write(size.format);
        (&raw mut (*out).NumChannels).write(size.channels);
        Ok(())
    }

    fn cuArray3DGetDescriptor_v2(out: *mut CUDA_ARRAY3D_DESCRIPTOR, handle: CUarray) {
        array(handle)?.size.write(out)
    }

    fn cuArrayGetMemoryRequirements(
        out: *mut CUDA_ARRAY_MEMORY_REQUIREMENTS,
        handle: CUarray,
        _device: CUdevice,
    ) {
        let bytes = array(handle)?.bytes();
        if out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        out.write_bytes(0, 1);
        (&raw mut (*out).size).write(bytes);
        (&raw mut (*out).alignment).write(512);
        Ok(())
    }

    fn cuMipmappedArrayCreate(
        out: *mut CUmipmappedArray,
        description: *const CUDA_ARRAY3D_DESCRIPTOR,
        count: u32,
    ) {
        let size = Size::read(description)?;
        if out.is_null() || count == 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let largest = size.width.max(size.height).max(size.depth).max(1);
        let most = usize::BITS - largest.leading_zeros();
        let mut levels = Vec::new();
        let mut level = size;
        for _ in 0..count.min(most) {
            match make(level, true) {
                Ok(made) => levels.push(made),
                Err(error) => {
                    levels.into_iter().try_for_each(|made| destroy_array(made))?;
                    return Err(error);
                }
            }
            level = level.halved();
        }
        put(out, create(Mipmap { levels, size }))
    }

    fn cuMipmappedArrayGetLevel(out: *mut CUarray, handle: CUmipmappedArray, level: u32) {
        let mipmap: &Mipmap = live(handle)?;
        put(out, *mipmap.levels.get(level as usize).ok_or(CUDA_ERROR_INVALID_VALUE)?)
    }

    fn cuMipmappedArrayDestroy(handle: CUmipmappedArray) {
        let context = current()?;
        let levels = live::<Mipmap, _>(handle)?.levels.clone();
        context.domain.drain(context.spins())?;
        destroy::<Mipmap, _>(handle)?;
        levels.into_iter().try_for_each(|level| destroy_array(level))
    }
}

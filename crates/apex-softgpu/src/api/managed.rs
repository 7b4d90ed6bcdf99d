//! The driver's functions for hints and moves of managed memory.

use apex_cuda::types::*;

use crate::border::{Answer, get, list};
use crate::machine::device::device;
use crate::memory::advice::{HOST, NOWHERE, change, managed, put_attribute};
use crate::run::context::current;

const LOCATION_DEVICE: u32 = 1;

fn place_of(location: CUmemLocation) -> Result<i32, CUresult> {
    match location.kind {
        LOCATION_DEVICE => device(location.id).map(|device| device.ordinal),
        _ => Ok(HOST),
    }
}

fn advise(address: u64, count: usize, advice: CUmem_advise, place: i32) -> Answer {
    current()?;
    if place >= 0 {
        device(place)?;
    }
    change(address, count, |kept| match advice {
        1 | 2 => kept.read_mostly = advice == 1,
        3 => kept.preferred = place,
        4 => kept.preferred = NOWHERE,
        5 => kept.accessed_by = place,
        _ => kept.accessed_by = NOWHERE,
    })?;
    if (1..=6).contains(&advice) { Ok(()) } else { Err(CUDA_ERROR_INVALID_VALUE) }
}

/// # Safety
///
/// The handle is the program's.
unsafe fn prefetch(address: u64, count: usize, place: i32, stream: CUstream) -> Answer {
    let context = current()?;
    // SAFETY: the caller vouches for the handle.
    unsafe { crate::run::capture_rules::for_work(context, stream) }?;
    change(address, count, |kept| kept.prefetched = place)
}

answers! {
    fn cuMemAdvise(address: CUdeviceptr, count: usize, advice: CUmem_advise, device: CUdevice) {
        advise(address, count, advice, device)
    }

    fn cuMemAdvise_v2(address: CUdeviceptr, count: usize, advice: CUmem_advise, to: CUmemLocation) {
        advise(address, count, advice, place_of(to)?)
    }

    fn cuMemPrefetchAsync(address: CUdeviceptr, count: usize, device: CUdevice, stream: CUstream) {
        prefetch(address, count, device, stream)
    }

    fn cuMemPrefetchAsync_v2(
        address: CUdeviceptr, count: usize, to: CUmemLocation, flags: u32, stream: CUstream,
    ) {
        if flags != 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        prefetch(address, count, place_of(to)?, stream)
    }

    #[allow(clippy::too_many_arguments, reason = "the driver's own signature")]
    fn cuMemPrefetchBatchAsync(
        addresses: *mut CUdeviceptr, sizes: *mut usize, count: usize, places: *mut CUmemLocation,
        starts: *mut usize, place_count: usize, flags: u64, stream: CUstream,
    ) {
        if flags != 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let (places, starts) = (list(places, place_count)?, list(starts, place_count)?);
        let ranges = list(addresses, count)?.iter().zip(list(sizes, count)?);
        for (nth, (&address, &size)) in ranges.enumerate() {
            // A place holds from its start to the next one's.
            let place = starts.iter().rposition(|&start| start <= nth);
            let place = place.ok_or(CUDA_ERROR_INVALID_VALUE)?;
            prefetch(address, size, place_of(places[place])?, stream)?;
        }
        Ok(())
    }

    fn cuMemRangeGetAttribute(
        data: *mut c_void, bytes: usize, attribute: CUmem_range_attribute, address: CUdeviceptr, count: usize,
    ) {
        current()?;
        put_attribute(data, bytes, attribute, managed(address, count)?)
    }

    fn cuMemRangeGetAttributes(
        data: *mut *mut c_void, sizes: *mut usize, attributes: *mut CUmem_range_attribute,
        attribute_count: usize, address: CUdeviceptr, count: usize,
    ) {
        current()?;
        let id = managed(address, count)?;
        for nth in 0..attribute_count {
            let place = get(data.wrapping_add(nth))?;
            put_attribute(place, get(sizes.wrapping_add(nth))?, get(attributes.wrapping_add(nth))?, id)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::context::tests::with_context;
    use crate::api::memory::{cuMemAlloc_v2, cuMemAllocManaged};

    #[test]
    fn advice_is_remembered() {
        with_context(|| {
            let (mut address, mut plain, mut value) = (0, 0, 9_i32);
            // SAFETY: plain calls of the driver's own kind.
            unsafe {
                assert_eq!(cuMemAllocManaged(&raw mut address, 100, 1), CUDA_SUCCESS);
                let mut ask = |attribute| {
                    let data = (&raw mut value).cast();
                    assert_eq!(
                        cuMemRangeGetAttribute(data, 4, attribute, address, 100),
                        CUDA_SUCCESS
                    );
                    value
                };
                assert_eq!((ask(1), ask(2)), (0, NOWHERE));
                assert_eq!(cuMemAdvise(address, 100, 1, 0), CUDA_SUCCESS);
                assert_eq!(cuMemAdvise(address, 100, 3, HOST), CUDA_SUCCESS);
                assert_eq!(
                    cuMemPrefetchAsync(address, 100, 0, core::ptr::null_mut()),
                    CUDA_SUCCESS
                );
                assert_eq!((ask(1), ask(2), ask(4)), (1, HOST, 0));
                assert_eq!(cuMemAlloc_v2(&raw mut plain, 100), CUDA_SUCCESS);
                assert_eq!(cuMemAdvise(plain, 100, 1, 0), CUDA_ERROR_INVALID_VALUE);
            }
        });
    }
}

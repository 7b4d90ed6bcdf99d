//! Hints and moves for managed memory.
//!
//! All memory is one here, so nothing moves; what a program advised and where it
//! last wished its memory to be is remembered and answered when it asks.

use std::collections::HashMap;
use std::sync::Mutex;

use apex_cuda::types::*;

use crate::border::{Answer, put};
use crate::memory::range::{MemoryKind, is_known, range_of};
use crate::object::lock;

/// What was advised for a range.
#[derive(Clone, Copy)]
pub(crate) struct Advice {
    pub(crate) read_mostly: bool,
    pub(crate) preferred: i32,
    pub(crate) accessed_by: i32,
    pub(crate) prefetched: i32,
}

pub(crate) const NOWHERE: i32 = -2;
pub(crate) const HOST: i32 = -1;
const UNADVISED: Advice =
    Advice { read_mostly: false, preferred: NOWHERE, accessed_by: NOWHERE, prefetched: NOWHERE };

/// By the range's id, so that memory that is used again begins anew.
static ADVICE: Mutex<Option<HashMap<u64, Advice>>> = Mutex::new(None);

/// The managed range around the bytes.
pub(crate) fn managed(address: u64, count: usize) -> Result<u64, CUresult> {
    let range = range_of(address).filter(|(_, range)| range.kind == MemoryKind::Managed);
    let (_, range) = range.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    if is_known(address, count as u64) { Ok(range.id) } else { Err(CUDA_ERROR_INVALID_VALUE) }
}

pub(crate) fn change(address: u64, count: usize, set: impl FnOnce(&mut Advice)) -> Answer {
    let id = managed(address, count)?;
    set(lock(&ADVICE).get_or_insert_default().entry(id).or_insert(UNADVISED));
    Ok(())
}

/// # Safety
///
/// `data` has room for `bytes`.
pub(crate) unsafe fn put_attribute(
    data: *mut c_void,
    bytes: usize,
    attribute: CUmem_range_attribute,
    id: u64,
) -> Answer {
    let advice = lock(&ADVICE).as_ref().and_then(|all| all.get(&id)).copied();
    let advice = advice.unwrap_or(UNADVISED);
    if bytes == 0 || !bytes.is_multiple_of(4) || (attribute != ACCESSED_BY && bytes != 4) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    // The kind of a place: none, the host, a device.
    let kind = |place: i32| match place {
        NOWHERE => 0,
        HOST => 2,
        _ => 1,
    };
    let value = match attribute {
        1 => i32::from(advice.read_mostly),
        2 | 6 => advice.preferred,
        ACCESSED_BY => advice.accessed_by,
        4 | 8 => advice.prefetched,
        5 => kind(advice.preferred),
        7 => kind(advice.prefetched),
        _ => return Err(CUDA_ERROR_INVALID_VALUE),
    };
    // SAFETY: the caller vouches for the room.
    unsafe {
        put(data.cast(), value)?;
        for further in 1..bytes / 4 {
            put(data.cast::<i32>().add(further), NOWHERE)?;
        }
    }
    Ok(())
}

const ACCESSED_BY: CUmem_range_attribute = 3;

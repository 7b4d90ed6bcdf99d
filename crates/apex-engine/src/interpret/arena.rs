//! Memory of blocks, kept by the worker between launches.
//!
//! A launch of one small block should cost about a microsecond, so its memory comes from
//! a short list that each thread keeps. What is taken again still holds what the last
//! block left: registers and shared memory begin undefined, as on the hardware.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::RefCell;

/// Larger ones go back to the system at once.
const KEPT_BYTES: usize = 4 << 20;
const KEPT: usize = 4;

/// One block's memory, aligned to 1024 bytes.
#[derive(Debug)]
pub(crate) struct Arena {
    base: *mut u8,
    bytes: usize,
}

struct Kept(Vec<Arena>);

impl Drop for Kept {
    fn drop(&mut self) {
        for arena in self.0.drain(..) {
            arena.release();
        }
    }
}

thread_local! {
    static ARENAS: RefCell<Kept> = const { RefCell::new(Kept(Vec::new())) };
}

impl Arena {
    pub(crate) fn take(bytes: usize) -> Option<Arena> {
        let kept = ARENAS.try_with(|kept| {
            let kept = &mut kept.borrow_mut().0;
            let found = kept.iter().position(|a| a.bytes >= bytes && a.bytes / 4 <= bytes);
            found.map(|index| kept.swap_remove(index))
        });
        if let Ok(Some(arena)) = kept {
            return Some(arena);
        }
        let bytes = bytes.checked_next_multiple_of(4096)?;
        let layout = Layout::from_size_align(bytes, 1024).ok()?;
        // SAFETY: the layout has a size.
        let base = unsafe { alloc_zeroed(layout) };
        (!base.is_null()).then_some(Arena { base, bytes })
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.base
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn release(self) {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: allocated in `take` with this layout.
        unsafe { dealloc(this.base, Layout::from_size_align_unchecked(this.bytes, 1024)) };
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let mut mine = Some(Arena { base: self.base, bytes: self.bytes });
        let _ = ARENAS.try_with(|kept| {
            if let Ok(mut kept) = kept.try_borrow_mut()
                && kept.0.len() < KEPT
                && self.bytes <= KEPT_BYTES
            {
                kept.0.extend(mine.take());
            }
        });
        if let Some(arena) = mine {
            arena.release();
        }
    }
}

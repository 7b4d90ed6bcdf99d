//! Brings memory that will be written soon into the cache, for writing.
//!
//! Rings are read on another processor, and a line that was read there is back only after a tenth of a microsecond. Asked
//! for some entries ahead, it is there when its turn comes.

/// A hint: the line of this address will be written. Any address may be named.
#[inline(always)]
pub fn for_writing<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint changes nothing and never faults; every x86-64 takes it or skips it. `prefetchw` and not the plain
    // prefetch: the line must come back for writing.
    unsafe {
        core::arch::asm!(
            "prefetchw [{place}]",
            place = in(reg) place,
            options(nostack, preserves_flags, readonly),
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}

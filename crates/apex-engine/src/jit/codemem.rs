//! Memory for machine code.
//!
//! A mapping is written while it can be written and not executed, then made executable and
//! never changed again. It lives as long as its owner.

/// Machine code, ready to run.
pub(super) struct CodeMemory {
    start: *mut libc::c_void,
    mapped: usize,
    bytes: usize,
}

// SAFETY: the mapping is read and executed, never written, after `new`.
unsafe impl Send for CodeMemory {}
// SAFETY: as above.
unsafe impl Sync for CodeMemory {}

impl CodeMemory {
    /// Copies machine code to executable memory; `None` when the system refuses.
    pub(super) fn new(code: &[u8]) -> Option<Self> {
        let mapped = code.len().max(1).next_multiple_of(4096);
        // SAFETY: a fresh private mapping; nobody else knows it yet.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return None;
        }
        let memory = CodeMemory { start, mapped, bytes: code.len() };
        // SAFETY: the mapping is at least as long as the code and writable until the line below.
        let changed = unsafe {
            std::ptr::copy_nonoverlapping(code.as_ptr(), start.cast(), code.len());
            libc::mprotect(start, mapped, libc::PROT_READ | libc::PROT_EXEC)
        };
        (changed == 0).then_some(memory)
    }

    /// Its first byte.
    pub(super) fn start(&self) -> *const u8 {
        self.start.cast_const().cast()
    }

    /// Offset of a host address in it.
    pub(super) fn offset(&self, host: usize) -> Option<u32> {
        let offset = host.wrapping_sub(self.start as usize);
        (offset < self.bytes).then_some(offset as u32)
    }
}

impl Drop for CodeMemory {
    fn drop(&mut self) {
        // SAFETY: our own mapping; the owner of the last function pointer into it is gone.
        unsafe {
            libc::munmap(self.start, self.mapped);
        }
    }
}

//! Puts bytes into code that is loaded and not yet run.
//!
//! The file's own bytes are compared with those in memory before anything is written: a file that was replaced on disk
//! since it was loaded, or whose code the loader has changed, is left alone. One that was done before is told by the
//! same comparison. The pages are writable while they are
//! written and not run meanwhile. Where the system does not let them be run again, they are mapped from the file anew.

use crate::jumps::Patch;
use crate::objects::{Object, Segment};
use crate::symbols::Function;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// The code of an object, checked against its file.
pub(crate) struct Code<'a> {
    /// The first of its pages.
    first: u64,
    /// The bytes of its pages.
    bytes: usize,
    /// The file, and the place of the first page in it.
    file: (&'a File, u64),
}

const PAGE: u64 = 4096;
const CHANGED: &str = "the file is not as it was loaded";

impl<'a> Code<'a> {
    /// The stretch of code that holds these functions, if file and memory are the same there; none if the bytes are
    /// there already.
    pub(crate) fn checked(
        object: &Object,
        functions: &[&Function],
        patches: &[Patch],
        file: &'a File,
    ) -> Result<Option<Code<'a>>, &'static str> {
        let start = functions.iter().map(|function| function.address).min();
        let end = functions.iter().map(|function| function.address.saturating_add(function.bytes));
        let (Some(start), Some(end)) = (start, end.max()) else { return Err("it is empty") };
        let holds = |segment: &&Segment| {
            segment.address <= start && end <= segment.address.saturating_add(segment.bytes)
        };
        let Some(segment) = object.code.iter().find(holds) else {
            return Err("its functions are not all in one stretch of code");
        };
        let offset = segment.offset.saturating_add(start - segment.address);
        let Some(mut in_file) = read_at(file, offset, (end - start) as usize) else {
            return Err(CHANGED);
        };
        let address = object.base.wrapping_add(start);
        // SAFETY: the loader has mapped the segment for reading, and the file still has all of these bytes.
        let in_memory = unsafe { core::slice::from_raw_parts(address as *const u8, in_file.len()) };
        if in_file != in_memory {
            for Patch { address: at, code } in patches {
                let at = (at - address) as usize;
                in_file[at..at + code.len()].copy_from_slice(code);
            }
            return if in_file == in_memory { Ok(None) } else { Err(CHANGED) };
        }
        let before = address % PAGE;
        let bytes = (before + (end - start)).next_multiple_of(PAGE) as usize;
        Ok(Some(Code { first: address - before, bytes, file: (file, offset - before) }))
    }

    /// Writes the bytes; where the system forbids it, none of them.
    pub(crate) fn write(&self, patches: &[Patch]) -> Result<(), &'static str> {
        if !self.protect(libc::PROT_READ | libc::PROT_WRITE) {
            return Err("the system does not let its code be written");
        }
        for patch in patches {
            let bytes = patch.code.as_slice();
            // SAFETY: within the pages that were just made writable: every patch lies in a function that was checked.
            unsafe {
                core::ptr::copy_nonoverlapping(
                    bytes.as_ptr(),
                    patch.address as *mut u8,
                    bytes.len(),
                );
            }
        }
        if self.protect(libc::PROT_READ | libc::PROT_EXEC) {
            return Ok(());
        }
        self.restore();
        Err("the system does not let changed code be run")
    }

    fn protect(&self, protection: i32) -> bool {
        // SAFETY: the pages are the object's code, which nobody runs yet.
        unsafe { libc::mprotect(self.first as *mut _, self.bytes, protection) == 0 }
    }

    /// The file's own pages in the place of those that were written.
    fn restore(&self) {
        let (file, offset) = self.file;
        let protection = libc::PROT_READ | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED;
        // SAFETY: as the loader has mapped them; nobody runs them yet.
        unsafe {
            libc::mmap(
                self.first as *mut _,
                self.bytes,
                protection,
                flags,
                file.as_raw_fd(),
                offset.cast_signed(),
            );
        }
    }
}

/// Reads so many bytes at an offset; none where the file ends earlier.
pub(crate) fn read_at(file: &File, offset: u64, bytes: usize) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    content.try_reserve_exact(bytes).ok()?;
    content.resize(bytes, 0);
    file.read_exact_at(&mut content, offset).ok()?;
    Some(content)
}

//! What the loader has loaded, and whether that has changed since the last look.
//!
//! The loader counts what it loads and unloads. While nothing is unloaded, what was looked at stays where it is and is
//! not looked at again.

use core::ffi::{CStr, c_int, c_void};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A file in memory.
#[derive(Debug)]
pub(crate) struct Object {
    /// Where it can be read.
    pub(crate) path: PathBuf,
    /// How far the loader has moved it.
    pub(crate) base: u64,
    /// Its code: pages that are read and run, and not written.
    pub(crate) code: Vec<Segment>,
}

/// A stretch of the file in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    /// Its address before the loader moves the file.
    pub(crate) address: u64,
    /// Its place in the file.
    pub(crate) offset: u64,
    /// Its bytes there.
    pub(crate) bytes: u64,
}

/// What was looked at before.
#[derive(Debug)]
pub(crate) struct Seen {
    loaded: u64,
    unloaded: u64,
    headers: Vec<usize>,
}

impl Seen {
    /// Nothing yet.
    pub(crate) const fn nothing() -> Seen {
        Seen { loaded: 0, unloaded: 0, headers: Vec::new() }
    }
}

/// The files that have come since the last look.
pub(crate) fn new_objects(seen: &mut Seen) -> Vec<Object> {
    let mut look = Look { seen, is_first: true, objects: Vec::new() };
    // SAFETY: `visit` takes what the loader hands to it, and `look` outlives the walk.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut look).cast()) };
    look.objects
}

struct Look<'a> {
    seen: &'a mut Seen,
    is_first: bool,
    objects: Vec<Object>,
}

/// # Safety
///
/// Called by the loader, which lends the description for this call; `look` is a [`Look`].
unsafe extern "C" fn visit(
    info: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    look: *mut c_void,
) -> c_int {
    // SAFETY: the loader's own description, and the place that was handed to the walk.
    let (info, look) = unsafe { (&*info, &mut *look.cast::<Look>()) };
    if look.is_first {
        look.is_first = false;
        let seen = &mut *look.seen;
        if (seen.loaded, seen.unloaded) == (info.dlpi_adds, info.dlpi_subs) {
            return 1;
        }
        if seen.unloaded != info.dlpi_subs {
            seen.headers.clear();
        }
        (seen.loaded, seen.unloaded) = (info.dlpi_adds, info.dlpi_subs);
    }
    let headers = info.dlpi_phdr as usize;
    if !look.seen.headers.contains(&headers) {
        look.seen.headers.push(headers);
        // SAFETY: the loader's own description.
        look.objects.push(unsafe { described(info) });
    }
    0
}

/// # Safety
///
/// The loader has filled the description, and what it points to stays during this call.
unsafe fn described(info: &libc::dl_phdr_info) -> Object {
    // SAFETY: the caller vouches for name and headers.
    let (name, headers) = unsafe {
        let count = usize::from(info.dlpi_phnum);
        (CStr::from_ptr(info.dlpi_name), core::slice::from_raw_parts(info.dlpi_phdr, count))
    };
    // The program itself has no name.
    let path = if name.is_empty() { c"/proc/self/exe" } else { name };
    let is_code = |header: &&libc::Elf64_Phdr| {
        header.p_type == libc::PT_LOAD && header.p_flags == libc::PF_R | libc::PF_X
    };
    let segment = |header: &libc::Elf64_Phdr| Segment {
        address: header.p_vaddr,
        offset: header.p_offset,
        bytes: header.p_filesz,
    };
    Object {
        path: OsStr::from_bytes(path.to_bytes()).into(),
        base: info.dlpi_addr,
        code: headers.iter().filter(is_code).map(segment).collect(),
    }
}

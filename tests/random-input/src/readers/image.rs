//! Code that a program hands to the driver, as the shim looks at it.
//!
//! The driver beneath is the stand-in, which takes anything: so the shim looks at everything. The image ends
//! where readable memory ends; what is read beyond ends the process.

#![allow(unsafe_code, reason = "calls a driver library by its C functions")]

use super::{Examples, Read, Reader, copy};
use anyhow::{Context, Result, bail};
use apex_cuda::{Driver, Library};
use apex_e2e::tools;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect};
use std::ffi::{OsString, c_void};
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::ptr::NonNull;

pub(crate) const READER: Reader = Reader {
    name: "image",
    gather,
    variables,
    open,
    words: &[
        "\x7fELF",
        "\x50\u{ed}",
        ".version 8.0\n",
        ".target sm_90\n",
        ".visible .entry k()\n{\n ret;\n}\n",
        "\0",
    ],
    // The facts of a process name every image.
    cases: 20_000,
};

const PAGE: usize = 4096;
/// The longest image that is tried.
const ROOM: usize = 1 << 20;

fn gather(folder: &Path) -> Result<()> {
    copy(
        folder,
        &[
            "crates/apex-exec/tests/images/five.fatbin",
            "crates/apex-exec/tests/images/five.cubin",
            "tests/programs/demo.ptx",
        ],
    )
}

/// The shim looks closely only where somebody collects.
fn variables(place: &Path) -> Vec<(&'static str, OsString)> {
    let rings = place.join("rings");
    let _ = fs::remove_dir_all(&rings);
    let _ = fs::create_dir(&rings);
    vec![("APEX_RINGS", rings.into()), ("APEX_REAL_LIBCUDA", tools().standin.clone().into())]
}

fn open(_: &Examples, _: &Path) -> Result<Read> {
    let shim = load(&tools().shim)?;
    let mut context = std::ptr::null_mut();
    // SAFETY: valid places for the answers.
    let ready = unsafe {
        [
            (shim.cuInit)(0),
            (shim.cuDevicePrimaryCtxRetain)(&raw mut context, 0),
            (shim.cuCtxSetCurrent)(context),
        ]
    };
    if ready != [0; 3] {
        bail!("the stand-in driver answered {ready:?}");
    }
    let end = readable_up_to_here()?;
    Ok(Box::new(move |_, bytes| {
        let bytes = &bytes[..bytes.len().min(ROOM)];
        let start = end.as_ptr().wrapping_sub(bytes.len());
        let mut module = std::ptr::null_mut();
        // SAFETY: the bytes before `end` are writable, at least as many as the longest image has.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len());
            (shim.cuModuleLoadData)(&raw mut module, start.cast::<c_void>());
        }
        apex_cuda::image::identify_at(start.cast()).is_some()
    }))
}

/// An address before which there is room for an image, and at which reading faults.
fn readable_up_to_here() -> Result<NonNull<u8>> {
    let length = NonZeroUsize::new(ROOM + PAGE).context("not zero")?;
    let rights = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: new memory, whose last page nobody uses.
    unsafe {
        let start = mmap_anonymous(None, length, rights, MapFlags::MAP_PRIVATE)?;
        let end = start.byte_add(ROOM);
        mprotect(end, PAGE, ProtFlags::PROT_NONE)?;
        Ok(end.cast())
    }
}

fn load(path: &Path) -> Result<Driver> {
    // SAFETY: a library of ours.
    let library = unsafe { Library::open(path) }?;
    // SAFETY: the shim exports every function of the table with its signature.
    match unsafe { library.driver() } {
        Ok(driver) => Ok(driver),
        Err(missing) => bail!("{} has no {}", path.display(), missing.name()),
    }
}

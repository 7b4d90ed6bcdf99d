//! The driver, and the kernels that it runs for this library.
//!
//! The driver is asked for by its name: under `apex run` that is apex, so that what this library launches is recorded
//! like any launch. The PTX is that of `apex-exec`, which keeps it beside its sources and compares both in a test.
//! Each of the two texts is loaded when one of its kernels is first wanted.

use crate::status::{Answer, INTERNAL_ERROR, NOT_INITIALIZED, of_driver};
use apex_cuda::types::{CUkernel, CUlibrary, CUstream};
use apex_cuda::{Driver, Library};
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Mutex, OnceLock, PoisonError};

const PRODUCTS: &str = include_str!("../../apex-exec/kernels/blas/gemm.ptx");
const VECTORS: &str = include_str!("../../apex-exec/kernels/blas/vectors.ptx");

/// Threads of a block of each kernel.
const THREADS: u32 = 256;

/// Which text a kernel stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Products,
    Vectors,
}

/// What is loaded: the libraries, and the kernels found in them. Both are good in every context.
#[derive(Default)]
struct Loaded {
    libraries: [usize; 2],
    kernels: HashMap<String, usize>,
}

/// The driver of this process.
pub(crate) fn driver() -> Result<&'static Driver, c_int> {
    static DRIVER: OnceLock<Option<Driver>> = OnceLock::new();
    DRIVER.get_or_init(Library::driver_of_programs).as_ref().ok_or(NOT_INITIALIZED)
}

/// Launches a kernel. Each parameter is the address of its value.
///
/// # Safety
///
/// The parameters are those of the kernel, and what they point to on the device is the caller's.
pub(crate) unsafe fn launch(
    source: Source,
    name: &str,
    grid: [u32; 3],
    stream: CUstream,
    parameters: &mut [*mut c_void],
) -> Answer {
    let kernel = kernel(source, name)?;
    let [x, y, z] = grid;
    // SAFETY: the driver takes a kernel of a library for a function; the caller vouches for the rest.
    of_driver(unsafe {
        (driver()?.cuLaunchKernel)(
            kernel.cast(),
            x,
            y,
            z,
            THREADS,
            1,
            1,
            0,
            stream,
            parameters.as_mut_ptr(),
            null_mut(),
        )
    })
}

fn kernel(source: Source, name: &str) -> Result<CUkernel, c_int> {
    static LOADED: Mutex<Option<Loaded>> = Mutex::new(None);
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let loaded = loaded.get_or_insert_default();
    if let Some(&known) = loaded.kernels.get(name) {
        return Ok(core::ptr::with_exposed_provenance_mut::<c_void>(known).cast());
    }
    let library = &mut loaded.libraries[source as usize];
    if *library == 0 {
        *library = load(source)?.expose_provenance();
    }
    let c_name = CString::new(name).map_err(|_| INTERNAL_ERROR)?;
    let mut found: CUkernel = null_mut();
    let library: CUlibrary = core::ptr::with_exposed_provenance_mut::<c_void>(*library).cast();
    // SAFETY: a library that is never unloaded, and a place for the kernel.
    of_driver(unsafe { (driver()?.cuLibraryGetKernel)(&raw mut found, library, c_name.as_ptr()) })?;
    loaded.kernels.insert(name.to_owned(), found.expose_provenance());
    Ok(found)
}

fn load(source: Source) -> Result<CUlibrary, c_int> {
    let text = match source {
        Source::Products => PRODUCTS,
        Source::Vectors => VECTORS,
    };
    let text = CString::new(text).map_err(|_| INTERNAL_ERROR)?;
    let mut library: CUlibrary = null_mut();
    let none = null_mut();
    // SAFETY: a text that ends with a NUL, no options, and a place for the library.
    of_driver(unsafe {
        (driver()?.cuLibraryLoadData)(
            &raw mut library,
            text.as_ptr().cast(),
            none,
            null_mut(),
            0,
            null_mut(),
            null_mut(),
            0,
        )
    })?;
    Ok(library)
}

//! What the program registered before `main`: units of code, kernels, variables.
//!
//! Registration only writes down. A unit is given to the driver when one of its
//! kernels or variables is first needed, as a library, which belongs to no context
//! and so is loaded once per process. The exception is a unit with managed variables:
//! it is loaded with each new primary context, because the host reads these variables
//! through pointers that must be filled in by then.
//!
//! The lock is held while a unit is loaded, and no other lock is taken under it.

use core::ffi::{CStr, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{LazyLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use apex_cuda::Driver;
use apex_cuda::types::{CUDA_ERROR_NOT_FOUND, CUfunction, CUkernel, CUlibrary};

use crate::border::{Answer, check};
use crate::errors::{
    Error, cudaErrorInvalidDeviceFunction, cudaErrorInvalidSymbol, cudaErrorUnknown,
};
use crate::load::load;

/// All that is registered. Pointers are kept as numbers: they are the program's.
#[derive(Default)]
pub(crate) struct Registry {
    units: HashMap<usize, Unit>,
    next_unit: usize,
    kernels: HashMap<usize, Kernel>,
    variables: HashMap<usize, Variable>,
    /// Handles that were given out, with the host function that each stands for, or 0.
    handles: HashMap<usize, (Handle, usize)>,
}

/// One registered fatbin wrapper.
struct Unit {
    wrapper: usize,
    /// The loaded library, or why it could not be loaded.
    library: Option<Result<usize, Error>>,
}

struct Kernel {
    unit: usize,
    name: CString,
    /// The driver's handle; 0 until it was needed.
    handle: AtomicUsize,
}

struct Variable {
    unit: usize,
    name: CString,
    bytes: usize,
    /// Where the host keeps the pointer to a managed variable.
    shadow: Option<usize>,
}

/// What a handle is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handle {
    /// Of the context-less kind.
    Kernel,
    /// Of one context.
    Function,
}

/// Code that can be launched.
#[derive(Clone, Copy)]
pub(crate) enum Code {
    /// A kernel of a library.
    Kernel(CUkernel),
    /// A function of a module.
    Function(CUfunction),
}

static REGISTRY: LazyLock<RwLock<Registry>> = LazyLock::new(RwLock::default);

fn read() -> RwLockReadGuard<'static, Registry> {
    REGISTRY.read().unwrap_or_else(PoisonError::into_inner)
}

fn write() -> RwLockWriteGuard<'static, Registry> {
    REGISTRY.write().unwrap_or_else(PoisonError::into_inner)
}

/// Writes down a fatbin wrapper and gives the number of the unit.
pub(crate) fn add_unit(wrapper: *const c_void) -> usize {
    let mut registry = write();
    registry.next_unit += 1;
    let unit = registry.next_unit;
    registry.units.insert(unit, Unit { wrapper: wrapper.expose_provenance(), library: None });
    unit
}

/// Forgets a unit and all that was registered with it.
pub(crate) fn remove_unit(unit: usize) -> Option<CUlibrary> {
    let mut registry = write();
    let removed = registry.units.remove(&unit)?;
    let gone: Vec<usize> = registry
        .kernels
        .values()
        .filter(|kernel| kernel.unit == unit)
        .map(|kernel| kernel.handle.load(Ordering::Relaxed))
        .collect();
    registry.handles.retain(|handle, _| !gone.contains(handle));
    registry.kernels.retain(|_, kernel| kernel.unit != unit);
    registry.variables.retain(|_, variable| variable.unit != unit);
    let library = removed.library?.ok()?;
    Some(core::ptr::with_exposed_provenance_mut(library))
}

/// Writes down a kernel. The same host function may come from several units, when it
/// was compiled into each; every one of them has the code, and the first serves.
pub(crate) fn add_kernel(unit: usize, host: *const c_void, name: &CStr) {
    write().kernels.entry(host.addr()).or_insert_with(|| Kernel {
        unit,
        name: name.to_owned(),
        handle: AtomicUsize::new(0),
    });
}

/// Writes down a variable; `shadow` is where the host keeps a managed one's address.
pub(crate) fn add_variable(
    unit: usize,
    host: *const c_void,
    name: &CStr,
    bytes: usize,
    shadow: Option<*mut *mut c_void>,
) {
    let shadow = shadow.map(|shadow| shadow.expose_provenance());
    let variable = Variable { unit, name: name.to_owned(), bytes, shadow };
    write().variables.insert(host.addr(), variable);
}

/// Writes down a handle that was given to the program.
pub(crate) fn add_handle<T>(handle: *mut T, kind: Handle, host: *const c_void) {
    if !handle.is_null() {
        write().handles.insert(handle.expose_provenance(), (kind, host.addr()));
    }
}

/// What the program means by a `const void *func`: a host function that was
/// registered, or a handle that it was given.
pub(crate) fn code(driver: &Driver, func: *const c_void) -> Result<Code, Error> {
    let registry = read();
    if let Some(kernel) = registry.kernels.get(&func.addr()) {
        let handle = kernel.handle.load(Ordering::Acquire);
        if handle != 0 {
            return Ok(Code::Kernel(core::ptr::with_exposed_provenance_mut(handle)));
        }
    } else {
        return match registry.handles.get(&func.addr()) {
            Some((Handle::Kernel, _)) => Ok(Code::Kernel(func.cast_mut().cast())),
            Some((Handle::Function, _)) => Ok(Code::Function(func.cast_mut().cast())),
            None => Err(cudaErrorInvalidDeviceFunction),
        };
    }
    drop(registry);
    write().find_kernel(driver, func).map(Code::Kernel)
}

/// The host function that a handle stands for, or the handle itself.
pub(crate) fn host_function(handle: *mut c_void) -> *mut c_void {
    match read().handles.get(&handle.addr()) {
        Some(&(_, host)) if host != 0 => core::ptr::with_exposed_provenance_mut(host),
        _ => handle,
    }
}

/// Address and size of a registered variable in the current context. A managed
/// variable is also found by the address that the host sees it at.
pub(crate) fn variable(driver: &Driver, symbol: *const c_void) -> Result<(u64, usize), Error> {
    write().find_variable(driver, symbol.addr())
}

/// Loads a unit now.
pub(crate) fn load_unit(driver: &Driver, unit: usize) -> Answer {
    write().library(driver, unit).map(|_| ())
}

/// Loads the units that have managed variables and tells the host where these are.
pub(crate) fn place_managed_variables(driver: &Driver) -> Answer {
    let mut registry = write();
    let mut units: Vec<usize> = registry
        .variables
        .values()
        .filter(|variable| variable.shadow.is_some())
        .map(|variable| variable.unit)
        .collect();
    units.sort_unstable();
    units.dedup();
    for unit in units {
        // A unit that cannot be loaded is missed at the first use of what is in it.
        if let Ok(library) = registry.library(driver, unit) {
            registry.place(driver, unit, library)?;
        }
    }
    Ok(())
}

impl Registry {
    /// The unit's code as the driver has it, loaded when first asked for. An image
    /// that was refused is refused again without asking.
    fn library(&mut self, driver: &Driver, unit: usize) -> Result<CUlibrary, Error> {
        let entry = self.units.get_mut(&unit).ok_or(cudaErrorUnknown)?;
        let known = entry.library.is_some();
        let wrapper = core::ptr::with_exposed_provenance(entry.wrapper);
        let library = entry.library.get_or_insert_with(|| {
            // SAFETY: the wrapper was registered and its unit is still there, so the
            // program keeps the image.
            unsafe { load(driver, wrapper) }.map(|library| library.expose_provenance())
        });
        let library: CUlibrary = core::ptr::with_exposed_provenance_mut((*library)?);
        if !known {
            self.place(driver, unit, library)?;
        }
        Ok(library)
    }

    /// Writes the addresses of a unit's managed variables to where the host reads them.
    fn place(&self, driver: &Driver, unit: usize, library: CUlibrary) -> Answer {
        for variable in self.variables.values().filter(|variable| variable.unit == unit) {
            let Some(shadow) = variable.shadow else { continue };
            let shadow: *mut u64 = core::ptr::with_exposed_provenance_mut(shadow);
            let (address, _) = find(driver, library, &variable.name, true)?;
            // SAFETY: the program registered the shadow as a pointer of its own.
            unsafe { shadow.write_volatile(address) };
        }
        Ok(())
    }

    fn find_kernel(&mut self, driver: &Driver, host: *const c_void) -> Result<CUkernel, Error> {
        let unit = self.kernels.get(&host.addr()).ok_or(cudaErrorInvalidDeviceFunction)?.unit;
        let library = self.library(driver, unit)?;
        let kernel = &self.kernels[&host.addr()];
        let mut handle: CUkernel = null_mut();
        // SAFETY: the library is loaded, the name ends with a NUL.
        let result =
            unsafe { (driver.cuLibraryGetKernel)(&raw mut handle, library, kernel.name.as_ptr()) };
        match result {
            CUDA_ERROR_NOT_FOUND => return Err(cudaErrorInvalidDeviceFunction),
            result => check(result)?,
        }
        kernel.handle.store(handle.expose_provenance(), Ordering::Release);
        self.handles.insert(handle.addr(), (Handle::Kernel, host.addr()));
        Ok(handle)
    }

    fn find_variable(&mut self, driver: &Driver, symbol: usize) -> Result<(u64, usize), Error> {
        let variable = match self.variables.get(&symbol) {
            Some(variable) => variable,
            None => self.seen_at(symbol).ok_or(cudaErrorInvalidSymbol)?,
        };
        let (unit, name, size) = (variable.unit, variable.name.clone(), variable.bytes);
        let is_managed = variable.shadow.is_some();
        let library = self.library(driver, unit)?;
        let (address, bytes) = find(driver, library, &name, is_managed)?;
        // The program's own count is the variable's; a driver may round it.
        Ok((address, if size == 0 { bytes } else { size }))
    }

    /// The managed variable that the host sees at an address.
    fn seen_at(&self, address: usize) -> Option<&Variable> {
        self.variables.values().find(|variable| {
            variable.shadow.is_some_and(|shadow| {
                let shadow: *const usize = core::ptr::with_exposed_provenance(shadow);
                // SAFETY: the program registered it as a pointer of its own.
                address != 0 && unsafe { shadow.read_volatile() } == address
            })
        })
    }
}

/// Address and size of a variable of a library. A driver whose device sees the host's
/// memory may keep managed variables among the others.
fn find(
    driver: &Driver,
    library: CUlibrary,
    name: &CStr,
    is_managed: bool,
) -> Result<(u64, usize), Error> {
    let (mut address, mut bytes) = (0, 0);
    let (address_out, bytes_out, name) = (&raw mut address, &raw mut bytes, name.as_ptr());
    // SAFETY: the library is loaded, the name ends with a NUL.
    let result = unsafe {
        match is_managed {
            true => match (driver.cuLibraryGetManaged)(address_out, bytes_out, library, name) {
                CUDA_ERROR_NOT_FOUND => {
                    (driver.cuLibraryGetGlobal)(address_out, bytes_out, library, name)
                }
                result => result,
            },
            false => (driver.cuLibraryGetGlobal)(address_out, bytes_out, library, name),
        }
    };
    match result {
        CUDA_ERROR_NOT_FOUND => Err(cudaErrorInvalidSymbol),
        result => check(result).map(|()| (address, bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_unit_with_a_host_function_serves_it() {
        let host = core::ptr::without_provenance(0x1234_5670);
        let (first, second) = (add_unit(core::ptr::null()), add_unit(core::ptr::null()));
        add_kernel(first, host, c"kernel");
        add_kernel(second, host, c"kernel");
        assert_eq!(read().kernels[&host.addr()].unit, first);
        assert!(remove_unit(second).is_none());
        assert!(read().kernels.contains_key(&host.addr()));
        assert!(remove_unit(first).is_none());
        assert!(!read().kernels.contains_key(&host.addr()));
        assert!(remove_unit(first).is_none(), "twice is harmless");
    }

    #[test]
    fn a_handle_leads_back_to_its_host_function() {
        let host = core::ptr::without_provenance::<c_void>(0x7654_3210);
        let handle = core::ptr::without_provenance_mut::<c_void>(0x1111_0000);
        add_handle(handle, Handle::Function, host);
        assert_eq!(host_function(handle).addr(), host.addr());
        let unknown = core::ptr::without_provenance_mut::<c_void>(0x2222_0000);
        assert_eq!(host_function(unknown), unknown);
    }
}

//! Reads a kernel's PTX: whether it may be rewritten, and which numbers of a call could be written into it.

use super::images::{self, Owner};
use super::kernels::{Field, Kernel, Known};
use super::numbers::{MOST_FIELDS, SHAPE};
use super::past::{self, Past};
use super::plan::Comparable;
use super::{beneath, own_context};
use apex_cuda::types::*;
use apex_policy::specialise::Watch;
use apex_ptx::specialise::{
    Foldable, Place, alone, entry, foldable, left_alone, needs_check, places, variables,
};
use apex_ptx::touches::Touches;
use apex_ptx::tree::Module;
use core::ffi::{CStr, c_char};
use std::sync::Arc;

/// What is found out of a kernel in the current context; why it is left alone, with its name, where it is.
pub(super) fn study(kernel: &Kernel) -> Result<Known, (String, String)> {
    let function = kernel.handle as CUfunction;
    let name = name(function);
    let found = read(function, &name);
    found.map_err(|reason| (name.clone(), reason)).map(|(text, fields, comparable)| Known {
        past: past(&name, &text.1, SHAPE + fields.len()),
        watch: Some(Watch::new(SHAPE + fields.len())),
        key: format!("{}-{}", machine(), plain(&name)),
        machine: machine(),
        name,
        context: own_context(),
        text: Some(text),
        fields,
        comparable: comparable.map(Arc::new),
        ..Known::default()
    })
}

type Text = (Owner, Arc<Module>);

fn read(
    function: CUfunction,
    name: &str,
) -> Result<(Text, Vec<Field>, Option<Comparable>), String> {
    let owner = owner(function).ok_or("the driver does not say where it came from")?;
    let (owner, module) = images::find(owner, name, architecture())?;
    left_alone(&module, name)?;
    let entry = entry(&module, name).ok_or("its text was lost")?;
    let places = places(entry).ok_or("its parameters have no known places")?;
    compare(function, &places)?;
    variables(&module, name)?;
    let fields = foldable(entry).iter().flat_map(|found| fields(found, &places)).collect();
    let mut fields: Vec<Field> = fields;
    fields.truncate(MOST_FIELDS);
    let comparable = match needs_check(&module, name) {
        Some(reason) => Some(comparable(&module, entry, &places, &reason)?),
        None => None,
    };
    Ok(((owner, module), fields, comparable))
}

/// What earlier processes found of a kernel.
fn past(name: &str, module: &Module, numbers: usize) -> Vec<Past> {
    let text = alone(module, name).unwrap_or_default();
    past::recall(&format!("{}-{}", machine(), plain(name)), &text, numbers)
}

/// What decides beside the text how fast a kernel is: the device and the driver.
pub(super) fn machine() -> String {
    let (mut device, mut driver, mut bytes) = (0, 0, [0_u8; 128]);
    // SAFETY: valid places for the answers; the name's has as many bytes as is said.
    unsafe {
        (beneath().cuCtxGetDevice)(&raw mut device);
        (beneath().cuDriverGetVersion)(&raw mut driver);
        (beneath().cuDeviceGetName)(bytes.as_mut_ptr().cast(), bytes.len() as i32, device);
    }
    let device = CStr::from_bytes_until_nul(&bytes).unwrap_or_default().to_string_lossy();
    format!("sm_{}-{}-{driver}", architecture(), plain(&device))
}

/// A name without what would end a word.
fn plain(text: &str) -> String {
    text.replace(|it: char| !it.is_ascii_graphic(), "-")
}

/// What it takes to compare the bits of a kernel's forms; why that cannot be done.
fn comparable(
    module: &Module,
    entry: &apex_ptx::tree::Function,
    places: &[Place],
    reason: &str,
) -> Result<Comparable, String> {
    let touches = Touches::new(module, entry).map_err(|barrier| {
        let word = barrier.word();
        format!("its bits cannot be compared, for what it writes is not known ({word}): {reason}")
    })?;
    let places = places.iter().map(|place| (place.offset, place.bytes)).collect();
    Ok(Comparable::new(touches, places))
}

/// The bytes of a range as numbers of 8 bytes at most.
fn fields(found: &Foldable, places: &[Place]) -> Vec<Field> {
    let holds = |place: &Place| (place.offset..place.offset + place.bytes).contains(&found.offset);
    let Some(parameter) = places.iter().position(holds) else { return Vec::new() };
    let end = found.offset + found.bytes;
    let starts = (found.offset..end).step_by(8);
    starts
        .map(|offset| Field {
            parameter,
            within: offset - places[parameter].offset,
            offset,
            bytes: (end - offset).min(8),
        })
        .collect()
}

/// The driver's own account of the parameters must be the text's.
fn compare(function: CUfunction, places: &[Place]) -> Result<(), String> {
    let told = layout(function, places.len() + 1);
    let same = |(told, place): (&(usize, usize), &Place)| {
        *told == (place.offset as usize, place.bytes as usize)
    };
    if told.len() == places.len() && told.iter().zip(places).all(same) {
        Ok(())
    } else {
        Err("its parameters are others than those of its text".to_owned())
    }
}

/// Offset and bytes of a kernel's parameters, the first ones.
pub(super) fn layout(function: CUfunction, most: usize) -> Vec<(usize, usize)> {
    let info = |nth: usize| {
        let (mut offset, mut bytes) = (0, 0);
        // SAFETY: a handle that the program has launched, and valid places for the answers.
        let result = unsafe {
            match (beneath().cuFuncGetParamInfo)(function, nth, &raw mut offset, &raw mut bytes) {
                CUDA_ERROR_INVALID_HANDLE => (beneath().cuKernelGetParamInfo)(
                    function as CUkernel,
                    nth,
                    &raw mut offset,
                    &raw mut bytes,
                ),
                answer => answer,
            }
        };
        (result == CUDA_SUCCESS).then_some((offset, bytes))
    };
    (0..most).map_while(info).collect()
}

fn name(function: CUfunction) -> String {
    let mut text: *const c_char = core::ptr::null();
    // SAFETY: a handle that the program has launched and a valid place; the string is the driver's and is copied.
    unsafe {
        if (beneath().cuFuncGetName)(&raw mut text, function) != CUDA_SUCCESS {
            (beneath().cuKernelGetName)(&raw mut text, function as CUkernel);
        }
        if text.is_null() {
            String::new()
        } else {
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }
}

fn owner(function: CUfunction) -> Option<Owner> {
    let (mut module, mut library) = (core::ptr::null_mut(), core::ptr::null_mut());
    // SAFETY: a handle that the program has launched and valid places for the answers.
    unsafe {
        if (beneath().cuFuncGetModule)(&raw mut module, function) == CUDA_SUCCESS {
            return Some(Owner::module(module));
        }
        let result = (beneath().cuKernelGetLibrary)(&raw mut library, function as CUkernel);
        (result == CUDA_SUCCESS).then(|| Owner::library(library))
    }
}

/// The architecture of the current context's device: 90 for 9.0.
fn architecture() -> u32 {
    const MAJOR: u32 = 75;
    const MINOR: u32 = 76;
    let mut device: CUdevice = 0;
    // SAFETY: a valid place for the answer.
    unsafe { (beneath().cuCtxGetDevice)(&raw mut device) };
    let attribute = |number| {
        let mut value = 0;
        // SAFETY: a valid place for the answer.
        unsafe { (beneath().cuDeviceGetAttribute)(&raw mut value, number, device) };
        u32::try_from(value).unwrap_or(0)
    };
    attribute(MAJOR) * 10 + attribute(MINOR)
}

//! The driver's functions for texture and surface references.
//!
//! A reference is changed after all work that may still use it.

use std::sync::Mutex;

use apex_cuda::types::*;

use crate::border::{Answer, get, put, put_if_wanted, text};
use crate::memory::array::{Array, Mipmap};
use crate::memory::texture::{Resource, point_at, surface_over};
use crate::memory::texture_reference::{Bound, State, SurfaceReference, TextureReference, make};
use crate::module::loaded::Module;
use crate::object::{create, destroy, live, lock};
use crate::run::context::current;

const ALIGNMENT: u64 = 512;

/// Changes a reference, after the work that may still use it.
///
/// # Safety
///
/// The handle is the program's.
unsafe fn change(handle: CUtexref, set: impl FnOnce(&mut State)) -> Answer {
    let context = current()?;
    // SAFETY: the caller vouches for the handle.
    unsafe {
        let reference: &TextureReference = live(handle)?;
        context.domain.drain(context.spins())?;
        let mut state = lock(&reference.state);
        set(&mut state);
        state.renew(reference.word)
    }
}

/// # Safety
///
/// The handle is the program's.
unsafe fn ask<T>(handle: CUtexref, answer: impl FnOnce(&State) -> T) -> Result<T, CUresult> {
    // SAFETY: the caller vouches for the handle.
    let reference: &TextureReference = unsafe { live(handle) }?;
    Ok(answer(&lock(&reference.state)))
}

answers! {
    fn cuModuleGetTexRef(out: *mut CUtexref, module: CUmodule, name: *const c_char) {
        current()?;
        let module: &Module = live(module)?;
        let name = text(name)?;
        let (word, _, _) = module.code.variable(name)?;
        let mut references = lock(&module.references);
        if let Some(&(_, known)) = references.iter().find(|(known, _)| known.as_c_str() == name) {
            return put(out, core::ptr::with_exposed_provenance_mut(known as usize));
        }
        let made = make(word);
        references.push((name.to_owned(), made.expose_provenance() as u64));
        put(out, made)
    }

    fn cuModuleGetSurfRef(out: *mut CUsurfref, module: CUmodule, name: *const c_char) {
        current()?;
        let (word, _, _) = live::<Module, _>(module)?.code.variable(text(name)?)?;
        put(out, create(SurfaceReference { word, bound: Mutex::new((core::ptr::null_mut(), None)) }))
    }

    fn cuSurfRefSetArray(handle: CUsurfref, array: CUarray, _flags: u32) {
        let context = current()?;
        let reference: &SurfaceReference = live(handle)?;
        context.domain.drain(context.spins())?;
        let surface = Box::new(surface_over(&Resource::of_array(array)?)?);
        point_at(reference.word, &*surface)?;
        *lock(&reference.bound) = (array, Some(surface));
        Ok(())
    }

    fn cuSurfRefGetArray(out: *mut CUarray, handle: CUsurfref) {
        put(out, lock(&live::<SurfaceReference, _>(handle)?.bound).0)
    }

    fn cuTexRefCreate(out: *mut CUtexref) {
        current()?;
        put(out, make(0))
    }

    fn cuTexRefDestroy(handle: CUtexref) {
        if live::<TextureReference, _>(handle)?.word != 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        destroy::<TextureReference, _>(handle)
    }

    fn cuTexRefSetArray(handle: CUtexref, array: CUarray, _flags: u32) {
        live::<Array, _>(array)?;
        change(handle, |state| state.bound = Bound::Array(array))
    }

    fn cuTexRefSetMipmappedArray(handle: CUtexref, mipmap: CUmipmappedArray, _flags: u32) {
        live::<Mipmap, _>(mipmap)?;
        change(handle, |state| state.bound = Bound::Mipmap(mipmap))
    }

    fn cuTexRefSetAddress_v2(offset: *mut usize, handle: CUtexref, address: CUdeviceptr, bytes: usize) {
        // The start is moved down to the alignment; the program adds the rest itself.
        let start = address / ALIGNMENT * ALIGNMENT;
        if offset.is_null() && start != address {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        put_if_wanted(offset, (address - start) as usize);
        let bytes = bytes as u64;
        change(handle, |state| state.bound = Bound::Linear { address, bytes })
    }

    fn cuTexRefSetAddress2D_v3(
        handle: CUtexref, description: *const CUDA_ARRAY_DESCRIPTOR, address: CUdeviceptr, pitch: usize,
    ) {
        if description.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let size = ((*description).Width as u64, (*description).Height as u64);
        let format = get((&raw const (*description).Format).cast::<u32>())?;
        let channels = (*description).NumChannels;
        change(handle, |state| {
            (state.format, state.channels) = (format, channels);
            state.bound = Bound::Pitched { address, size, pitch: pitch as u64 };
        })
    }

    fn cuTexRefSetFormat(handle: CUtexref, format: CUarray_format, channels: i32) {
        change(handle, |state| (state.format, state.channels) = (format, channels as u32))
    }

    fn cuTexRefSetAddressMode(handle: CUtexref, dimension: i32, mode: CUaddress_mode) {
        let dimension = usize::try_from(dimension).ok().filter(|&dimension| dimension < 3);
        let dimension = dimension.ok_or(CUDA_ERROR_INVALID_VALUE)?;
        change(handle, |state| state.sampling.address_modes[dimension] = mode)
    }

    fn cuTexRefSetFilterMode(handle: CUtexref, filter: CUfilter_mode) {
        change(handle, |state| state.sampling.filter = filter)
    }

    fn cuTexRefSetFlags(handle: CUtexref, flags: u32) {
        change(handle, |state| state.sampling.flags = flags)
    }

    fn cuTexRefSetMaxAnisotropy(handle: CUtexref, anisotropy: u32) {
        change(handle, |state| state.sampling.anisotropy = anisotropy)
    }

    fn cuTexRefSetBorderColor(handle: CUtexref, colour: *mut f32) {
        let colour = get(colour.cast::<[f32; 4]>())?;
        change(handle, |state| state.sampling.border = colour)
    }

    fn cuTexRefSetMipmapFilterMode(handle: CUtexref, filter: CUfilter_mode) {
        change(handle, |state| state.sampling.level_filter = filter)
    }

    fn cuTexRefSetMipmapLevelBias(handle: CUtexref, bias: f32) {
        change(handle, |state| state.sampling.level_bias = bias)
    }

    fn cuTexRefSetMipmapLevelClamp(handle: CUtexref, least: f32, greatest: f32) {
        change(handle, |state| state.sampling.level_clamp = [least, greatest])
    }

    fn cuTexRefGetAddress_v2(out: *mut CUdeviceptr, handle: CUtexref) {
        match ask(handle, |state| state.bound)? {
            Bound::Linear { address, .. } | Bound::Pitched { address, .. } => put(out, address),
            _ => Err(CUDA_ERROR_INVALID_VALUE),
        }
    }

    fn cuTexRefGetArray(out: *mut CUarray, handle: CUtexref) {
        match ask(handle, |state| state.bound)? {
            Bound::Array(array) => put(out, array),
            _ => Err(CUDA_ERROR_INVALID_VALUE),
        }
    }

    fn cuTexRefGetMipmappedArray(out: *mut CUmipmappedArray, handle: CUtexref) {
        match ask(handle, |state| state.bound)? {
            Bound::Mipmap(mipmap) => put(out, mipmap),
            _ => Err(CUDA_ERROR_INVALID_VALUE),
        }
    }

    fn cuTexRefGetFormat(format: *mut CUarray_format, channels: *mut i32, handle: CUtexref) {
        let (own_format, own_channels) = ask(handle, |state| (state.format, state.channels))?;
        put_if_wanted(format, own_format);
        put_if_wanted(channels, own_channels as i32);
        Ok(())
    }

    fn cuTexRefGetAddressMode(out: *mut CUaddress_mode, handle: CUtexref, dimension: i32) {
        let modes = ask(handle, |state| state.sampling.address_modes)?;
        let mode = usize::try_from(dimension).ok().and_then(|dimension| modes.get(dimension));
        put(out, *mode.ok_or(CUDA_ERROR_INVALID_VALUE)?)
    }

    fn cuTexRefGetFilterMode(out: *mut CUfilter_mode, handle: CUtexref) {
        put(out, ask(handle, |state| state.sampling.filter)?)
    }

    fn cuTexRefGetFlags(out: *mut u32, handle: CUtexref) {
        put(out, ask(handle, |state| state.sampling.flags)?)
    }

    fn cuTexRefGetMaxAnisotropy(out: *mut i32, handle: CUtexref) {
        put(out, ask(handle, |state| state.sampling.anisotropy)? as i32)
    }

    fn cuTexRefGetBorderColor(out: *mut f32, handle: CUtexref) {
        put(out.cast(), ask(handle, |state| state.sampling.border)?)
    }

    fn cuTexRefGetMipmapFilterMode(out: *mut CUfilter_mode, handle: CUtexref) {
        put(out, ask(handle, |state| state.sampling.level_filter)?)
    }

    fn cuTexRefGetMipmapLevelBias(out: *mut f32, handle: CUtexref) {
        put(out, ask(handle, |state| state.sampling.level_bias)?)
    }

    fn cuTexRefGetMipmapLevelClamp(least: *mut f32, greatest: *mut f32, handle: CUtexref) {
        let clamp = ask(handle, |state| state.sampling.level_clamp)?;
        put_if_wanted(least, clamp[0]);
        put_if_wanted(greatest, clamp[1]);
        Ok(())
    }

    // The unit is found by name: a reference needs no place among the arguments.
    fn cuParamSetTexRef(function: CUfunction, _unit: i32, handle: CUtexref) {
        crate::module::kernel::entry(function)?;
        live::<TextureReference, _>(handle).map(|_| ())
    }
}

pub(crate) use self::cuTexRefSetAddress2D_v3 as cuTexRefSetAddress2D_v2;

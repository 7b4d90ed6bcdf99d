//! The driver's functions for texture and surface objects.

use apex_cuda::types::*;

use crate::border::{get, put};
use crate::memory::texture::{
    RESOURCE_ARRAY, Resource, ResourceWords, SURFACES, Sampling, SurfaceObject, TEXTURES,
    TextureObject, TextureWords, ViewWords, surface_over, with_texture,
};
use crate::object::lock;
use crate::run::context::current;

answers! {
    fn cuTexObjectCreate(
        out: *mut CUtexObject,
        resource: *const CUDA_RESOURCE_DESC,
        sampling: *const CUDA_TEXTURE_DESC,
        view: *const CUDA_RESOURCE_VIEW_DESC,
    ) {
        current()?;
        let resource = get(resource.cast::<ResourceWords>())?;
        let sampling = get(sampling.cast::<TextureWords>())?;
        let view = if view.is_null() { None } else { Some(get(view.cast::<ViewWords>())?) };
        let mut read = Resource::read(&resource)?;
        if let Some(view) = &view {
            read = read.seen_through(view)?;
        }
        let texture = Sampling::read(&sampling).over(&read)?;
        put(out, 0)?;
        let object = Box::new(TextureObject { texture, resource, sampling, view });
        let handle = (&raw const object.texture).expose_provenance() as u64;
        lock(&TEXTURES).get_or_insert_default().insert(handle, object);
        put(out, handle)
    }

    fn cuTexObjectDestroy(handle: CUtexObject) {
        let context = current()?;
        with_texture(handle, |_| ())?;
        // Kernels under way may still read through it.
        context.domain.drain(context.spins())?;
        lock(&TEXTURES).get_or_insert_default().remove(&handle);
        Ok(())
    }

    fn cuTexObjectGetResourceDesc(out: *mut CUDA_RESOURCE_DESC, handle: CUtexObject) {
        put(out.cast(), with_texture(handle, |object| object.resource)?)
    }

    fn cuTexObjectGetTextureDesc(out: *mut CUDA_TEXTURE_DESC, handle: CUtexObject) {
        put(out.cast(), with_texture(handle, |object| object.sampling)?)
    }

    fn cuTexObjectGetResourceViewDesc(out: *mut CUDA_RESOURCE_VIEW_DESC, handle: CUtexObject) {
        let view = with_texture(handle, |object| object.view)?;
        put(out.cast(), view.ok_or(CUDA_ERROR_INVALID_VALUE)?)
    }

    fn cuSurfObjectCreate(out: *mut CUsurfObject, resource: *const CUDA_RESOURCE_DESC) {
        current()?;
        let resource = get(resource.cast::<ResourceWords>())?;
        if resource[0] & u64::from(u32::MAX) != RESOURCE_ARRAY {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        put(out, 0)?;
        let surface = surface_over(&Resource::read(&resource)?)?;
        let object = Box::new(SurfaceObject { surface, resource });
        let handle = (&raw const object.surface).expose_provenance() as u64;
        lock(&SURFACES).get_or_insert_default().insert(handle, object);
        put(out, handle)
    }

    fn cuSurfObjectDestroy(handle: CUsurfObject) {
        let context = current()?;
        context.domain.drain(context.spins())?;
        let removed = lock(&SURFACES).get_or_insert_default().remove(&handle);
        removed.map(|_| ()).ok_or(CUDA_ERROR_INVALID_VALUE)
    }

    fn cuSurfObjectGetResourceDesc(out: *mut CUDA_RESOURCE_DESC, handle: CUsurfObject) {
        let surfaces = lock(&SURFACES);
        let object = surfaces.as_ref().and_then(|surfaces| surfaces.get(&handle));
        put(out.cast(), object.ok_or(CUDA_ERROR_INVALID_VALUE)?.resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::context::tests::with_context;
    use crate::api::memory::cuMemAlloc_v2;
    use crate::memory::texture::READ_AS_INTEGER;
    use apex_engine::{AddressMode, Texture};

    #[test]
    fn a_texture_over_memory_is_described() {
        with_context(|| {
            let (mut address, mut handle) = (0, 0);
            let mut resource: ResourceWords = [0; 18];
            let mut sampling: TextureWords = [0; 26];
            sampling[4] = READ_AS_INTEGER;
            // SAFETY: the arrays stand for the C structs of the same layout.
            unsafe {
                assert_eq!(cuMemAlloc_v2(&raw mut address, 4096), CUDA_SUCCESS);
                resource[..6].copy_from_slice(&[3, address, 0x20 | 1 << 32, 16, 8, 512]);
                let create = |resource: &ResourceWords, out| {
                    cuTexObjectCreate(
                        out,
                        resource.as_ptr().cast(),
                        sampling.as_ptr().cast(),
                        core::ptr::null(),
                    )
                };
                assert_eq!(create(&resource, &raw mut handle), CUDA_SUCCESS);
                let texture = &*core::ptr::with_exposed_provenance::<Texture>(handle as usize);
                assert_eq!(
                    (texture.image.bits, texture.image.channel),
                    (32, apex_engine::Channel::Float)
                );
                assert_eq!(texture.address, [AddressMode::Clamp; 3]);
                assert_eq!((texture.image.width, texture.image.height), (16, 8));
                let mut back: ResourceWords = [0; 18];
                let asked = cuTexObjectGetResourceDesc(back.as_mut_ptr().cast(), handle);
                assert_eq!((asked, back), (CUDA_SUCCESS, resource));
                assert_eq!(cuTexObjectDestroy(handle), CUDA_SUCCESS);
                assert_eq!(cuTexObjectDestroy(handle), CUDA_ERROR_INVALID_VALUE);
                resource[4] = 9;
                assert_eq!(
                    create(&resource, &raw mut handle),
                    CUDA_ERROR_INVALID_VALUE,
                    "too long"
                );
            }
        });
    }
}

//! The driver's functions for modules.

use core::ptr::null_mut;
use std::sync::Arc;

use apex_cuda::types::*;

use crate::border::{Answer, put, put_if_wanted, text};
use crate::module::code::{Code, Image};
use crate::module::load_options::Options;
use crate::module::loaded::{Module, function, make_module};
use crate::object::{destroy, live};
use crate::run::context::current;

answers! {
    fn cuModuleLoad(out: *mut CUmodule, path: *const c_char) {
        let device = current()?.device;
        let path = text(path)?;
        let options = Options::read(0, null_mut(), null_mut())?;
        load(out, || Image::from_file(path, device), &options)
    }

    fn cuModuleLoadData(out: *mut CUmodule, image: *const c_void) {
        let device = current()?.device;
        let options = Options::read(0, null_mut(), null_mut())?;
        load(out, || Image::at(image, device), &options)
    }

    fn cuModuleLoadDataEx(
        out: *mut CUmodule,
        image: *const c_void,
        option_count: u32,
        options: *mut CUjit_option,
        values: *mut *mut c_void,
    ) {
        let device = current()?.device;
        let options = Options::read(option_count, options, values)?;
        load(out, || Image::at(image, device), &options)
    }

    fn cuModuleLoadFatBinary(out: *mut CUmodule, image: *const c_void) {
        let device = current()?.device;
        let options = Options::read(0, null_mut(), null_mut())?;
        load(out, || Image::at(image, device), &options)
    }

    fn cuModuleUnload(module: CUmodule) {
        let context = current()?;
        live::<Module, _>(module)?;
        // Kernels under way may still use the variables.
        context.domain.drain(context.spins())?;
        destroy::<Module, _>(module)
    }

    fn cuModuleGetLoadingMode(out: *mut CUmoduleLoadingMode) {
        put(out, LOADED_EAGERLY)
    }

    fn cuModuleGetFunction(out: *mut CUfunction, module: CUmodule, name: *const c_char) {
        current()?;
        put(out, function(module, text(name)?)?)
    }

    fn cuModuleGetFunctionCount(out: *mut u32, module: CUmodule) {
        put(out, live::<Module, _>(module)?.code.kernels().len() as u32)
    }

    fn cuModuleEnumerateFunctions(out: *mut CUfunction, count: u32, module: CUmodule) {
        let code = Arc::clone(&live::<Module, _>(module)?.code);
        for (index, kernel) in code.kernels().iter().take(count as usize).enumerate() {
            let name = crate::module::kernel::c_name(kernel)?;
            put(out.wrapping_add(index), function(module, &name)?)?;
        }
        Ok(())
    }

    fn cuModuleGetGlobal_v2(
        address: *mut CUdeviceptr,
        bytes: *mut usize,
        module: CUmodule,
        name: *const c_char,
    ) {
        current()?;
        let (found, size, _) = live::<Module, _>(module)?.code.variable(text(name)?)?;
        put_if_wanted(address, found);
        put_if_wanted(bytes, size);
        Ok(())
    }
}

const LOADED_EAGERLY: CUmoduleLoadingMode = 1;

/// # Safety
///
/// `out` is null or can be written.
pub(crate) unsafe fn load(
    out: *mut CUmodule,
    image: impl FnOnce() -> Result<Image, CUresult>,
    options: &Options,
) -> Answer {
    let device = current()?.device;
    if out.is_null() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let code = Code::load(&image()?.with(options), device, options)?;
    // SAFETY: the caller vouches for `out`.
    unsafe { put(out, make_module(Arc::new(code))) }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::ffi::CString;

    use super::*;
    use crate::api::context::tests::with_context;

    use core::ffi::CStr;

    pub(crate) const PTX: &CStr = c".version 8.0\n.target sm_90\n.address_size 64\n\
          .global .align 4 .b8 table[64];\n\
          .visible .entry add(.param .u64 a, .param .u32 n) { ret; }\n\
          .visible .entry other() { ret; }";

    /// The function of that name from a text; the module is left loaded.
    pub(crate) fn function_of(text: &CStr, name: &CStr) -> CUfunction {
        let (mut module, mut function) = (null_mut(), null_mut());
        // SAFETY: the text is a whole image.
        unsafe {
            assert_eq!(cuModuleLoadData(&raw mut module, text.as_ptr().cast()), CUDA_SUCCESS);
            assert_eq!(cuModuleGetFunction(&raw mut function, module, name.as_ptr()), CUDA_SUCCESS);
        }
        function
    }

    /// The function of that name from [`PTX`].
    pub(crate) fn ptx_function(name: &CStr) -> CUfunction {
        function_of(PTX, name)
    }

    #[test]
    fn modules_give_what_they_declare() {
        with_context(|| {
            let (mut module, mut first, mut again) = (null_mut(), null_mut(), null_mut());
            let (mut address, mut bytes, mut count) = (0, 0, 0);
            // SAFETY: the text is a whole image, the names end with a NUL.
            unsafe {
                assert_eq!(cuModuleLoadData(&raw mut module, PTX.as_ptr().cast()), CUDA_SUCCESS);
                assert_eq!(
                    cuModuleGetFunction(&raw mut first, module, c"add".as_ptr()),
                    CUDA_SUCCESS
                );
                assert_eq!(
                    cuModuleGetFunction(&raw mut again, module, c"add".as_ptr()),
                    CUDA_SUCCESS
                );
                assert_eq!(first, again);
                assert_eq!(
                    cuModuleGetFunction(&raw mut again, module, c"gone".as_ptr()),
                    CUDA_ERROR_NOT_FOUND
                );
                let found = cuModuleGetGlobal_v2(
                    &raw mut address,
                    &raw mut bytes,
                    module,
                    c"table".as_ptr(),
                );
                assert_eq!((found, bytes), (CUDA_SUCCESS, 64));
                assert_eq!(cuModuleGetFunctionCount(&raw mut count, module), CUDA_SUCCESS);
                assert_eq!(count, 2);
                assert_eq!(cuModuleUnload(module), CUDA_SUCCESS);
                assert_eq!(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
                let garbage = c"garbage".as_ptr().cast();
                assert_eq!(cuModuleLoadData(&raw mut module, garbage), CUDA_ERROR_INVALID_IMAGE);
                assert_eq!(
                    cuModuleLoad(&raw mut module, c"/nonexistent".as_ptr()),
                    CUDA_ERROR_FILE_NOT_FOUND
                );
            }
        });
    }

    /// The answer to loading a text, what the log of errors says, and the attribute of its function `k`.
    fn loaded(
        text: &CStr,
        registers: u32,
        attribute: CUfunction_attribute,
    ) -> (CUresult, String, i32) {
        const ASKED: [CUjit_option; 3] = [0, 5, 6];
        let mut log = vec![0_u8; 1000];
        let mut values = [
            core::ptr::without_provenance_mut::<c_void>(registers as usize),
            log.as_mut_ptr().cast(),
            core::ptr::without_provenance_mut(log.len()),
        ];
        let (mut module, mut function, mut value) = (null_mut(), null_mut(), 0);
        // SAFETY: the text is a whole image, the arrays have as many elements as said.
        let answer = unsafe {
            let options = ASKED.as_ptr().cast_mut();
            let image = text.as_ptr().cast();
            let answer =
                cuModuleLoadDataEx(&raw mut module, image, 3, options, values.as_mut_ptr());
            if answer == CUDA_SUCCESS {
                assert_eq!(cuModuleGetFunction(&raw mut function, module, c"k".as_ptr()), answer);
                let read =
                    crate::api::kernel::cuFuncGetAttribute(&raw mut value, attribute, function);
                assert_eq!(read, answer);
                assert_eq!(cuModuleUnload(module), answer);
            }
            answer
        };
        log.truncate(log.iter().position(|&byte| byte == 0).unwrap_or(0));
        (answer, String::from_utf8(log).expect("a log is text"), value)
    }

    #[test]
    fn parameters_that_are_too_large_are_refused_with_their_sizes() {
        with_context(|| {
            let text = c".version 8.1\n.target sm_90\n.address_size 64\n\
                .visible .entry k(.param .align 8 .b8 a[100000000]) { ret; }";
            let (answer, log, _) = loaded(text, 0, 0);
            assert_eq!(answer, CUDA_ERROR_INVALID_PTX);
            let words =
                "Entry function 'k' uses too much parameter space (0x5f5e100 bytes, 0x7ffc max)";
            assert!(log.contains(words), "{log}");
        });
    }

    #[test]
    fn variables_lie_where_their_alignment_wants_them() {
        with_context(|| {
            let text = c".version 8.0\n.target sm_90\n.address_size 64\n\
                .global .b8 first[3];\n.global .align 4096 .b8 table[64];\n.global .align 65536 .b8 last[1];\n";
            let (mut module, mut address, mut bytes) = (null_mut(), 0, 0);
            // SAFETY: the text is a whole image, the names end with a NUL.
            unsafe {
                let loaded = cuModuleLoadData(&raw mut module, text.as_ptr().cast());
                assert_eq!(loaded, CUDA_SUCCESS);
                for (name, align, size) in [(c"table", 4096, 64), (c"last", 65536, 1)] {
                    let found = cuModuleGetGlobal_v2(
                        &raw mut address,
                        &raw mut bytes,
                        module,
                        name.as_ptr(),
                    );
                    assert_eq!((found, address % align, bytes), (CUDA_SUCCESS, 0, size));
                }
                assert_eq!(cuModuleUnload(module), CUDA_SUCCESS);
            }
        });
    }

    /// A kernel with so many numbers alive at once, and perhaps a directive.
    pub(crate) fn busy(numbers: u32, directive: &str) -> CString {
        let each = |line: fn(u32) -> String| (0..numbers).map(line).collect::<String>();
        let loads = each(|n| format!("ld.volatile.global.u32 %r{n}, [%d1+{}];\n", 4 * n));
        let stores = each(|n| format!("st.volatile.global.u32 [%d1+{}], %r{n};\n", 4 * n));
        let text = format!(
            ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) {directive} {{\n\
             .reg .b32 %r<{numbers}>; .reg .b64 %d1; ld.param.u64 %d1, [p];\n{loads}{stores}ret; }}"
        );
        CString::new(text).expect("no NUL")
    }

    #[test]
    fn a_limit_of_registers_is_in_what_is_reported() {
        const REGISTERS: CUfunction_attribute = 4;
        with_context(|| {
            let text = busy(150, "");
            let (_, _, without) = loaded(&text, 0, REGISTERS);
            assert!(without > 150, "{without}");
            assert_eq!(loaded(&text, 38, REGISTERS), (CUDA_SUCCESS, String::new(), 38));
            // What ptxas makes of a limit that is too low for any kernel.
            assert_eq!(loaded(&text, 1, REGISTERS).2, 24);
            assert_eq!(loaded(&text, 400, REGISTERS).2, without);
            assert_eq!(loaded(&busy(150, ".maxnreg 64"), 38, REGISTERS).2, 64);
            assert_eq!(loaded(&busy(150, ".maxnreg 300"), 0, REGISTERS).2, without);
        });
    }

    #[test]
    fn the_most_threads_of_a_block_are_what_a_launch_accepts() {
        const MOST_THREADS: CUfunction_attribute = 0;
        const REGISTERS: CUfunction_attribute = 4;
        with_context(|| {
            for (numbers, directive, most) in [
                (4, "", 1024),
                (4, ".maxntid 256", 256),
                // 65,536 registers, eight at a time for each lane and warps by fours: 20 warps of 96.
                (90, ".maxnreg 90", 640),
                (100, ".maxnreg 128", 512),
                (240, "", 256),
                (240, ".maxntid 128", 128),
            ] {
                let text = busy(numbers, directive);
                let (_, _, threads) = loaded(&text, 0, MOST_THREADS);
                assert_eq!(threads, most, "{} registers", loaded(&text, 0, REGISTERS).2);
                // SAFETY: a function that was given just now.
                let function = unsafe { crate::module::kernel::entry(function_of(&text, c"k")) };
                let entry = function.expect("it is a function");
                let launch = |threads| crate::run::launch::check(entry, [1; 3], [threads, 1, 1], 0);
                assert_eq!(launch(most as u32), Ok(()));
                assert!(most == 1024 || launch(most as u32 + 1).is_err());
            }
            // SAFETY: as above.
            let function =
                unsafe { crate::module::kernel::entry(function_of(&busy(240, ""), c"k")) };
            let entry = function.expect("it is a function");
            let answer = crate::run::launch::check(entry, [1; 3], [512, 1, 1], 0);
            assert_eq!(answer, Err(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES));
        });
    }
}

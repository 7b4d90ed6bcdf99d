//! The calls of NVRTC. Whoever calls here has opened the library before (see [`crate::libraries`]).

use crate::error::{Error, Result};
use cudarc::nvrtc::{result as nvrtc, sys};
use std::ffi::{CStr, CString, c_char};

/// The compiler's version.
pub(crate) fn version() -> Option<(i32, i32)> {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: out-pointers to locals; the library is open.
    let result = unsafe { sys::nvrtcVersion(&raw mut major, &raw mut minor) };
    result.result().ok().map(|()| (major, minor))
}

/// The architectures that the compiler knows (80, 90 …); none where it does not say.
pub(crate) fn architectures() -> Vec<u32> {
    let mut count = 0;
    // SAFETY: an out-pointer to a local; the library is open.
    let counted = unsafe { sys::nvrtcGetNumSupportedArchs(&raw mut count) };
    if counted.result().is_err() {
        return Vec::new();
    }
    let mut known = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: the list has as many places as the compiler said it writes.
    let listed = unsafe { sys::nvrtcGetSupportedArchs(known.as_mut_ptr()) };
    if listed.result().is_err() {
        return Vec::new();
    }
    known.into_iter().filter_map(|number| u32::try_from(number).ok()).collect()
}

/// CUDA C++ to PTX.
pub(crate) fn compile(source: &str, flags: &[String]) -> Result<String> {
    let text = CString::new(source)
        .map_err(|_| Error::CompileOption { reason: "the source holds a NUL byte".into() })?;
    let mut c_flags = Vec::with_capacity(flags.len());
    for flag in flags {
        c_flags.push(CString::new(flag.as_str()).map_err(|_| Error::CompileOption {
            reason: format!("the flag {flag:?} holds a NUL byte"),
        })?);
    }
    let addresses: Vec<*const c_char> = c_flags.iter().map(|flag| flag.as_ptr()).collect();
    let program = Program(
        nvrtc::create_program(&text, Some(c"kernel.cu"))
            .map_err(|error| internal("create", error))?,
    );
    // SAFETY: the program is alive, and so are as many flags as are told, each ending with a NUL.
    let result =
        unsafe { sys::nvrtcCompileProgram(program.0, addresses.len() as i32, addresses.as_ptr()) };
    match result {
        sys::nvrtcResult::NVRTC_SUCCESS => {
            // SAFETY: the program is alive and compiled.
            let ptx =
                unsafe { nvrtc::get_ptx(program.0) }.map_err(|error| internal("PTX", error))?;
            Ok(text_of(&ptx))
        }
        sys::nvrtcResult::NVRTC_ERROR_COMPILATION => Err(Error::Compilation { log: program.log() }),
        sys::nvrtcResult::NVRTC_ERROR_INVALID_OPTION => {
            Err(Error::CompileOption { reason: program.log() })
        }
        other => {
            let log = program.log();
            Err(Error::Compilation { log: format!("{log}\nNVRTC answered {other:?}") })
        }
    }
}

fn internal(step: &str, error: nvrtc::NvrtcError) -> Error {
    Error::Compilation { log: format!("NVRTC failed by itself ({step}): {error:?}") }
}

/// A program of NVRTC.
struct Program(sys::nvrtcProgram);

impl Program {
    fn log(&self) -> String {
        // SAFETY: the program is alive.
        unsafe { nvrtc::get_program_log(self.0) }.map(|log| text_of(&log)).unwrap_or_default()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: made by `create_program`, dropped once.
        let _ = unsafe { nvrtc::destroy_program(self.0) };
    }
}

fn text_of(letters: &[c_char]) -> String {
    let bytes: Vec<u8> = letters.iter().map(|letter| letter.cast_unsigned()).collect();
    let text = CStr::from_bytes_until_nul(&bytes).map(CStr::to_bytes).unwrap_or(&bytes);
    String::from_utf8_lossy(text).into_owned()
}

//! The functions of nvJitLink as C has them.
//!
//! One table names each with its body. A function is exported by its plain name and by the names that the header of
//! every version gives it (`__nvJitLinkCreate_12_4`), because programs are compiled to either.

#![allow(non_snake_case, reason = "exported functions bear the library's own names")]

use crate::VERSION;
use crate::link::{Link, Refusal, Result};
use core::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// What a body gives.
type Answer = std::result::Result<(), Refusal>;

macro_rules! versions {
    ($name:ident $arguments:tt $($version:literal)*) => {
        $(versioned! { $name $version $arguments })*
    };
}

/// The function by the name that one version's header gives it.
macro_rules! versioned {
    ($name:ident $version:literal ($($argument:ident: $type:ty),*)) => {
        #[cfg(not(test))]
        const _: () = {
            #[unsafe(export_name = concat!("__", stringify!($name), "_", $version))]
            unsafe extern "C" fn versioned($($argument: $type),*) -> c_int {
                // SAFETY: the caller keeps the contract of the function.
                unsafe { $name($($argument),*) }
            }
        };
    };
}

macro_rules! table {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            /// # Safety
            ///
            /// The caller keeps the C contract of this function.
            #[cfg_attr(not(test), unsafe(no_mangle))]
            pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
                #[allow(unused_unsafe, reason = "a body may call nothing unsafe")]
                // SAFETY: what the pointers point to is there, and no handle is destroyed by another thread meanwhile.
                answered(move || unsafe { $body })
            }

            versions! {
                $name ($($argument: $type),*)
                "12_0" "12_1" "12_2" "12_3" "12_4" "12_5" "12_6" "12_7" "12_8" "12_9"
                "13_0" "13_1" "13_2" "13_3" "13_4" "13_5" "13_6" "13_7" "13_8" "13_9"
            }
        )*
    };
}

table! {
    fn nvJitLinkCreate(handle: *mut *mut Link, count: u32, options: *const *const c_char) {
        let mut words = Vec::new();
        for nth in 0..count as usize {
            words.push(text(*options.add(nth))?.to_owned());
        }
        let (link, done) = Link::new(&words);
        let link = Box::into_raw(Box::new(link));
        put(handle, link)?;
        (*link).logged(done)
    }

    fn nvJitLinkDestroy(handle: *mut *mut Link) {
        let link = get(handle)?;
        put(handle, core::ptr::null_mut())?;
        if link.is_null() {
            return Err(null());
        }
        drop(Box::from_raw(link));
        Ok(())
    }

    fn nvJitLinkAddData(link: *mut Link, _kind: c_int, data: *const c_void, bytes: usize, name: *const c_char) {
        let link = of(link)?;
        let name = if name.is_null() { "" } else { text(name)? };
        let name = if name.is_empty() { "input" } else { name };
        if data.is_null() {
            return link.logged(Err(null()));
        }
        let done = link.add(core::slice::from_raw_parts(data.cast(), bytes), name);
        link.logged(done)
    }

    fn nvJitLinkAddFile(link: *mut Link, _kind: c_int, path: *const c_char) {
        let link = of(link)?;
        let path = text(path)?;
        let done = match std::fs::read(Path::new(path)) {
            Ok(bytes) => link.add(&bytes, path),
            Err(error) => Err(Refusal {
                result: Result::InvalidInput,
                sentence: format!("{path} is not read: {error}"),
            }),
        };
        link.logged(done)
    }

    fn nvJitLinkComplete(link: *mut Link) {
        let link = of(link)?;
        let done = link.complete();
        link.logged(done)
    }

    fn nvJitLinkGetLinkedCubinSize(link: *mut Link, bytes: *mut usize) {
        put(bytes, of(link)?.linked()?.len() + 1)
    }

    fn nvJitLinkGetLinkedCubin(link: *mut Link, code: *mut c_char) {
        put_text(code, of(link)?.linked()?)
    }

    fn nvJitLinkGetLinkedPtxSize(link: *mut Link, bytes: *mut usize) {
        put(bytes, of(link)?.linked()?.len() + 1)
    }

    fn nvJitLinkGetLinkedPtx(link: *mut Link, code: *mut c_char) {
        put_text(code, of(link)?.linked()?)
    }

    fn nvJitLinkGetLinkedLTOIRSize(link: *mut Link, _bytes: *mut usize) {
        no_ltoir(link)
    }

    fn nvJitLinkGetLinkedLTOIR(link: *mut Link, _code: *mut c_char) {
        no_ltoir(link)
    }

    fn nvJitLinkGetErrorLogSize(link: *mut Link, bytes: *mut usize) {
        put(bytes, of(link)?.errors.len() + 1)
    }

    fn nvJitLinkGetErrorLog(link: *mut Link, log: *mut c_char) {
        put_text(log, &of(link)?.errors)
    }

    fn nvJitLinkGetInfoLogSize(link: *mut Link, bytes: *mut usize) {
        put(bytes, of(link)?.told.len() + 1)
    }

    fn nvJitLinkGetInfoLog(link: *mut Link, log: *mut c_char) {
        put_text(log, &of(link)?.told)
    }

    fn nvJitLinkVersion(major: *mut u32, minor: *mut u32) {
        put(major, VERSION.0)?;
        put(minor, VERSION.1)
    }
}

/// Runs a body; a panic of ours ends the call with an error.
fn answered(body: impl FnOnce() -> Answer) -> c_int {
    let done = catch_unwind(AssertUnwindSafe(body));
    match done {
        Ok(Ok(())) => Result::Success as c_int,
        Ok(Err(refusal)) => refusal.result as c_int,
        Err(_) => Result::Internal as c_int,
    }
}

fn null() -> Refusal {
    Refusal { result: Result::NullInput, sentence: "a pointer is null".into() }
}

/// # Safety
///
/// `link` is null or a handle that is not destroyed.
unsafe fn no_ltoir(link: *mut Link) -> Answer {
    // SAFETY: the caller vouches for it.
    let link = unsafe { of(link) }?;
    link.logged(Err(Refusal {
        result: Result::InvalidInput,
        sentence: "there is no LTO-IR: links for the software GPU are of PTX".into(),
    }))
}

impl Link {
    /// Keeps what went wrong for the log.
    fn logged(&mut self, done: Answer) -> Answer {
        done.inspect_err(|refusal| {
            self.errors.push_str(&refusal.sentence);
            self.errors.push('\n');
        })
    }
}

/// # Safety
///
/// `link` is null or a handle that is not destroyed.
unsafe fn of<'a>(link: *mut Link) -> std::result::Result<&'a mut Link, Refusal> {
    // SAFETY: the caller vouches for it.
    unsafe { link.as_mut() }.ok_or_else(null)
}

/// # Safety
///
/// `place` is null or can be read.
unsafe fn get<T: Copy>(place: *const T) -> std::result::Result<T, Refusal> {
    // SAFETY: the caller vouches for it.
    if place.is_null() { Err(null()) } else { Ok(unsafe { place.read_unaligned() }) }
}

/// # Safety
///
/// `place` is null or can be written.
unsafe fn put<T>(place: *mut T, value: T) -> Answer {
    if place.is_null() {
        return Err(null());
    }
    // SAFETY: not null, and the caller vouches for the rest.
    unsafe { place.write_unaligned(value) };
    Ok(())
}

/// # Safety
///
/// `place` is null or has room for the text and its NUL: the caller was told the size.
unsafe fn put_text(place: *mut c_char, text: &str) -> Answer {
    if place.is_null() {
        return Err(null());
    }
    // SAFETY: not null, and the caller vouches for the rest.
    unsafe {
        place.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
        place.add(text.len()).write(0);
    }
    Ok(())
}

/// # Safety
///
/// `string` is null or ends with a NUL.
unsafe fn text<'a>(string: *const c_char) -> std::result::Result<&'a str, Refusal> {
    if string.is_null() {
        return Err(null());
    }
    // SAFETY: not null, and the caller vouches for the rest.
    let string = unsafe { CStr::from_ptr(string) };
    string.to_str().map_err(|_| Refusal {
        result: Result::InvalidInput,
        sentence: "a name or an option is no text".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_way_of_a_caller() {
        let text = c".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }";
        let option = c"-arch=sm_90".as_ptr();
        let (mut link, mut bytes) = (core::ptr::null_mut(), 0);
        let (data, length) = (text.as_ptr().cast(), text.count_bytes());
        // SAFETY: all pointers are to what lives here, and the buffer has the size that was told.
        unsafe {
            assert_eq!(nvJitLinkCreate(&raw mut link, 1, &raw const option), 0);
            assert_eq!(nvJitLinkAddData(link, 3, b"BC".as_ptr().cast(), 2, c"ltoir".as_ptr()), 8);
            assert_eq!(nvJitLinkGetErrorLogSize(link, &raw mut bytes), 0);
            assert!((*link).errors.starts_with("ltoir: is no PTX") && bytes > 20);
            assert_eq!(nvJitLinkAddData(link, 2, data, length, core::ptr::null()), 0);
            assert_eq!(nvJitLinkComplete(link), 0);
            assert_eq!(nvJitLinkGetLinkedCubinSize(link, &raw mut bytes), 0);
            let mut code = vec![0_u8; bytes];
            assert_eq!(nvJitLinkGetLinkedCubin(link, code.as_mut_ptr().cast()), 0);
            assert_eq!(code, text.to_bytes_with_nul());
            assert_eq!(nvJitLinkDestroy(&raw mut link), 0);
            let (mut major, mut minor) = (0, 0);
            assert_eq!(nvJitLinkVersion(&raw mut major, &raw mut minor), 0);
            assert!((major, minor) < (12, 3), "callers would make LTO-IR");
            assert_eq!(nvJitLinkComplete(link), Result::NullInput as c_int);
        }
    }
}

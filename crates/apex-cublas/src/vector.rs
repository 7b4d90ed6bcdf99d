//! The calls on vectors as cuBLAS has them.

#![allow(non_snake_case, reason = "exported functions bear cuBLAS's own names")]

use crate::handle::{Handle, of};
use crate::kernels::{Source, launch};
use crate::matrix::first_of;
use crate::number::Number::{self, C64, C128, F32, F64};
use crate::status::{Answer, answers};
use apex_cuda::types::CUdeviceptr;
use core::ffi::{c_int, c_void};

/// A vector: where it lies, and the step to its next element.
type Vector = (*const c_void, i64);

/// Blocks of a kernel that handles an element a thread.
fn blocks(count: i64) -> u32 {
    (count.max(1) as u64).div_ceil(256).min(1024) as u32
}

fn pointer<T>(value: &mut T) -> *mut c_void {
    (&raw mut *value).cast()
}

/// axpy, scal, copy and swap: a factor or none, one vector or two.
///
/// # Safety
///
/// `handle` is null or live, and factor and vectors are there.
unsafe fn each(
    handle: *mut Handle,
    verb: &str,
    number: Number,
    count: i64,
    factor: Option<(*const c_void, Number)>,
    vectors: &[Vector],
) -> Answer {
    // SAFETY: the caller vouches for it.
    let handle = unsafe { of(handle) }?;
    if count <= 0 {
        return Ok(());
    }
    let mut count = count;
    let mut scalar = match factor {
        // SAFETY: the caller vouches for the factor.
        Some((place, given)) => unsafe { handle.scalar(place, given) }?
            .converted(given, number)
            .ok_or(crate::status::NOT_SUPPORTED)?,
        None => Default::default(),
    };
    let mut places: Vec<(CUdeviceptr, i64)> = vectors
        .iter()
        .map(|&(address, step)| (first_of(address, number, count, step), step))
        .collect();
    let name = format!("{verb}_{}", number.word());
    let grid = [blocks(count), 1, 1];
    let mut parameters = vec![pointer(&mut count)];
    parameters.extend(factor.map(|_| pointer(&mut scalar)));
    for (address, step) in &mut places {
        parameters.extend([pointer(address), pointer(step)]);
    }
    // SAFETY: in the order of the kernel, each with its type; the caller vouches for the vectors.
    unsafe { launch(Source::Vectors, &name, grid, handle.stream, &mut parameters) }
}

/// What becomes of one or two vectors that give one number.
struct Summary<'a> {
    verb: &'a str,
    number: Number,
    count: i64,
    vectors: &'a [Vector],
    /// A last parameter, where the kernel has one.
    flag: Option<c_int>,
    result: *mut c_void,
    result_bytes: usize,
}

/// # Safety
///
/// As for [`each`]; the result has a place.
unsafe fn one_number(handle: *mut Handle, summary: &Summary<'_>) -> Answer {
    let mut count = summary.count.max(0);
    let number = summary.number;
    let name = format!("{}_{}", summary.verb, number.word());
    let mut places: Vec<(CUdeviceptr, i64)> = summary
        .vectors
        .iter()
        .map(|&(address, step)| (first_of(address, number, count, step), step))
        .collect();
    let mut flag = summary.flag;
    let compute = |handle: &Handle, mut target: CUdeviceptr| {
        let mut parameters = vec![pointer(&mut count)];
        for (address, step) in &mut places {
            parameters.extend([pointer(address), pointer(step)]);
        }
        parameters.push(pointer(&mut target));
        parameters.extend(flag.as_mut().map(pointer));
        // SAFETY: in the order of the kernel, each with its type; the caller vouches for the vectors.
        unsafe { launch(Source::Vectors, &name, [1, 1, 1], handle.stream, &mut parameters) }
    };
    // SAFETY: the caller vouches for handle and place.
    unsafe { of(handle)?.result(summary.result, summary.result_bytes, compute) }
}

macro_rules! vectors {
    ($($axpy:ident $scal:ident $copy:ident $swap:ident $asum:ident $nrm2:ident $most:ident $least:ident
        $size:ty, $place:ty, $number:ident, $real_bytes:literal;)*) => {
        answers! {
            $(
                fn $axpy(handle: *mut Handle, n: $size, alpha: *const c_void, x: *const c_void, dx: $size, y: *mut c_void, dy: $size) {
                    each(handle, "axpy", $number, n as i64, Some((alpha, $number)), &[(x, dx as i64), (y, dy as i64)])
                }
                fn $scal(handle: *mut Handle, n: $size, alpha: *const c_void, x: *mut c_void, dx: $size) {
                    each(handle, "scal", $number, n as i64, Some((alpha, $number)), &[(x, dx as i64)])
                }
                fn $copy(handle: *mut Handle, n: $size, x: *const c_void, dx: $size, y: *mut c_void, dy: $size) {
                    each(handle, "copy", $number, n as i64, None, &[(x, dx as i64), (y, dy as i64)])
                }
                fn $swap(handle: *mut Handle, n: $size, x: *mut c_void, dx: $size, y: *mut c_void, dy: $size) {
                    each(handle, "swap", $number, n as i64, None, &[(x, dx as i64), (y, dy as i64)])
                }
                fn $asum(handle: *mut Handle, n: $size, x: *const c_void, dx: $size, result: *mut c_void) {
                    one_number(handle, &Summary {
                        verb: "asum", number: $number, count: n as i64, vectors: &[(x, dx as i64)], flag: None,
                        result, result_bytes: $real_bytes,
                    })
                }
                fn $nrm2(handle: *mut Handle, n: $size, x: *const c_void, dx: $size, result: *mut c_void) {
                    one_number(handle, &Summary {
                        verb: "nrm2", number: $number, count: n as i64, vectors: &[(x, dx as i64)], flag: None,
                        result, result_bytes: $real_bytes,
                    })
                }
                fn $most(handle: *mut Handle, n: $size, x: *const c_void, dx: $size, result: *mut $place) {
                    one_number(handle, &Summary {
                        verb: "extreme", number: $number, count: n as i64, vectors: &[(x, dx as i64)], flag: Some(0),
                        result: result.cast(), result_bytes: size_of::<$place>(),
                    })
                }
                fn $least(handle: *mut Handle, n: $size, x: *const c_void, dx: $size, result: *mut $place) {
                    one_number(handle, &Summary {
                        verb: "extreme", number: $number, count: n as i64, vectors: &[(x, dx as i64)], flag: Some(1),
                        result: result.cast(), result_bytes: size_of::<$place>(),
                    })
                }
            )*
        }
    };
}

vectors! {
    cublasSaxpy_v2 cublasSscal_v2 cublasScopy_v2 cublasSswap_v2 cublasSasum_v2 cublasSnrm2_v2 cublasIsamax_v2 cublasIsamin_v2 c_int, c_int, F32, 4;
    cublasDaxpy_v2 cublasDscal_v2 cublasDcopy_v2 cublasDswap_v2 cublasDasum_v2 cublasDnrm2_v2 cublasIdamax_v2 cublasIdamin_v2 c_int, c_int, F64, 8;
    cublasCaxpy_v2 cublasCscal_v2 cublasCcopy_v2 cublasCswap_v2 cublasScasum_v2 cublasScnrm2_v2 cublasIcamax_v2 cublasIcamin_v2 c_int, c_int, C64, 4;
    cublasZaxpy_v2 cublasZscal_v2 cublasZcopy_v2 cublasZswap_v2 cublasDzasum_v2 cublasDznrm2_v2 cublasIzamax_v2 cublasIzamin_v2 c_int, c_int, C128, 8;
}

macro_rules! dots {
    ($($name:ident $conjugated:literal $size:ty, $number:ident;)*) => {
        answers! {
            $(
                fn $name(handle: *mut Handle, n: $size, x: *const c_void, dx: $size, y: *const c_void, dy: $size, result: *mut c_void) {
                    one_number(handle, &Summary {
                        verb: "dot", number: $number, count: n as i64, vectors: &[(x, dx as i64), (y, dy as i64)],
                        flag: Some($conjugated), result, result_bytes: $number.bytes() as usize,
                    })
                }
            )*
        }
    };
}

dots! {
    cublasSdot_v2 0 c_int, F32;
    cublasDdot_v2 0 c_int, F64;
    cublasCdotu_v2 0 c_int, C64;
    cublasCdotc_v2 1 c_int, C64;
    cublasZdotu_v2 0 c_int, C128;
    cublasZdotc_v2 1 c_int, C128;
    cublasSdot_v2_64 0 i64, F32;
    cublasDdot_v2_64 0 i64, F64;
}

answers! {
    fn cublasCsscal_v2(handle: *mut Handle, n: c_int, alpha: *const c_void, x: *mut c_void, dx: c_int) {
        each(handle, "scal", C64, n as i64, Some((alpha, F32)), &[(x, dx as i64)])
    }
    fn cublasZdscal_v2(handle: *mut Handle, n: c_int, alpha: *const c_void, x: *mut c_void, dx: c_int) {
        each(handle, "scal", C128, n as i64, Some((alpha, F64)), &[(x, dx as i64)])
    }
}

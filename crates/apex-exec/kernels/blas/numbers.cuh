// The numbers of BLAS: how each element is read, computed with and written.
//
// `Wide` is what sums are kept in: float for both 16-bit types, int for bytes, the type itself elsewhere.

#pragma once

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

struct f16 { unsigned short bits; };
struct bf16 { unsigned short bits; };
template <class R> struct Complex { R re, im; };
typedef Complex<float> c64;
typedef Complex<double> c128;

template <class T> struct WideOf { typedef T type; };
template <> struct WideOf<f16> { typedef float type; };
template <> struct WideOf<bf16> { typedef float type; };
template <> struct WideOf<signed char> { typedef int type; };
template <class T> using Wide = typename WideOf<T>::type;

template <class T> __device__ __forceinline__ Wide<T> widen(T value) { return value; }
template <> __device__ __forceinline__ float widen(f16 value) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
    return wide;
}
template <> __device__ __forceinline__ float widen(bf16 value) { return __uint_as_float((u32)value.bits << 16); }

template <class T, class W> __device__ __forceinline__ T narrow(W value) { return value; }
template <> __device__ __forceinline__ f16 narrow<f16, float>(float value) {
    f16 narrowed;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrowed.bits) : "f"(value));
    return narrowed;
}
template <> __device__ __forceinline__ bf16 narrow<bf16, float>(float value) {
    bf16 narrowed;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(narrowed.bits) : "f"(value));
    return narrowed;
}

template <class R> __device__ __forceinline__ R conjugate(R value) { return value; }
template <class R> __device__ __forceinline__ Complex<R> conjugate(Complex<R> value) { return {value.re, -value.im}; }

template <class R> __device__ __forceinline__ R fused(R a, R b, R c) { return a * b + c; }
template <class R> __device__ __forceinline__ Complex<R> fused(Complex<R> a, Complex<R> b, Complex<R> c) {
    return {a.re * b.re - a.im * b.im + c.re, a.re * b.im + a.im * b.re + c.im};
}
template <class R> __device__ __forceinline__ R zero(R) { return 0; }
template <class R> __device__ __forceinline__ Complex<R> zero(Complex<R>) { return {0, 0}; }
template <class R> __device__ __forceinline__ bool is_zero(R value) { return value == 0; }
template <class R> __device__ __forceinline__ bool is_zero(Complex<R> value) { return value.re == 0 && value.im == 0; }
template <class R> __device__ __forceinline__ R sum(R a, R b) { return a + b; }
template <class R> __device__ __forceinline__ Complex<R> sum(Complex<R> a, Complex<R> b) {
    return {a.re + b.re, a.im + b.im};
}

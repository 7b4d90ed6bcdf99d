// The calls of BLAS on vectors. An increment may be negative: then the caller gives the last element's place.
//
// What gives one number runs as one block: each thread sums every 256th element, then the block sums in shared memory,
// in an order that is the same in every run.

#include "numbers.cuh"

enum : u32 { THREADS = 256 };

__device__ __forceinline__ s64 first() { return (s64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ s64 all() { return (s64)gridDim.x * blockDim.x; }

__device__ __forceinline__ float size(float value) { return fabsf(value); }
__device__ __forceinline__ double size(double value) { return fabs(value); }
__device__ __forceinline__ float size(c64 value) { return fabsf(value.re) + fabsf(value.im); }
__device__ __forceinline__ double size(c128 value) { return fabs(value.re) + fabs(value.im); }
__device__ __forceinline__ double square(float value) { return (double)value * value; }
__device__ __forceinline__ double square(double value) { return value * value; }
__device__ __forceinline__ double square(c64 value) { return (double)value.re * value.re + (double)value.im * value.im; }
__device__ __forceinline__ double square(c128 value) { return value.re * value.re + value.im * value.im; }

// The sum over the block, known to its first thread.
template <class W> __device__ __forceinline__ W block_sum(W value) {
    __shared__ W parts[THREADS];
    parts[threadIdx.x] = value;
    for (u32 half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) parts[threadIdx.x] = sum(parts[threadIdx.x], parts[threadIdx.x + half]);
    }
    return parts[0];
}

#define VECTORS(NAME, T, R)                                                                                          \
    extern "C" __global__ void axpy_##NAME(s64 n, T alpha, const T *x, s64 x_step, T *y, s64 y_step) {               \
        for (s64 i = first(); i < n; i += all()) y[i * y_step] = fused(alpha, x[i * x_step], y[i * y_step]);         \
    }                                                                                                                \
    extern "C" __global__ void scal_##NAME(s64 n, T alpha, T *x, s64 x_step) {                                       \
        for (s64 i = first(); i < n; i += all()) x[i * x_step] = fused(alpha, x[i * x_step], zero(T()));             \
    }                                                                                                                \
    extern "C" __global__ void copy_##NAME(s64 n, const T *x, s64 x_step, T *y, s64 y_step) {                        \
        for (s64 i = first(); i < n; i += all()) y[i * y_step] = x[i * x_step];                                      \
    }                                                                                                                \
    extern "C" __global__ void swap_##NAME(s64 n, T *x, s64 x_step, T *y, s64 y_step) {                              \
        for (s64 i = first(); i < n; i += all()) {                                                                   \
            const T held = x[i * x_step];                                                                            \
            x[i * x_step] = y[i * y_step];                                                                           \
            y[i * y_step] = held;                                                                                    \
        }                                                                                                            \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(256) dot_##NAME(s64 n, const T *x, s64 x_step, const T *y,          \
                                                                 s64 y_step, T *result, int conjugated) {            \
        T own = zero(T());                                                                                           \
        for (s64 i = threadIdx.x; i < n; i += THREADS)                                                               \
            own = fused(conjugated ? conjugate(x[i * x_step]) : x[i * x_step], y[i * y_step], own);                  \
        const T whole = block_sum(own);                                                                              \
        if (threadIdx.x == 0) *result = whole;                                                                       \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(256) asum_##NAME(s64 n, const T *x, s64 x_step, R *result) {        \
        R own = 0;                                                                                                   \
        for (s64 i = threadIdx.x; i < n; i += THREADS) own += size(x[i * x_step]);                                   \
        const R whole = block_sum(own);                                                                              \
        if (threadIdx.x == 0) *result = whole;                                                                       \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(256) nrm2_##NAME(s64 n, const T *x, s64 x_step, R *result) {        \
        double own = 0;                                                                                              \
        for (s64 i = threadIdx.x; i < n; i += THREADS) own += square(x[i * x_step]);                                 \
        const double whole = block_sum(own);                                                                         \
        if (threadIdx.x == 0) *result = (R)sqrt(whole);                                                              \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(256) extreme_##NAME(s64 n, const T *x, s64 x_step, int *result,     \
                                                                     int smallest) {                                 \
        __shared__ R sizes[THREADS];                                                                                 \
        __shared__ s64 places[THREADS];                                                                              \
        R best = 0;                                                                                                  \
        s64 place = n;                                                                                               \
        for (s64 i = threadIdx.x; i < n; i += THREADS) {                                                             \
            const R own = size(x[i * x_step]);                                                                       \
            if (place == n || (smallest ? own < best : own > best)) {                                                \
                best = own;                                                                                          \
                place = i;                                                                                           \
            }                                                                                                        \
        }                                                                                                            \
        sizes[threadIdx.x] = best;                                                                                   \
        places[threadIdx.x] = place;                                                                                 \
        __syncthreads();                                                                                             \
        if (threadIdx.x != 0) return;                                                                                \
        for (u32 other = 1; other < THREADS; other++) {                                                              \
            if (places[other] == n) continue;                                                                        \
            const bool better = smallest ? sizes[other] < best : sizes[other] > best;                                \
            if (better || (sizes[other] == best && places[other] < place)) {                                         \
                best = sizes[other];                                                                                 \
                place = places[other];                                                                               \
            }                                                                                                        \
        }                                                                                                            \
        *result = n > 0 ? (int)place + 1 : 0;                                                                        \
    }

VECTORS(f32, float, float)
VECTORS(f64, double, double)
VECTORS(c64, c64, float)
VECTORS(c128, c128, double)

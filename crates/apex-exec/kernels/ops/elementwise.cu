// Elementwise operations over one or two inputs, and single steps of a chain for where nothing can fuse it.
//
// A thread takes one vector: with more of them on their way at once, reads and writes come in bursts that the
// memory takes up to a tenth slower. Heads and tails that fill no vector are the first threads' of block zero.
// If inputs and output lie differently to 16-byte borders, every element goes alone. Input and output may be
// the same.

#ifndef PRELUDE
#include "prelude.cuh"
#endif

template <class T, int INPUTS, class Apply>
__device__ __forceinline__ void map(const T *left, const T *right, T *out, u32 count, Apply apply) {
    typedef Wide<T> W;
    constexpr u32 LANES = Lanes<T>::count;
    if (!alike(left, out) || (INPUTS == 2 && !alike(right, out))) {
        for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
            out[i] = narrow<T>(apply(widen(left[i]), INPUTS == 2 ? widen(right[i]) : (W)0));
        return;
    }
    const u32 head = head_of(out, count);
    const u32 vectors = (count - head) / LANES;
    const u32 vector = blockIdx.x * blockDim.x + threadIdx.x;
    if (vector < vectors) {
        const u64 at = head + (u64)vector * LANES;
        const Quad a = load_quad(left + at), b = INPUTS == 2 ? load_quad(right + at) : Quad();
        W x[LANES], y[LANES];
        Packed<T>::unpack(a, x);
        if (INPUTS == 2) Packed<T>::unpack(b, y);
#pragma unroll
        for (u32 i = 0; i < LANES; i++) x[i] = apply(x[i], INPUTS == 2 ? y[i] : (W)0);
        store_quad(out + at, Packed<T>::pack(x));
    }
    if (blockIdx.x == 0) {
        const u32 tail = head + vectors * LANES;
        for (u32 i = threadIdx.x; i < head + (count - tail); i += blockDim.x) {
            const u32 at = i < head ? i : tail + (i - head);
            out[at] = narrow<T>(apply(widen(left[at]), INPUTS == 2 ? widen(right[at]) : (W)0));
        }
    }
}

#define UNARY(NAME, T, EXPRESSION)                                                                     \
    extern "C" __global__ void __launch_bounds__(256) NAME##_##T(const T *input, T *output, u32 count) { \
        map<T, 1>(input, input, output, count,                                                         \
                  [](Wide<T> x, Wide<T>) { return EXPRESSION; });                                      \
    }
#define OPERATIONS(T)                                                                                  \
    UNARY(relu, T, relu<T>(x))                                                                         \
    UNARY(sigmoid, T, sigmoid<T>(x))                                                                   \
    UNARY(tanh, T, Math<T>::tanh(x))                                                                   \
    UNARY(gelu, T, gelu<T>(x))                                                                         \
    UNARY(gelu_tanh, T, gelu_tanh<T>(x))                                                               \
    extern "C" __global__ void __launch_bounds__(1024)                                                 \
        vector_add_##T(const T *left, const T *right, T *output, u32 count) {                          \
        map<T, 2>(left, right, output, count, [](Wide<T> x, Wide<T> y) { return x + y; });             \
    }

OPERATIONS(float)
OPERATIONS(double)
OPERATIONS(f16)
OPERATIONS(bf16)

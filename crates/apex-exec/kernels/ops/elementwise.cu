// Elementwise operations over one or two inputs, and single steps of a chain for where nothing can fuse it.
//
// A block takes `blockDim.x * UNROLL` vectors that lie together; each thread has UNROLL of them on their way
// before it computes. Heads and tails that fill no vector are the first threads' of block zero. If inputs
// and output lie differently to 16-byte borders, every element goes alone. Input and output may be the same.

#ifndef PRELUDE
#include "prelude.cuh"
#endif

// Eight elements of double would be a kernel of thousands of instructions, and its mathematics the limit.
template <class T> struct Unroll { static constexpr int count = sizeof(T) == 2 ? 2 : sizeof(T) == 8 ? 1 : 4; };

template <class T, int INPUTS, class Apply>
__device__ __forceinline__ void map(const T *left, const T *right, T *out, u32 count, Apply apply) {
    typedef Wide<T> W;
    constexpr u32 LANES = Lanes<T>::count;
    constexpr u32 UNROLL = Unroll<T>::count;
    if (!alike(left, out) || (INPUTS == 2 && !alike(right, out))) {
        for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
            out[i] = narrow<T>(apply(widen(left[i]), INPUTS == 2 ? widen(right[i]) : (W)0));
        return;
    }
    const u32 head = head_of(out, count);
    const u32 vectors = (count - head) / LANES;
    const u32 chunk = blockDim.x * UNROLL;
    const u32 begin = blockIdx.x * chunk;
    const T *left_body = left + head, *right_body = right + head;
    T *out_body = out + head;
    auto finish = [&](u32 vector, const Quad &a, const Quad &b) {
        W x[LANES], y[LANES];
        Packed<T>::unpack(a, x);
        if (INPUTS == 2) Packed<T>::unpack(b, y);
#pragma unroll
        for (u32 i = 0; i < LANES; i++) x[i] = apply(x[i], INPUTS == 2 ? y[i] : (W)0);
        store_quad(out_body + (u64)vector * LANES, Packed<T>::pack(x));
    };
    if (begin + chunk <= vectors) {
        Quad a[UNROLL], b[UNROLL];
#pragma unroll
        for (u32 u = 0; u < UNROLL; u++) {
            const u64 at = (u64)(begin + u * blockDim.x + threadIdx.x) * LANES;
            a[u] = load_quad(left_body + at);
            if (INPUTS == 2) b[u] = load_quad(right_body + at);
        }
#pragma unroll
        for (u32 u = 0; u < UNROLL; u++) finish(begin + u * blockDim.x + threadIdx.x, a[u], b[u]);
    } else {
#pragma unroll 1
        for (u32 vector = begin + threadIdx.x; vector < vectors; vector += blockDim.x)
            finish(vector, load_quad(left_body + (u64)vector * LANES),
                   INPUTS == 2 ? load_quad(right_body + (u64)vector * LANES) : Quad());
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
    extern "C" __global__ void __launch_bounds__(256)                                                  \
        vector_add_##T(const T *left, const T *right, T *output, u32 count) {                          \
        map<T, 2>(left, right, output, count, [](Wide<T> x, Wide<T> y) { return x + y; });             \
    }

OPERATIONS(float)
OPERATIONS(double)
OPERATIONS(f16)
OPERATIONS(bf16)

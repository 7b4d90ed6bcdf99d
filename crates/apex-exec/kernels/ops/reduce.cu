// Sums, greatest and least values over rows, over columns, and over everything (one row).
//
// A long reduction is split: each part leaves its result in `Wide<T>`, and `finish` joins the parts. Order
// and so the result depend on shape and device alone, never on which block was first.

#ifndef PRELUDE
#include "prelude.cuh"
#endif

// Writes a result: for the caller, or as a part in the wide type.
template <class T> __device__ __forceinline__ void put(void *output, u64 at, Wide<T> value, Wide<T> scale, u32 is_part) {
    if (is_part) ((Wide<T> *)output)[at] = value;
    else ((T *)output)[at] = narrow<T>(value * scale);
}

// `group` threads per row as in softmax; part blockIdx.y of gridDim.y.
template <class T, class Op>
__device__ __forceinline__ void reduce_row(const T *input, void *output, u32 rows, u32 columns, u32 group, Wide<T> scale, u32 is_part) {
    typedef Wide<T> W;
    constexpr u32 LANES = Lanes<T>::count, UNROLL = 4;
    __shared__ W of_warp[32];
    const u32 row = blockIdx.x * (blockDim.x / group) + threadIdx.x / group, lane = threadIdx.x % group;
    W results[LANES];
#pragma unroll
    for (u32 i = 0; i < LANES; i++) results[i] = Op::empty();
    if (row < rows) {
        const u32 begin = (u32)((u64)columns * blockIdx.y / gridDim.y), end = (u32)((u64)columns * (blockIdx.y + 1) / gridDim.y);
        const T *part = input + (u64)row * columns + begin;
        const u32 count = end - begin, head = head_of(part, count), vectors = (count - head) / LANES;
        const u32 rest = head + vectors * LANES;
        const T *body = part + head;
        u32 vector = lane;
        auto take = [&](const Quad &quad) {
            W values[LANES];
            Packed<T>::unpack(quad, values);
#pragma unroll
            for (u32 i = 0; i < LANES; i++) results[i] = Op::join(results[i], values[i]);
        };
        for (; vector + (UNROLL - 1) * group < vectors; vector += UNROLL * group) {
            Quad quads[UNROLL];
#pragma unroll
            for (u32 u = 0; u < UNROLL; u++) quads[u] = load_quad(body + (u64)(vector + u * group) * LANES);
#pragma unroll
            for (u32 u = 0; u < UNROLL; u++) take(quads[u]);
        }
#pragma unroll 1
        for (; vector < vectors; vector += group) take(load_quad(body + (u64)vector * LANES));
#pragma unroll 1
        for (u32 i = lane; i < head + (count - rest); i += group)
            results[0] = Op::join(results[0], widen(part[i < head ? i : rest + (i - head)]));
    }
#pragma unroll
    for (u32 i = 1; i < LANES; i++) results[0] = Op::join(results[0], results[i]);
    const W result = join_group(results[0], group, of_warp, [](W a, W b) { return Op::join(a, b); });
    if (row < rows && lane == 0) put<T>(output, (u64)row * gridDim.y + blockIdx.y, result, scale, is_part);
}

// A block of 32 by 8 threads takes 32 runs of columns and every eighth row of part blockIdx.y; parts lie one
// row of columns apart.
template <class T, class Op, int RUN>
__device__ __forceinline__ void reduce_column(const T *input, void *output, u32 rows, u32 columns, Wide<T> scale, u32 is_part) {
    typedef Wide<T> W;
    constexpr u32 UNROLL = 4, HIGH = 8;
    __shared__ W of_thread[HIGH][32 * RUN];
    const u32 column = (blockIdx.x * 32 + threadIdx.x) * RUN;
    const u32 begin = (u32)((u64)rows * blockIdx.y / gridDim.y), end = (u32)((u64)rows * (blockIdx.y + 1) / gridDim.y);
    W results[RUN];
#pragma unroll
    for (int i = 0; i < RUN; i++) results[i] = Op::empty();
    if (column < columns) {
        for (u32 row = begin + threadIdx.y; row < end; row += HIGH * UNROLL) {
            W values[UNROLL][RUN];
#pragma unroll
            for (u32 u = 0; u < UNROLL; u++)
                if (row + u * HIGH < end) Run<T, RUN>::load(input + (u64)(row + u * HIGH) * columns + column, values[u]);
#pragma unroll
            for (u32 u = 0; u < UNROLL; u++)
                if (row + u * HIGH < end) {
#pragma unroll
                    for (int i = 0; i < RUN; i++) results[i] = Op::join(results[i], values[u][i]);
                }
        }
    }
#pragma unroll
    for (int i = 0; i < RUN; i++) of_thread[threadIdx.y][i * 32 + threadIdx.x] = results[i];
    __syncthreads();
    if (threadIdx.y != 0 || column >= columns) return;
#pragma unroll
    for (int i = 0; i < RUN; i++) {
        W result = of_thread[0][i * 32 + threadIdx.x];
#pragma unroll
        for (u32 high = 1; high < HIGH; high++) result = Op::join(result, of_thread[high][i * 32 + threadIdx.x]);
        put<T>(output, (u64)blockIdx.y * columns + column + i, result, scale, is_part);
    }
}

// Joins the parts of each result; `group` threads, up to a warp, share one.
template <class T, class Op>
__device__ __forceinline__ void finish_parts(const Wide<T> *parts, T *output, u32 results, u32 parts_of_result, u32 result_pitch,
                                             u32 part_pitch, u32 group, Wide<T> scale) {
    typedef Wide<T> W;
    const u32 index = blockIdx.x * (blockDim.x / group) + threadIdx.x / group, lane = threadIdx.x % group;
    W value = Op::empty();
    if (index < results)
        for (u32 part = lane; part < parts_of_result; part += group)
            value = Op::join(value, parts[(u64)index * result_pitch + (u64)part * part_pitch]);
    value = join_group(value, group, (W *)nullptr, [](W a, W b) { return Op::join(a, b); });
    if (index < results && lane == 0) output[index] = narrow<T>(value * scale);
}

#define REDUCTION(NAME, OP, T)                                                                         \
    extern "C" __global__ void __launch_bounds__(256) NAME##_rows_##T(                                 \
        const T *input, void *output, u32 rows, u32 columns, u32 group, Wide<T> scale, u32 is_part) {  \
        reduce_row<T, OP<Wide<T>>>(input, output, rows, columns, group, scale, is_part);               \
    }                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256) NAME##_columns_##T(                              \
        const T *input, void *output, u32 rows, u32 columns, Wide<T> scale, u32 is_part) {             \
        reduce_column<T, OP<Wide<T>>, Lanes<T>::count>(input, output, rows, columns, scale, is_part);  \
    }                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256) NAME##_odd_columns_##T(                          \
        const T *input, void *output, u32 rows, u32 columns, Wide<T> scale, u32 is_part) {             \
        reduce_column<T, OP<Wide<T>>, 1>(input, output, rows, columns, scale, is_part);                \
    }                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256) NAME##_finish_##T(                               \
        const Wide<T> *parts, T *output, u32 results, u32 parts_of_result, u32 result_pitch,           \
        u32 part_pitch, u32 group, Wide<T> scale) {                                                    \
        finish_parts<T, OP<Wide<T>>>(parts, output, results, parts_of_result, result_pitch, part_pitch, \
                                     group, scale);                                                    \
    }
#define REDUCTIONS(T) REDUCTION(sum, Sum, T) REDUCTION(max, Max, T) REDUCTION(min, Min, T)

REDUCTIONS(float)
REDUCTIONS(double)
REDUCTIONS(f16)
REDUCTIONS(bf16)

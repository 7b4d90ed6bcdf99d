// Softmax over rows, each shifted by its greatest value so that no exponential overflows.
//
// rows:   a row lies in registers; the input is read once.
// long:   one block per row, in two passes: the first keeps the greatest value and the sum of exponentials
//         together and rescales the sum when a greater value comes; the second reads the row again, most
//         often from the second-level cache.
// part + join: the same two passes for few rows, each split over several blocks.

#ifndef PRELUDE
#include "prelude.cuh"
#endif
#ifndef ROWS
#include "rows.cuh"
#endif

template <class T, int RUN, int ITEMS>
__device__ __forceinline__ void softmax_in_registers(const T *input, T *output, u32 rows, u32 columns, u32 group) {
    typedef Wide<T> W;
    __shared__ W greatest_of_warp[32], sum_of_warp[32];
    RowInRegisters<T, RUN, ITEMS> held(rows, columns, group);
    held.load(input, -infinity<W>());
    W greatest = -infinity<W>();
#pragma unroll
    for (int item = 0; item < ITEMS; item++)
#pragma unroll
        for (int i = 0; i < RUN; i++) greatest = fmax(greatest, held.values[item][i]);
    greatest = join_group(greatest, group, greatest_of_warp, [](W a, W b) { return fmax(a, b); });
    W sum = 0;
#pragma unroll
    for (int item = 0; item < ITEMS; item++) {
        if (!held.has(item)) continue;
#pragma unroll
        for (int i = 0; i < RUN; i++) {
            held.values[item][i] = Math<T>::exp(held.values[item][i] - greatest);
            sum += held.values[item][i];
        }
    }
    sum = join_group(sum, group, sum_of_warp, [](W a, W b) { return a + b; });
    const W scale = Math<T>::reciprocal(sum);
#pragma unroll
    for (int item = 0; item < ITEMS; item++) {
#pragma unroll
        for (int i = 0; i < RUN; i++) held.values[item][i] *= scale;
        held.store(output, item);
    }
}

// The greatest of some values, and the sum of the exponentials of their distances to it. The greatest begins
// at the least finite number: an empty part then joins as zero, and a row of -infinity ends as NaN.
template <class W> struct Tail {
    W greatest, sum;
};
template <class W> __device__ __forceinline__ W lowest();
template <> __device__ __forceinline__ float lowest<float>() { return -3.4028234663852886e38f; }
template <> __device__ __forceinline__ double lowest<double>() { return -1.7976931348623157e308; }

template <class T> __device__ __forceinline__ Tail<Wide<T>> join_tails(Tail<Wide<T>> a, Tail<Wide<T>> b) {
    const Wide<T> greatest = fmax(a.greatest, b.greatest);
    return {greatest, a.sum * Math<T>::exp(a.greatest - greatest) + b.sum * Math<T>::exp(b.greatest - greatest)};
}

template <class T, int COUNT> __device__ __forceinline__ void add_to_tail(Tail<Wide<T>> &tail, const Wide<T> *values) {
    typedef Wide<T> W;
    W greatest = tail.greatest;
#pragma unroll
    for (int i = 0; i < COUNT; i++) greatest = fmax(greatest, values[i]);
    if (greatest > tail.greatest) {
        tail.sum *= Math<T>::exp(tail.greatest - greatest);
        tail.greatest = greatest;
    }
#pragma unroll
    for (int i = 0; i < COUNT; i++) tail.sum += Math<T>::exp(values[i] - tail.greatest);
}

// The tail of a part of a row, for the whole block.
template <class T> __device__ __forceinline__ Tail<Wide<T>> tail_of_part(const T *part, u32 count) {
    typedef Wide<T> W;
    constexpr u32 LANES = Lanes<T>::count, UNROLL = sizeof(T) == 8 ? 1 : 4;
    __shared__ W greatest_of_warp[32], sum_of_warp[32];
    Tail<W> tail = {lowest<W>(), 0};
    const u32 head = head_of(part, count), vectors = (count - head) / LANES, rest = head + vectors * LANES;
    const T *body = part + head;
    u32 vector = threadIdx.x;
    for (; vector + (UNROLL - 1) * blockDim.x < vectors; vector += UNROLL * blockDim.x) {
        Quad quads[UNROLL];
#pragma unroll
        for (u32 u = 0; u < UNROLL; u++) quads[u] = load_quad(body + (u64)(vector + u * blockDim.x) * LANES);
#pragma unroll
        for (u32 u = 0; u < UNROLL; u++) {
            W values[LANES];
            Packed<T>::unpack(quads[u], values);
            add_to_tail<T, LANES>(tail, values);
        }
    }
#pragma unroll 1
    for (; vector < vectors; vector += blockDim.x) {
        W values[LANES];
        Packed<T>::unpack(load_quad(body + (u64)vector * LANES), values);
        add_to_tail<T, LANES>(tail, values);
    }
    for (u32 i = threadIdx.x; i < head + (count - rest); i += blockDim.x) {
        const W value = widen(part[i < head ? i : rest + (i - head)]);
        add_to_tail<T, 1>(tail, &value);
    }
    // Everyone's sum is brought to the block's greatest value, then sums are sums.
    const W greatest = join_group(tail.greatest, blockDim.x, greatest_of_warp, [](W a, W b) { return fmax(a, b); });
    tail.sum *= Math<T>::exp(tail.greatest - greatest);
    return {greatest, join_group(tail.sum, blockDim.x, sum_of_warp, [](W a, W b) { return a + b; })};
}

// Writes a part of a row whose tail is known.
template <class T> __device__ __forceinline__ void write_part(const T *input, T *output, u32 count, Tail<Wide<T>> tail) {
    typedef Wide<T> W;
    constexpr u32 LANES = Lanes<T>::count;
    const W scale = Math<T>::reciprocal(tail.sum);
    const bool together = alike(input, output);
    const u32 head = together ? head_of(input, count) : count;
    const u32 vectors = (count - head) / LANES, rest = head + vectors * LANES;
#pragma unroll 4
    for (u32 vector = threadIdx.x; vector < vectors; vector += blockDim.x) {
        W values[LANES];
        Packed<T>::unpack(load_quad(input + head + (u64)vector * LANES), values);
#pragma unroll
        for (u32 i = 0; i < LANES; i++) values[i] = Math<T>::exp(values[i] - tail.greatest) * scale;
        store_quad(output + head + (u64)vector * LANES, Packed<T>::pack(values));
    }
#pragma unroll 1
    for (u32 i = threadIdx.x; i < head + (count - rest); i += blockDim.x) {
        const u32 at = i < head ? i : rest + (i - head);
        output[at] = narrow<T>(Math<T>::exp(widen(input[at]) - tail.greatest) * scale);
    }
}

// Part `index` of `parts` of a row.
__device__ __forceinline__ u32 begin_of_part(u32 columns, u32 index, u32 parts) {
    return (u32)((u64)columns * index / parts);
}

#define SOFTMAX(T)                                                                                     \
    extern "C" __global__ void __launch_bounds__(512)                                                  \
        softmax_rows_##T(const T *input, T *output, u32 rows, u32 columns, u32 group) {                \
        softmax_in_registers<T, Lanes<T>::count, Items<T>::narrow>(input, output, rows, columns, group);              \
    }                                                                                                  \
    extern "C" __global__ void __launch_bounds__(512)                                                  \
        softmax_wide_rows_##T(const T *input, T *output, u32 rows, u32 columns, u32 group) {           \
        softmax_in_registers<T, Lanes<T>::count, Items<T>::wide>(input, output, rows, columns, group);              \
    }                                                                                                  \
    extern "C" __global__ void __launch_bounds__(512)                                                  \
        softmax_odd_rows_##T(const T *input, T *output, u32 rows, u32 columns, u32 group) {            \
        softmax_in_registers<T, 1, Items<T>::odd>(input, output, rows, columns, group);                           \
    }                                                                                                  \
    extern "C" __global__ void __launch_bounds__(512)                                                  \
        softmax_long_##T(const T *input, T *output, u32 columns) {                                     \
        const u64 row = (u64)blockIdx.x * columns;                                                     \
        const Tail<Wide<T>> tail = tail_of_part<T>(input + row, columns);                              \
        write_part<T>(input + row, output + row, columns, tail);                                       \
    }                                                                                                  \
    extern "C" __global__ void __launch_bounds__(512)                                                  \
        softmax_part_##T(const T *input, Wide<T> *tails, u32 columns) {                                \
        const u32 begin = begin_of_part(columns, blockIdx.y, gridDim.y);                               \
        const u32 end = begin_of_part(columns, blockIdx.y + 1, gridDim.y);                             \
        const Tail<Wide<T>> tail = tail_of_part<T>(input + (u64)blockIdx.x * columns + begin, end - begin); \
        if (threadIdx.x == 0) {                                                                        \
            const u64 at = ((u64)blockIdx.x * gridDim.y + blockIdx.y) * 2;                             \
            tails[at] = tail.greatest;                                                                 \
            tails[at + 1] = tail.sum;                                                                  \
        }                                                                                              \
    }                                                                                                  \
    extern "C" __global__ void __launch_bounds__(512)                                                  \
        softmax_join_##T(const T *input, const Wide<T> *tails, T *output, u32 columns) {               \
        Tail<Wide<T>> tail = {lowest<Wide<T>>(), 0};                                                   \
        for (u32 part = 0; part < gridDim.y; part++) {                                                 \
            const u64 at = ((u64)blockIdx.x * gridDim.y + part) * 2;                                   \
            tail = join_tails<T>(tail, {tails[at], tails[at + 1]});                                    \
        }                                                                                              \
        const u32 begin = begin_of_part(columns, blockIdx.y, gridDim.y);                               \
        const u32 end = begin_of_part(columns, blockIdx.y + 1, gridDim.y);                             \
        const u64 at = (u64)blockIdx.x * columns + begin;                                              \
        write_part<T>(input + at, output + at, end - begin, tail);                                     \
    }

SOFTMAX(float)
SOFTMAX(double)
SOFTMAX(f16)
SOFTMAX(bf16)

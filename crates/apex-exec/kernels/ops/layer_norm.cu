// Layer normalisation of rows: (x - mean) / sqrt(variance + epsilon), then times gamma plus beta.
//
// rows: a row lies in registers and is read once. Every thread takes the mean of what it holds and the squared
//       distances from it; these join over the threads in one go, where a sum and then the squares would wait for
//       each other twice.
// full: the same where the row leaves no register of its threads empty and gamma and beta are there: nothing is
//       asked between loads. It is a kernel of its own since both in one take more registers, and of float a block
//       less then fits on a multiprocessor.
// long: one block per row reads it twice.
// gamma and beta may be absent (null) and are float, for double double.

#ifndef PRELUDE
#include "prelude.cuh"
#endif
#ifndef ROWS
#include "rows.cuh"
#endif
#ifndef MOMENTS
#include "moments.cuh"
#endif

// Mean and variance. Where the parts of a join have equally many values, no count goes along and nothing is divided.
template <class W> struct Spread {
    W mean, variance;
};
template <class W> __device__ __forceinline__ Spread<W> join_spreads(Spread<W> a, Spread<W> b) {
    const W half = (b.mean - a.mean) * (W)0.5;
    return {(a.mean + b.mean) * (W)0.5, (a.variance + b.variance) * (W)0.5 + half * half};
}
template <class W> __device__ __forceinline__ Spread<W> shuffled(Spread<W> spread, u32 step) {
    return {shuffled(spread.mean, step), shuffled(spread.variance, step)};
}

// The spread of a row whose threads hold any number of values each.
template <class W> __device__ __forceinline__ Spread<W> join_uneven(Moments<W> moments, u32 group, Moments<W> *of_warp) {
    moments = join_group(moments, group, of_warp, join_moments<W>);
    // The threads join in different orders, which may differ in the last place: all take the first's.
    const u32 width = group < 32 ? group : 32;
    const W variance = moments.squares * Math<W>::reciprocal(moments.count);
    return {__shfl_sync(0xffffffffu, moments.mean, 0, width), __shfl_sync(0xffffffffu, variance, 0, width)};
}

// `RUN` parameters from `place`: by vectors where a run is one, since the rows then begin on 16-byte borders
// and the host has seen to it that gamma and beta do.
template <class W, int RUN> __device__ __forceinline__ void load_parameters(const W *place, W *values) {
    constexpr int LANES = Lanes<W>::count;
    if (RUN % LANES == 0) {
#pragma unroll
        for (int i = 0; i < RUN / LANES; i++) Run<W, LANES>::load(place + i * LANES, values + i * LANES);
    } else {
#pragma unroll
        for (int i = 0; i < RUN; i++) values[i] = place[i];
    }
}

// BOTH says that gamma and beta are there, so that no load waits behind a question.
template <class T, int RUN, bool BOTH = false>
__device__ __forceinline__ void scale_run(Wide<T> *values, u32 at, Wide<T> mean, Wide<T> inverse, const Wide<T> *gamma,
                                          const Wide<T> *beta) {
    typedef Wide<T> W;
    W scales[RUN], shifts[RUN];
#pragma unroll
    for (int i = 0; i < RUN; i++) {
        scales[i] = (W)1;
        shifts[i] = (W)0;
    }
    if (BOTH || gamma) load_parameters<W, RUN>(gamma + at, scales);
    if (BOTH || beta) load_parameters<W, RUN>(beta + at, shifts);
#pragma unroll
    for (int i = 0; i < RUN; i++) values[i] = (values[i] - mean) * inverse * scales[i] + shifts[i];
}

// What this thread holds of its row; sums of a run stay apart from the next run's, which need not wait for them.
template <class T, int RUN, int ITEMS, bool FULL>
__device__ __forceinline__ Moments<Wide<T>> moments_held(const RowInRegisters<T, RUN, ITEMS, FULL> &held) {
    typedef Wide<T> W;
    W sum = 0, squares = 0;
#pragma unroll
    for (int item = 0; item < ITEMS; item++) {
        W sum_of_run = held.values[item][0];
#pragma unroll
        for (int i = 1; i < RUN; i++) sum_of_run += held.values[item][i];
        sum += sum_of_run;
    }
    if (held.runs == 0) return {0, 0, 0};
    const W count = (W)(held.runs * RUN), mean = sum * Math<W>::reciprocal(count);
#pragma unroll
    for (int item = 0; item < ITEMS; item++) {
        if (!held.has(item)) continue;
        W squares_of_run = 0;
#pragma unroll
        for (int i = 0; i < RUN; i++) {
            const W distance = held.values[item][i] - mean;
            squares_of_run += distance * distance;
        }
        squares += squares_of_run;
    }
    return {count, mean, squares};
}

template <class T, int RUN, int ITEMS, bool FULL>
__device__ __forceinline__ void norm_in_registers(const T *input, const Wide<T> *gamma, const Wide<T> *beta, T *output,
                                                  u32 rows, u32 columns, u32 group, Wide<T> epsilon) {
    typedef Wide<T> W;
    __shared__ Spread<W> spread_of_warp[32];
    RowInRegisters<T, RUN, ITEMS, FULL> held(rows, columns, group);
    held.load(input, (W)0);
    const Moments<W> moments = moments_held(held);
    Spread<W> spread;
    if (FULL || columns % (group * RUN) == 0) {
        spread = {moments.mean, moments.squares * Math<W>::reciprocal(moments.count)};
        spread = join_group(spread, group, spread_of_warp, join_spreads<W>);
    } else {
        __shared__ Moments<W> moments_of_warp[32];
        spread = join_uneven(moments, group, moments_of_warp);
    }
    const W inverse = Math<T>::inverse_root(spread.variance + epsilon);
#pragma unroll
    for (int item = 0; item < ITEMS; item++) {
        if (!held.has(item)) continue;
        scale_run<T, RUN, FULL>(held.values[item], held.at(item), spread.mean, inverse, gamma, beta);
        held.store(output, item);
    }
}

template <class T>
__device__ __forceinline__ void norm_long(const T *input, const Wide<T> *gamma, const Wide<T> *beta, T *output,
                                          u32 columns, Wide<T> epsilon) {
    typedef Wide<T> W;
    constexpr u32 LANES = Lanes<T>::count;
    __shared__ Moments<W> of_warp[32];
    const T *row = input + (u64)blockIdx.x * columns;
    T *out = output + (u64)blockIdx.x * columns;
    const bool together = alike(row, out);
    const u32 head = together ? head_of(row, columns) : columns;
    const u32 vectors = (columns - head) / LANES, rest = head + vectors * LANES;
    Moments<W> moments = {0, 0, 0};
#pragma unroll 4
    for (u32 vector = threadIdx.x; vector < vectors; vector += blockDim.x) {
        W values[LANES];
        Packed<T>::unpack(load_quad(row + head + (u64)vector * LANES), values);
        W mean = 0, squares = 0;
#pragma unroll
        for (u32 i = 0; i < LANES; i++) mean += values[i];
        mean *= (W)1 / (W)LANES;
#pragma unroll
        for (u32 i = 0; i < LANES; i++) squares += (values[i] - mean) * (values[i] - mean);
        moments = join_moments(moments, {(W)LANES, mean, squares});
    }
    for (u32 i = threadIdx.x; i < head + (columns - rest); i += blockDim.x)
        moments = join_moments(moments, {(W)1, widen(row[i < head ? i : rest + (i - head)]), (W)0});
    const Spread<W> spread = join_uneven(moments, blockDim.x, of_warp);
    const W mean = spread.mean, inverse = Math<T>::inverse_root(spread.variance + epsilon);
#pragma unroll 2
    for (u32 vector = threadIdx.x; vector < vectors; vector += blockDim.x) {
        W values[LANES];
        const u32 at = head + vector * LANES;
        Packed<T>::unpack(load_quad(row + at), values);
        // A row of any length begins anywhere, so gamma and beta go one by one.
#pragma unroll
        for (u32 i = 0; i < LANES; i++) scale_run<T, 1>(values + i, at + i, mean, inverse, gamma, beta);
        store_quad(out + at, Packed<T>::pack(values));
    }
    for (u32 i = threadIdx.x; i < head + (columns - rest); i += blockDim.x) {
        const u32 at = i < head ? i : rest + (i - head);
        W value = widen(row[at]);
        scale_run<T, 1>(&value, at, mean, inverse, gamma, beta);
        out[at] = narrow<T>(value);
    }
}

#define ROWS_OF(T, NAME, RUN, ITEMS, FULL)                                                             \
    extern "C" __global__ void __launch_bounds__(512) layer_norm_##NAME##_##T(                         \
        const T *input, const Wide<T> *gamma, const Wide<T> *beta, T *output, u32 rows, u32 columns,   \
        u32 group, Wide<T> epsilon) {                                                                  \
        norm_in_registers<T, RUN, ITEMS, FULL>(input, gamma, beta, output, rows, columns, group, epsilon);\
    }
#define LAYER_NORM(T)                                                                                  \
    ROWS_OF(T, rows, Lanes<T>::count, Items<T>::narrow, false)                                         \
    ROWS_OF(T, wide_rows, Lanes<T>::count, Items<T>::wide, false)                                      \
    ROWS_OF(T, odd_rows, 1, Items<T>::odd, false)                                                      \
    ROWS_OF(T, full_rows, Lanes<T>::count, Items<T>::narrow, true)                                     \
    ROWS_OF(T, full_wide_rows, Lanes<T>::count, Items<T>::wide, true)                                  \
    extern "C" __global__ void __launch_bounds__(512) layer_norm_long_##T(                             \
        const T *input, const Wide<T> *gamma, const Wide<T> *beta, T *output, u32 columns,             \
        Wide<T> epsilon) {                                                                             \
        norm_long<T>(input, gamma, beta, output, columns, epsilon);                                    \
    }

LAYER_NORM(float)
LAYER_NORM(double)
LAYER_NORM(f16)
LAYER_NORM(bf16)

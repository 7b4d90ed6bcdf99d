// Layer normalisation of rows: (x - mean) / sqrt(variance + epsilon), then times gamma plus beta.
//
// rows: a row lies in registers; the input is read once, and the variance is taken around the mean.
// long: one block per row reads it twice; means and squared distances of parts join exactly (Chan).
// gamma and beta may be absent (null) and are float, for double double.

#ifndef PRELUDE
#include "prelude.cuh"
#endif
#ifndef ROWS
#include "rows.cuh"
#endif

template <class W> struct Moments {
    W count, mean, squares;
};
template <class W> __device__ __forceinline__ Moments<W> join_moments(Moments<W> a, Moments<W> b) {
    const W count = a.count + b.count;
    if (count == (W)0) return a;
    const W distance = b.mean - a.mean, share = b.count / count;
    return {count, a.mean + distance * share, a.squares + b.squares + distance * distance * a.count * share};
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

template <class T, int RUN> __device__ __forceinline__ void scale_run(Wide<T> *values, u32 at, Wide<T> mean, Wide<T> inverse,
                                                                      const Wide<T> *gamma, const Wide<T> *beta) {
    Wide<T> parameters[RUN];
#pragma unroll
    for (int i = 0; i < RUN; i++) values[i] = (values[i] - mean) * inverse;
    if (gamma) {
        load_parameters<Wide<T>, RUN>(gamma + at, parameters);
#pragma unroll
        for (int i = 0; i < RUN; i++) values[i] *= parameters[i];
    }
    if (beta) {
        load_parameters<Wide<T>, RUN>(beta + at, parameters);
#pragma unroll
        for (int i = 0; i < RUN; i++) values[i] += parameters[i];
    }
}

__device__ __forceinline__ float inverse_root(float x) { return 1.0f / ::sqrtf(x); }
__device__ __forceinline__ double inverse_root(double x) { return 1.0 / ::sqrt(x); }

template <class T, int RUN, int ITEMS>
__device__ __forceinline__ void norm_in_registers(const T *input, const Wide<T> *gamma, const Wide<T> *beta, T *output,
                                                  u32 rows, u32 columns, u32 group, Wide<T> epsilon) {
    typedef Wide<T> W;
    __shared__ W sum_of_warp[32], squares_of_warp[32];
    const u32 row = row_of_group(group);
    RowInRegisters<T, RUN, ITEMS> held;
    held.load(input + (u64)row * columns, columns, group, row < rows, (W)0);
    auto add = [](W a, W b) { return a + b; };
    W sum = 0;
#pragma unroll
    for (int item = 0; item < ITEMS; item++)
#pragma unroll
        for (int i = 0; i < RUN; i++) sum += held.values[item][i];
    const W mean = join_group(sum, group, sum_of_warp, add, (W)0) / (W)columns;
    W squares = 0;
#pragma unroll
    for (int item = 0; item < ITEMS; item++) {
        if (!held.has(item)) continue;
#pragma unroll
        for (int i = 0; i < RUN; i++) {
            const W distance = held.values[item][i] - mean;
            squares += distance * distance;
        }
    }
    squares = join_group(squares, group, squares_of_warp, add, (W)0);
    const W inverse = inverse_root(squares / (W)columns + epsilon);
#pragma unroll
    for (int item = 0; item < ITEMS; item++)
        if (held.has(item)) scale_run<T, RUN>(held.values[item], held.at(item), mean, inverse, gamma, beta);
    held.store(output + (u64)row * columns);
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
        mean /= (W)LANES;
#pragma unroll
        for (u32 i = 0; i < LANES; i++) squares += (values[i] - mean) * (values[i] - mean);
        moments = join_moments(moments, {(W)LANES, mean, squares});
    }
    for (u32 i = threadIdx.x; i < head + (columns - rest); i += blockDim.x)
        moments = join_moments(moments, {(W)1, widen(row[i < head ? i : rest + (i - head)]), (W)0});
    auto shuffled = [&](u32 step) {
        Moments<W> other = {__shfl_xor_sync(0xffffffffu, moments.count, step),
                            __shfl_xor_sync(0xffffffffu, moments.mean, step),
                            __shfl_xor_sync(0xffffffffu, moments.squares, step)};
        moments = join_moments(moments, other);
    };
    for (u32 step = 16; step > 0; step /= 2) shuffled(step);
    const u32 lane = threadIdx.x % 32;
    if (lane == 0) of_warp[threadIdx.x / 32] = moments;
    __syncthreads();
    moments = lane < blockDim.x / 32 ? of_warp[lane] : Moments<W>{0, 0, 0};
    for (u32 step = 16; step > 0; step /= 2) shuffled(step);
    // The lanes join in different orders, which may differ in the last place: all take the first's.
    const W mean = __shfl_sync(0xffffffffu, moments.mean, 0);
    const W inverse = inverse_root(__shfl_sync(0xffffffffu, moments.squares, 0) / (W)columns + epsilon);
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

#define LAYER_NORM(T)                                                                                  \
    extern "C" __global__ void __launch_bounds__(512) layer_norm_rows_##T(                             \
        const T *input, const Wide<T> *gamma, const Wide<T> *beta, T *output, u32 rows, u32 columns,   \
        u32 group, Wide<T> epsilon) {                                                                  \
        norm_in_registers<T, Lanes<T>::count, Items<T>::narrow>(input, gamma, beta, output, rows, columns, group, epsilon); \
    }                                                                                                  \
    extern "C" __global__ void __launch_bounds__(512) layer_norm_wide_rows_##T(                        \
        const T *input, const Wide<T> *gamma, const Wide<T> *beta, T *output, u32 rows, u32 columns,   \
        u32 group, Wide<T> epsilon) {                                                                  \
        norm_in_registers<T, Lanes<T>::count, Items<T>::wide>(input, gamma, beta, output, rows, columns, group, epsilon); \
    }                                                                                                  \
    extern "C" __global__ void __launch_bounds__(512) layer_norm_odd_rows_##T(                         \
        const T *input, const Wide<T> *gamma, const Wide<T> *beta, T *output, u32 rows, u32 columns,   \
        u32 group, Wide<T> epsilon) {                                                                  \
        norm_in_registers<T, 1, Items<T>::odd>(input, gamma, beta, output, rows, columns, group, epsilon);        \
    }                                                                                                  \
    extern "C" __global__ void __launch_bounds__(512) layer_norm_long_##T(                             \
        const T *input, const Wide<T> *gamma, const Wide<T> *beta, T *output, u32 columns,             \
        Wide<T> epsilon) {                                                                             \
        norm_long<T>(input, gamma, beta, output, columns, epsilon);                                    \
    }

LAYER_NORM(float)
LAYER_NORM(double)
LAYER_NORM(f16)
LAYER_NORM(bf16)

// Matrix product in the forms of cuBLAS: C = activate(alpha A B + beta D + bias), one product for each block in z.
//
// Everything is in rows: a caller with columns asks for the product of the transposes. A and B have any two strides,
// D and C a stride of rows each; where beta is zero D is not read. A block of 256 threads makes a tile of TILE by TILE,
// DEPTH columns of A at a time; each thread holds OWN by OWN results. The bias belongs to the columns.

#include "numbers.cuh"

enum : u32 { DEPTH = 16 };

// GELU by tanh, as cuBLAS has it.
__device__ __forceinline__ float gelu(float value) {
    return 0.5f * value * (1 + tanhf(0.7978845608f * (value + 0.044715f * value * value * value)));
}
__device__ __forceinline__ double gelu(double value) {
    return 0.5 * value * (1 + tanh(0.7978845608028654 * (value + 0.044715 * value * value * value)));
}

template <class W> __device__ __forceinline__ W activated(int, W value) { return value; }
template <> __device__ __forceinline__ float activated(int activation, float value) {
    if (activation == 1) return value > 0 ? value : 0;
    return activation == 2 ? gelu(value) : value;
}
template <> __device__ __forceinline__ double activated(int activation, double value) {
    if (activation == 1) return value > 0 ? value : 0;
    return activation == 2 ? gelu(value) : value;
}

template <u32 TILE, class In>
__device__ __forceinline__ void fetch_tile(Wide<In> (*tile)[TILE + 4], const In *matrix, u32 across, u32 across_end, u64 across_stride,
                                           u32 along, u32 along_end, u64 along_stride, int conjugated) {
#pragma unroll
    for (u32 step = 0; step < TILE * DEPTH / 256; step++) {
        const u32 index = step * 256 + threadIdx.x;
        const u32 i = along_stride == 1 ? index / DEPTH : index % TILE;
        const u32 j = along_stride == 1 ? index % DEPTH : index / TILE;
        Wide<In> value = zero(Wide<In>());
        if (across + i < across_end && along + j < along_end) {
            value = widen(matrix[(across + i) * across_stride + (along + j) * along_stride]);
            if (conjugated) value = conjugate(value);
        }
        tile[j][i] = value;
    }
}

template <u32 TILE, class In, class Out>
__device__ __forceinline__ void gemm(const In *a, const In *b, const Out *bias, const Out *d, Out *c, u32 m, u32 n, u32 k,
                                     u64 a_row, u64 a_column, u64 b_row, u64 b_column, u64 d_row, u64 c_row, u64 a_batch,
                                     u64 b_batch, u64 d_batch, u64 c_batch, Wide<In> alpha, Wide<In> beta, int activation,
                                     int conjugate_a, int conjugate_b) {
    typedef Wide<In> W;
    enum : u32 { OWN = TILE / 16 };
    // First slices of A and B, then the results.
    __shared__ W shared[TILE * TILE < 2 * DEPTH * (TILE + 4) ? 2 * DEPTH * (TILE + 4) : TILE * TILE];
    W(*a_tile)[TILE + 4] = (W(*)[TILE + 4])shared, (*b_tile)[TILE + 4] = a_tile + DEPTH;
    a += blockIdx.z * a_batch;
    b += blockIdx.z * b_batch;
    c += blockIdx.z * c_batch;
    d += blockIdx.z * d_batch;
    const u32 row = blockIdx.y * TILE, column = blockIdx.x * TILE;
    const u32 own_row = threadIdx.x / 16 * OWN, own_column = threadIdx.x % 16 * OWN;
    W sums[OWN][OWN];
#pragma unroll
    for (u32 i = 0; i < OWN; i++)
#pragma unroll
        for (u32 j = 0; j < OWN; j++) sums[i][j] = zero(W());
    for (u32 depth = 0; depth < k; depth += DEPTH) {
        fetch_tile<TILE, In>(a_tile, a, row, m, a_row, depth, k, a_column, conjugate_a);
        fetch_tile<TILE, In>(b_tile, b, column, n, b_column, depth, k, b_row, conjugate_b);
        __syncthreads();
#pragma unroll 4
        for (u32 along = 0; along < DEPTH; along++) {
            W left[OWN], right[OWN];
#pragma unroll
            for (u32 i = 0; i < OWN; i++) left[i] = a_tile[along][own_row + i];
#pragma unroll
            for (u32 i = 0; i < OWN; i++) right[i] = b_tile[along][own_column + i];
#pragma unroll
            for (u32 i = 0; i < OWN; i++)
#pragma unroll
                for (u32 j = 0; j < OWN; j++) sums[i][j] = fused(left[i], right[j], sums[i][j]);
        }
        __syncthreads();
    }
#pragma unroll
    for (u32 i = 0; i < OWN; i++)
#pragma unroll
        for (u32 j = 0; j < OWN; j++) shared[(own_row + i) * TILE + own_column + j] = sums[i][j];
    __syncthreads();
    // Through shared memory, so that what follows stands here once.
#pragma unroll 1
    for (u32 index = threadIdx.x; index < TILE * TILE; index += 256) {
        const u32 at_row = row + index / TILE, at_column = column + index % TILE;
        if (at_row >= m || at_column >= n) continue;
        W value = fused(alpha, shared[index], zero(W()));
        if (!is_zero(beta)) value = fused(beta, (W)widen(d[at_row * d_row + at_column]), value);
        if (bias) value = sum(value, (W)widen(bias[at_column]));
        c[at_row * c_row + at_column] = narrow<Out, W>(activated<W>(activation, value));
    }
}

#define GEMM(NAME, TILE, IN, OUT)                                                                                  \
    extern "C" __global__ void __launch_bounds__(256) gemm_##NAME(                                                 \
        const IN *a, const IN *b, const OUT *bias, const OUT *d, OUT *c, u32 m, u32 n, u32 k, u64 a_row,           \
        u64 a_column, u64 b_row, u64 b_column, u64 d_row, u64 c_row, u64 a_batch, u64 b_batch, u64 d_batch,        \
        u64 c_batch, Wide<IN> alpha, Wide<IN> beta, int activation, int conjugate_a, int conjugate_b) {            \
        gemm<TILE, IN, OUT>(a, b, bias, d, c, m, n, k, a_row, a_column, b_row, b_column, d_row, c_row, a_batch,    \
                            b_batch, d_batch, c_batch, alpha, beta, activation, conjugate_a, conjugate_b);         \
    }

GEMM(f32, 64, float, float)
GEMM(f64, 64, double, double)
GEMM(f16, 64, f16, f16)
GEMM(bf16, 64, bf16, bf16)
GEMM(f16_f32, 64, f16, float)
GEMM(bf16_f32, 64, bf16, float)
GEMM(i8_i32, 64, signed char, int)
GEMM(c64, 32, c64, c64)
GEMM(c128, 32, c128, c128)

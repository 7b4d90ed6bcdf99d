// Matrix product for whatever the faster kernels do not take: any strides, any size, every type.
//
// C = activate(alpha * A B + beta * C + bias): A is m by k, B is k by n, C is m by n in rows; A and B have
// any two strides, so that a transpose is only another pair. A block of 256 threads makes a tile of 64 by 64,
// 16 columns of A at a time; each thread holds 4 by 4 results. Where beta is zero, C is not read.

#ifndef PRELUDE
#include "prelude.cuh"
#endif

enum : u32 { TILE = 64, DEPTH = 16, OWN = 4 };

// Brings `across` by `along` elements into a tile whose rows run along `across`, neighbours in memory by
// neighbouring threads.
template <class T>
__device__ __forceinline__ void fetch_tile(Wide<T> (*tile)[TILE + 4], const T *matrix, u32 across, u32 across_end, u64 across_stride,
                                           u32 along, u32 along_end, u64 along_stride) {
#pragma unroll
    for (u32 step = 0; step < TILE * DEPTH / 256; step++) {
        const u32 index = step * 256 + threadIdx.x;
        const u32 i = along_stride == 1 ? index / DEPTH : index % TILE;
        const u32 j = along_stride == 1 ? index % DEPTH : index / TILE;
        const bool inside = across + i < across_end && along + j < along_end;
        tile[j][i] = inside ? widen(matrix[(across + i) * across_stride + (along + j) * along_stride]) : (Wide<T>)0;
    }
}

template <class T>
__device__ __forceinline__ void matmul(const T *a, const T *b, const T *bias, T *c, u32 m, u32 n, u32 k, u64 a_row, u64 a_column,
                                       u64 b_row, u64 b_column, u64 c_row, u64 a_batch, u64 b_batch, u64 c_batch,
                                       Wide<T> alpha, Wide<T> beta, int activation) {
    typedef Wide<T> W;
    // First slices of A and B, then the results.
    __shared__ W shared[TILE * TILE];
    W(*a_tile)[TILE + 4] = (W(*)[TILE + 4])shared, (*b_tile)[TILE + 4] = a_tile + DEPTH;
    a += blockIdx.z * a_batch;
    b += blockIdx.z * b_batch;
    c += blockIdx.z * c_batch;
    const u32 row = blockIdx.y * TILE, column = blockIdx.x * TILE;
    const u32 own_row = threadIdx.x / 16 * OWN, own_column = threadIdx.x % 16 * OWN;
    W sums[OWN][OWN] = {};
    for (u32 depth = 0; depth < k; depth += DEPTH) {
        fetch_tile<T>(a_tile, a, row, m, a_row, depth, k, a_column);
        fetch_tile<T>(b_tile, b, column, n, b_column, depth, k, b_row);
        __syncthreads();
#pragma unroll 4
        for (u32 d = 0; d < DEPTH; d++) {
            W left[OWN], right[OWN];
#pragma unroll
            for (u32 i = 0; i < OWN; i++) left[i] = a_tile[d][own_row + i];
#pragma unroll
            for (u32 i = 0; i < OWN; i++) right[i] = b_tile[d][own_column + i];
#pragma unroll
            for (u32 i = 0; i < OWN; i++)
#pragma unroll
                for (u32 j = 0; j < OWN; j++) sums[i][j] += left[i] * right[j];
        }
        __syncthreads();
    }
#pragma unroll
    for (u32 i = 0; i < OWN; i++)
#pragma unroll
        for (u32 j = 0; j < OWN; j++) shared[(own_row + i) * TILE + own_column + j] = sums[i][j];
    __syncthreads();
    // Through shared memory, so that neighbouring threads store neighbours, and what follows stands here once.
#pragma unroll 1
    for (u32 index = threadIdx.x; index < TILE * TILE; index += 256) {
        const u32 at_row = row + index / TILE, at_column = column + index % TILE;
        if (at_row >= m || at_column >= n) continue;
        T *place = c + at_row * c_row + at_column;
        W value = alpha * shared[index];
        if (beta != (W)0) value += beta * widen(*place);
        if (bias) value += widen(bias[at_column]);
        *place = narrow<T>(activate<T>(activation, value));
    }
}

#define MATMUL(T)                                                                                      \
    extern "C" __global__ void __launch_bounds__(256) matmul_plain_##T(                                \
        const T *a, const T *b, const T *bias, T *c, u32 m, u32 n, u32 k, u64 a_row, u64 a_column,     \
        u64 b_row, u64 b_column, u64 c_row, u64 a_batch, u64 b_batch, u64 c_batch, Wide<T> alpha,      \
        Wide<T> beta, int activation) {                                                                \
        matmul<T>(a, b, bias, c, m, n, k, a_row, a_column, b_row, b_column, c_row, a_batch, b_batch,   \
                  c_batch, alpha, beta, activation);                                                   \
    }

MATMUL(float)
MATMUL(double)
MATMUL(f16)
MATMUL(bf16)

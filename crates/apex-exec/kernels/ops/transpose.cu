// Transposes a matrix through tiles in shared memory: both sides are read and written in whole lines.
//
// A block of 32 by 8 threads moves a tile of 32 by 32 elements, or of 64 by 64 for elements of two bytes,
// which go in pairs where both sides are even and aligned. The tile has one column more than it needs, so that a
// column of it lies in different banks.

#ifndef PRELUDE
#include "prelude.cuh"
#endif

template <class E> __device__ __forceinline__ void transpose_tile(const E *input, E *output, u32 rows, u32 columns) {
    __shared__ E tile[32][33];
    const u64 matrix = (u64)blockIdx.z * rows * columns;
    const u32 row = blockIdx.y * 32, column = blockIdx.x * 32;
#pragma unroll
    for (u32 step = 0; step < 32; step += 8)
        if (row + threadIdx.y + step < rows && column + threadIdx.x < columns)
            tile[threadIdx.y + step][threadIdx.x] = input[matrix + (u64)(row + threadIdx.y + step) * columns + column + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (u32 step = 0; step < 32; step += 8)
        if (column + threadIdx.y + step < columns && row + threadIdx.x < rows)
            output[matrix + (u64)(column + threadIdx.y + step) * rows + row + threadIdx.x] = tile[threadIdx.x][threadIdx.y + step];
}

#define TRANSPOSE(BITS, E)                                                                             \
    extern "C" __global__ void __launch_bounds__(256)                                                  \
        transpose_##BITS(const E *input, E *output, u32 rows, u32 columns) {                           \
        transpose_tile<E>(input, output, rows, columns);                                               \
    }
TRANSPOSE(8, unsigned char)
TRANSPOSE(16, unsigned short)
TRANSPOSE(32, u32)
TRANSPOSE(64, u64)

extern "C" __global__ void __launch_bounds__(256)
    transpose_pairs_16(const u32 *input, u32 *output, u32 rows, u32 columns) {
    __shared__ u32 tile[64][33];
    const u32 pairs = columns / 2, pairs_out = rows / 2;
    const u64 matrix = (u64)blockIdx.z * rows * pairs;
    const u32 row = blockIdx.y * 64, pair = blockIdx.x * 32;
#pragma unroll
    for (u32 step = 0; step < 64; step += 8)
        if (row + threadIdx.y + step < rows && pair + threadIdx.x < pairs)
            tile[threadIdx.y + step][threadIdx.x] = input[matrix + (u64)(row + threadIdx.y + step) * pairs + pair + threadIdx.x];
    __syncthreads();
    // Two rows of the output come from the halves of one column of pairs.
#pragma unroll
    for (u32 step = 0; step < 32; step += 8) {
        const u32 column = 2 * (pair + threadIdx.y + step), pair_out = row / 2 + threadIdx.x;
        if (column < columns && pair_out < pairs_out) {
            const u32 upper = tile[2 * threadIdx.x][threadIdx.y + step], lower = tile[2 * threadIdx.x + 1][threadIdx.y + step];
            output[matrix + (u64)column * pairs_out + pair_out] = __byte_perm(upper, lower, 0x5410);
            output[matrix + (u64)(column + 1) * pairs_out + pair_out] = __byte_perm(upper, lower, 0x7632);
        }
    }
}

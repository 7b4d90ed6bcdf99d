// Product of bf16 or f16 matrices on the warpgroup tensor cores of sm_90a, sums in f32.
//
//     C[b] = activation(alpha * op(A[b]) * op(B[b]) + beta * C[b] + bias[column]), row-major
//
// Three warpgroups share a block. The first only asks the copy engine for tiles of A and B; the other
// two multiply, each its 64 rows of the tile. Tiles pass through a ring of STAGES slots, each with a
// "full" barrier (the copy engine counts the bytes) and an "empty" barrier (the multiplying warps count
// themselves off), so copies run ahead of products, also over the end of a tile. Blocks stay and take
// tile after tile in an order that keeps what neighbours read in L2. Blocks do not share their tiles of
// B through a cluster: measured on an H200 at 1024 to 8192, that gained nothing and cost up to 8 %.
//
// Compiled with -arch=sm_90a and these -D (all integers):
//   MATMUL_INPUT   1 f16, 2 bf16: elements of A and B
//   MATMUL_OUTPUT  0 f32, or the same as MATMUL_INPUT: elements of C and bias
//   TRANSPOSE_A    0: A is stored m x k; 1: stored k x m
//   TRANSPOSE_B    0: B is stored k x n; 1: stored n x k
//   TILE_N         64, 128 or 256: columns of a tile (its rows are 128, its depth 64)
//   STAGES         slots of the ring
//   STORE_SLOTS    buffers of 8 KiB per multiplying warpgroup on the way to C; divides the pieces of a
//                  tile, TILE_N / 64, or TILE_N / 32 for f32 C
// Measured best on an H200: TILE_N 256, STAGES 4, STORE_SLOTS 2; 128, 6, 2; 64, 8, 1.
//
// Launch: block 384; grid.x = min(multiprocessors, ceil(m / 128) * ceil(n / TILE_N) * batches).
// Dynamic shared memory:
//   STAGES * (16384 + 128 * TILE_N + 16) + 2 * STORE_SLOTS * 8192 + 8 * TILE_N bytes.
//
// Tensor maps, all of rank 3 (inner, rows, batch), elements of 16 bits unless said, swizzle 128B, no
// interleave, out of bounds reads as zero, element strides 1:
//   map_a   TRANSPOSE_A 0: sizes (k, m, batch), box (64, 128, 1); 1: (m, k, batch), box (64, 64, 1)
//   map_b   TRANSPOSE_B 1: sizes (k, n, batch), box (64, TILE_N, 1); 0: (n, k, batch), box (64, 64, 1)
//   map_c   sizes (n, m, batch), box (64, 64, 1) for 16-bit C, (32, 64, 1) for f32 C
// So the addresses, leading dimensions and batch strides of A, B and C must be multiples of 16 bytes.
// A matrix shared by all batches has batch size 1 in its map and batch step 0.
//
// `group` is how many tiles of 128 rows blocks go down before they turn to the next column: 16 did best
// at 2048 to 8192, 4 at 1024. `c` is the address in map_c; it is read with beta, and written where a
// row ends within 16 bytes. bias may be null. k may be 0 (the maps of A and B are then not looked at);
// m, n and batches are at least 1; C must not overlap A or B.
//
// keep: nothing (compiled at run time, for the transposes and tiles of a product)

#include "elements.cuh"

#ifndef MATMUL_INPUT
#define MATMUL_INPUT ELEMENT_BF16
#endif
#ifndef MATMUL_OUTPUT
#define MATMUL_OUTPUT MATMUL_INPUT
#endif
#ifndef TRANSPOSE_A
#define TRANSPOSE_A 0
#endif
#ifndef TRANSPOSE_B
#define TRANSPOSE_B 0
#endif
#ifndef TILE_N
#define TILE_N 256
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef STORE_SLOTS
#define STORE_SLOTS 2
#endif

#if MATMUL_INPUT == ELEMENT_F16
#define INPUT_PTX "f16"
#else
#define INPUT_PTX "bf16"
#endif

typedef Element<MATMUL_OUTPUT> Output;

const int TILE_M = 128;
const int TILE_K = 64;
const int CONSUMERS = 2;
// A slab is what one swizzled copy of 64 inner elements makes: rows of 128 bytes.
const int ROW_BYTES = 128;
const int A_BYTES = TILE_M * ROW_BYTES;
const int B_BYTES = TILE_N * ROW_BYTES;
const int STORE_BYTES = 64 * ROW_BYTES;
// Columns of C in one row of a store buffer, and such pieces in a tile.
const int PIECE_COLUMNS = MATMUL_OUTPUT == ELEMENT_F32 ? 32 : 64;
const int PIECES = TILE_N / PIECE_COLUMNS;
const int PIECE_SUMS = PIECE_COLUMNS / 2;
static_assert(PIECES % STORE_SLOTS == 0, "each tile must begin with the first store buffer");

#include "wgmma_instructions.cuh"

// ---- the order of tiles ----

struct Tiles {
    unsigned tiles_m;
    unsigned tiles_n;
    unsigned group;
    unsigned count;
};

struct Place {
    int row;
    int column;
    int batch;
};

// Tile by tile down `group` rows of tiles, then on to the next column: blocks that run together then
// need a nearly square part of C, which is the least of A and B.
__device__ __forceinline__ Place place_of(const Tiles &tiles, unsigned tile) {
    unsigned per_batch = tiles.tiles_m * tiles.tiles_n;
    unsigned batch = tile / per_batch;
    unsigned within = tile - batch * per_batch;
    unsigned in_groups = tiles.group * tiles.tiles_n;
    unsigned first = within / in_groups * tiles.group;
    unsigned rows = min(tiles.group, tiles.tiles_m - first);
    unsigned in_group = within % in_groups;
    Place place;
    place.row = (first + in_group % rows) * TILE_M;
    place.column = in_group / rows * TILE_N;
    place.batch = batch;
    return place;
}

// ---- the two roles ----

struct Ring {
    unsigned a;
    unsigned b;
    unsigned full;
    unsigned empty;
};

struct Slot {
    int index;
    unsigned parity;
    __device__ __forceinline__ void next() {
        if (++index == STAGES) {
            index = 0;
            parity ^= 1;
        }
    }
};

__device__ __forceinline__ void fill_slot(const Ring &ring, const Slot &slot, const TensorMap *map_a,
                                          const TensorMap *map_b, const Place &place, int depth,
                                          int batch_a, int batch_b) {
    unsigned full = ring.full + slot.index * 8;
    unsigned a = ring.a + slot.index * A_BYTES;
    unsigned b = ring.b + slot.index * B_BYTES;
    barrier_expect(full, A_BYTES + B_BYTES);
#if TRANSPOSE_A
#pragma unroll
    for (int slab = 0; slab < TILE_M; slab += 64) {
        copy_in(a + slab * ROW_BYTES, map_a, full, place.row + slab, depth, batch_a);
    }
#else
    copy_in(a, map_a, full, depth, place.row, batch_a);
#endif
#if TRANSPOSE_B
    copy_in(b, map_b, full, depth, place.column, batch_b);
#else
#pragma unroll
    for (int slab = 0; slab < TILE_N; slab += 64) {
        copy_in(b + slab * ROW_BYTES, map_b, full, place.column + slab, depth, batch_b);
    }
#endif
}

// Each warp counts itself off: waiting for products covers only those of the waiting warp.
__device__ __forceinline__ void release_slot(const Ring &ring, int index) {
    if (threadIdx.x % 32 == 0) barrier_arrive(ring.empty + index * 8);
}

__device__ __forceinline__ void multiply_slot(float (&sums)[TILE_N / 2], const Ring &ring, int index,
                                              int consumer) {
    // In both orders of A the rows of the second warpgroup start 64 * 128 bytes on.
    unsigned a = ring.a + index * A_BYTES + consumer * 64 * ROW_BYTES;
    unsigned b = ring.b + index * B_BYTES;
    // Sixteen steps of k are 32 bytes along a row, or 16 rows.
    const unsigned step_a = TRANSPOSE_A ? 16 * ROW_BYTES : 32;
    const unsigned step_b = TRANSPOSE_B ? 32 : 16 * ROW_BYTES;
    const unsigned slab_bytes = 64 * ROW_BYTES;
    u64 at_a = operand_descriptor(a, slab_bytes);
    u64 at_b = operand_descriptor(b, slab_bytes);
#pragma unroll
    for (int step = 0; step < TILE_K / 16; ++step) {
        multiply(sums, at_a + (step * step_a >> 4), at_b + (step * step_b >> 4));
    }
}

struct Finish {
    const Output::Bits *bias;
    long long ldc;
    int m;
    int n;
    float alpha;
    float beta;
    int activation;
};

// Turns the sums of one piece into values. A thread holds, of every 8 columns, two neighbours in row
// `row` and two in `row + 8`. `bias` is where the bias of its first column lies in shared memory.
__device__ __forceinline__ void finish_piece(const Finish &finish, const float *sums,
                                             float (&values)[PIECE_SUMS], int row, int column,
                                             unsigned bias, const Output::Bits *c) {
#pragma unroll
    for (int i = 0; i < PIECE_SUMS; ++i) values[i] = finish.alpha * sums[i];
    if (finish.beta != 0.0f) {
#pragma unroll
        for (int i = 0; i < PIECE_SUMS; ++i) {
            int at_row = row + (i & 2) * 4;
            int at_column = column + i / 4 * 8 + (i & 1);
            if (at_row < finish.m && at_column < finish.n) {
                values[i] += finish.beta * Output::value(c[at_row * finish.ldc + at_column]);
            }
        }
    }
    if (finish.bias != nullptr) {
#pragma unroll
        for (int i = 0; i < PIECE_SUMS; i += 4) {
            float left, right;
            asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                         : "=f"(left), "=f"(right)
                         : "r"(bias + i * 8)
                         : "memory");
            values[i] += left, values[i + 1] += right;
            values[i + 2] += left, values[i + 3] += right;
        }
    }
    activate(values, finish.activation);
}

// Brings the bias of a tile's columns to shared memory, so that it is there when the sums are.
__device__ __forceinline__ void stage_bias(const Finish &finish, unsigned to, int column) {
    if (finish.bias == nullptr) return;
    for (int i = threadIdx.x & 127; i < TILE_N; i += 128) {
        float value = column + i < finish.n ? Output::value(finish.bias[column + i]) : 0.0f;
        asm volatile("st.shared.f32 [%0], %1;" ::"r"(to + i * 4), "f"(value) : "memory");
    }
}

// Lays the values of one piece into a store buffer, swizzled as the copy engine expects.
__device__ __forceinline__ void stage_piece(const float (&values)[PIECE_SUMS], unsigned buffer,
                                            int warp, int lane) {
#if MATMUL_OUTPUT == ELEMENT_F32
#pragma unroll
    for (int i = 0; i < PIECE_SUMS; i += 2) {
        int row = warp * 16 + lane / 4 + (i & 2) * 4;
        int chunk = i / 4 * 2 + (lane & 3) / 2;
        unsigned to = buffer + row * ROW_BYTES + ((chunk ^ (row & 7)) << 4) + (lane & 1) * 8;
        asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(values[i]), "f"(values[i + 1])
                     : "memory");
    }
#else
    int row = warp * 16 + (lane & 15);
#pragma unroll
    for (int i = 0; i < PIECE_SUMS; i += 8) {
        int chunk = i / 4 + lane / 16;
        unsigned to = buffer + row * ROW_BYTES + ((chunk ^ (row & 7)) << 4);
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                     "r"(Output::pair(values[i], values[i + 1])),
                     "r"(Output::pair(values[i + 2], values[i + 3])),
                     "r"(Output::pair(values[i + 4], values[i + 5])),
                     "r"(Output::pair(values[i + 6], values[i + 7]))
                     : "memory");
    }
#endif
}

// Stores a staged piece element by element, up to the last row and column of C.
__device__ __forceinline__ void store_ragged(const Finish &finish, unsigned buffer, int row, int column,
                                             Output::Bits *c) {
#pragma unroll 1
    for (int i = threadIdx.x & 127; i < 64 * PIECE_COLUMNS; i += 128) {
        int in_row = i / PIECE_COLUMNS, in_column = i % PIECE_COLUMNS;
        if (row + in_row >= finish.m || column + in_column >= finish.n) continue;
        unsigned in_bytes = in_column * sizeof(Output::Bits);
        unsigned from = buffer + in_row * ROW_BYTES + (in_bytes ^ (in_row & 7) << 4);
        Output::Bits bits;
#if MATMUL_OUTPUT == ELEMENT_F32
        asm volatile("ld.shared.f32 %0, [%1];" : "=f"(bits) : "r"(from) : "memory");
#else
        asm volatile("ld.shared.u16 %0, [%1];" : "=h"(bits) : "r"(from) : "memory");
#endif
        c[(row + in_row) * finish.ldc + column + in_column] = bits;
    }
}

__device__ __forceinline__ void store_tile(const Finish &finish, const float (&sums)[TILE_N / 2],
                                           const TensorMap *map_c, unsigned buffers, unsigned bias,
                                           const Place &place, int consumer, Output::Bits *c) {
    int lane = threadIdx.x & 31;
    int warp = (threadIdx.x >> 5) & 3;
    int first_row = place.row + consumer * 64;
    const bool whole_units = finish.n % (16 / static_cast<int>(sizeof(Output::Bits))) == 0;
    // The bias was laid out by all threads of the warpgroup.
    warpgroup_sync(consumer);
#pragma unroll
    for (int piece = 0; piece < PIECES; ++piece) {
        float values[PIECE_SUMS];
        int in_tile = piece * PIECE_COLUMNS + (lane & 3) * 2;
        finish_piece(finish, sums + piece * PIECE_SUMS, values, first_row + warp * 16 + lane / 4,
                     place.column + in_tile, bias + in_tile * 4, c);
        unsigned buffer = buffers + piece % STORE_SLOTS * STORE_BYTES;
        // The copy engine must have read what the buffer held before.
        if (warp == 0 && lane == 0) {
            asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(STORE_SLOTS - 1) : "memory");
        }
        warpgroup_sync(consumer);
        stage_piece(values, buffer, warp, lane);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        warpgroup_sync(consumer);
        int column = place.column + piece * PIECE_COLUMNS;
        // The copy engine writes whole units of 16 bytes: where a row ends within one, it would write
        // over what follows the row.
        if (whole_units || column + PIECE_COLUMNS <= finish.n) {
            if (warp == 0 && lane == 0) copy_out(map_c, buffer, column, first_row, place.batch);
        } else {
            store_ragged(finish, buffer, first_row, column, c);
        }
        // Every piece closes a group, also an empty one: the wait above counts buffers by groups.
        if (warp == 0 && lane == 0) copy_out_commit();
    }
}

extern "C" __global__ void __launch_bounds__(384, 1)
    matmul_wgmma(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
                 const __grid_constant__ TensorMap map_c, Output::Bits *c, const Output::Bits *bias,
                 int m, int n, int k, int batches, int batch_step_a, int batch_step_b, long long ldc,
                 long long batch_stride_c, float alpha, float beta, int activation, int group) {
    // Swizzled slabs start at multiples of 1024 bytes.
    extern __shared__ __align__(1024) unsigned char shared_bytes[];
    Ring ring;
    ring.a = static_cast<unsigned>(__cvta_generic_to_shared(shared_bytes));
    ring.b = ring.a + STAGES * A_BYTES;
    unsigned buffers = ring.b + STAGES * B_BYTES;
    unsigned biases = buffers + CONSUMERS * STORE_SLOTS * STORE_BYTES;
    ring.full = biases + CONSUMERS * TILE_N * 4;
    ring.empty = ring.full + STAGES * 8;

    if (threadIdx.x == 0) {
        prefetch_map(&map_a);
        prefetch_map(&map_b);
        prefetch_map(&map_c);
        for (int i = 0; i < STAGES; ++i) {
            barrier_init(ring.full + i * 8, 1);
            barrier_init(ring.empty + i * 8, CONSUMERS * 4);
        }
        // The copy engine must see the barriers as they are now.
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();

    Tiles tiles;
    tiles.tiles_m = (m + TILE_M - 1) / TILE_M;
    tiles.tiles_n = (n + TILE_N - 1) / TILE_N;
    tiles.group = group;
    tiles.count = tiles.tiles_m * tiles.tiles_n * batches;
    const int blocks_k = (k + TILE_K - 1) / TILE_K;

    if (threadIdx.x < 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) {
            // Slots start out empty: the first wait on each must pass at once.
            Slot slot = {0, 1};
            for (unsigned tile = blockIdx.x; tile < tiles.count; tile += gridDim.x) {
                Place place = place_of(tiles, tile);
                for (int block = 0; block < blocks_k; ++block) {
                    barrier_wait(ring.empty + slot.index * 8, slot.parity);
                    fill_slot(ring, slot, &map_a, &map_b, place, block * TILE_K,
                              place.batch * batch_step_a, place.batch * batch_step_b);
                    slot.next();
                }
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int consumer = threadIdx.x / 128 - 1;
        Finish finish = {bias, ldc, m, n, alpha, beta, activation};
        const unsigned own_buffers = buffers + consumer * STORE_SLOTS * STORE_BYTES;
        const unsigned own_bias = biases + consumer * TILE_N * 4;
        Slot slot = {0, 0};
        for (unsigned tile = blockIdx.x; tile < tiles.count; tile += gridDim.x) {
            Place place = place_of(tiles, tile);
            stage_bias(finish, own_bias, place.column);
            float sums[TILE_N / 2];
#pragma unroll
            for (int i = 0; i < TILE_N / 2; ++i) sums[i] = 0.0f;
            int previous = 0;
            for (int block = 0; block < blocks_k; ++block) {
                barrier_wait(ring.full + slot.index * 8, slot.parity);
                wgmma_fence();
                multiply_slot(sums, ring, slot.index, consumer);
                wgmma_commit();
                // One product stays under way; the slot of the one before it is free.
                wgmma_wait<1>();
                if (block > 0) release_slot(ring, previous);
                previous = slot.index;
                slot.next();
            }
            wgmma_wait<0>();
            // The sums may be read only from here on, and the compiler does not know.
#pragma unroll
            for (int i = 0; i < TILE_N / 2; ++i) asm volatile("" : "+f"(sums[i])::"memory");
            if (blocks_k > 0) release_slot(ring, previous);
            store_tile(finish, sums, &map_c, own_buffers, own_bias, place, consumer,
                       c + place.batch * batch_stride_c);
        }
        // Shared memory must outlive the copy engine's reading.
        if ((threadIdx.x & 127) == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}

// Product of bf16 or f16 matrices by warp-wide mma (sm_80 and newer, the software GPU), sums in f32.
//
//     C[b] = activation(alpha * op(A[b]) * op(B[b]) + beta * C[b] + bias[column]), row-major
//
// This kernel takes every shape, every leading dimension and every alignment, because the one for
// newer tensor cores does not. Tiles of A and B lie in shared memory in the order they have in global
// memory, so that whole pieces of 16 bytes can be copied without waiting for them; the turn that a
// stored transpose needs is made by ldmatrix when a fragment is loaded. Pieces are permuted within
// their rows so that neither the copies nor the fragments meet in one bank. Where an operand's rows do
// not start at multiples of 16 bytes its pieces are gathered by twos or singly instead; that is found
// out here, not by the caller. Fragments are loaded one step of k ahead of the products that use them,
// over the ends of tiles too, because two warps on a scheduler do not hide that way.
//
// Compiled with -arch=compute_80 or newer and these -D (all integers):
//   MATMUL_INPUT   1 f16, 2 bf16: elements of A and B
//   MATMUL_OUTPUT  0 f32, or the same as MATMUL_INPUT: elements of C and bias
//   TRANSPOSE_A    0: A is stored m x k; 1: stored k x m
//   TRANSPOSE_B    0: B is stored k x n; 1: stored n x k
//   TILE           128 or 64: rows and columns of a block's tile
//
// Launch: block 128; grid.x = ceil(m / TILE) * ceil(n / TILE),
// grid.y = min(batches, 65535). Shared memory is static: 49152 bytes (TILE 128), 24576 (TILE 64).
//
// Leading dimensions and batch strides count elements; a stride of 0 shares a matrix among batches.
// k may be 0; bias may be null; C must not overlap A or B.
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
#ifndef TILE
#define TILE 128
#endif

#if MATMUL_INPUT == ELEMENT_F16
#define INPUT_PTX "f16"
#else
#define INPUT_PTX "bf16"
#endif

typedef unsigned short Input;
typedef Element<MATMUL_OUTPUT> Output;

const int TILE_K = 32;
const int STAGES = 3;
const int WARPS_M = 2;
const int WARPS_N = 2;
const int THREADS = WARPS_M * WARPS_N * 32;
const int WARP_M = TILE / WARPS_M;
const int WARP_N = TILE / WARPS_N;
const int STEPS_M = WARP_M / 16;
const int STEPS_N = WARP_N / 8;
const int OPERAND_BYTES = TILE * TILE_K * 2;
// Rows of tiles that neighbouring blocks go down before they turn to the next column.
const int GROUP = 8;

// A tile of one operand in shared memory: lines of the order in global memory, in pieces of 8
// elements. ALONG_K says that lines run along k (they are then the tile's rows or columns).
template <bool ALONG_K> struct Layout {
    static const int LINES = ALONG_K ? TILE : TILE_K;
    static const int PIECES = ALONG_K ? TILE_K / 8 : TILE / 8;
    static __device__ __forceinline__ unsigned offset(int line, int piece) {
        // Eight lines read together at the same piece must fall into eight different groups of banks.
        int permuted = ALONG_K ? piece ^ ((line >> 1) & 3) : piece ^ (line & 7);
        return line * (PIECES * 16) + permuted * 16;
    }
};

// One operand as a thread copies it: the same piece of every LINES_APART-th line, tile after tile along
// k. Only `next` moves, so the inner loop computes few addresses.
template <bool ALONG_K> struct Operand {
    typedef Layout<ALONG_K> Shape;
    static const int LINES_APART = THREADS / Shape::PIECES;
    static const int COPIES = Shape::LINES / LINES_APART;
    const Input *next;
    long long leading;
    // Rows of A or columns of B from this thread's first one on, and what is left of k.
    int left_across;
    int left_k;
    // Bytes of the largest copy that every line's start allows: 16, 4 or 2.
    int unit;
    // Whether the tile lies within the operand in the direction across k.
    bool inside;

    // `corner` is the tile's first row of A or column of B, `width` their count.
    __device__ __forceinline__ Operand(const Input *start, long long leading, int corner, int width,
                                       int k)
        : leading(leading), left_k(k), inside(corner + TILE <= width) {
        const int line = first_line() + (ALONG_K ? corner : 0);
        const int element = piece() * 8 + (ALONG_K ? 0 : corner);
        next = start + line * leading + element;
        left_across = width - (ALONG_K ? line : element);
        const unsigned long long odd = reinterpret_cast<unsigned long long>(start) | (leading * 2);
        unit = odd % 16 == 0 ? 16 : odd % 4 == 0 ? 4 : 2;
    }

    static __device__ __forceinline__ int piece() { return threadIdx.x % Shape::PIECES; }
    static __device__ __forceinline__ int first_line() { return threadIdx.x / Shape::PIECES; }
    static __device__ __forceinline__ unsigned first_slot() {
        return Shape::offset(first_line(), piece());
    }

    // Copies the first `valid` elements of a piece and fills the rest with zeros.
    __device__ __forceinline__ void gather(unsigned slot, const Input *from, int valid) {
        if (unit == 16) {
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(slot), "l"(from),
                         "r"(valid * 2)
                         : "memory");
        } else if (unit == 4) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(slot + j * 4),
                             "l"(from + j * 2), "r"(min(max(valid - j * 2, 0), 2) * 2)
                             : "memory");
            }
        } else {
            unsigned words[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                unsigned low = 2 * j < valid ? from[2 * j] : 0;
                unsigned high = 2 * j + 1 < valid ? from[2 * j + 1] : 0;
                words[j] = low | high << 16;
            }
            asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(slot), "r"(words[0]),
                         "r"(words[1]), "r"(words[2]), "r"(words[3])
                         : "memory");
        }
    }

    // Starts the copy of the next tile. `to` is the place of this thread's first piece.
    __device__ __forceinline__ void load(unsigned to) {
        // Lines a whole number of LINES_APART from the first are permuted as it is.
        const unsigned slots_apart = LINES_APART * Shape::PIECES * 16;
        if (inside && left_k >= TILE_K && unit == 16) {
            const Input *from = next;
#pragma unroll
            for (int i = 0; i < COPIES; ++i) {
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + i * slots_apart),
                             "l"(from)
                             : "memory");
                from += LINES_APART * leading;
            }
        } else {
            // Not unrolled: registers are for the usual way.
#pragma unroll 1
            for (int i = 0; i < COPIES; ++i) {
                int lines = ALONG_K ? left_across : left_k - first_line();
                int elements = ALONG_K ? left_k - piece() * 8 : left_across;
                int valid = i * LINES_APART < lines ? min(max(elements, 0), 8) : 0;
                gather(to + i * slots_apart, next + i * LINES_APART * leading, valid);
            }
        }
        next += ALONG_K ? TILE_K : TILE_K * leading;
        left_k -= TILE_K;
    }
};

__device__ __forceinline__ void load_fragment(unsigned (&words)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address)
                 : "memory");
}

__device__ __forceinline__ void load_fragment_turned(unsigned (&words)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address)
                 : "memory");
}

// Where in a tile this lane reads: for A the four words of a fragment are rows 0-7, rows 8-15, then the
// same 8 further in k; for B the halves in k of columns 0-7, then those of columns 8-15. From there, 16
// rows or columns on and 16 steps of k on are one addition and one exclusive-or of a constant, because
// the permutation of pieces works on the bits that the other leaves alone.
__device__ __forceinline__ unsigned lane_offset_a(int row, int lane) {
    int within = lane & 7, second = lane >> 3 & 1, fourth = lane >> 4;
    return TRANSPOSE_A ? Layout<false>::offset(within + fourth * 8, row / 8 + second)
                       : Layout<true>::offset(row + within + second * 8, fourth);
}

__device__ __forceinline__ unsigned lane_offset_b(int column, int lane) {
    int within = lane & 7, second = lane >> 3 & 1, fourth = lane >> 4;
    return TRANSPOSE_B ? Layout<true>::offset(column + within + fourth * 8, second)
                       : Layout<false>::offset(within + second * 8, column / 8 + fourth);
}

// Loads the fragment `across` times 16 rows or columns and `step` times 16 steps of k from `offset` on.
template <bool ALONG_K>
__device__ __forceinline__ void load_at(unsigned (&words)[4], unsigned tile, unsigned offset,
                                        int across, int step) {
    if (ALONG_K) {
        load_fragment(words, tile + (offset ^ step * 32) + across * 16 * (TILE_K * 2));
    } else {
        load_fragment_turned(words, tile + (offset ^ across * 32) + step * 16 * (TILE * 2));
    }
}

__device__ __forceinline__ void multiply(float (&sums)[4], const unsigned (&a)[4], unsigned b_low,
                                         unsigned b_high) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32." INPUT_PTX "." INPUT_PTX
        ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_low), "r"(b_high));
}

// What a warp multiplies in 16 steps of k.
struct Fragments {
    unsigned a[STEPS_M][4];
    unsigned b[STEPS_N / 2][4];

    __device__ __forceinline__ void load(unsigned tile, int step, unsigned offset_a,
                                         unsigned offset_b) {
#pragma unroll
        for (int j = 0; j < STEPS_N / 2; ++j) {
            load_at<TRANSPOSE_B>(b[j], tile + OPERAND_BYTES, offset_b, j, step);
        }
#pragma unroll
        for (int i = 0; i < STEPS_M; ++i) load_at<!TRANSPOSE_A>(a[i], tile, offset_a, i, step);
    }

    __device__ __forceinline__ void multiply_into(float (&sums)[STEPS_M][STEPS_N][4]) const {
#pragma unroll
        for (int i = 0; i < STEPS_M; ++i) {
#pragma unroll
            for (int j = 0; j < STEPS_N; ++j) {
                multiply(sums[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
            }
        }
    }
};

// A value that the compiler must keep: it would compute it anew in every step of the inner loop.
__device__ __forceinline__ unsigned kept(unsigned value) {
    asm volatile("" : "+r"(value));
    return value;
}

struct Finish {
    Output::Bits *c;
    const Output::Bits *bias;
    long long ldc;
    int m;
    int n;
    float alpha;
    float beta;
    int activation;
    // Whether two neighbouring elements at an even column may be stored at once.
    bool pairs;
};

// Stores the four sums a thread has of a 16 x 8 piece: two neighbours in `row`, two in `row + 8`.
__device__ __forceinline__ void store_sums(const Finish &finish, const float (&sums)[4], int row,
                                           int column) {
    float values[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        int at_row = row + (i & 2) * 4;
        int at_column = column + (i & 1);
        values[i] = finish.alpha * sums[i];
        if (at_row < finish.m && at_column < finish.n) {
            if (finish.beta != 0.0f) {
                values[i] += finish.beta * Output::value(finish.c[at_row * finish.ldc + at_column]);
            }
            if (finish.bias != nullptr) values[i] += Output::value(finish.bias[at_column]);
        }
    }
    activate(values, finish.activation);
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        int at_row = row + i * 4;
        if (at_row >= finish.m || column >= finish.n) continue;
        Output::Bits *to = finish.c + at_row * finish.ldc + column;
        if (finish.pairs && column + 1 < finish.n) {
#if MATMUL_OUTPUT == ELEMENT_F32
            *reinterpret_cast<float2 *>(to) = make_float2(values[i], values[i + 1]);
#else
            *reinterpret_cast<unsigned *>(to) = Output::pair(values[i], values[i + 1]);
#endif
        } else {
            to[0] = Output::rounded(values[i]);
            if (column + 1 < finish.n) to[1] = Output::rounded(values[i + 1]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, TILE == 128 ? 2 : 4)
    matmul_mma(const Input *a, const Input *b, Output::Bits *c, const Output::Bits *bias, int m, int n,
               int k, int batches, long long lda, long long ldb, long long ldc,
               long long batch_stride_a, long long batch_stride_b, long long batch_stride_c,
               float alpha, float beta, int activation) {
    __shared__ alignas(128) unsigned char tiles[STAGES * 2 * OPERAND_BYTES];
    const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(tiles));
    const unsigned last = base + (STAGES - 1) * (2 * OPERAND_BYTES);
    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const int warp_row = warp / WARPS_N * WARP_M;
    const int warp_column = warp % WARPS_N * WARP_N;
    const int blocks_k = (k + TILE_K - 1) / TILE_K;
    const unsigned offset_a = kept(lane_offset_a(warp_row, lane));
    const unsigned offset_b = kept(lane_offset_b(warp_column, lane));
    const unsigned slot_a = kept(Operand<!TRANSPOSE_A>::first_slot());
    const unsigned slot_b = kept(OPERAND_BYTES + Operand<TRANSPOSE_B>::first_slot());

    const unsigned tiles_m = (m + TILE - 1) / TILE;
    const unsigned tiles_n = (n + TILE - 1) / TILE;
    const unsigned first = blockIdx.x / (GROUP * tiles_n) * GROUP;
    const unsigned rows = min(static_cast<unsigned>(GROUP), tiles_m - first);
    const unsigned in_group = blockIdx.x % (GROUP * tiles_n);
    const int row = (first + in_group % rows) * TILE;
    const int column = in_group / rows * TILE;

    for (int batch = blockIdx.y; batch < batches; batch += gridDim.y) {
        Operand<!TRANSPOSE_A> operand_a(a + batch * batch_stride_a, lda, row, m, k);
        Operand<TRANSPOSE_B> operand_b(b + batch * batch_stride_b, ldb, column, n, k);
        unsigned fill = base;
        auto load_next = [&]() {
            operand_a.load(fill + slot_a);
            operand_b.load(fill + slot_b);
            fill = fill == last ? base : fill + 2 * OPERAND_BYTES;
        };

        float sums[STEPS_M][STEPS_N][4] = {};
#pragma unroll
        for (int block = 0; block < STAGES - 1; ++block) {
            if (block < blocks_k) load_next();
            asm volatile("cp.async.commit_group;" ::: "memory");
        }
        // Groups are closed also when empty, so that the count of those under way stays known.
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
        unsigned tile = base;
        Fragments fragments[2];
        if (blocks_k > 0) fragments[0].load(tile, 0, offset_a, offset_b);
        for (int block = 0; block < blocks_k; ++block) {
            fragments[1].load(tile, 1, offset_a, offset_b);
            // The slot to be filled is the previous block's: all have passed the barrier behind it.
            if (block + STAGES - 1 < blocks_k) load_next();
            asm volatile("cp.async.commit_group;" ::: "memory");
            fragments[0].multiply_into(sums);

            asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
            __syncthreads();
            tile = tile == last ? base : tile + 2 * OPERAND_BYTES;
            if (block + 1 < blocks_k) fragments[0].load(tile, 0, offset_a, offset_b);
            fragments[1].multiply_into(sums);
        }
        // The next batch fills the same slots.
        __syncthreads();

        Output::Bits *out = c + batch * batch_stride_c;
        const unsigned long long odd = reinterpret_cast<unsigned long long>(out) | ldc * sizeof(*out);
        Finish finish = {out, bias, ldc, m, n, alpha, beta, activation, odd % (2 * sizeof(*out)) == 0};
#pragma unroll
        for (int i = 0; i < STEPS_M; ++i) {
#pragma unroll
            for (int j = 0; j < STEPS_N; ++j) {
                store_sums(finish, sums[i][j], row + warp_row + i * 16 + lane / 4,
                           column + warp_column + j * 8 + (lane & 3) * 2);
            }
        }
    }
}

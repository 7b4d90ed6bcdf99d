// Kernels that move words: the pattern of the accesses decides their time.

__device__ unsigned global_index() { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ unsigned grid_threads() { return gridDim.x * blockDim.x; }

extern "C" __global__ void copy_1(const unsigned *__restrict__ in, unsigned *out, unsigned n) {
    unsigned i = global_index();
    if (i < n) out[i] = in[i];
}

extern "C" __global__ void copy_2(const unsigned *__restrict__ in, unsigned *out, unsigned n) {
    unsigned i = 2 * global_index();
    if (i + 1 < n) {
        *(uint2 *)(out + i) = *(const uint2 *)(in + i);
    } else if (i < n) {
        out[i] = in[i];
    }
}

extern "C" __global__ void copy_4(const unsigned *__restrict__ in, unsigned *out, unsigned n) {
    unsigned i = 4 * global_index();
    if (i + 3 < n) {
        *(uint4 *)(out + i) = *(const uint4 *)(in + i);
    } else {
        for (; i < n; ++i) out[i] = in[i];
    }
}

// Neighbouring threads read words `stride` apart; what does not divide is copied straight.
extern "C" __global__ void copy_strided(const unsigned *__restrict__ in, unsigned *out, unsigned n,
                                        unsigned stride) {
    unsigned i = global_index();
    if (i >= n) return;
    unsigned rows = n / stride;
    unsigned from = i < rows * stride ? i % rows * stride + i / rows : i;
    out[i] = in[from];
}

extern "C" __global__ void copy_grid_stride(const unsigned *__restrict__ in, unsigned *out, unsigned n) {
    for (unsigned i = global_index(); i < n; i += grid_threads()) out[i] = in[i];
}

extern "C" __global__ void scale(const float *__restrict__ in, float *out, unsigned n, float factor) {
    unsigned i = global_index();
    if (i < n) out[i] = in[i] * factor;
}

extern "C" __global__ void triad(const float *__restrict__ a, const float *__restrict__ b, float *out,
                                 unsigned n, float factor) {
    unsigned i = global_index();
    if (i < n) out[i] = fmaf(factor, b[i], a[i]);
}

extern "C" __global__ void triad_grid_stride(const float *__restrict__ a, const float *__restrict__ b,
                                             float *out, unsigned n, float factor) {
    for (unsigned i = global_index(); i < n; i += grid_threads()) out[i] = fmaf(factor, b[i], a[i]);
}

extern "C" __global__ void gather(const unsigned *__restrict__ table, const unsigned *__restrict__ index,
                                  unsigned *out, unsigned n) {
    unsigned i = global_index();
    if (i < n) out[i] = table[index[i]];
}

extern "C" __global__ void scatter(const unsigned *__restrict__ in, const unsigned *__restrict__ index,
                                   unsigned *out, unsigned n) {
    unsigned i = global_index();
    if (i < n) out[index[i]] = in[i];
}

extern "C" __global__ void transpose_naive(const unsigned *__restrict__ in, unsigned *out, unsigned rows,
                                           unsigned columns) {
    unsigned column = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < columns) out[column * rows + row] = in[row * columns + column];
}

// A tile of 32 by 32 through shared memory. Without padding a column of it lies in one bank.
template <unsigned PITCH>
__device__ void transpose_by_tile(const unsigned *__restrict__ in, unsigned *out, unsigned rows,
                                  unsigned columns) {
    __shared__ unsigned tile[32 * PITCH];
    unsigned column = blockIdx.x * 32 + threadIdx.x;
    for (unsigned y = threadIdx.y; y < 32; y += blockDim.y) {
        unsigned row = blockIdx.y * 32 + y;
        if (row < rows && column < columns) tile[y * PITCH + threadIdx.x] = in[row * columns + column];
    }
    __syncthreads();
    unsigned row = blockIdx.y * 32 + threadIdx.x;
    for (unsigned y = threadIdx.y; y < 32; y += blockDim.y) {
        unsigned target = blockIdx.x * 32 + y;
        if (row < rows && target < columns) out[target * rows + row] = tile[threadIdx.x * PITCH + y];
    }
}

extern "C" __global__ void transpose_tiled(const unsigned *__restrict__ in, unsigned *out, unsigned rows,
                                           unsigned columns) {
    transpose_by_tile<32>(in, out, rows, columns);
}

extern "C" __global__ void transpose_padded(const unsigned *__restrict__ in, unsigned *out, unsigned rows,
                                            unsigned columns) {
    transpose_by_tile<33>(in, out, rows, columns);
}

#define ENTRY(i) ((i) * 2654435761u >> 8)
#define ENTRIES_4(i) ENTRY(i), ENTRY((i) + 1u), ENTRY((i) + 2u), ENTRY((i) + 3u)
#define ENTRIES_16(i) ENTRIES_4(i), ENTRIES_4((i) + 4u), ENTRIES_4((i) + 8u), ENTRIES_4((i) + 12u)
#define ENTRIES_64(i) ENTRIES_16(i), ENTRIES_16((i) + 16u), ENTRIES_16((i) + 32u), ENTRIES_16((i) + 48u)
__constant__ unsigned constants[256] = {ENTRIES_64(0u), ENTRIES_64(64u), ENTRIES_64(128u),
                                        ENTRIES_64(192u)};

// With spread 0 a warp reads one address, which is what constant memory is made for.
extern "C" __global__ void constant_reads(unsigned *out, unsigned n, unsigned reads, unsigned spread) {
    unsigned i = global_index();
    if (i >= n) return;
    unsigned sum = 0, at = threadIdx.x % 32 * spread;
    for (unsigned read = 0; read < reads; ++read) sum = sum * 3 + constants[(at + read) & 255];
    out[i] = sum >> 1;
}

// Each thread walks its own arc of the ring: nothing but the latency of a dependent load. Where the arc
// begins is computed as the filling kernel orders the ring.
extern "C" __global__ void pointer_chase(const unsigned *__restrict__ next, unsigned *out, unsigned bits,
                                         unsigned threads, unsigned steps) {
    unsigned i = global_index();
    if (i >= threads) return;
    unsigned mask = (1u << bits) - 1, half = (bits + 1) / 2;
    unsigned at = i * steps * 0x9e3779b1u & mask;
    at ^= at >> half;
    at = at * 0x85ebca6bu & mask;
    at ^= at >> half;
    for (unsigned step = 0; step < steps; ++step) at = next[at];
    out[i] = at;
}

// Counts where two letters follow each other, beginning in the thread's own chunk. Each thread walks its
// chunk byte by byte, so a warp's reads lie a chunk apart.
extern "C" __global__ void byte_search(const unsigned char *__restrict__ text, unsigned *out, unsigned bytes,
                                       unsigned chunk, unsigned chunks, unsigned pattern) {
    unsigned i = global_index();
    if (i >= chunks) return;
    unsigned begin = i * chunk, end = min(begin + chunk, bytes), found = 0;
    unsigned char first = pattern, second = pattern >> 8;
    for (unsigned at = begin; at < end; ++at) {
        if (text[at] == first && at + 1 < bytes && text[at + 1] == second) ++found;
    }
    out[i] = found;
}

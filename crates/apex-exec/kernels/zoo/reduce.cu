// Kernels whose threads work on one result together: sums, scans, counts, contended words.

__device__ unsigned global_index() { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ unsigned grid_threads() { return gridDim.x * blockDim.x; }

// The last warp of a block may be short: only its own lanes take part in an exchange.
__device__ unsigned lanes_here() { return min(32u, blockDim.x - threadIdx.x / 32 * 32); }
__device__ unsigned mask_of(unsigned lanes) { return lanes == 32 ? 0xffffffffu : (1u << lanes) - 1; }

__device__ float thread_sum(const float *__restrict__ in, unsigned n) {
    float sum = 0.0f;
    for (unsigned i = global_index(); i < n; i += grid_threads()) sum += in[i];
    return sum;
}

extern "C" __global__ void reduce_tree(const float *__restrict__ in, float *out, unsigned n) {
    extern __shared__ float sums[];
    sums[threadIdx.x] = thread_sum(in, n);
    __syncthreads();
    for (unsigned count = blockDim.x; count > 1;) {
        unsigned kept = (count + 1) / 2;
        if (threadIdx.x < count - kept) sums[threadIdx.x] += sums[threadIdx.x + kept];
        __syncthreads();
        count = kept;
    }
    if (threadIdx.x == 0) out[blockIdx.x] = sums[0];
}

__device__ float warp_sum(float value, unsigned lanes) {
    unsigned mask = mask_of(lanes), lane = threadIdx.x % 32;
    for (unsigned offset = 16; offset > 0; offset /= 2) {
        float other = __shfl_down_sync(mask, value, offset);
        if (lane + offset < lanes) value += other;
    }
    return value;
}

extern "C" __global__ void reduce_shuffle(const float *__restrict__ in, float *out, unsigned n) {
    __shared__ float sums[32];
    float sum = warp_sum(thread_sum(in, n), lanes_here());
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    unsigned warps = (blockDim.x + 31) / 32;
    if (threadIdx.x < warps) {
        sum = warp_sum(sums[threadIdx.x], warps);
        if (threadIdx.x == 0) out[blockIdx.x] = sum;
    }
}

extern "C" __global__ void reduce_atomic(const float *__restrict__ in, float *out, unsigned n) {
    float sum = thread_sum(in, n);
    atomicAdd(out, sum);
}

// Each block scans its own part; log2(threads) rounds over two buffers.
extern "C" __global__ void scan_shared(const unsigned *__restrict__ in, unsigned *out, unsigned n) {
    extern __shared__ unsigned parts[];
    unsigned i = global_index();
    unsigned *from = parts, *to = parts + blockDim.x;
    from[threadIdx.x] = i < n ? in[i] : 0;
    __syncthreads();
    for (unsigned offset = 1; offset < blockDim.x; offset *= 2) {
        unsigned value = from[threadIdx.x];
        if (threadIdx.x >= offset) value += from[threadIdx.x - offset];
        to[threadIdx.x] = value;
        __syncthreads();
        unsigned *last = from;
        from = to;
        to = last;
    }
    if (i < n) out[i] = from[threadIdx.x];
}

__device__ unsigned warp_scan(unsigned value, unsigned lanes) {
    unsigned mask = mask_of(lanes), lane = threadIdx.x % 32;
    for (unsigned offset = 1; offset < 32; offset *= 2) {
        unsigned other = __shfl_up_sync(mask, value, offset);
        if (lane >= offset) value += other;
    }
    return value;
}

// What the threads before this one hold together, and what the whole block holds.
__device__ unsigned block_scan(unsigned value, unsigned *whole) {
    __shared__ unsigned warps_before[33];
    unsigned warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32, lanes = lanes_here();
    unsigned inclusive = warp_scan(value, lanes);
    if (threadIdx.x % 32 == lanes - 1) warps_before[warp + 1] = inclusive;
    if (threadIdx.x == 0) warps_before[0] = 0;
    __syncthreads();
    if (threadIdx.x < warps) {
        unsigned sum = warp_scan(warps_before[threadIdx.x + 1], warps);
        warps_before[threadIdx.x + 1] = sum;
    }
    __syncthreads();
    *whole = warps_before[warps];
    return warps_before[warp] + inclusive;
}

extern "C" __global__ void scan_shuffle(const unsigned *__restrict__ in, unsigned *out, unsigned n) {
    unsigned i = global_index(), whole;
    unsigned value = block_scan(i < n ? in[i] : 0, &whole);
    if (i < n) out[i] = value;
}

// Each block moves what passes to the front of its own part, in order, and says how many.
extern "C" __global__ void compaction(const unsigned *__restrict__ in, unsigned *out, unsigned *counts,
                                      unsigned n, unsigned limit) {
    unsigned i = global_index(), whole;
    unsigned value = i < n ? in[i] : 0xffffffffu;
    bool passes = value < limit;
    unsigned place = block_scan(passes, &whole);
    if (passes) out[blockIdx.x * blockDim.x + place - 1] = value;
    if (threadIdx.x == 0) counts[blockIdx.x] = whole;
}

extern "C" __global__ void histogram_shared(const unsigned *__restrict__ in, unsigned *out, unsigned n,
                                            unsigned bins) {
    extern __shared__ unsigned counts[];
    for (unsigned bin = threadIdx.x; bin < bins; bin += blockDim.x) counts[bin] = 0;
    __syncthreads();
    for (unsigned i = global_index(); i < n; i += grid_threads()) atomicAdd(counts + in[i], 1u);
    __syncthreads();
    for (unsigned bin = threadIdx.x; bin < bins; bin += blockDim.x) {
        if (counts[bin]) atomicAdd(out + bin, counts[bin]);
    }
}

extern "C" __global__ void histogram_global(const unsigned *__restrict__ in, unsigned *out, unsigned n) {
    for (unsigned i = global_index(); i < n; i += grid_threads()) atomicAdd(out + in[i], 1u);
}

// The added value differs by thread, so that a warp's additions are not one addition of a count.
extern "C" __global__ void atomics_same(unsigned *out, unsigned threads, unsigned repeats) {
    unsigned i = global_index();
    if (i >= threads) return;
    for (unsigned repeat = 0; repeat < repeats; ++repeat) atomicAdd(out, (i + repeat) & 7);
}

extern "C" __global__ void atomics_spread(unsigned *out, unsigned threads, unsigned repeats, unsigned slots) {
    unsigned i = global_index();
    if (i >= threads) return;
    for (unsigned repeat = 0; repeat < repeats; ++repeat) atomicAdd(out + (i + repeat * 37) % slots, (i + repeat) & 7);
}

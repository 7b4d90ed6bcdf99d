// Kernels whose lanes disagree: on a branch, on the length of a loop, on a bank of shared memory.
// And what the size of a launch alone decides: residency, and the cost of a launch that does nothing.

__device__ unsigned global_index() { return blockIdx.x * blockDim.x + threadIdx.x; }

// So many lanes of 32 take the long way; the others wait for them.
extern "C" __global__ void divergence_lanes(float *out, unsigned n, unsigned lanes, unsigned rounds,
                                            float factor) {
    unsigned i = global_index();
    if (i >= n) return;
    float value = (float)(i & 1023) * 0.0009765625f;
    if ((i & 31) < lanes) {
        for (unsigned round = 0; round < rounds; ++round) value = fmaf(value, factor, 0.125f);
    } else {
        value *= factor;
    }
    out[i] = value;
}

extern "C" __global__ void divergence_loop(float *out, unsigned n, unsigned least, unsigned slope,
                                           float factor) {
    unsigned i = global_index();
    if (i >= n) return;
    float value = (float)(i & 1023) * 0.0009765625f;
    unsigned rounds = least + (i & 31) * slope;
    for (unsigned round = 0; round < rounds; ++round) value = fmaf(value, factor, 0.125f);
    out[i] = value;
}

// Neighbouring lanes read words `stride` apart: of 32 banks they touch 32 / gcd(32, stride).
extern "C" __global__ void bank_stride(unsigned *out, unsigned n, unsigned stride, unsigned rounds) {
    __shared__ unsigned words[4096];
    for (unsigned at = threadIdx.x; at < 4096; at += blockDim.x) words[at] = at * 2654435761u >> 8;
    __syncthreads();
    unsigned i = global_index();
    if (i >= n) return;
    unsigned at = threadIdx.x * stride, sum = 0;
    for (unsigned round = 0; round < rounds; ++round) {
        sum = sum * 3 + words[at & 4095];
        at += 33;
    }
    out[i] = sum >> 1;
}

// A load that the next one depends on, then a chain: only other warps can hide it, and the shared memory
// that the launch asks for decides how many there are.
extern "C" __global__ void occupancy_limited(const unsigned *__restrict__ index, const float *__restrict__ in,
                                             float *out, unsigned n, unsigned length, float factor) {
    unsigned threads = gridDim.x * blockDim.x;
    for (unsigned i = global_index(); i < n; i += threads) {
        float value = in[index[i]];
        for (unsigned step = 0; step < length; ++step) value = fmaf(value, factor, 0.125f);
        out[i] = value;
    }
}

extern "C" __global__ void tiny(unsigned *out, unsigned n, unsigned factor) {
    unsigned i = global_index();
    if (i < n) out[i] = i * factor;
}

// One step of a bitonic sort: pairs `distance` apart, ascending in even runs and descending in odd ones.
extern "C" __global__ void bitonic_step(const unsigned *__restrict__ in, unsigned *out, unsigned n,
                                        unsigned distance, unsigned run) {
    unsigned i = global_index();
    if (i >= n) return;
    unsigned own = in[i], other = in[i ^ distance];
    bool lower = (i & distance) == 0, ascending = (i & run) == 0;
    out[i] = lower == ascending ? min(own, other) : max(own, other);
}

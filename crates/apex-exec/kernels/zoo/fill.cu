// Fills the zoo's inputs on the device, so that a sweep uploads nothing.
//
// Each value is a function of its index alone, in integer arithmetic and exact
// conversions; the same functions stand in src/zoo/fill.rs, which the references read.
// A longer buffer therefore begins with what a shorter one holds.

__device__ unsigned mixed(unsigned value) {
    value ^= value >> 16;
    value *= 0x7feb352du;
    value ^= value >> 15;
    value *= 0x846ca68bu;
    value ^= value >> 16;
    return value;
}

// 31 bits: a word of the poison that outputs start with never occurs.
__device__ unsigned word_at(unsigned index, unsigned salt) {
    return mixed(index ^ (salt * 0x9e3779b9u)) >> 1;
}

__device__ unsigned first() { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ unsigned stride() { return gridDim.x * blockDim.x; }

extern "C" __global__ void fill_words(unsigned *out, unsigned n, unsigned salt) {
    for (unsigned i = first(); i < n; i += stride()) out[i] = word_at(i, salt);
}

extern "C" __global__ void fill_below(unsigned *out, unsigned n, unsigned salt, unsigned bound) {
    for (unsigned i = first(); i < n; i += stride()) out[i] = word_at(i, salt) % bound;
}

// 24 random bits as a float in [-1, 1): every step is exact.
__device__ float unit_at(unsigned index, unsigned salt) {
    return (float)(word_at(index, salt) >> 7) * 0x1p-23f - 1.0f;
}

extern "C" __global__ void fill_unit(float *out, unsigned n, unsigned salt) {
    for (unsigned i = first(); i < n; i += stride()) out[i] = unit_at(i, salt);
}

// Multiples of 1/64 in [-1, 1), which a half holds exactly.
extern "C" __global__ void fill_half(unsigned short *out, unsigned n, unsigned salt) {
    for (unsigned i = first(); i < n; i += stride()) {
        float value = ((int)(word_at(i, salt) >> 24) - 64) * 0.015625f;
        unsigned short half;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
        out[i] = half;
    }
}

// Letters from a to z; each thread writes the four of one word.
extern "C" __global__ void fill_letters(unsigned *out, unsigned words, unsigned salt) {
    for (unsigned i = first(); i < words; i += stride()) {
        unsigned word = 0;
        for (unsigned byte = 0; byte < 4; ++byte) {
            word |= ('a' + word_at(4 * i + byte, salt) % 26) << (8 * byte);
        }
        out[i] = word;
    }
}

// A permutation of the numbers below a power of two: each step can be undone.
__device__ unsigned shuffled(unsigned value, unsigned bits) {
    unsigned mask = (1u << bits) - 1, half = (bits + 1) / 2;
    value = value * 0x9e3779b1u & mask;
    value ^= value >> half;
    value = value * 0x85ebca6bu & mask;
    return value ^ value >> half;
}

__device__ unsigned unshuffled(unsigned value, unsigned bits) {
    unsigned mask = (1u << bits) - 1, half = (bits + 1) / 2;
    value &= mask;
    value ^= value >> half;
    value = value * 0xa5cb9243u & mask;
    value ^= value >> half;
    return value * 0xe8b2f51u & mask;
}

extern "C" __global__ void fill_shuffled(unsigned *out, unsigned n, unsigned bits) {
    for (unsigned i = first(); i < n; i += stride()) out[i] = shuffled(i, bits);
}

// One ring through all numbers below a power of two: from each to the next in shuffled order.
extern "C" __global__ void fill_ring(unsigned *out, unsigned n, unsigned bits) {
    for (unsigned i = first(); i < n; i += stride()) out[i] = shuffled(unshuffled(i, bits) + 1, bits);
}

// Where rows begin whose lengths rise from `least` by `step` over each sixteen rows.
extern "C" __global__ void fill_row_starts(unsigned *out, unsigned n, unsigned least, unsigned step) {
    unsigned sixteen = 16 * least + 120 * step;
    for (unsigned i = first(); i < n; i += stride()) {
        unsigned within = i % 16;
        out[i] = i / 16 * sixteen + within * least + within * (within - 1) / 2 * step;
    }
}

// Keeps the device busy while the host queues what is timed.
extern "C" __global__ void hold(unsigned long long cycles) {
    long long begin = clock64();
    while ((unsigned long long)(clock64() - begin) < cycles) {
    }
}

// Reads so much that nothing else stays in the second-level cache, and leaves nothing there to write back.
extern "C" __global__ void evict(const uint4 *in, unsigned n, unsigned *out) {
    unsigned sum = 0;
    for (unsigned i = first(); i < n; i += stride()) {
        uint4 four = in[i];
        sum |= four.x | four.y | four.z | four.w;
    }
    if (sum) *out = sum;
}

// Kernels that compute and hardly touch memory: what bounds them is a pipe, a chain or the registers.

__device__ unsigned global_index() { return blockIdx.x * blockDim.x + threadIdx.x; }

// CHAINS independent chains of dependent multiply-adds. They converge, so rounding does not add up.
template <typename Number, unsigned CHAINS>
__device__ void multiply_add_chains(Number *out, unsigned threads, unsigned length, Number factor,
                                    Number addend) {
    unsigned i = global_index();
    if (i >= threads) return;
    Number values[CHAINS];
#pragma unroll
    for (unsigned chain = 0; chain < CHAINS; ++chain) values[chain] = (Number)((i + chain) & 255) * (Number)0x1p-8;
    for (unsigned step = 0; step < length; ++step) {
#pragma unroll
        for (unsigned chain = 0; chain < CHAINS; ++chain) values[chain] = fma(values[chain], factor, addend);
    }
    Number sum = values[0];
#pragma unroll
    for (unsigned chain = 1; chain < CHAINS; ++chain) sum += values[chain];
    out[i] = sum;
}

#define CHAINS_OF(NAME, NUMBER, CHAINS)                                                                  \
    extern "C" __global__ void NAME##_##CHAINS(NUMBER *out, unsigned threads, unsigned length,           \
                                               NUMBER factor, NUMBER addend) {                           \
        multiply_add_chains<NUMBER, CHAINS>(out, threads, length, factor, addend);                       \
    }
CHAINS_OF(fma_chain, float, 1)
CHAINS_OF(fma_chain, float, 2)
CHAINS_OF(fma_chain, float, 4)
CHAINS_OF(fma_chain, float, 8)
CHAINS_OF(fma_double, double, 1)
CHAINS_OF(fma_double, double, 2)
CHAINS_OF(fma_double, double, 4)

extern "C" __global__ void transcendental(const float *__restrict__ in, float *out, unsigned n,
                                          unsigned rounds) {
    unsigned i = global_index();
    if (i >= n) return;
    float value = in[i];
    for (unsigned round = 0; round < rounds; ++round) {
        float root = sqrtf(logf(1.0f + expf(value)));
        value = fmaf(0.5f, sinf(value), 0.25f * root);
    }
    out[i] = value;
}

extern "C" __global__ void integer_mix(unsigned *out, unsigned n, unsigned rounds) {
    unsigned i = global_index();
    if (i >= n) return;
    unsigned value = i;
    for (unsigned round = 0; round < rounds; ++round) {
        value ^= value >> 15;
        value = value * 0x2c1b3c6du + round;
        value = __funnelshift_l(value, value, 13);
        value += __popc(value);
    }
    out[i] = value >> 1;
}

// LIVE values that are all needed until the end: the compiler must keep them in registers.
template <unsigned LIVE>
__device__ void keep_alive(float *out, unsigned threads, unsigned rounds, float share) {
    unsigned i = global_index();
    if (i >= threads) return;
    float values[LIVE];
#pragma unroll
    for (unsigned j = 0; j < LIVE; ++j) values[j] = (float)((i + 37 * j) & 255) * 0.00390625f;
#pragma unroll 1
    for (unsigned round = 0; round < rounds; ++round) {
        float first = values[0];
#pragma unroll
        for (unsigned j = 0; j < LIVE; ++j) {
            float next = j + 1 < LIVE ? values[j + 1] : first;
            values[j] = fmaf(share, values[j], 0.5f * next);
        }
    }
    float sum = 0.0f;
#pragma unroll
    for (unsigned j = 0; j < LIVE; ++j) sum += values[j];
    out[i] = sum;
}

#define REGISTERS(LIVE)                                                                                  \
    extern "C" __global__ void register_pressure_##LIVE(float *out, unsigned threads, unsigned rounds,   \
                                                        float share) {                                   \
        keep_alive<LIVE>(out, threads, rounds, share);                                                   \
    }
REGISTERS(16)
REGISTERS(48)
REGISTERS(96)
REGISTERS(200)

// The same for blocks of 1,024 threads, which leaves 64 registers a thread: the rest is spilled.
#define SPILLED(LIVE)                                                                                    \
    extern "C" __global__ __launch_bounds__(1024) void register_spill_##LIVE(                            \
        float *out, unsigned threads, unsigned rounds, float share) {                                    \
        keep_alive<LIVE>(out, threads, rounds, share);                                                   \
    }
SPILLED(96)
SPILLED(200)

// An array indexed by what it holds cannot lie in registers.
template <unsigned WORDS>
__device__ void through_local_memory(unsigned *out, unsigned threads, unsigned rounds) {
    unsigned i = global_index();
    if (i >= threads) return;
    unsigned words[WORDS];
    for (unsigned j = 0; j < WORDS; ++j) words[j] = i * j;
    unsigned value = i;
    for (unsigned round = 0; round < rounds; ++round) {
        unsigned at = (value >> 7) % WORDS;
        value = value * 1664525u + words[at] + 1013904223u;
        words[at] = value;
    }
    out[i] = value >> 1;
}

#define LOCAL(WORDS)                                                                                     \
    extern "C" __global__ void local_memory_##WORDS(unsigned *out, unsigned threads, unsigned rounds) {  \
        through_local_memory<WORDS>(out, threads, rounds);                                               \
    }
LOCAL(16)
LOCAL(64)
LOCAL(256)

// Multiplications and additions are rounded one by one, so that the host counts the same steps.
extern "C" __global__ void mandelbrot(unsigned *out, unsigned width, unsigned height, unsigned limit,
                                      float step) {
    unsigned column = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column >= width || row >= height) return;
    float cx = __fadd_rn(__fmul_rn((float)column, step), -2.0f);
    float cy = __fadd_rn(__fmul_rn((float)row, step), -1.5f);
    float x = 0.0f, y = 0.0f;
    unsigned steps = 0;
    for (; steps < limit; ++steps) {
        float xx = __fmul_rn(x, x), yy = __fmul_rn(y, y);
        if (__fadd_rn(xx, yy) > 4.0f) break;
        y = __fadd_rn(__fmul_rn(__fmul_rn(2.0f, x), y), cy);
        x = __fadd_rn(__fsub_rn(xx, yy), cx);
    }
    out[row * width + column] = steps;
}

// All pairs; a block brings as many bodies as it has threads to shared memory at a time.
extern "C" __global__ void nbody(const float4 *__restrict__ bodies, float4 *out, unsigned n) {
    extern __shared__ float4 others[];
    unsigned i = global_index();
    float4 own = i < n ? bodies[i] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float ax = 0.0f, ay = 0.0f, az = 0.0f;
    for (unsigned begin = 0; begin < n; begin += blockDim.x) {
        if (begin + threadIdx.x < n) others[threadIdx.x] = bodies[begin + threadIdx.x];
        __syncthreads();
        unsigned count = min(blockDim.x, n - begin);
        for (unsigned j = 0; j < count; ++j) {
            float4 other = others[j];
            float dx = other.x - own.x, dy = other.y - own.y, dz = other.z - own.z;
            float inverse = rsqrtf(fmaf(dz, dz, fmaf(dy, dy, dx * dx)) + 0.01f);
            float pull = other.w * inverse * inverse * inverse;
            ax = fmaf(pull, dx, ax);
            ay = fmaf(pull, dy, ay);
            az = fmaf(pull, dz, az);
        }
        __syncthreads();
    }
    if (i < n) out[i] = make_float4(ax, ay, az, own.w);
}

// Points in a quarter of a disc; the generator is a xorshift of the thread's own.
extern "C" __global__ void monte_carlo(unsigned *out, unsigned threads, unsigned samples) {
    unsigned i = global_index();
    if (i >= threads) return;
    unsigned state = (i + 1) * 0x9e3779b9u | 1, inside = 0;
    for (unsigned sample = 0; sample < samples; ++sample) {
        float place[2];
        for (unsigned axis = 0; axis < 2; ++axis) {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            place[axis] = __fmul_rn((float)(state >> 8), 0x1p-24f);
        }
        if (__fadd_rn(__fmul_rn(place[0], place[0]), __fmul_rn(place[1], place[1])) < 1.0f) ++inside;
    }
    out[i] = inside;
}

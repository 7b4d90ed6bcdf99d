// Six programs with independent branches, in the manner of GrCUDA's benchmarks. Each is written once: which lane a kernel
// stands on, and which lane waits for which. In the form `stream` all lanes are one stream; in the form `graph` they are
// captured as branches of one graph, as somebody would write it by hand; in the form `graph8` eight turns are. Under `apex run
// --fast=launch,overlap` the first form is to come near the second.
//
//   overlap PROGRAM stream|graph|graph8 SCALE TURNS
//
// Prints the time of a turn in microseconds, the best of five rounds, and a hash of all results.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <vector>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        cudaError_t error = (call);                                                                                    \
        if (error != cudaSuccess) {                                                                                    \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));                                             \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define EACH(i, n) for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += gridDim.x * blockDim.x)

__global__ void square(const float *x, float *y, int n) { EACH(i, n) y[i] = x[i] * x[i]; }

__global__ void sum_of_difference(const float *x, const float *y, float *z, int n) {
    __shared__ float part[256];
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[i] - y[i];
    part[threadIdx.x] = sum;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    if (threadIdx.x == 0) z[0] = part[0];
}

__device__ double normal(double x) {
    double k = 1 / (1 + 0.2316419 * fabs(x));
    double tail = exp(-x * x / 2) * k * (0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))));
    tail *= 0.3989422804014327;
    return x > 0 ? 1 - tail : tail;
}

__global__ void options(const double *x, double *y, int n, double r, double v, double t, double strike) {
    EACH(i, n) {
        double d1 = (log(x[i] / strike) + (r + v * v / 2) * t) / (v * sqrt(t)), d2 = d1 - v * sqrt(t);
        y[i] = x[i] * normal(d1) - strike * exp(-r * t) * normal(d2);
    }
}

__global__ void blur(const float *from, float *to, int side, const float *weights, int width) {
    EACH(at, side * side) {
        int row = at / side, column = at % side, half = width / 2;
        float sum = 0;
        for (int dy = -half; dy <= half; dy++)
            for (int dx = -half; dx <= half; dx++) {
                int y = row + dy, x = column + dx;
                if (y >= 0 && y < side && x >= 0 && x < side)
                    sum += from[y * side + x] * weights[(dy + half) * width + dx + half];
            }
        to[at] = sum;
    }
}

__global__ void edges(const float *from, float *to, int side) {
    EACH(at, side * side) {
        int y = at / side, x = at % side;
        float gx = 0, gy = 0;
        if (y > 0 && y < side - 1 && x > 0 && x < side - 1) {
            const float *p = from + at;
            gx = p[-side + 1] + 2 * p[1] + p[side + 1] - p[-side - 1] - 2 * p[-1] - p[side - 1];
            gy = p[side - 1] + 2 * p[side] + p[side + 1] - p[-side - 1] - 2 * p[-side] - p[-side + 1];
        }
        to[at] = sqrtf(gx * gx + gy * gy);
    }
}

__global__ void sharpen(const float *x, const float *blurred, float *y, float amount, int n) {
    EACH(i, n) y[i] = fminf(fmaxf(x[i] * (1 + amount) - blurred[i] * amount, 0.0f), 1.0f);
}

__global__ void blend(const float *x, const float *y, const float *mask, float *z, int n) {
    EACH(i, n) z[i] = x[i] * mask[i] + y[i] * (1 - mask[i]);
}

// to[rows][classes] = x[rows][features] * w[classes][features] + bias
__global__ void scores(const float *x, const float *w, const float *bias, float *to, int rows, int features, int classes) {
    EACH(at, rows * classes) {
        int row = at / classes, class_ = at % classes;
        float sum = bias[class_];
        for (int i = 0; i < features; i++) sum += x[row * features + i] * w[class_ * features + i];
        to[at] = sum;
    }
}

__global__ void centred(const float *x, float *y, int rows, int features) {
    EACH(row, rows) {
        float mean = 0;
        for (int i = 0; i < features; i++) mean += x[row * features + i];
        for (int i = 0; i < features; i++) y[row * features + i] = x[row * features + i] - mean / features;
    }
}

__global__ void softmax(float *x, int rows, int classes) {
    EACH(row, rows) {
        float most = -1e30f, sum = 0;
        for (int i = 0; i < classes; i++) most = fmaxf(most, x[row * classes + i]);
        for (int i = 0; i < classes; i++) sum += x[row * classes + i] = expf(x[row * classes + i] - most);
        for (int i = 0; i < classes; i++) x[row * classes + i] /= sum;
    }
}

__global__ void choose(const float *x, const float *y, int *best, int rows, int classes) {
    EACH(row, rows) {
        int found = 0;
        for (int i = 1; i < classes; i++)
            if (x[row * classes + i] + y[row * classes + i] > x[row * classes + found] + y[row * classes + found]) found = i;
        best[row] = found;
    }
}

__global__ void gather(const int *begin, const int *to, const float *x, float *y, int n) {
    EACH(row, n) {
        float sum = 0;
        for (int i = begin[row]; i < begin[row + 1]; i++) sum += x[to[i]];
        y[row] = sum;
    }
}

__global__ void total(const float *x, float *sum, int n) {
    __shared__ float part[1024];
    float own = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) own += x[i];
    part[threadIdx.x] = own;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    if (threadIdx.x == 0) sum[0] = part[0];
}

__global__ void divided(const float *x, const float *sum, float *y, int n) { EACH(i, n) y[i] = x[i] / sum[0]; }

__global__ void convolve(const float *from, const float *weights, float *to, int side, int in, int out) {
    EACH(at, out * side * side) {
        int channel = at / (side * side), y = at / side % side, x = at % side;
        float sum = 0;
        for (int c = 0; c < in; c++)
            for (int dy = -1; dy <= 1; dy++)
                for (int dx = -1; dx <= 1; dx++)
                    if (y + dy >= 0 && y + dy < side && x + dx >= 0 && x + dx < side)
                        sum += from[(c * side + y + dy) * side + x + dx] * weights[((channel * in + c) * 3 + dy + 1) * 3 + dx + 1];
        to[at] = fmaxf(sum, 0.0f);
    }
}

__global__ void pooled(const float *from, float *to, int side, int channels) {
    int half = side / 2;
    EACH(at, channels * half * half) {
        int channel = at / (half * half), y = at / half % half * 2, x = at % half * 2;
        const float *p = from + (channel * side + y) * side + x;
        to[at] = fmaxf(fmaxf(p[0], p[1]), fmaxf(p[side], p[side + 1]));
    }
}

__global__ void joined(const float *x, const float *y, const float *weights, float *to, int n) {
    __shared__ float part[256];
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[i] * weights[i] + y[i] * weights[n + i];
    part[threadIdx.x] = sum;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    if (threadIdx.x == 0) to[0] = 1 / (1 + expf(-part[0]));
}

// Lanes: one stream, or streams whose waits become the edges of a graph.
struct Lanes {
    std::vector<cudaStream_t> streams;
    std::vector<cudaEvent_t> events;
    size_t used = 0;

    explicit Lanes(bool branches) : streams(branches ? 12 : 1) {
        for (auto &stream : streams) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
    cudaStream_t on(int lane) { return streams[lane % streams.size()]; }
    void wait(int lane, int other) {
        if (streams.size() == 1) return;
        if (used == events.size()) {
            events.emplace_back();
            CHECK(cudaEventCreateWithFlags(&events.back(), cudaEventDisableTiming));
        }
        CHECK(cudaEventRecord(events[used], on(other)));
        CHECK(cudaStreamWaitEvent(on(lane), events[used++], 0));
    }
};

struct Buffer {
    void *at;
    size_t bytes;
};
static std::vector<Buffer> buffers;
static uint64_t seed = 1;

template <typename T> static T *made(size_t count, double low = 0, double high = 0) {
    T *at;
    CHECK(cudaMalloc(&at, count * sizeof(T)));
    std::vector<T> host(count);
    for (auto &value : host) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        value = T(low + (high - low) * double(seed >> 40) / double(1 << 24));
    }
    CHECK(cudaMemcpy(at, host.data(), count * sizeof(T), cudaMemcpyHostToDevice));
    buffers.push_back({at, count * sizeof(T)});
    return at;
}

static int blocks = 32;
#define ON(lane, kernel, ...) kernel<<<blocks, 256, 0, lanes.on(lane)>>>(__VA_ARGS__)
#define ONE(lane, threads, kernel, ...) kernel<<<1, threads, 0, lanes.on(lane)>>>(__VA_ARGS__)

static void vectors(Lanes &lanes, int n) {
    static float *x = made<float>(n, 0, 1), *y = made<float>(n, 0, 1), *xx = made<float>(n), *yy = made<float>(n), *z = made<float>(1);
    lanes.wait(1, 0);
    ON(0, square, x, xx, n);
    ON(1, square, y, yy, n);
    lanes.wait(0, 1);
    ONE(0, 256, sum_of_difference, xx, yy, z, n);
}

static void ten_options(Lanes &lanes, int n) {
    static double *x[10], *y[10];
    for (int i = 0; i < 10; i++) {
        if (!x[i]) x[i] = made<double>(n, 20, 100), y[i] = made<double>(n);
        if (i) lanes.wait(i, 0);
    }
    for (int i = 0; i < 10; i++) ON(i, options, x[i], y[i], n, 0.03, 0.3, 1.0, 60.0 + i);
    for (int i = 1; i < 10; i++) lanes.wait(0, i);
}

static void image(Lanes &lanes, int side) {
    static int n = side * side;
    static float *from = made<float>(n, 0, 1), *small = made<float>(n), *large = made<float>(n), *soft = made<float>(n);
    static float *small_edges = made<float>(n), *large_edges = made<float>(n), *sharp = made<float>(n), *mixed = made<float>(n), *to = made<float>(n);
    static float *w3 = made<float>(9, 0.1, 0.12), *w5 = made<float>(25, 0.03, 0.05), *w7 = made<float>(49, 0.01, 0.03);
    lanes.wait(1, 0), lanes.wait(2, 0);
    ON(0, blur, from, small, side, w3, 3);
    ON(1, blur, from, large, side, w5, 5);
    ON(2, blur, from, soft, side, w7, 7);
    ON(0, edges, small, small_edges, side);
    ON(1, edges, large, large_edges, side);
    ON(2, sharpen, from, soft, sharp, 0.5f, n);
    lanes.wait(2, 1);
    ON(2, blend, sharp, large, large_edges, mixed, n);
    lanes.wait(0, 2);
    ON(0, blend, mixed, small, small_edges, to, n);
}

static void ensemble(Lanes &lanes, int rows) {
    const int features = 200, classes = 10;
    static float *x = made<float>(rows * features, 0, 1), *c = made<float>(rows * features), *w1 = made<float>(features * classes, -1, 1);
    static float *w2 = made<float>(features * classes, -1, 1), *b1 = made<float>(classes, 0, 1), *b2 = made<float>(classes, 0, 1);
    static float *s1 = made<float>(rows * classes), *s2 = made<float>(rows * classes);
    static int *best = made<int>(rows);
    lanes.wait(1, 0);
    ON(0, scores, x, w1, b1, s1, rows, features, classes);
    ON(1, centred, x, c, rows, features);
    ON(0, softmax, s1, rows, classes);
    ON(1, scores, c, w2, b2, s2, rows, features, classes);
    ON(1, softmax, s2, rows, classes);
    lanes.wait(0, 1);
    ON(0, choose, s1, s2, best, rows, classes);
}

static void hubs(Lanes &lanes, int n) {
    const int degree = 3;
    static float *hub = made<float>(n, 1, 1), *authority = made<float>(n, 1, 1), *hub2 = made<float>(n), *authority2 = made<float>(n);
    static float *hub_sum = made<float>(1), *authority_sum = made<float>(1);
    static int *to = made<int>(n * degree, 0, n - 1), *from = made<int>(n * degree, 0, n - 1), *begin = nullptr;
    if (!begin) {
        std::vector<int> host(n + 1);
        for (int i = 0; i <= n; i++) host[i] = i * degree;
        begin = made<int>(n + 1);
        CHECK(cudaMemcpy(begin, host.data(), 4 * (n + 1), cudaMemcpyHostToDevice));
    }
    for (int turn = 0; turn < 5; turn++) {
        lanes.wait(1, 0);
        ON(0, gather, begin, to, hub, authority2, n);
        ON(1, gather, begin, from, authority, hub2, n);
        ONE(0, 1024, total, authority2, authority_sum, n);
        ONE(1, 1024, total, hub2, hub_sum, n);
        // Both have been read by the other lane before they are written.
        lanes.wait(0, 1), lanes.wait(1, 0);
        ON(0, divided, authority2, authority_sum, authority, n);
        ON(1, divided, hub2, hub_sum, hub, n);
        lanes.wait(0, 1);
    }
}

static void network(Lanes &lanes, int side) {
    const int first = 8, second = 16;
    static int n = second * (side / 4) * (side / 4);
    static float *x[2], *w1[2], *w2[2], *a[2], *p[2], *b[2], *q[2], *dense = made<float>(2 * n, -0.1, 0.1), *to = made<float>(1);
    lanes.wait(1, 0);
    for (int i = 0; i < 2; i++) {
        if (!x[i]) {
            x[i] = made<float>(side * side, 0, 1), w1[i] = made<float>(9 * first, -0.3, 0.3), w2[i] = made<float>(9 * first * second, -0.3, 0.3);
            a[i] = made<float>(first * side * side), p[i] = made<float>(first * side * side / 4);
            b[i] = made<float>(second * side * side / 4), q[i] = made<float>(n);
        }
    }
    for (int i = 0; i < 2; i++) ON(i, convolve, x[i], w1[i], a[i], side, 1, first);
    for (int i = 0; i < 2; i++) ON(i, pooled, a[i], p[i], side, first);
    for (int i = 0; i < 2; i++) ON(i, convolve, p[i], w2[i], b[i], side / 2, first, second);
    for (int i = 0; i < 2; i++) ON(i, pooled, b[i], q[i], side / 2, second);
    lanes.wait(0, 1);
    ONE(0, 256, joined, q[0], q[1], dense, to, n);
}

struct Program {
    const char *name;
    void (*step)(Lanes &, int);
    int size;
    // Where the device is full.
    int large;
};
static const Program programs[] = {
    {"vectors", vectors, 200000, 20000000}, {"options", ten_options, 60000, 4000000}, {"image", image, 512, 4096},
    {"ensemble", ensemble, 8000, 400000},   {"hubs", hubs, 20000, 4000000},           {"network", network, 64, 1024},
};

int main(int count, char **words) {
    if (count != 5) return fprintf(stderr, "overlap PROGRAM stream|graph|graph8 small|large TURNS\n"), 2;
    const Program *program = nullptr;
    for (auto &one : programs)
        if (!strcmp(one.name, words[1])) program = &one;
    bool branches = !strncmp(words[2], "graph", 5), large = !strcmp(words[3], "large");
    int turns = atoi(words[4]), at_once = !strcmp(words[2], "graph8") ? 8 : 1, size = program ? (large ? program->large : program->size) : 0;
    if (!program || turns < 1) return fprintf(stderr, "there is no such program\n"), 2;
    if (large) blocks = 1056;
    Lanes lanes(branches);
    // Memory is allocated by the first step.
    {
        Lanes plain(false);
        program->step(plain, size);
        CHECK(cudaDeviceSynchronize());
    }
    cudaGraphExec_t graph = nullptr;
    if (branches) {
        cudaGraph_t captured;
        CHECK(cudaStreamBeginCapture(lanes.on(0), cudaStreamCaptureModeThreadLocal));
        for (int turn = 0; turn < at_once; turn++) program->step(lanes, size);
        CHECK(cudaStreamEndCapture(lanes.on(0), &captured));
        CHECK(cudaGraphInstantiateWithFlags(&graph, captured, 0));
    }
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    float best = 1e30f;
    for (int round = 0; round < 6; round++) {
        CHECK(cudaEventRecord(begin, lanes.on(0)));
        for (int turn = 0; turn < turns; turn += graph ? at_once : 1) {
            if (graph) CHECK(cudaGraphLaunch(graph, lanes.on(0)));
            else program->step(lanes, size);
        }
        CHECK(cudaEventRecord(end, lanes.on(0)));
        CHECK(cudaEventSynchronize(end));
        float milliseconds;
        CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
        if (round && milliseconds < best) best = milliseconds;
    }
    uint64_t hash = 14695981039346656037u;
    for (auto &buffer : buffers) {
        std::vector<unsigned char> host(buffer.bytes);
        CHECK(cudaMemcpy(host.data(), buffer.at, buffer.bytes, cudaMemcpyDeviceToHost));
        for (unsigned char byte : host) hash = (hash ^ byte) * 1099511628211u;
    }
    printf("%.3f %016llx\n", best * 1000 / turns, (unsigned long long)hash);
}

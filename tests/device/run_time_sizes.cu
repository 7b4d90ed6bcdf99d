// Reductions, dot products, stencils and small matrix products, each with its sizes as arguments and as constants.
//
// The first form is what --fast=specialise sees: it is launched again and again with the same sizes. The second is the
// same source with the sizes as template arguments, so nvcc knew them. Each form of constants is timed by events after
// the first has run; one line a kernel says its median and whether both gave the same bits.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call)                                                                                     \
    do {                                                                                                \
        cudaError_t result_ = (call);                                                                   \
        if (result_ != cudaSuccess) {                                                                   \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(result_));            \
            exit(3);                                                                                    \
        }                                                                                               \
    } while (0)

// 0 stands for "as the argument says".
template <int N> __device__ int known(int n) { return N ? N : n; }

template <int N, int EACH> __global__ void sums(const float *x, float *out, int n, int each) {
    float sum = 0;
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = 0; i < known<EACH>(each); i++)
        sum += x[row + i * known<N>(n)];
    out[row] = sum;
}

template <int N, int EACH> __global__ void dots(const float *x, const float *y, float *out, int n, int each) {
    float sum = 0;
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = 0; i < known<EACH>(each); i++)
        sum = fmaf(x[row + i * known<N>(n)], y[row * known<EACH>(each) + i], sum);
    out[row] = sum;
}

template <int W, int H, int R> __global__ void stencil(const float *x, float *out, int w, int h, int r) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    int width = known<W>(w), height = known<H>(h), reach = known<R>(r);
    if (column < reach || row < reach || column >= width - reach || row >= height - reach)
        return;
    float sum = 0;
    for (int dy = -reach; dy <= reach; dy++)
        for (int dx = -reach; dx <= reach; dx++)
            sum = fmaf(x[(row + dy) * width + column + dx], 0.04f, sum);
    out[row * width + column] = sum;
}

template <int M, int K> __global__ void products(const float *a, const float *b, float *out, int m, int k) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= known<M>(m) || column >= known<M>(m))
        return;
    float sum = 0;
    for (int i = 0; i < known<K>(k); i++)
        sum = fmaf(a[row * known<K>(k) + i], b[i * known<M>(m) + column], sum);
    out[row * known<M>(m) + column] = sum;
}

// Long division by sizes: indices of a tensor of three sides, turned round.
template <int A, int B, int C> __global__ void turned(const float *x, float *out, int a, int b, int c) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    int one = known<A>(a), two = known<B>(b), three = known<C>(c);
    if (at >= one * two * three)
        return;
    int i = at / (two * three), j = at / three % two, k = at % three;
    out[(k * two + j) * one + i] = x[at];
}

static float *x, *y, *out;
static std::vector<float> kept, other;

template <typename First, typename Second>
static void compare(const char *name, int words, First of_arguments, Second of_constants) {
    const int LAUNCHES = 1500, TIMED = 200;
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaMemset(out, 0, 4 * words));
    for (int launch = 0; launch < LAUNCHES; launch++) {
        of_arguments();
        if (launch % 10 == 9)
            CHECK(cudaDeviceSynchronize());
    }
    kept.resize(words);
    other.resize(words);
    CHECK(cudaMemcpy(kept.data(), out, 4 * words, cudaMemcpyDeviceToHost));
    CHECK(cudaMemset(out, 0, 4 * words));
    std::vector<float> times;
    for (int launch = 0; launch < TIMED; launch++) {
        float millis;
        CHECK(cudaEventRecord(begin));
        of_constants();
        CHECK(cudaEventRecord(end));
        CHECK(cudaEventSynchronize(end));
        CHECK(cudaEventElapsedTime(&millis, begin, end));
        times.push_back(millis);
    }
    CHECK(cudaMemcpy(other.data(), out, 4 * words, cudaMemcpyDeviceToHost));
    std::sort(times.begin(), times.end());
    bool same = memcmp(kept.data(), other.data(), 4 * words) == 0;
    printf("%s %.0f %s\n", name, times[TIMED / 2] * 1e6, same ? "same" : "DIFFERS");
    fflush(stdout);
}

int main() {
    const int WORDS = 1 << 26;
    std::vector<float> values(WORDS);
    for (int i = 0; i < WORDS; i++)
        values[i] = (float)((i * 2654435761u >> 16) % 1000) / 1000 - 0.5f;
    CHECK(cudaMalloc(&x, 4ull * WORDS));
    CHECK(cudaMalloc(&y, 4ull * WORDS));
    CHECK(cudaMalloc(&out, 4ull * WORDS));
    CHECK(cudaMemcpy(x, values.data(), 4ull * WORDS, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(y, values.data(), 4ull * WORDS, cudaMemcpyHostToDevice));
    const int ROWS = 1 << 17;
    compare("sums", ROWS, [] { sums<0, 0><<<ROWS / 256, 256>>>(x, out, ROWS, 64); },
            [] { sums<ROWS, 64><<<ROWS / 256, 256>>>(x, out, ROWS, 64); });
    compare("dots", ROWS, [] { dots<0, 0><<<ROWS / 256, 256>>>(x, y, out, ROWS, 48); },
            [] { dots<ROWS, 48><<<ROWS / 256, 256>>>(x, y, out, ROWS, 48); });
    const int WIDE = 4096;
    dim3 block(32, 8), grid(WIDE / 32, WIDE / 8);
    compare("stencil", WIDE * WIDE, [=] { stencil<0, 0, 0><<<grid, block>>>(x, out, WIDE, WIDE, 2); },
            [=] { stencil<WIDE, WIDE, 2><<<grid, block>>>(x, out, WIDE, WIDE, 2); });
    const int SIDE = 512, DEPTH = 64;
    dim3 tile(16, 16), tiles(SIDE / 16, SIDE / 16);
    compare("products", SIDE * SIDE, [=] { products<0, 0><<<tiles, tile>>>(x, y, out, SIDE, DEPTH); },
            [=] { products<SIDE, DEPTH><<<tiles, tile>>>(x, y, out, SIDE, DEPTH); });
    const int A = 96, B = 100, C = 112;
    compare("turned", A * B * C, [=] { turned<0, 0, 0><<<(A * B * C + 255) / 256, 256>>>(x, out, A, B, C); },
            [=] { turned<A, B, C><<<(A * B * C + 255) / 256, 256>>>(x, out, A, B, C); });
    return 0;
}

// What `cargo xtask demo` shows: three real kernels (demo.cu), each run often and checked against the CPU.
//
// The argument is the file with their PTX. Times on a line are the device's own, from a pair of events.
#include "program.h"

#include <math.h>

enum { N = 1 << 20, SIDE = 256, TILE = 16, BLOCK = 256, BLOCKS = 64, ROUNDS = 50 };

static CUevent begun, done;

static CUdeviceptr sent(const float *values, size_t count) {
    CUdeviceptr address;
    CHECK(cuMemAlloc_v2(&address, count * sizeof *values));
    CHECK(cuMemcpyHtoD_v2(address, values, count * sizeof *values));
    return address;
}

// Runs a kernel again and again; the time of one, in milliseconds.
static float timed(CUfunction kernel, unsigned width, unsigned height, unsigned block_x, unsigned block_y,
                   void **parameters) {
    CHECK(cuEventRecord(begun, NULL));
    for (int round = 0; round < ROUNDS; round++)
        CHECK(cuLaunchKernel(kernel, width, height, 1, block_x, block_y, 1, 0, NULL, parameters, NULL));
    CHECK(cuEventRecord(done, NULL));
    CHECK(cuEventSynchronize(done));
    float all;
    CHECK(cuEventElapsedTime(&all, begun, done));
    return all / ROUNDS;
}

int main(int count, char **words) {
    EXPECT(count == 2);
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction vector_add, matrix_product, reduction;
    char name[256];
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDeviceGetName(name, sizeof name, device));
    CHECK(cuCtxCreate_v2(&context, 0, device));
    CHECK(cuModuleLoad(&module, words[1]));
    CHECK(cuModuleGetFunction(&vector_add, module, "vector_add"));
    CHECK(cuModuleGetFunction(&matrix_product, module, "matrix_product"));
    CHECK(cuModuleGetFunction(&reduction, module, "reduction"));
    CHECK(cuEventCreate(&begun, 0));
    CHECK(cuEventCreate(&done, 0));
    printf("on %s\n", name);

    float *a = malloc(N * sizeof *a), *b = malloc(N * sizeof *b), *c = malloc(N * sizeof *c);
    EXPECT(a && b && c);
    for (int i = 0; i < N; i++) {
        a[i] = (float)(i % 1000) / 1000;
        b[i] = (float)(i % 777) / 777;
    }
    CUdeviceptr device_a = sent(a, N), device_b = sent(b, N), device_c = sent(c, N);
    unsigned n = N, side = SIDE;

    void *for_add[] = {&device_a, &device_b, &device_c, &n};
    float milliseconds = timed(vector_add, N / BLOCK, 1, BLOCK, 1, for_add);
    CHECK(cuMemcpyDtoH_v2(c, device_c, N * sizeof *c));
    for (int i = 0; i < N; i++)
        EXPECT(c[i] == a[i] + b[i]);
    printf("vector add, %d elements: right, %.3f ms, %.1f GB/s\n", N, milliseconds, 12e-6 * N / milliseconds);

    void *for_product[] = {&device_a, &device_b, &device_c, &side};
    milliseconds = timed(matrix_product, SIDE / TILE, SIDE / TILE, TILE, TILE, for_product);
    CHECK(cuMemcpyDtoH_v2(c, device_c, SIDE * SIDE * sizeof *c));
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++) {
            float sum = 0;
            for (int k = 0; k < SIDE; k++)
                sum += a[row * SIDE + k] * b[k * SIDE + column];
            // A kernel multiplies and adds in one rounding.
            EXPECT(fabsf(c[row * SIDE + column] - sum) <= 1e-4f * sum);
        }
    printf("tiled matrix product, %d x %d: right, %.3f ms, %.1f GFLOP/s\n", SIDE, SIDE, milliseconds,
           2e-6 * SIDE * SIDE * SIDE / milliseconds);

    float total = 0;
    double wanted = 0;
    CUdeviceptr device_total = sent(&total, 1);
    void *for_reduction[] = {&device_a, &device_total, &n};
    milliseconds = timed(reduction, BLOCKS, 1, BLOCK, 1, for_reduction);
    CHECK(cuMemcpyDtoH_v2(&total, device_total, sizeof total));
    for (int i = 0; i < N; i++)
        wanted += a[i];
    EXPECT(fabs(total - ROUNDS * wanted) <= 1e-3 * ROUNDS * wanted);
    printf("reduction, %d elements: right, %.3f ms, %.1f GB/s\n", N, milliseconds, 4e-6 * N / milliseconds);
    return 0;
}

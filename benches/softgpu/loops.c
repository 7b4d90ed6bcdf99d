// The loops that `apex bench softgpu` measures beside the kernels of kernels.cu: the same results, written as
// one would for a CPU. Prints one line per loop: name, seconds (the best of the rounds asked for).
//   gcc -O3 [-march=native] -fopenmp -o loops loops.c -lm ; OMP_NUM_THREADS=n ./loops ROUNDS
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ELEMENTS (1 << 24)
#define SIDE 512
#define WIDTH 1024
#define GRID 4096

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void vector_add(const float *restrict a, const float *restrict b, float *restrict c) {
#pragma omp parallel for
    for (int i = 0; i < ELEMENTS; i++) c[i] = a[i] + b[i];
}

static void matmul_ijk(const float *restrict a, const float *restrict b, float *restrict c) {
#pragma omp parallel for
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            float sum = 0;
            for (int k = 0; k < SIDE; k++) sum += a[i * SIDE + k] * b[k * SIDE + j];
            c[i * SIDE + j] = sum;
        }
}

static void matmul_ikj(const float *restrict a, const float *restrict b, float *restrict c) {
#pragma omp parallel for
    for (int i = 0; i < SIDE; i++) {
        for (int j = 0; j < SIDE; j++) c[i * SIDE + j] = 0;
        for (int k = 0; k < SIDE; k++) {
            float factor = a[i * SIDE + k];
            for (int j = 0; j < SIDE; j++) c[i * SIDE + j] += factor * b[k * SIDE + j];
        }
    }
}

static float reduction(const float *restrict in) {
    float total = 0;
#pragma omp parallel for reduction(+ : total)
    for (int i = 0; i < ELEMENTS; i++) total += in[i];
    return total;
}

static void histogram(const unsigned *restrict in, unsigned *restrict bins) {
    memset(bins, 0, 256 * sizeof *bins);
#pragma omp parallel for reduction(+ : bins[:256])
    for (int i = 0; i < ELEMENTS; i++) bins[in[i] & 255]++;
}

static void mandelbrot(int *restrict out) {
#pragma omp parallel for schedule(dynamic, 16)
    for (int y = 0; y < WIDTH; y++)
        for (int x = 0; x < WIDTH; x++) {
            float cr = -2.0f + 3.0f * x / WIDTH, ci = -1.5f + 3.0f * y / WIDTH, zr = 0, zi = 0;
            int step = 0;
            while (step < 256 && zr * zr + zi * zi < 4.0f) {
                float next = zr * zr - zi * zi + cr;
                zi = 2 * zr * zi + ci;
                zr = next;
                step++;
            }
            out[y * WIDTH + x] = step;
        }
}

static void stencil(const float *restrict in, float *restrict out) {
#pragma omp parallel for
    for (int y = 1; y < GRID - 1; y++)
        for (int x = 1; x < GRID - 1; x++) {
            int i = y * GRID + x;
            out[i] = 0.5f * in[i] + 0.125f * (in[i - 1] + in[i + 1] + in[i - GRID] + in[i + GRID]);
        }
}

#define MEASURE(name, call)                                                                                          \
    do {                                                                                                             \
        double best = 1e30;                                                                                          \
        for (int round = 0; round < rounds; round++) {                                                               \
            double began = now();                                                                                    \
            call;                                                                                                    \
            double took = now() - began;                                                                             \
            if (took < best) best = took;                                                                            \
        }                                                                                                            \
        printf("%s %.9f\n", name, best);                                                                             \
    } while (0)

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 5;
    float *a = malloc(ELEMENTS * sizeof *a), *b = malloc(ELEMENTS * sizeof *b), *c = malloc(ELEMENTS * sizeof *c);
    unsigned bins[256];
    volatile float keep;
    if (!a || !b || !c) return 1;
    for (int i = 0; i < ELEMENTS; i++) {
        a[i] = (float)(i % 97) / 97;
        b[i] = (float)(i % 89) / 89;
        c[i] = 0;
    }
    MEASURE("vector_add", vector_add(a, b, c));
    MEASURE("matmul_ijk", matmul_ijk(a, b, c));
    MEASURE("matmul_ikj", matmul_ikj(a, b, c));
    MEASURE("reduction", keep = reduction(a));
    MEASURE("histogram", histogram((unsigned *)a, bins));
    MEASURE("mandelbrot", mandelbrot((int *)c));
    MEASURE("stencil", stencil(a, c));
    (void)keep;
    return 0;
}

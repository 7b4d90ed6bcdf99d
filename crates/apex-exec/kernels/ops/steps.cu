// Single steps of a chain of elementwise operations, for where no compiler is there to fuse it: one kernel
// for a step with one operand, one for a step with two. The operation is a number, so that a chain of any
// operations needs two kernels per type and not a hundred.

#ifndef PRELUDE
#include "prelude.cuh"
#endif

enum Step : int {
    NEGATE = 0, ABSOLUTE = 1, EXPONENTIAL = 2, LOGARITHM = 3, SQUARE_ROOT = 4, RECIPROCAL = 5,
    STEP_RELU = 6, STEP_SIGMOID = 7, STEP_TANH = 8, STEP_GELU = 9, STEP_GELU_TANH = 10,
    ADD = 20, SUBTRACT = 21, MULTIPLY = 22, DIVIDE = 23, GREATER = 24, LESSER = 25
};

// Where the operands come from: two arrays, an array and a number on its right or left, or a row that
// repeats, with a number on its right.
enum Operand : int { ARRAYS = 0, NUMBER_RIGHT = 1, NUMBER_LEFT = 2, ROW = 3 };

__device__ __forceinline__ float natural_log(float x) { return ::logf(x); }
__device__ __forceinline__ double natural_log(double x) { return ::log(x); }
__device__ __forceinline__ float root(float x) { return ::sqrtf(x); }
__device__ __forceinline__ double root(double x) { return ::sqrt(x); }
__device__ __forceinline__ float magnitude(float x) { return ::fabsf(x); }
__device__ __forceinline__ double magnitude(double x) { return ::fabs(x); }

template <class T> __device__ __forceinline__ Wide<T> one_operand(int step, Wide<T> x) {
    switch (step) {
    case NEGATE: return -x;
    case ABSOLUTE: return magnitude(x);
    case EXPONENTIAL: return Math<T>::exp(x);
    case LOGARITHM: return natural_log(x);
    case SQUARE_ROOT: return root(x);
    case RECIPROCAL: return (Wide<T>)1 / x;
    case STEP_RELU: return relu<T>(x);
    case STEP_SIGMOID: return sigmoid<T>(x);
    case STEP_TANH: return Math<T>::tanh(x);
    case STEP_GELU: return gelu<T>(x);
    default: return gelu_tanh<T>(x);
    }
}

template <class W> __device__ __forceinline__ W two_operands(int step, W x, W y) {
    switch (step) {
    case ADD: return x + y;
    case SUBTRACT: return x - y;
    case MULTIPLY: return x * y;
    case DIVIDE: return x / y;
    case GREATER: return greater_of(x, y);
    default: return lesser_of(x, y);
    }
}

#define STEPS(T)                                                                                       \
    extern "C" __global__ void step_one_##T(const T *input, T *output, u32 count, int step) {          \
        for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)    \
            output[i] = narrow<T>(one_operand<T>(step, widen(input[i])));                              \
    }                                                                                                  \
    extern "C" __global__ void step_two_##T(const T *first, const T *second, Wide<T> number,           \
                                            u32 columns, T *output, u32 count, int step, int operand) { \
        for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {  \
            Wide<T> x = widen(first[operand == ROW ? i % columns : i]);                                \
            Wide<T> y = operand == ARRAYS ? widen(second[i]) : number;                                 \
            if (operand == NUMBER_LEFT) { y = x; x = number; }                                         \
            output[i] = narrow<T>(two_operands(step, x, y));                                           \
        }                                                                                              \
    }

STEPS(float)
STEPS(double)
STEPS(f16)
STEPS(bf16)

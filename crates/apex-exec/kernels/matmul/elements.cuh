// Elements in memory, and what happens to a sum before it is stored.
//
// Every matmul kernel ends in the same way, so that the same request gives the same meaning whichever
// kernel serves it:
//
//     C = activation(alpha * sum + beta * C + bias[column])
//
// With beta = 0 the old C is never read: it may be poison. The activations are relu, gelu in its exact
// form (x times the normal distribution, not the form with tanh), sigmoid and tanh; none has a branch.
// Gelu is off by at most 3e-7, the others by a few units of the last place of f32. Sixteen-bit elements
// are held as bits and converted by single instructions, so that no header of the toolkit is needed to
// compile a kernel.
//
// Element types are numbers, given with -D: 0 is f32, 1 is f16, 2 is bf16.

#pragma once

#define ELEMENT_F32 0
#define ELEMENT_F16 1
#define ELEMENT_BF16 2

#define ACTIVATION_NONE 0
#define ACTIVATION_RELU 1
#define ACTIVATION_GELU 2
#define ACTIVATION_SIGMOID 3
#define ACTIVATION_TANH 4

// The storage of an element, its value as f32, and f32 rounded to it.
template <int TYPE> struct Element;

template <> struct Element<ELEMENT_F32> {
    typedef float Bits;
    static __device__ __forceinline__ float value(float bits) { return bits; }
    static __device__ __forceinline__ float rounded(float value) { return value; }
};

template <> struct Element<ELEMENT_F16> {
    typedef unsigned short Bits;
    static __device__ __forceinline__ float value(Bits bits) {
        float value;
        asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
        return value;
    }
    static __device__ __forceinline__ Bits rounded(float value) {
        Bits bits;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
        return bits;
    }
    // Two neighbours in one word, the first in the low half.
    static __device__ __forceinline__ unsigned pair(float first, float second) {
        unsigned bits;
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
        return bits;
    }
};

template <> struct Element<ELEMENT_BF16> {
    typedef unsigned short Bits;
    static __device__ __forceinline__ float value(Bits bits) {
        return __uint_as_float(static_cast<unsigned>(bits) << 16);
    }
    static __device__ __forceinline__ Bits rounded(float value) {
        Bits bits;
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
        return bits;
    }
    static __device__ __forceinline__ unsigned pair(float first, float second) {
        unsigned bits;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
        return bits;
    }
};

// x times the normal distribution at x. The distribution's tail by the rational form 7.1.26 of
// Abramowitz and Stegun, off by less than 1e-7: without a branch and half as long as erff, because
// this runs once for every element of C while the units that multiply stand still.
__device__ __forceinline__ float gelu(float x) {
    float t, power;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(t) : "f"(fmaf(fabsf(x), 0.23164190f, 1.0f)));
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * x * -0.72134752f));
    float polynomial = fmaf(t, 0.530702714f, -0.726576014f);
    polynomial = fmaf(t, polynomial, 0.710706870f);
    polynomial = fmaf(t, polynomial, -0.142248368f);
    polynomial = fmaf(t, polynomial, 0.127414796f);
    float tail = polynomial * t * power;
    return x * (x < 0.0f ? tail : 1.0f - tail);
}

__device__ __forceinline__ float sigmoid(float x) {
    float value;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(1.0f + __expf(-x)));
    return value;
}

// Near zero by the odd series, elsewhere from the exponential: each where the other loses digits. Both
// are computed and one is taken, so that there is no branch.
__device__ __forceinline__ float hyperbolic_tangent(float x) {
    float square = x * x;
    float series = fmaf(square, -0.0088632355f, 0.021869488f);
    series = fmaf(square, series, -0.053968254f);
    series = fmaf(square, series, 0.13333333f);
    series = fmaf(square, series, -0.33333333f);
    series = fmaf(x * square, series, x);
    float power, inverse;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(fabsf(x) * 2.8853901f));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(power + 1.0f));
    float far = copysignf(fmaf(-2.0f, inverse, 1.0f), x);
    return fabsf(x) < 0.4f ? series : far;
}

// One activation over a handful of values; the choice is the same for all threads, so it is made once
// per handful and not once per value.
template <int COUNT>
__device__ __forceinline__ void activate(float (&values)[COUNT], int activation) {
    if (activation == ACTIVATION_RELU) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            // A comparison and not fmaxf: relu of NaN is NaN.
            values[i] = values[i] < 0.0f ? 0.0f : values[i];
        }
    } else if (activation == ACTIVATION_GELU) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            values[i] = gelu(values[i]);
        }
    } else if (activation == ACTIVATION_SIGMOID) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            values[i] = sigmoid(values[i]);
        }
    } else if (activation == ACTIVATION_TANH) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            values[i] = hyperbolic_tangent(values[i]);
        }
    }
}

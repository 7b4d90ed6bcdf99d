// What every operation's kernel stands on; it goes before each source of this folder and before every
// fused chain. It needs no header, so that NVRTC alone compiles it.
//
// Values are read and written in 16-byte vectors and computed in `Wide<T>`: float for float and both 16-bit
// types, double for double. A 16-bit result is rounded once, at its store.

#define PRELUDE

typedef unsigned int u32;
typedef unsigned long long u64;

struct f16 { unsigned short bits; };
struct bf16 { unsigned short bits; };
struct alignas(16) Quad { u32 word[4]; };

template <class T> struct WideOf { typedef float type; };
template <> struct WideOf<double> { typedef double type; };
template <class T> using Wide = typename WideOf<T>::type;

// Elements of a 16-byte vector.
template <class T> struct Lanes { static constexpr int count = 16 / sizeof(T); };

__device__ __forceinline__ float widen(float value) { return value; }
__device__ __forceinline__ double widen(double value) { return value; }
__device__ __forceinline__ float widen(f16 value) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
    return wide;
}
__device__ __forceinline__ float widen(bf16 value) { return __uint_as_float((u32)value.bits << 16); }

template <class T> __device__ __forceinline__ T narrow(Wide<T> value);
template <> __device__ __forceinline__ float narrow<float>(float value) { return value; }
template <> __device__ __forceinline__ double narrow<double>(double value) { return value; }
template <> __device__ __forceinline__ f16 narrow<f16>(float value) {
    f16 narrowed;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrowed.bits) : "f"(value));
    return narrowed;
}
template <> __device__ __forceinline__ bf16 narrow<bf16>(float value) {
    bf16 narrowed;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(narrowed.bits) : "f"(value));
    return narrowed;
}

// A vector as it lies in memory, and its values. They are apart so that a kernel can have several vectors
// on their way before it looks at the first.
__device__ __forceinline__ Quad load_quad(const void *place) {
    const uint4 quad = *(const uint4 *)place;
    return Quad{{quad.x, quad.y, quad.z, quad.w}};
}
__device__ __forceinline__ void store_quad(void *place, const Quad &quad) {
    *(uint4 *)place = make_uint4(quad.word[0], quad.word[1], quad.word[2], quad.word[3]);
}

template <class T> struct Packed;
template <> struct Packed<float> {
    static __device__ __forceinline__ void unpack(const Quad &quad, float *values) {
#pragma unroll
        for (int i = 0; i < 4; i++) values[i] = __uint_as_float(quad.word[i]);
    }
    static __device__ __forceinline__ Quad pack(const float *values) {
        Quad quad;
#pragma unroll
        for (int i = 0; i < 4; i++) quad.word[i] = __float_as_uint(values[i]);
        return quad;
    }
};
template <> struct Packed<double> {
    static __device__ __forceinline__ void unpack(const Quad &quad, double *values) {
#pragma unroll
        for (int i = 0; i < 2; i++)
            values[i] = __hiloint2double((int)quad.word[2 * i + 1], (int)quad.word[2 * i]);
    }
    static __device__ __forceinline__ Quad pack(const double *values) {
        Quad quad;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            quad.word[2 * i] = (u32)__double2loint(values[i]);
            quad.word[2 * i + 1] = (u32)__double2hiint(values[i]);
        }
        return quad;
    }
};
template <> struct Packed<f16> {
    static __device__ __forceinline__ void unpack(const Quad &quad, float *values) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            asm("{.reg .b16 low, high;\n mov.b32 {low, high}, %2;\n cvt.f32.f16 %0, low;\n cvt.f32.f16 %1, high;}"
                : "=f"(values[2 * i]), "=f"(values[2 * i + 1]) : "r"(quad.word[i]));
    }
    static __device__ __forceinline__ Quad pack(const float *values) {
        Quad quad;
#pragma unroll
        for (int i = 0; i < 4; i++)
            asm("cvt.rn.f16x2.f32 %0, %1, %2;"
                : "=r"(quad.word[i]) : "f"(values[2 * i + 1]), "f"(values[2 * i]));
        return quad;
    }
};
template <> struct Packed<bf16> {
    static __device__ __forceinline__ void unpack(const Quad &quad, float *values) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            values[2 * i] = __uint_as_float(quad.word[i] << 16);
            values[2 * i + 1] = __uint_as_float(quad.word[i] & 0xffff0000u);
        }
    }
    static __device__ __forceinline__ Quad pack(const float *values) {
        Quad quad;
#pragma unroll
        for (int i = 0; i < 4; i++)
            asm("cvt.rn.bf16x2.f32 %0, %1, %2;"
                : "=r"(quad.word[i]) : "f"(values[2 * i + 1]), "f"(values[2 * i]));
        return quad;
    }
};

// `COUNT` values from an aligned place: a whole vector, or one element. `Held` is how they lie in memory.
template <class T, int COUNT> struct Run {
    typedef Quad Held;
    static __device__ __forceinline__ Held hold(const T *place) { return load_quad(place); }
    static __device__ __forceinline__ void widen_held(const Held &held, Wide<T> *values) {
        Packed<T>::unpack(held, values);
    }
    static __device__ __forceinline__ void load(const T *place, Wide<T> *values) { widen_held(hold(place), values); }
    static __device__ __forceinline__ void store(T *place, const Wide<T> *values) {
        store_quad(place, Packed<T>::pack(values));
    }
};
template <class T> struct Run<T, 1> {
    typedef T Held;
    static __device__ __forceinline__ Held hold(const T *place) { return *place; }
    static __device__ __forceinline__ void widen_held(Held held, Wide<T> *values) { values[0] = widen(held); }
    static __device__ __forceinline__ void load(const T *place, Wide<T> *values) { values[0] = widen(*place); }
    static __device__ __forceinline__ void store(T *place, const Wide<T> *values) { *place = narrow<T>(values[0]); }
};

// Elements before the next 16-byte border, at most `count`.
template <class T> __device__ __forceinline__ u32 head_of(const T *place, u32 count) {
    const u32 head = (u32)((16 - ((u64)place & 15)) & 15) / sizeof(T);
    return head < count ? head : count;
}
// Whether two places lie alike to 16-byte borders.
__device__ __forceinline__ bool alike(const void *left, const void *right) {
    return (((u64)left ^ (u64)right) & 15) == 0;
}

// Mathematics. float and double take accurate forms, the library's where they are as fast as memory. The 16-bit types take forms of the
// special function unit whose error stays below a quarter of their last place: the accurate ones would cost
// more than the memory they wait for.
__device__ __forceinline__ float exp2_unit(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ float reciprocal_unit(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// NaN stays NaN, as in every other operation.
template <class W> __device__ __forceinline__ W greater_of(W a, W b) { return a > b || a != a ? a : b; }
template <class W> __device__ __forceinline__ W lesser_of(W a, W b) { return a < b || a != a ? a : b; }
__device__ __forceinline__ float greater_of(float a, float b) {
    float c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}
__device__ __forceinline__ float lesser_of(float a, float b) {
    float c;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}

template <class T> struct Math {
    static __device__ __forceinline__ float exp(float x) { return exp2_unit(x * 1.4426950408889634f); }
    static __device__ __forceinline__ float reciprocal(float x) { return reciprocal_unit(x); }
    static __device__ __forceinline__ float inverse_root(float x) { return ::rsqrtf(x); }
    static __device__ __forceinline__ float tanh(float x) {
        const float square = x * x;
        // The quotient loses digits near zero; the series does not.
        const float series = x * (1.0f + square * (-0.33333334f + square * 0.13333334f));
        const float quotient = 1.0f - 2.0f * reciprocal_unit(1.0f + exp(2.0f * x));
        return square < 0.0144f ? series : quotient;
    }
    // Half of x times the complement of the error function (Abramowitz and Stegun 7.1.26), which does not
    // cancel for a negative x.
    static __device__ __forceinline__ float gelu(float x) {
        const float z = fabsf(x) * 0.70710678f;
        const float t = reciprocal_unit(1.0f + 0.3275911f * z);
        float sum = 1.061405429f;
        sum = sum * t - 1.453152027f;
        sum = sum * t + 1.421413741f;
        sum = sum * t - 0.284496736f;
        sum = sum * t + 0.254829592f;
        const float tail = sum * t * exp2_unit(z * z * -1.4426950408889634f);
        return 0.5f * x * (x < 0.0f ? tail : 2.0f - tail);
    }
};
template <> struct Math<float> {
    static __device__ __forceinline__ float exp(float x) { return ::expf(x); }
    // At most one last place off. Below 2^-126 it is zero.
    static __device__ __forceinline__ float reciprocal(float x) { return reciprocal_unit(x); }
    static __device__ __forceinline__ float inverse_root(float x) { return 1.0f / ::sqrtf(x); }
    static __device__ __forceinline__ float tanh(float x) { return ::tanhf(x); }
    // As the 16-bit form, with a polynomial whose error is 1.8e-7 of its value, at a quarter of what the library's
    // erfcf takes: with more it is slower than its memory.
    static __device__ __forceinline__ float gelu(float x) {
        const float z = fminf(fabsf(x), 14.5f);
        const float t = reciprocal_unit(__fmaf_rn(z, 0.31112698f, 1.0f));
        float sum = 0.07127279f;
        sum = __fmaf_rn(sum, t, -0.27816343f);
        sum = __fmaf_rn(sum, t, 0.29707813f);
        sum = __fmaf_rn(sum, t, -0.020560559f);
        sum = __fmaf_rn(sum, t, 0.21602534f);
        sum = __fmaf_rn(sum, t, 0.21724489f);
        sum = __fmaf_rn(sum, t, 0.24888289f);
        sum = __fmaf_rn(sum, t, 0.24822015f);
        // What the product loses here is what half a last place of x makes.
        const float tail = sum * t * exp2_unit(z * z * -0.721347511f);
        return 0.5f * x * (x < 0.0f ? tail : 2.0f - tail);
    }
};
template <> struct Math<double> {
    static __device__ __forceinline__ double exp(double x) { return ::exp(x); }
    static __device__ __forceinline__ double reciprocal(double x) { return 1.0 / x; }
    static __device__ __forceinline__ double inverse_root(double x) { return 1.0 / ::sqrt(x); }
    static __device__ __forceinline__ double tanh(double x) { return ::tanh(x); }
    static __device__ __forceinline__ double gelu(double x) { return 0.5 * x * ::erfc(x * -0.70710678118654752); }
};

template <class T> __device__ __forceinline__ Wide<T> relu(Wide<T> x) {
    return x < (Wide<T>)0 ? (Wide<T>)0 : x;
}
template <class T> __device__ __forceinline__ Wide<T> sigmoid(Wide<T> x) {
    return Math<T>::reciprocal((Wide<T>)1 + Math<T>::exp(-x));
}
template <class T> __device__ __forceinline__ Wide<T> gelu(Wide<T> x) { return Math<T>::gelu(x); }
// x · sigmoid(2u) is x/2 · (1 + tanh u) without its cancellation.
template <class T> __device__ __forceinline__ Wide<T> gelu_tanh(Wide<T> x) {
    typedef Wide<T> W;
    const W twice = x * ((W)1.5957691216057308 + (W)0.07135481627260025 * x * x);
    return x * sigmoid<T>(twice);
}

// Codes of an activation, shared with the host and with the kernels of matmul.
enum Activation : int { NONE = 0, RELU = 1, GELU = 2, SIGMOID = 3, TANH = 4 };
template <class T> __device__ __forceinline__ Wide<T> activate(int activation, Wide<T> x) {
    switch (activation) {
    case RELU: return relu<T>(x);
    case GELU: return gelu<T>(x);
    case SIGMOID: return sigmoid<T>(x);
    case TANH: return Math<T>::tanh(x);
    default: return x;
    }
}

// The sum, the greatest, the least, and how they join.
template <class W> struct Sum {
    static __device__ __forceinline__ W empty() { return (W)0; }
    static __device__ __forceinline__ W join(W a, W b) { return a + b; }
};
template <class W> __device__ __forceinline__ W infinity();
template <> __device__ __forceinline__ float infinity<float>() { return __int_as_float(0x7f800000); }
template <> __device__ __forceinline__ double infinity<double>() { return __longlong_as_double(0x7ff0000000000000LL); }
template <class W> struct Max {
    static __device__ __forceinline__ W empty() { return -infinity<W>(); }
    static __device__ __forceinline__ W join(W a, W b) { return greater_of(a, b); }
};
template <class W> struct Min {
    static __device__ __forceinline__ W empty() { return infinity<W>(); }
    static __device__ __forceinline__ W join(W a, W b) { return lesser_of(a, b); }
};

// What the thread `step` away in its warp has. A value of several numbers has its own form.
template <class W> __device__ __forceinline__ W shuffled(W value, u32 step) {
    return __shfl_xor_sync(0xffffffffu, value, step);
}

// Joins a value over `group` threads that lie side by side, a power of two; all of them get it. A group
// within a warp uses shuffles alone. A larger group is the whole block; `shared` has 32 places, and is not
// used again before a barrier. Both sides of every join stand for equally many threads.
template <class V, class Join> __device__ __forceinline__ V join_group(V value, u32 group, V *shared, Join join) {
#pragma unroll
    for (u32 step = 16; step > 0; step /= 2)
        if (step < group) value = join(value, shuffled(value, step));
    if (group <= 32) return value;
    const u32 warps = group / 32;
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
    __syncthreads();
    value = shared[threadIdx.x & (warps - 1)];
#pragma unroll
    for (u32 step = 16; step > 0; step /= 2)
        if (step < warps) value = join(value, shuffled(value, step));
    return value;
}

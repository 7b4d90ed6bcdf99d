// Batch normalisation of [batch, channels, plane] tensors; a plane of one element is the [batch, channels] form.
//
// Training reads its input twice, which no order of work avoids: the statistics of a channel need all of it.
//   statistics: count, mean and squared distances of a channel, or of a part of it
//   columns:    the same for planes of one element, where neighbours in memory are different channels
//   finish:     joins the parts, keeps mean and inverse deviation, moves the running ones
//   apply:      normalises; it begins at the end of the tensor, which the statistics read last, so that
//               what the second-level cache still holds is not read from memory again
// Every thread measures from the first value it saw, and parts join exactly (Chan), so that a mean far from
// zero costs no digits.

#ifndef PRELUDE
#include "prelude.cuh"
#endif
#ifndef MOMENTS
#include "moments.cuh"
#endif

// Sums of distances from the first value seen.
template <class W> struct Shifted {
    W origin, sum, squares;
    u32 count;
    template <int COUNT> __device__ __forceinline__ void add(const W *values) {
        if (count == 0) origin = values[0];
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            const W distance = values[i] - origin;
            sum += distance;
            squares += distance * distance;
        }
        count += COUNT;
    }
    __device__ __forceinline__ Moments<W> moments() const {
        if (count == 0) return {0, 0, 0};
        const W shift = sum / (W)count;
        const W spread = squares - sum * shift;
        return {(W)count, origin + shift, spread < (W)0 ? (W)0 : spread};
    }
};

template <class W> __device__ __forceinline__ void put_moments(W *parts, u64 part, Moments<W> moments) {
    parts[part * 3] = moments.count;
    parts[part * 3 + 1] = moments.mean;
    parts[part * 3 + 2] = moments.squares;
}

// Part blockIdx.y of channel blockIdx.x. The channel is `batch` planes, one `channels * plane` apart; RUN
// elements of a plane are read at once, and RUN divides it.
template <class T, int RUN>
__device__ __forceinline__ void channel_statistics(const T *input, Wide<T> *parts, u32 batch, u32 channels, u32 plane) {
    typedef Wide<T> W;
    constexpr u32 UNROLL = 4;
    __shared__ Moments<W> of_warp[32];
    const u32 runs_of_plane = plane / RUN;
    const u64 runs = (u64)batch * runs_of_plane;
    const u32 begin = (u32)(runs * blockIdx.y / gridDim.y), end = (u32)(runs * (blockIdx.y + 1) / gridDim.y);
    const T *channel = input + (u64)blockIdx.x * plane;
    const u64 pitch = (u64)channels * plane;
    u32 run = begin + threadIdx.x;
    u32 sample = run / runs_of_plane, within = run % runs_of_plane;
    const u32 step_samples = blockDim.x / runs_of_plane, step_within = blockDim.x % runs_of_plane;
    Shifted<W> shifted = {0, 0, 0, 0};
    while (run < end) {
        // As they lie in memory: widened they would take twice the registers, and half the threads fit.
        typename Run<T, RUN>::Held held[UNROLL];
        u32 filled = 0;
#pragma unroll
        for (u32 u = 0; u < UNROLL; u++) {
            if (run < end) {
                held[u] = Run<T, RUN>::hold(channel + sample * pitch + (u64)within * RUN);
                filled = u + 1;
            }
            run += blockDim.x;
            sample += step_samples;
            within += step_within;
            if (within >= runs_of_plane) {
                within -= runs_of_plane;
                sample++;
            }
        }
#pragma unroll
        for (u32 u = 0; u < UNROLL; u++) {
            if (u >= filled) break;
            W values[RUN];
            Run<T, RUN>::widen_held(held[u], values);
            shifted.template add<RUN>(values);
        }
    }
    const Moments<W> moments = join_group(shifted.moments(), blockDim.x, of_warp, join_moments<W>);
    if (threadIdx.x == 0) put_moments(parts, (u64)blockIdx.x * gridDim.y + blockIdx.y, moments);
}

// Planes of one element: a block of 32 by 8 threads takes 32 runs of channels and every eighth sample of
// part blockIdx.y.
template <class T, int RUN>
__device__ __forceinline__ void column_statistics(const T *input, Wide<T> *parts, u32 batch, u32 channels) {
    typedef Wide<T> W;
    constexpr u32 UNROLL = 4, HIGH = 8;
    __shared__ Moments<W> of_thread[HIGH][32];
    const u32 channel = (blockIdx.x * 32 + threadIdx.x) * RUN;
    const u32 begin = (u32)((u64)batch * blockIdx.y / gridDim.y), end = (u32)((u64)batch * (blockIdx.y + 1) / gridDim.y);
    Shifted<W> shifted[RUN];
#pragma unroll
    for (int i = 0; i < RUN; i++) shifted[i] = {0, 0, 0, 0};
    if (channel < channels) {
        for (u32 sample = begin + threadIdx.y; sample < end; sample += HIGH * UNROLL) {
            W values[UNROLL][RUN];
#pragma unroll
            for (u32 u = 0; u < UNROLL; u++)
                if (sample + u * HIGH < end) Run<T, RUN>::load(input + (u64)(sample + u * HIGH) * channels + channel, values[u]);
#pragma unroll
            for (u32 u = 0; u < UNROLL; u++)
                if (sample + u * HIGH < end) {
#pragma unroll
                    for (int i = 0; i < RUN; i++) shifted[i].template add<1>(&values[u][i]);
                }
        }
    }
#pragma unroll
    for (int i = 0; i < RUN; i++) {
        of_thread[threadIdx.y][threadIdx.x] = shifted[i].moments();
        __syncthreads();
        if (threadIdx.y == 0 && channel < channels) {
            Moments<W> moments = of_thread[0][threadIdx.x];
            for (u32 high = 1; high < HIGH; high++) moments = join_moments(moments, of_thread[high][threadIdx.x]);
            put_moments(parts, (u64)(channel + i) * gridDim.y + blockIdx.y, moments);
        }
        __syncthreads();
    }
}

// One warp per channel joins its parts. The running variance is the unbiased one.
template <class W>
__device__ __forceinline__ void finish_statistics(const W *parts, W *mean, W *inverse, W *running_mean, W *running_variance,
                                                  u32 channels, u32 parts_of_channel, W epsilon, W momentum) {
    const u32 channel = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (channel >= channels) return;
    Moments<W> moments = {0, 0, 0};
    for (u32 part = lane; part < parts_of_channel; part += 32) {
        const W *place = parts + ((u64)channel * parts_of_channel + part) * 3;
        moments = join_moments(moments, {place[0], place[1], place[2]});
    }
    for (u32 step = 16; step > 0; step /= 2) moments = join_moments(moments, shuffled(moments, step));
    if (lane != 0) return;
    mean[channel] = moments.mean;
    inverse[channel] = Math<W>::inverse_root(moments.squares / moments.count + epsilon);
    if (running_mean) running_mean[channel] += momentum * (moments.mean - running_mean[channel]);
    if (running_variance) {
        const W unbiased = moments.squares / (moments.count - (W)1);
        running_variance[channel] += momentum * (unbiased - running_variance[channel]);
    }
}

// Division by a number that the host prepared: exact below 2^31.
struct Divisor {
    u32 divisor, magic, shift;
    __device__ __forceinline__ u32 divide(u32 value) const { return (__umulhi(value, magic) + value) >> shift; }
    __device__ __forceinline__ u32 rest(u32 value) const { return value - divide(value) * divisor; }
};

// How the elements of a vector find their channel: all have one, they are neighbours, or each looks.
enum Layout : u32 { ONE_CHANNEL = 0, NEIGHBOURS = 1, EACH_LOOKS = 2 };

template <class W> struct Channel {
    W mean, scale, beta;
    __device__ __forceinline__ W apply(W value) const { return (value - mean) * scale + beta; }
};

// `deviation` holds the inverse deviation, or the variance where `is_variance`.
template <class T>
__device__ __forceinline__ void normalise(const T *input, T *output, const Wide<T> *mean, const Wide<T> *deviation,
                                          const Wide<T> *gamma, const Wide<T> *beta, u32 count, Divisor plane,
                                          Divisor channels, u32 layout, u32 is_variance, Wide<T> epsilon) {
    typedef Wide<T> W;
    constexpr u32 LANES = Lanes<T>::count, UNROLL = sizeof(T) == 2 ? 2 : sizeof(T) == 8 ? 1 : 4;
    auto channel_at = [&](u32 index) {
        W inverse = deviation[index];
        if (is_variance) inverse = Math<W>::inverse_root(inverse + epsilon);
        return Channel<W>{mean[index], gamma ? gamma[index] * inverse : inverse, beta ? beta[index] : (W)0};
    };
    auto channel_of = [&](u32 element) { return channels.rest(plane.divide(element)); };
    const u32 block = gridDim.x - 1 - blockIdx.x;
    if (!alike(input, output)) {
        for (u32 i = block * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
            output[i] = narrow<T>(channel_at(channel_of(i)).apply(widen(input[i])));
        return;
    }
    const u32 head = head_of(input, count), vectors = (count - head) / LANES, chunk = blockDim.x * UNROLL;
    const u32 first = block * chunk + threadIdx.x;
    Quad quads[UNROLL];
#pragma unroll
    for (u32 u = 0; u < UNROLL; u++)
        if (first + u * blockDim.x < vectors) quads[u] = load_quad(input + head + (u64)(first + u * blockDim.x) * LANES);
#pragma unroll
    for (u32 u = 0; u < UNROLL; u++) {
        const u32 vector = first + u * blockDim.x;
        if (vector >= vectors) continue;
        const u32 at = head + vector * LANES;
        W values[LANES];
        Packed<T>::unpack(quads[u], values);
        if (layout == ONE_CHANNEL) {
            const Channel<W> channel = channel_at(channel_of(at));
#pragma unroll
            for (u32 i = 0; i < LANES; i++) values[i] = channel.apply(values[i]);
        } else if (layout == NEIGHBOURS) {
            constexpr u32 WIDE_LANES = Lanes<W>::count;
            const u32 index = channels.rest(at);
#pragma unroll
            for (u32 part = 0; part < LANES; part += WIDE_LANES) {
                W means[WIDE_LANES], scales[WIDE_LANES], parameters[WIDE_LANES];
                Run<W, WIDE_LANES>::load(mean + index + part, means);
                Run<W, WIDE_LANES>::load(deviation + index + part, scales);
#pragma unroll
                for (u32 i = 0; i < WIDE_LANES; i++) {
                    if (is_variance) scales[i] = Math<W>::inverse_root(scales[i] + epsilon);
                    values[part + i] = (values[part + i] - means[i]) * scales[i];
                }
                if (gamma) {
                    Run<W, WIDE_LANES>::load(gamma + index + part, parameters);
#pragma unroll
                    for (u32 i = 0; i < WIDE_LANES; i++) values[part + i] *= parameters[i];
                }
                if (beta) {
                    Run<W, WIDE_LANES>::load(beta + index + part, parameters);
#pragma unroll
                    for (u32 i = 0; i < WIDE_LANES; i++) values[part + i] += parameters[i];
                }
            }
        } else {
#pragma unroll
            for (u32 i = 0; i < LANES; i++) values[i] = channel_at(channel_of(at + i)).apply(values[i]);
        }
        store_quad(output + at, Packed<T>::pack(values));
    }
    if (block == 0) {
        const u32 rest = head + vectors * LANES;
        for (u32 i = threadIdx.x; i < head + (count - rest); i += blockDim.x) {
            const u32 at = i < head ? i : rest + (i - head);
            output[at] = narrow<T>(channel_at(channel_of(at)).apply(widen(input[at])));
        }
    }
}

#define BATCH_NORM(T)                                                                                  \
    extern "C" __global__ void __launch_bounds__(256) batch_norm_statistics_##T(                       \
        const T *input, Wide<T> *parts, u32 batch, u32 channels, u32 plane) {                          \
        channel_statistics<T, Lanes<T>::count>(input, parts, batch, channels, plane);                  \
    }                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256) batch_norm_odd_statistics_##T(                   \
        const T *input, Wide<T> *parts, u32 batch, u32 channels, u32 plane) {                          \
        channel_statistics<T, 1>(input, parts, batch, channels, plane);                                \
    }                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256) batch_norm_columns_##T(                          \
        const T *input, Wide<T> *parts, u32 batch, u32 channels) {                                     \
        column_statistics<T, Lanes<T>::count>(input, parts, batch, channels);                          \
    }                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256) batch_norm_odd_columns_##T(                      \
        const T *input, Wide<T> *parts, u32 batch, u32 channels) {                                     \
        column_statistics<T, 1>(input, parts, batch, channels);                                        \
    }                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256) batch_norm_apply_##T(                            \
        const T *input, T *output, const Wide<T> *mean, const Wide<T> *deviation, const Wide<T> *gamma, \
        const Wide<T> *beta, u32 count, u32 plane, u32 plane_magic, u32 plane_shift, u32 channels,     \
        u32 channels_magic, u32 channels_shift, u32 layout, u32 is_variance, Wide<T> epsilon) {        \
        normalise<T>(input, output, mean, deviation, gamma, beta, count,                               \
                     Divisor{plane, plane_magic, plane_shift},                                         \
                     Divisor{channels, channels_magic, channels_shift}, layout, is_variance, epsilon); \
    }
#define FINISH(W)                                                                                      \
    extern "C" __global__ void __launch_bounds__(256) batch_norm_finish_##W(                           \
        const W *parts, W *mean, W *inverse, W *running_mean, W *running_variance, u32 channels,       \
        u32 parts_of_channel, W epsilon, W momentum) {                                                 \
        finish_statistics<W>(parts, mean, inverse, running_mean, running_variance, channels,           \
                             parts_of_channel, epsilon, momentum);                                     \
    }

BATCH_NORM(float)
BATCH_NORM(double)
BATCH_NORM(f16)
BATCH_NORM(bf16)
FINISH(float)
FINISH(double)

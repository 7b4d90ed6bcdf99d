"""numba-cuda: elementwise work, shared memory, atomics, warps, reductions, device functions, random numbers, printing."""

import math

import numpy as np
from cases import case, run
from numba import cuda, float32
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32

random = np.random.default_rng(0)


@case
def elementwise():
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = math.sin(x[i]) + 2 * x[i]

    x = random.standard_normal(5000).astype(np.float32)
    out = np.zeros_like(x)
    kernel[20, 256](x, out)
    np.testing.assert_allclose(out, np.sin(x) + 2 * x, rtol=1e-4, atol=1e-5)


@case
def shared_memory_matmul():
    @cuda.jit
    def kernel(a, b, out):
        left, right = cuda.shared.array((16, 16), float32), cuda.shared.array((16, 16), float32)
        x, y = cuda.grid(2)
        column, row = cuda.threadIdx.x, cuda.threadIdx.y
        total = float32(0)
        for tile in range(a.shape[1] // 16):
            left[row, column] = a[y, tile * 16 + column]
            right[row, column] = b[tile * 16 + row, x]
            cuda.syncthreads()
            for k in range(16):
                total += left[row, k] * right[k, column]
            cuda.syncthreads()
        out[y, x] = total

    a, b = random.standard_normal((2, 64, 64)).astype(np.float32)
    out = np.zeros((64, 64), dtype=np.float32)
    kernel[(4, 4), (16, 16)](a, b, out)
    np.testing.assert_allclose(out, a @ b, rtol=1e-3, atol=1e-3)


@case
def atomics():
    @cuda.jit
    def kernel(values, bins):
        i = cuda.grid(1)
        if i < values.size:
            cuda.atomic.add(bins, values[i], 1)

    values = random.integers(0, 32, 10_000)
    bins = np.zeros(32, dtype=np.int64)
    kernel[40, 256](values, bins)
    np.testing.assert_array_equal(bins, np.bincount(values, minlength=32))


@case
def warp_shuffle():
    @cuda.jit
    def kernel(out):
        value = cuda.laneid
        for distance in (16, 8, 4, 2, 1):
            value += cuda.shfl_xor_sync(0xFFFFFFFF, value, distance)
        out[cuda.threadIdx.x] = value

    out = np.zeros(64, dtype=np.int64)
    kernel[1, 64](out)
    assert (out == 496).all()


@case
def reduction():
    total = cuda.reduce(lambda a, b: a + b)
    x = random.standard_normal(10_000)
    np.testing.assert_allclose(total(x), x.sum(), rtol=1e-9)


@case
def device_function_and_vectorize():
    from numba import vectorize

    @vectorize(["float64(float64, float64)"], target="cuda")
    def hypotenuse(a, b):
        return math.sqrt(a * a + b * b)

    a, b = random.standard_normal((2, 1000))
    np.testing.assert_allclose(hypotenuse(a, b), np.hypot(a, b), rtol=1e-12)


@case
def random_numbers():
    @cuda.jit
    def kernel(states, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = xoroshiro128p_uniform_float32(states, i)

    out = np.zeros(2048, dtype=np.float32)
    kernel[8, 256](create_xoroshiro128p_states(2048, seed=1), out)
    assert 0.45 < out.mean() < 0.55 and 0 <= out.min() and out.max() < 1


@case
def streams_and_events():
    @cuda.jit
    def kernel(out):
        out[cuda.grid(1)] += 1

    stream = cuda.stream()
    out = cuda.to_device(np.zeros(512), stream=stream)
    begin, end = cuda.event(), cuda.event()
    begin.record(stream)
    for _ in range(3):
        kernel[2, 256, stream](out)
    end.record(stream)
    end.synchronize()
    assert begin.elapsed_time(end) >= 0 and (out.copy_to_host() == 3).all()


run()

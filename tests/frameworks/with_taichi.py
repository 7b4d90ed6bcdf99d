"""Taichi on its CUDA backend: fields, reductions, atomics, structures, a simulation equal to NumPy's."""

import numpy as np
import taichi as ti
from cases import case, run

ti.init(arch=ti.cuda, log_level=ti.WARN)
assert ti.lang.impl.current_cfg().arch == ti.cuda


@case
def elementwise():
    field = ti.field(ti.f32, 5000)

    @ti.kernel
    def fill():
        for i in field:
            field[i] = ti.sin(i * 0.01) * 2

    fill()
    np.testing.assert_allclose(field.to_numpy(), np.sin(np.arange(5000) * 0.01) * 2, atol=1e-4)


@case
def reduction():
    x = ti.field(ti.i32, 4096)
    x.from_numpy(np.arange(4096, dtype=np.int32))

    @ti.kernel
    def total() -> ti.i64:
        out = ti.i64(0)
        for i in x:
            out += x[i]
        return out

    assert total() == 4096 * 4095 // 2


@case
def atomics():
    bins = ti.field(ti.i32, 16)

    @ti.kernel
    def count():
        for i in range(10_000):
            ti.atomic_add(bins[i % 16], 1)

    count()
    assert bins.to_numpy().tolist() == [625] * 16


@case
def matmul():
    a, b = np.random.default_rng(0).standard_normal((2, 48, 48)).astype(np.float32)

    @ti.kernel
    def product(a: ti.types.ndarray(), b: ti.types.ndarray(), out: ti.types.ndarray()):
        for i, j in ti.ndrange(48, 48):
            sum = 0.0
            for k in range(48):
                sum += a[i, k] * b[k, j]
            out[i, j] = sum

    out = np.zeros((48, 48), dtype=np.float32)
    product(a, b, out)
    np.testing.assert_allclose(out, a @ b, rtol=1e-3, atol=1e-3)


@case
def heat_equation():
    size, steps = 64, 20
    now, then = ti.field(ti.f32, (size, size)), ti.field(ti.f32, (size, size))
    start = np.zeros((size, size), dtype=np.float32)
    start[24:40, 24:40] = 1

    @ti.kernel
    def step(old: ti.template(), new: ti.template()):
        for i, j in ti.ndrange((1, size - 1), (1, size - 1)):
            around = old[i - 1, j] + old[i + 1, j] + old[i, j - 1] + old[i, j + 1]
            new[i, j] = old[i, j] + 0.1 * (around - 4 * old[i, j])

    now.from_numpy(start)
    expected = start.copy()
    for _ in range(steps):
        step(now, then)
        now, then = then, now
        inner = expected[1:-1, 1:-1]
        around = expected[:-2, 1:-1] + expected[2:, 1:-1] + expected[1:-1, :-2] + expected[1:-1, 2:]
        following = np.zeros_like(expected)
        following[1:-1, 1:-1] = inner + np.float32(0.1) * (around - 4 * inner)
        expected = following
    np.testing.assert_allclose(now.to_numpy(), expected, atol=1e-5)


run()

"""CuPy: elementwise work, reductions, RawKernel, matmul, sort."""

import cupy
import numpy as np
from cases import case, run

random = np.random.default_rng(0)


@case
def elementwise():
    x = random.standard_normal(5000)
    np.testing.assert_allclose(cupy.asnumpy(cupy.sin(cupy.asarray(x)) * 2), np.sin(x) * 2, rtol=1e-9, atol=1e-12)


@case
def reductions():
    x = random.standard_normal((50, 70))
    np.testing.assert_allclose(cupy.asnumpy(cupy.asarray(x).sum(axis=0)), x.sum(axis=0), rtol=1e-9)
    assert int(cupy.asarray(x).argmax()) == x.argmax()


@case
def raw_kernel():
    kernel = cupy.RawKernel(
        'extern "C" __global__ void add(const float *a, const float *b, float *c)'
        "{ int i = blockIdx.x * blockDim.x + threadIdx.x; c[i] = a[i] + b[i]; }",
        "add",
    )
    a, b = random.standard_normal((2, 1024)).astype(np.float32)
    out = cupy.empty(1024, dtype=np.float32)
    kernel((4,), (256,), (cupy.asarray(a), cupy.asarray(b), out))
    np.testing.assert_array_equal(cupy.asnumpy(out), a + b)


@case
def matmul():
    a, b = random.standard_normal((2, 40, 40))
    np.testing.assert_allclose(cupy.asnumpy(cupy.asarray(a) @ cupy.asarray(b)), a @ b, rtol=1e-9)


@case
def sort():
    x = random.permutation(1000)
    np.testing.assert_array_equal(cupy.asnumpy(cupy.sort(cupy.asarray(x))), np.sort(x))


run()

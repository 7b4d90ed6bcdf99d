"""CuPy: elementwise kernels, a kernel from source, a reduction and a matrix product."""

import os
import tempfile

_CACHE = tempfile.TemporaryDirectory(prefix="cupy-")
os.environ["CUPY_CACHE_DIR"] = _CACHE.name

import cupy
import numpy

from digest import arguments, print_digest

SAXPY = cupy.RawKernel(
    r"""
    extern "C" __global__ void saxpy(float a, const float* x, float* y, int count) {
        int index = blockIdx.x * blockDim.x + threadIdx.x;
        if (index < count) y[index] += a * x[index];
    }
    """,
    "saxpy",
)


def main():
    steps = arguments(__doc__, steps=3).parse_args().steps
    random = numpy.random.default_rng(1)
    left = cupy.asarray(random.normal(size=(512, 512)).astype(numpy.float32))
    right = cupy.asarray(random.normal(size=(512, 512)).astype(numpy.float32))
    outputs = []
    for _ in range(steps):
        mixed = cupy.sin(left) * right + cupy.sqrt(cupy.abs(left))
        count = mixed.size
        SAXPY(((count + 255) // 256,), (256,), (numpy.float32(0.25), right, mixed, numpy.int32(count)))
        product = left @ mixed
        outputs += [cupy.asnumpy(product), cupy.asnumpy(mixed.sum(axis=0))]
        left = product / cupy.abs(product).max()
    print_digest(*outputs)


if __name__ == "__main__":
    main()

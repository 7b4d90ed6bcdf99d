"""Compiles usual kernels of Numba for compute capability 9.0 and writes their PTX: numba_kernels.py FOLDER.

It needs the package numba-cuda beside numba, and libnvvm.
"""

import sys, pathlib, math
from numba import cuda, types, float32, float64, int32
out = pathlib.Path(sys.argv[1])
A1, A2, I1 = float32[::1], float32[:, ::1], int32[::1]
S1 = float32[:]
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size: y[i] = a * x[i] + y[i]
def stride_loop(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)): y[i] = math.exp(x[i])
def matmul(a, b, c):
    i, j = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        t = float32(0)
        for k in range(a.shape[1]): t += a[i, k] * b[k, j]
        c[i, j] = t
def tiled(a, b, c):
    sa = cuda.shared.array((16, 16), float32); sb = cuda.shared.array((16, 16), float32)
    x, y = cuda.grid(2); tx = cuda.threadIdx.x; ty = cuda.threadIdx.y
    t = float32(0)
    for k in range(a.shape[1] // 16):
        sa[tx, ty] = a[x, ty + k * 16]; sb[tx, ty] = b[tx + k * 16, y]; cuda.syncthreads()
        for n in range(16): t += sa[tx, n] * sb[n, ty]
        cuda.syncthreads()
    if x < c.shape[0] and y < c.shape[1]: c[x, y] = t
def histogram(x, bins, lo, hi):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        b = int((x[i] - lo) / (hi - lo) * bins.size)
        if b >= 0 and b < bins.size: cuda.atomic.add(bins, b, 1)
def block_sum(x, y):
    s = cuda.shared.array(256, float32); i = cuda.grid(1); t = cuda.threadIdx.x
    s[t] = x[i] if i < x.size else 0
    cuda.syncthreads(); h = 128
    while h > 0:
        if t < h: s[t] += s[t + h]
        cuda.syncthreads(); h //= 2
    if t == 0: y[cuda.blockIdx.x] = s[0]
def stencil(x, y):
    i, j = cuda.grid(2)
    if 0 < i < x.shape[0] - 1 and 0 < j < x.shape[1] - 1:
        y[i, j] = 0.25 * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1])
def gather(x, ids, y):
    i = cuda.grid(1)
    if i < ids.size: y[i] = x[ids[i]]
def mandelbrot(y, it):
    i, j = cuda.grid(2)
    if i < y.shape[0] and j < y.shape[1]:
        c = complex(j / y.shape[1] * 3 - 2, i / y.shape[0] * 2 - 1); z = 0j; n = 0
        while n < it and z.real * z.real + z.imag * z.imag < 4: z = z * z + c; n += 1
        y[i, j] = n
def transpose(x, y):
    s = cuda.shared.array((32, 33), float32); i, j = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]: s[cuda.threadIdx.y, cuda.threadIdx.x] = x[i, j]
    cuda.syncthreads()
    if j < y.shape[0] and i < y.shape[1]: y[j, i] = s[cuda.threadIdx.y, cuda.threadIdx.x]
jobs = [(saxpy, (float32, A1, A1)), (saxpy, (float32, S1, S1)), (stride_loop, (A1, A1)), (matmul, (A2, A2, A2)), (tiled, (A2, A2, A2)), (histogram, (A1, I1, float32, float32)), (block_sum, (A1, A1)), (stencil, (A2, A2)), (gather, (A1, I1, A1)), (mandelbrot, (A2, int32)), (transpose, (A2, A2))]
for number, (function, kinds) in enumerate(jobs):
    text, _ = cuda.compile_ptx(function, types.void(*kinds), cc=(9, 0))
    (out / f"{number}-{function.__name__}.ptx").write_text(text)

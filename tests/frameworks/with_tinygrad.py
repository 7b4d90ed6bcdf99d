"""tinygrad on its CUDA device: elementwise work, reductions, matmul, sort, convolution, a training equal to NumPy's."""

import os

os.environ.setdefault("DEV", "CUDA")

import numpy as np
from cases import case, run
from tinygrad import Context, Device, Tensor, TinyJit, dtypes, nn

random = np.random.default_rng(0)


@case
def device():
    assert Device.DEFAULT.startswith("CUDA"), Device.DEFAULT


@case
def elementwise():
    x = random.standard_normal(10_000, dtype=np.float32)
    out = (Tensor(x).exp() * 2 - Tensor(x).abs().sqrt()).numpy()
    np.testing.assert_allclose(out, np.exp(x) * 2 - np.sqrt(np.abs(x)), rtol=1e-4, atol=1e-5)


@case
def reductions():
    x = random.standard_normal((64, 300), dtype=np.float32)
    np.testing.assert_allclose(Tensor(x).sum(axis=1).numpy(), x.sum(axis=1), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(Tensor(x).argmax(axis=0).numpy(), x.argmax(axis=0))


@case
def matmul():
    a, b = (random.standard_normal((96, 96), dtype=np.float32) for _ in range(2))
    np.testing.assert_allclose((Tensor(a) @ Tensor(b)).numpy(), a @ b, rtol=1e-3, atol=1e-3)


@case
def half_precision():
    x = random.standard_normal(2000).astype(np.float16)
    out = (Tensor(x).cast(dtypes.float16) * 3).numpy()
    np.testing.assert_array_equal(out, x * np.float16(3))


@case
def sort():
    x = random.permutation(200).astype(np.float32)
    np.testing.assert_array_equal(Tensor(x).sort()[0].numpy(), np.sort(x))


@case
def convolution():
    x = random.standard_normal((1, 3, 12, 12), dtype=np.float32)
    w = random.standard_normal((4, 3, 3, 3), dtype=np.float32)
    out = Tensor(x).conv2d(Tensor(w)).numpy()
    windows = np.lib.stride_tricks.sliding_window_view(x[0], (3, 3), axis=(1, 2))
    np.testing.assert_allclose(out[0], np.einsum("cijkl,ockl->oij", windows, w), rtol=1e-3, atol=1e-3)


@case
def jit():
    step = TinyJit(lambda x: (x * 2 + 1).realize())
    for value in range(4):
        assert step(Tensor([float(value)] * 8).realize()).numpy().tolist() == [2.0 * value + 1] * 8


@case
def training():
    x = random.standard_normal((32, 4), dtype=np.float32)
    y = x @ np.array([[1.0], [-2.0], [0.5], [3.0]], dtype=np.float32)
    weight = Tensor(np.zeros((4, 1), dtype=np.float32))
    optimizer = nn.optim.SGD([weight], lr=0.1)
    expected = np.zeros((4, 1), dtype=np.float32)
    with Context(TRAINING=1):
        for _ in range(10):
            optimizer.zero_grad()
            ((Tensor(x) @ weight - Tensor(y)) ** 2).mean().backward()
            optimizer.step()
            expected -= 0.1 * 2 / 32 * x.T @ (x @ expected - y)
    np.testing.assert_allclose(weight.numpy(), expected, rtol=1e-3, atol=1e-4)


run()

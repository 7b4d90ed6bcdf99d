"""Triton: the kernels of its tutorials 01 to 05, with their answers."""

import torch
import triton
import triton.language as tl
from cases import case, run

device = "cuda"
torch.manual_seed(0)


@triton.jit
def add(x, y, out, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < size) + tl.load(y + at, at < size), at < size)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * columns
    value = tl.load(x + row + at, at < columns, -float("inf"))
    power = tl.exp(value - tl.max(value, 0))
    tl.store(out + row + at, power / tl.sum(power, 0), at < columns)


@triton.jit
def product(a, b, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        inner = start + tl.arange(0, BK)
        left = tl.load(a + rows[:, None] * K + inner[None, :])
        right = tl.load(b + inner[:, None] * N + columns[None, :])
        total = tl.dot(left, right, total)
    tl.store(out + rows[:, None] * N + columns[None, :], total.to(tl.float16))


@triton.jit
def dropout(x, out, size, keep, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, at < size)
    tl.store(out + at, tl.where(tl.rand(seed, at) < keep, value / keep, 0.0), at < size)


@triton.jit
def layer_norm(x, out, weight, bias, columns, epsilon, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * columns
    value = tl.load(x + row + at, at < columns, 0.0)
    mean = tl.sum(value, 0) / columns
    apart = tl.where(at < columns, value - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(apart * apart, 0) / columns + epsilon)
    value = apart * scale * tl.load(weight + at, at < columns) + tl.load(bias + at, at < columns)
    tl.store(out + row + at, value, at < columns)


def upload(host):
    """Memory of the device with this content, and room for an answer: the kernels of torch are not asked for."""
    on_device = torch.empty(host.shape, dtype=host.dtype, device=device)
    on_device.copy_(host)
    return on_device


@case
def tutorial_01_add():
    x, y = torch.rand(2, 5000)
    out = upload(torch.zeros(5000))
    add[(5,)](upload(x), upload(y), out, 5000, BLOCK=1024)
    torch.testing.assert_close(out.cpu(), x + y)


@case
def tutorial_02_softmax():
    x = torch.randn(32, 781)
    out = upload(torch.zeros_like(x))
    softmax[(32,)](upload(x), out, 781, BLOCK=1024)
    torch.testing.assert_close(out.cpu(), torch.softmax(x, 1))


@case
def tutorial_03_matmul():
    a, b = torch.randn(2, 128, 128, dtype=torch.float16)
    out = upload(torch.zeros(128, 128, dtype=torch.float16))
    product[(2, 2)](upload(a), upload(b), out, 128, 128, 128, BM=64, BN=64, BK=32)
    torch.testing.assert_close(out.cpu(), (a.float() @ b.float()).half(), atol=5e-2, rtol=1e-2)


@case
def tutorial_04_dropout():
    x = torch.ones(10_000)
    out, again = upload(torch.zeros_like(x)), upload(torch.zeros_like(x))
    for target in (out, again):
        dropout[(10,)](upload(x), target, 10_000, 0.5, 123, BLOCK=1024)
    out = out.cpu()
    assert torch.equal(out, again.cpu()) and 0.45 < (out == 2).float().mean() < 0.55


@case
def tutorial_05_layer_norm():
    x, (weight, bias) = torch.randn(16, 300), torch.randn(2, 300)
    out = upload(torch.zeros_like(x))
    layer_norm[(16,)](upload(x), out, upload(weight), upload(bias), 300, 1e-5, BLOCK=512)
    expected = torch.nn.functional.layer_norm(x, (300,), weight, bias)
    torch.testing.assert_close(out.cpu(), expected, atol=1e-4, rtol=1e-4)


run()

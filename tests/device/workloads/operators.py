"""Operators of PyTorch in many sizes and formats, a family at a time, for the variety of their kernels.

Sizes are drawn from a seed; each size runs three times. A family ends after its seconds, or after `--steps` sizes. An
operator that refuses a size is passed over.
"""

import time

import torch
import torch.nn.functional as F

from digest import arguments, print_digest
from gate import wait_for_gpu

FORMATS = (torch.float32, torch.float16, torch.bfloat16)


class Draw:
    """Random sizes and tensors."""

    def __init__(self, seed):
        self.seeded = torch.Generator().manual_seed(seed)

    def number(self, low, high):
        """From low to high, evenly by its logarithm; often a multiple of eight."""
        span = torch.rand(1, generator=self.seeded).item()
        size = round(low * (high / low) ** span)
        return max(8, size // 8 * 8) if size > 16 and self.one_of((True, True, False)) else size

    def one_of(self, choices):
        return choices[int(torch.randint(len(choices), (1,), generator=self.seeded))]

    def tensor(self, *sides, format=None):
        return torch.randn(*sides, device="cuda", dtype=format or self.one_of(FORMATS))


def matmul(d):
    m, n, k, format = d.number(1, 8192), d.number(16, 8192), d.number(16, 8192), d.one_of((*FORMATS, torch.float64))
    left, right = d.tensor(m, k, format=format), d.tensor(k, n, format=format)
    return d.one_of((lambda: left @ right, lambda: F.linear(left, right.t().contiguous(), right[0].clone()),
                     lambda: left @ right.t().contiguous().t()))


def batched(d):
    b, m, n, k, format = d.number(2, 128), d.number(8, 1024), d.number(8, 1024), d.number(8, 1024), d.one_of(FORMATS)
    left, right = d.tensor(b, m, k, format=format), d.tensor(b, k, n, format=format)
    return lambda: torch.bmm(left, right)


def convolution(d):
    n, c, o, side = d.number(1, 64), d.number(3, 512), d.number(8, 512), d.number(7, 160)
    kernel, stride = d.one_of((1, 3, 3, 5, 7)), d.one_of((1, 1, 2))
    groups = c if d.one_of((False, False, True)) else 1
    o = c if groups > 1 else o
    format, layout = d.one_of(FORMATS), d.one_of((torch.contiguous_format, torch.channels_last))
    image = d.tensor(n, c, side, side, format=format).contiguous(memory_format=layout).requires_grad_()
    weights = d.tensor(o, c // groups, kernel, kernel, format=format).contiguous(memory_format=layout).requires_grad_()
    forward = lambda: F.conv2d(image, weights, stride=stride, padding=kernel // 2, groups=groups)
    return d.one_of((forward, lambda: forward().sum().backward()))


def elementwise(d):
    tensor = d.tensor(d.number(256, 1 << 25))
    other, row = torch.ones_like(tensor), d.tensor(d.number(8, 512), d.number(8, 16384))
    return d.one_of((
        lambda: tensor + other, lambda: tensor * 2, lambda: tensor.exp(), lambda: tensor.sin(), lambda: F.gelu(tensor),
        lambda: F.silu(tensor), lambda: tensor.sigmoid(), lambda: torch.where(tensor > 0, tensor, other),
        lambda: tensor.float(), lambda: tensor.half(), lambda: tensor.clone(), lambda: tensor.zero_(), lambda: row + row[0],
        lambda: row.t().contiguous(), lambda: tensor.pow(3), lambda: tensor.addcmul(tensor, other), lambda: tensor > other,
        lambda: tensor.double().sqrt(), lambda: tensor.clamp(0, 1), lambda: F.dropout(tensor, 0.1), lambda: row[:, ::2] * 3,
        lambda: torch.cat((tensor, other)), lambda: F.leaky_relu(tensor), lambda: tensor.tanh(), lambda: tensor.int() // 3))


def reduction(d):
    tensor, axis = d.tensor(d.number(4, 8192), d.number(4, 8192)), d.one_of((0, 1, None))
    at = {} if axis is None else {"dim": axis}
    return d.one_of((
        lambda: tensor.sum(**at), lambda: tensor.mean(**at), lambda: tensor.amax(**at), lambda: tensor.argmax(**at),
        lambda: tensor.float().norm(**at), lambda: tensor.float().var(**at), lambda: tensor.float().cumsum(axis or 0),
        lambda: tensor.float().logsumexp(axis or 0), lambda: tensor.float().prod(axis or 0), lambda: (tensor > 0).any(**at),
        lambda: tensor.float().std(), lambda: torch.count_nonzero(tensor)))


def normalise(d):
    rows, columns = d.number(4, 16384), d.number(16, 8192)
    tensor = d.tensor(rows, columns).requires_grad_()
    image = d.tensor(d.number(1, 32), 8 * d.number(1, 64), d.number(4, 64), d.number(4, 64)).requires_grad_()
    labels = torch.randint(0, columns, (rows,), device="cuda")
    channels = image.shape[1]
    forms = (
        lambda: F.softmax(tensor, 1), lambda: F.layer_norm(tensor, (columns,)), lambda: F.log_softmax(tensor, 1),
        lambda: F.batch_norm(image, torch.zeros(channels, device="cuda", dtype=image.dtype),
                             torch.ones(channels, device="cuda", dtype=image.dtype), training=True),
        lambda: F.group_norm(image, 8), lambda: F.cross_entropy(tensor, labels), lambda: F.rms_norm(tensor, (columns,)))
    form = d.one_of(forms)
    return d.one_of((form, lambda: form().float().sum().backward()))


def attention(d):
    b, h, length, width = d.number(1, 16), d.number(1, 32), d.number(16, 4096), d.one_of((32, 64, 64, 128))
    format = d.one_of(FORMATS)
    q, k, v = (d.tensor(b, h, length, width, format=format).requires_grad_() for _ in range(3))
    forward = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=d.one_of((True, False)))
    return d.one_of((forward, lambda: forward().sum().backward()))


def index(d):
    rows, columns, count = d.number(64, 1 << 18), d.number(1, 512), d.number(64, 1 << 18)
    table = d.tensor(rows, columns)
    wanted = torch.randint(0, rows, (count,), device="cuda")
    values = d.tensor(count, columns, format=table.dtype)
    return d.one_of((
        lambda: F.embedding(wanted, table), lambda: table[wanted], lambda: table.index_add(0, wanted, values),
        lambda: table.index_select(0, wanted), lambda: torch.bincount(wanted), lambda: table[table[:, 0] > 0],
        lambda: table.scatter(0, wanted[:, None].expand(-1, columns), values), lambda: table.nonzero(),
        lambda: table.gather(0, wanted[:, None].expand(-1, columns)), lambda: torch.flip(table, (0,)), lambda: table.roll(7, 0)))


def order(d):
    tensor = d.tensor(d.number(1, 256), d.number(64, 1 << 16))
    long = d.tensor(d.number(1 << 10, 1 << 23))
    whole = torch.randint(0, 1000, (long.numel(),), device="cuda")
    return d.one_of((
        lambda: tensor.sort(1), lambda: tensor.topk(min(16, tensor.shape[1]), 1), lambda: long.sort(), lambda: whole.unique(),
        lambda: tensor.float().kthvalue(3, 1), lambda: long.float().median(), lambda: torch.searchsorted(
            torch.arange(1024, device="cuda").float(), long.float()), lambda: torch.randperm(whole.numel(), device="cuda")))


def image(d):
    picture = d.tensor(d.number(1, 32), d.number(3, 256), d.number(8, 128), d.number(8, 128)).requires_grad_()
    forms = (
        lambda: F.max_pool2d(picture, 2), lambda: F.avg_pool2d(picture, 3, 2), lambda: F.adaptive_avg_pool2d(picture, 4),
        lambda: F.interpolate(picture, scale_factor=2), lambda: F.interpolate(picture, scale_factor=2, mode="bilinear"),
        lambda: F.pad(picture, (1, 1, 1, 1), mode="reflect"), lambda: F.unfold(picture, 3), lambda: F.pixel_shuffle(
            picture[:, : picture.shape[1] // 4 * 4] if picture.shape[1] >= 4 else picture.repeat(1, 4, 1, 1), 2))
    form = d.one_of(forms)
    return d.one_of((form, lambda: form().float().sum().backward()))


def transform(d):
    signal = d.tensor(d.number(1, 64), d.number(64, 1 << 15), format=torch.float32)
    square = d.tensor(d.number(1, 16), 8 * d.number(1, 32), 1, format=torch.float32)
    square = square @ square.transpose(1, 2) + 8 * torch.eye(square.shape[1], device="cuda")
    return d.one_of((
        lambda: torch.fft.fft(signal), lambda: torch.fft.rfft(signal), lambda: torch.linalg.cholesky(square),
        lambda: torch.linalg.solve(square, square), lambda: torch.linalg.inv(square), lambda: torch.cdist(
            signal[:, :64], signal[:, :64]), lambda: torch.einsum("bi,bj->bij", signal[:, :256], signal[:, :256])))


def recurrent(d):
    width, kind = 8 * d.number(4, 96), d.one_of((torch.nn.LSTM, torch.nn.GRU))
    net = kind(width, width, num_layers=d.one_of((1, 2))).cuda()
    text = d.tensor(d.number(4, 64), d.number(1, 32), width, format=torch.float32)
    return d.one_of((lambda: net(text), lambda: net(text)[0].sum().backward()))


FAMILIES = {family.__name__: family for family in (
    matmul, batched, convolution, elementwise, reduction, normalise, attention, index, order, image, transform, recurrent)}


def main():
    parser = arguments(__doc__, steps=1000)
    parser.add_argument("--family", choices=FAMILIES, required=True)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--gate", default="", help="file whose lock is waited for before the GPU is touched")
    options = parser.parse_args()
    draw = Draw(options.seed)
    wait_for_gpu(options.gate)
    torch.manual_seed(options.seed)
    begun, done = time.monotonic(), 0
    while done < options.steps and time.monotonic() - begun < options.seconds:
        done += 1
        try:
            form = FAMILIES[options.family](draw)
            for _ in range(3):
                form()
            torch.cuda.synchronize()
        except (RuntimeError, TypeError, ValueError) as error:
            if "out of memory" in str(error):
                torch.cuda.empty_cache()
    print_digest(str(done).encode())


if __name__ == "__main__":
    main()

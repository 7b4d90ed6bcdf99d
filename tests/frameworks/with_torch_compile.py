"""torch.compile: small models whose work inductor makes kernels of, equal to what the CPU gives."""

import torch
from cases import case, run

torch.manual_seed(0)


def same_as_on_cpu(function, *shapes):
    """Compiles a function for the device; everything that it does must be one of its kernels."""
    inputs = [torch.randn(shape) for shape in shapes]
    expected = function(*inputs)
    on_device = []
    for host in inputs:
        there = torch.empty(host.shape, device="cuda")
        there.copy_(host)
        on_device.append(there)
    out = torch.compile(function, fullgraph=True)(*on_device)
    torch.testing.assert_close(out.cpu(), expected, atol=1e-3, rtol=1e-3)


@case
def pointwise():
    same_as_on_cpu(lambda x, y: torch.sin(x) * y.relu() + 1, (500, 7), (500, 7))


@case
def softmax():
    same_as_on_cpu(lambda x: torch.softmax(x * 2, dim=1), (40, 300))


@case
def layer_norm():
    same_as_on_cpu(lambda x, w, b: torch.nn.functional.layer_norm(x, (256,), w, b), (32, 256), (256,), (256,))


@case
def gelu_and_sum():
    same_as_on_cpu(lambda x: torch.nn.functional.gelu(x).sum(dim=0), (200, 130))


@case
def loss_of_a_small_model():
    def loss(x, w, target):
        hidden = torch.tanh((x.unsqueeze(2) * w.unsqueeze(0)).sum(1))
        return ((hidden - target) ** 2).mean()

    same_as_on_cpu(loss, (64, 16), (16, 8), (64, 8))


run()

"""A small convolution and linear model compiled by Inductor, from an empty cache.

Inductor may choose between kernels by timing them, which would change the bits from run
to run; its deterministic mode keeps to one choice.
"""

import os
import tempfile

_CACHE = tempfile.TemporaryDirectory(prefix="inductor-")
os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(_CACHE.name, "inductor")
os.environ["TRITON_CACHE_DIR"] = os.path.join(_CACHE.name, "triton")
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"

import torch
import torch._inductor.config as inductor

from digest import arguments, print_digest


def main():
    steps = arguments(__doc__, steps=3).parse_args().steps
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    if hasattr(inductor, "deterministic"):
        inductor.deterministic = True
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1),
        torch.nn.GELU(),
        torch.nn.AvgPool2d(4),
        torch.nn.Flatten(),
        torch.nn.Linear(16 * 8 * 8, 128),
        torch.nn.LayerNorm(128),
        torch.nn.SiLU(),
        torch.nn.Linear(128, 10),
    )
    model = torch.compile(model.eval().cuda())
    images = torch.randn(16, 3, 32, 32, generator=torch.Generator().manual_seed(2)).cuda()
    outputs = []
    with torch.no_grad():
        for step in range(steps):
            outputs.append(model(images + step).softmax(dim=1).cpu().numpy())
    print_digest(*outputs)


if __name__ == "__main__":
    main()

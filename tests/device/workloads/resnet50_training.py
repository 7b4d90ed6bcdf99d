"""ResNet-50 trained by SGD on a seeded batch; the digest covers loss and parameters.

With `--time` the speed after a warm-up goes to standard error as one line of JSON. Only
deterministic algorithms are used: the digest must not depend on who watches.
"""

import json
import os
import sys
import time

# cuBLAS reads this when it starts; without it its results may differ between runs.
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"

import torch
import torchvision

from digest import arguments, print_digest

WARM_UP_STEPS = 20
BLOCK_STEPS = 20


def main():
    parser = arguments(__doc__, steps=2)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--time", action="store_true", help="measure steps per second")
    options = parser.parse_args()

    # A layer without a deterministic form then warns; the digest shows whether it matters.
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    torch.manual_seed(1)
    model = torchvision.models.resnet50(weights=None).train().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    seeded = torch.Generator().manual_seed(2)
    images = torch.randn(options.batch, 3, 224, 224, generator=seeded).cuda()
    labels = torch.randint(0, 1000, (options.batch,), generator=seeded).cuda()

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    def steps(count):
        started = time.perf_counter()
        for _ in range(count):
            loss = step()
        torch.cuda.synchronize()
        return loss, (time.perf_counter() - started) / count

    if options.time:
        steps(WARM_UP_STEPS)
        blocks = [steps(BLOCK_STEPS) for _ in range(options.steps // BLOCK_STEPS)]
        loss = blocks[-1][0]
        speed = {"step_ms": [round(1000 * seconds, 4) for _, seconds in blocks]}
        print(json.dumps(speed), file=sys.stderr, flush=True)
    else:
        loss, _ = steps(options.steps)

    tensors = [loss, *model.state_dict().values()]
    print_digest(*(tensor.detach().cpu().numpy() for tensor in tensors))


if __name__ == "__main__":
    main()

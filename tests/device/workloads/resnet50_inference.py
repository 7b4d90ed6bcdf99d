"""ResNet-50 with seeded random weights, evaluated on a seeded batch of 8."""

import torch
import torchvision

from digest import arguments, print_digest


def main():
    steps = arguments(__doc__, steps=3).parse_args().steps
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    model = torchvision.models.resnet50(weights=None).eval().cuda()
    images = torch.randn(8, 3, 224, 224, generator=torch.Generator().manual_seed(2)).cuda()
    outputs = []
    with torch.inference_mode():
        for _ in range(steps):
            logits = model(images)
            outputs.append(logits.cpu().numpy())
            images = images.roll(1, dims=3)
    print_digest(*outputs)


if __name__ == "__main__":
    main()

"""One step of a small network captured into a CUDA graph, which is replayed 100 times a step."""

import torch

from digest import arguments, print_digest

REPLAYS = 100


def main():
    steps = arguments(__doc__, steps=1).parse_args().steps
    torch.manual_seed(1)
    layers = torch.nn.Sequential(
        torch.nn.Linear(256, 256), torch.nn.Tanh(), torch.nn.Linear(256, 256), torch.nn.Tanh()
    ).cuda()
    state = torch.randn(64, 256, generator=torch.Generator().manual_seed(2)).cuda()

    with torch.no_grad():
        # Libraries allocate on first use, which a capture does not allow.
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                layers(state)
        torch.cuda.current_stream().wait_stream(side)

        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            state.copy_(layers(state) + 0.5 * state)

        outputs = []
        for _ in range(steps):
            for _ in range(REPLAYS):
                graph.replay()
            outputs.append(state.cpu().numpy())
    print_digest(*outputs)


if __name__ == "__main__":
    main()

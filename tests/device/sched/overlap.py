"""What a program that answers requests loses to kernels of one kind beside it, and what those gain.

    overlap.py [OUT.json] [MODEL ...]

Requests of a preferred client of MPS follow each other without a pause while a client below normal priority runs one
kind of kernel without end, one kind after the other. Of each kind: how much slower a request is, how fast the kernels
are, and from both the delay of a request per time that the kernels would take alone. At 1 nothing is gained by running
them beside it. About 45 s for each model; MPS is started in a folder of its own and stopped at the end.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

MODELS = ["bert-base-graph", "resnet50", "llama-decode-graph", "llama-prefill"]
KINDS = [
    "none", "gemm", "gemm-small", "gemm-logits", "gelu-bf16", "mul-f32", "cast", "layernorm", "attention",
    "attention-bwd", "softmax-logits", "adam", "sum-rows", "copy-big", "conv", "batchnorm", "none2",
]
START_NS = 25_000_000_000
ALONE_NS, BOTH_NS, BETWEEN_NS = 300_000_000, 750_000_000, 50_000_000


def moments(at):
    """Of each kind: when its kernels begin, when requests join them, when both end."""
    for kind in KINDS:
        yield kind, at, at + ALONE_NS, at + ALONE_NS + BOTH_NS
        at += ALONE_NS + BOTH_NS + BETWEEN_NS


def requests(worker, torch, at, model):
    worker.WARM_UP_SECONDS = 0.5
    program, times = worker.Latency(torch, model), {}
    with torch.inference_mode():
        for kind, _, begin, end in moments(at):
            worker.sleep_until(begin + 50_000_000)
            count, first = 0, time.monotonic_ns()
            while time.monotonic_ns() < end - 30_000_000:
                program.answer_one()
                count += 1
            times[kind] = (time.monotonic_ns() - first) / count / 1e3
    return times


def kinds(torch):
    functional, half = torch.nn.functional, torch.bfloat16

    def made(*shape, dtype=half):
        return torch.randn(*shape, device="cuda", dtype=dtype)

    x, weight, square, head = made(8192, 1024), made(1024, 4096), made(1024, 1024), made(50257, 1024)
    wide, wide_float = made(8192, 4096), made(8192, 4096, dtype=torch.float)
    out, out_small, out_float, out_half = (torch.empty_like(it) for it in (wide, x, wide_float, wide))
    x_float, logits = made(8192, 1024, dtype=torch.float), made(4096, 50257, dtype=torch.float)
    layer_norm = torch.nn.LayerNorm(1024, device="cuda")
    heads = [made(8, 16, 1024, 64).requires_grad_() for _ in range(3)]
    attended = functional.scaled_dot_product_attention(*heads, is_causal=True)
    gradient = torch.randn_like(attended)
    parameters = [made(1024, 4096, dtype=torch.float).requires_grad_() for _ in range(24)]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    optimizer = torch.optim.AdamW(parameters, lr=1e-4)
    big = made(1 << 27, dtype=torch.float)
    big_copy = torch.empty_like(big)
    image = made(64, 64, 56, 56).to(memory_format=torch.channels_last)
    filters = made(64, 64, 3, 3).to(memory_format=torch.channels_last)
    batch_norm = torch.nn.BatchNorm2d(64, device="cuda").to(half)
    return {
        "gemm": lambda: torch.mm(x, weight, out=out),
        "gemm-small": lambda: torch.mm(x, square, out=out_small),
        "gemm-logits": lambda: x[:2048] @ head.t(),
        "gelu-bf16": lambda: functional.gelu(wide, approximate="tanh"),
        "mul-f32": lambda: torch.mul(wide_float, 1.1, out=out_float),
        "cast": lambda: out_half.copy_(wide_float),
        "layernorm": lambda: layer_norm(x_float),
        "attention": lambda: functional.scaled_dot_product_attention(*heads, is_causal=True),
        "attention-bwd": lambda: torch.autograd.grad(attended, heads, gradient, retain_graph=True),
        "softmax-logits": lambda: torch.log_softmax(logits, -1),
        "adam": optimizer.step,
        "sum-rows": lambda: wide.sum(0),
        "copy-big": lambda: big_copy.copy_(big),
        "conv": lambda: functional.conv2d(image, filters, padding=1),
        "batchnorm": lambda: batch_norm(image),
    }


def kernels(worker, torch, at):
    """Microseconds of each kind alone and beside requests; about 2 ms of it are issued at once."""
    table, times = kinds(torch), {}

    def once(kernel, count):
        torch.cuda.synchronize()
        first = time.monotonic_ns()
        for _ in range(count):
            kernel()
        torch.cuda.synchronize()
        return (time.monotonic_ns() - first) / count

    def until(kernel, end, count):
        torch.cuda.synchronize()
        first, done, events = time.monotonic_ns(), 0, []
        while time.monotonic_ns() < end:
            for _ in range(count):
                kernel()
            events.append(torch.cuda.Event())
            events[-1].record()
            if len(events) > 2:
                events.pop(0).synchronize()
                done += count
        return (time.monotonic_ns() - first) / max(done, 1) / 1e3

    counts = {}
    for kind, kernel in table.items():
        once(kernel, 3)
        counts[kind] = max(1, min(200, int(2e6 / once(kernel, 20))))
    for kind, start, begin, end in moments(at):
        if kind in table:
            worker.sleep_until(start)
            alone = until(table[kind], begin - 20_000_000, counts[kind])
            times[kind] = alone, until(table[kind], end, counts[kind])
    return times


def pair(model, environment):
    """Both sides, each in a process of its own."""
    at = time.monotonic_ns() + START_NS

    def start(side, **more):
        command = [sys.executable, __file__, side, str(at), model]
        return subprocess.Popen(command, stdout=subprocess.PIPE, env={**environment, **more})

    sides = [start("requests"), start("kernels", CUDA_MPS_CLIENT_PRIORITY="1")]
    return [json.loads(side.communicate(timeout=120)[0]) for side in sides]


def main():
    if len(sys.argv) == 4 and sys.argv[1] in ("requests", "kernels"):
        import torch
        import worker

        side, at, model = sys.argv[1], int(sys.argv[2]), sys.argv[3]
        times = requests(worker, torch, at, model) if side == "requests" else kernels(worker, torch, at)
        worker.answer(times)
        return
    output, models = (sys.argv[1:2] or ["overlap.json"])[0], sys.argv[2:] or MODELS
    with tempfile.TemporaryDirectory() as folder:
        names = {"CUDA_MPS_PIPE_DIRECTORY": "pipe", "CUDA_MPS_LOG_DIRECTORY": "log"}
        environment = {**os.environ, **{name: os.path.join(folder, part) for name, part in names.items()}}
        for part in names.values():
            os.mkdir(os.path.join(folder, part))
        subprocess.run(["nvidia-cuda-mps-control", "-d"], env=environment, check=True, timeout=20)
        try:
            rows = [row for model in models for row in compared(model, *pair(model, environment))]
        finally:
            subprocess.run(["nvidia-cuda-mps-control"], env=environment, input=b"quit\n", timeout=30)
    with open(output, "w") as file:
        json.dump({"rows": rows}, file, indent=0)


def compared(model, requests, kernels):
    alone = min(requests["none"], requests["none2"])
    for kind, (kernel_alone, beside) in kernels.items():
        slower, speed = requests[kind] / alone, kernel_alone / beside
        delay = (slower - 1) / (slower * speed)
        print(f"{model:20} {kind:15} request x {slower:.2f}, kernels x {speed:.2f}, delay / work {delay:.2f}")
        yield {
            "program": model, "request_alone_us": round(alone, 1), "kernel": kind,
            "kernel_alone_us": round(kernel_alone, 1), "request_slower": round(slower, 3),
            "kernel_speed": round(speed, 3), "delay_per_work": round(delay, 3),
        }


if __name__ == "__main__":
    main()

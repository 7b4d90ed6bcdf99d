"""PyTorch's side of `apex bench exec`: times one operation per line of standard input.

A line is `REPEATS warm|cold NAME ARGUMENTS...`; the answer is `ok SECONDS`, the mean of so many calls between two CUDA
events, or `error TEXT`. Where it says cold, each call is timed alone, after a read of so much else that nothing of it is
left in the caches. The tensors of a case stay until the case changes. The first line that is printed says
which PyTorch this is, or `none REASON`. Eager mode, as a user writes it.
"""

import sys


def answer(text):
    print(text, flush=True)


def main():
    try:
        import torch
    except Exception as error:  # not installed, or its libraries are missing
        answer(f"none {type(error).__name__}: {error}".replace("\n", " "))
        return
    if not torch.cuda.is_available():
        answer("none torch finds no GPU")
        return
    answer(f"ready PyTorch {torch.__version__}")
    torch.backends.cuda.matmul.allow_tf32 = False
    current, call = None, None
    with torch.no_grad():
        for line in sys.stdin:
            repeats, manner, name = line.split(maxsplit=2)
            name = name.strip()
            try:
                if name != current:
                    current, call = None, None
                    torch.cuda.empty_cache()
                    current, call = name, prepare(torch, name.split())
                    for _ in range(3):
                        call()
                measure = measure_cold if manner == "cold" else measure_warm
                answer(f"ok {measure(torch, call, int(repeats)):.9e}")
            except Exception as error:
                answer(f"error {type(error).__name__}: {error}".replace("\n", " "))


def measure_cold(torch, call, repeats, others=[]):
    if not others:
        others.append(torch.zeros(1 << 27, device="cuda"))
    event = lambda: torch.cuda.Event(enable_timing=True)
    moments = []
    torch.cuda.synchronize()
    for _ in range(repeats):
        # While the GPU reads this, the calls after it are issued: it never waits for them.
        others[0].sum()
        begin, end = event(), event()
        begin.record()
        call()
        end.record()
        moments.append((begin, end))
    torch.cuda.synchronize()
    return sum(begin.elapsed_time(end) for begin, end in moments) / 1e3 / repeats


def measure_warm(torch, call, repeats):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    begin.record()
    for _ in range(repeats):
        call()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / 1e3 / repeats


def prepare(torch, words):
    functional = torch.nn.functional
    name, kind, sides = words[0], getattr(torch, words[1]), [int(word) for word in words[2:]]
    random = lambda *shape: torch.rand(*shape, device="cuda").mul_(2).sub_(1).to(kind)
    if name == "matmul":
        m, n, k = sides
        a, b, c = random(m, k), random(k, n), torch.empty(m, n, device="cuda", dtype=kind)
        return lambda: torch.mm(a, b, out=c)
    if name == "vector_add":
        a, b = random(*sides), random(*sides)
        c = torch.empty_like(a)
        return lambda: torch.add(a, b, out=c)
    x = random(*sides)
    if name == "relu":
        return lambda: torch.relu(x)
    if name == "sigmoid":
        return lambda: torch.sigmoid(x)
    if name == "tanh":
        return lambda: torch.tanh(x)
    if name == "gelu":
        return lambda: functional.gelu(x)
    if name == "gelu_tanh":
        return lambda: functional.gelu(x, approximate="tanh")
    if name == "softmax":
        return lambda: torch.softmax(x, dim=1)
    if name == "layer_norm":
        gamma, beta = random(sides[1]), random(sides[1])
        return lambda: functional.layer_norm(x, (sides[1],), gamma, beta, 1e-5)
    if name == "batch_norm":
        make = lambda: torch.rand(sides[1], device="cuda")
        mean, variance, gamma, beta = make(), make(), make(), make()
        return lambda: functional.batch_norm(x, mean, variance, gamma, beta, True, 0.1, 1e-5)
    if name == "chain":

        def chain():
            y = x * 1.5
            y = y + 0.5
            y = torch.relu(y)
            y = y * 0.9
            return torch.tanh(y)

        return chain
    raise ValueError(f"no case {name}")


if __name__ == "__main__":
    main()

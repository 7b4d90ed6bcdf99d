#!/usr/bin/env python3
"""Frameworks that pool memory by themselves, with `apex run --fast=memory` and without: speed and peak memory.

  own_pools.py APEX OUT.json [--turns N] [--seconds S]
  own_pools.py step torch|jax|cupy SECONDS     one run: the median time of a step, on standard output

Sides alternate. A step asks for temporaries of several sizes, and its time is the median of many. Peak is the most
that the device had in use beyond what it had before the process began, as NVML says it every two milliseconds.
"""

import argparse
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time

FRAMEWORKS = ("torch", "jax", "cupy")
LEAST_SPEED = 0.995
MOST_PEAK = 1.02
LIMIT_SECONDS = 60


def main():
    if sys.argv[1:2] == ["step"]:
        return step(sys.argv[2], float(sys.argv[3]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("apex")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.5)
    options = parser.parse_args()
    rows = [row(name, options) for name in FRAMEWORKS]
    options.out.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    for found in rows:
        if "error" in found:
            print("MISSED", found["framework"], found["error"])
            continue
        holds = found["speed"] >= LEAST_SPEED and found["peak"] <= MOST_PEAK
        print("holds " if holds else "MISSED", found["framework"], f"speed {found['speed']:.4f} limit {LEAST_SPEED},",
              f"peak {found['peak']:.4f} limit {MOST_PEAK}")


def row(name, options):
    command = [sys.executable, __file__, "step", name, str(options.seconds)]
    sides = {"plain": command, "fast": [options.apex, "run", "--fast=memory", "--", *command]}
    runs = {"plain": [], "fast": []}
    for turn in range(options.turns):
        for side in ("plain", "fast") if turn % 2 == 0 else ("fast", "plain"):
            run = measured(sides[side])
            if "error" in run:
                return {"framework": name, "error": f"{side}: {run['error']}"}
            runs[side].append(run)
    middle = {side: statistics.median(run["step_us"] for run in runs[side]) for side in runs}
    most = {side: max(run["peak_bytes"] for run in runs[side]) for side in runs}
    return {"framework": name, "runs": runs, "speed": middle["plain"] / middle["fast"], "peak": most["fast"] / most["plain"]}


def measured(command):
    """Runs it and looks at the device's memory meanwhile."""
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    nvml.nvmlInit_v2()
    device, figures = ctypes.c_void_p(), (ctypes.c_ulonglong * 3)()
    nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))

    def used():
        nvml.nvmlDeviceGetMemoryInfo(device, figures)
        return figures[2]

    before, most, is_over = used(), 0, threading.Event()

    def look():
        nonlocal most
        while not is_over.wait(0.002):
            most = max(most, used())

    watch = threading.Thread(target=look)
    watch.start()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        return {"error": "not done in time"}
    finally:
        is_over.set()
        watch.join()
    words = done.stdout.split()
    if done.returncode != 0 or len(words) != 1:
        return {"error": f"ended with {done.returncode}: {done.stderr[-300:]}"}
    return {"step_us": float(words[0]), "peak_bytes": most - before}


def step(name, seconds):
    turn = {"torch": torch_step, "jax": jax_step, "cupy": cupy_step}[name]()
    for _ in range(20):
        turn()
    times, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        since = time.perf_counter_ns()
        for _ in range(10):
            turn()
        times.append((time.perf_counter_ns() - since) / 1e4)
    print(f"{statistics.median(times):.3f}")


def torch_step():
    import torch

    left = torch.randn(1024, 1024, device="cuda")

    def turn():
        for rows in (64, 256, 1024):
            made = torch.relu(left[:rows] @ left) + left[:rows]
            made = made.softmax(-1).sum()
        return made.item()

    return turn


def jax_step():
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import jax
    import jax.numpy as jnp

    left = jax.random.normal(jax.random.PRNGKey(1), (1024, 1024))
    made = jax.jit(lambda rows, all: jax.nn.softmax(jnp.maximum(rows @ all, 0) + rows).sum())

    def turn():
        return [float(made(left[:rows], left)) for rows in (64, 256, 1024)]

    return turn


def cupy_step():
    import cupy

    left = cupy.random.default_rng(1).standard_normal((1024, 1024), dtype=cupy.float32)

    def turn():
        for rows in (64, 256, 1024):
            made = cupy.maximum(left[:rows] @ left, 0) + left[:rows]
            made = cupy.exp(made - made.max(axis=1, keepdims=True)).sum()
        return float(made)

    return turn


if __name__ == "__main__":
    main()

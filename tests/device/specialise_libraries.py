#!/usr/bin/env python3
"""Kernels of NVRTC, CuPy and Numba that are called again and again, with --fast=specialise and without.

  specialise_libraries.py --bundle BUNDLE --out OUT

Each library computes the same with sizes at run time: a dot product of rows and a stencil, 3,000 launches each. A run
prints a digest of every byte that its kernels wrote; without apex and under it these must be equal. A library that is
not installed is named and left out. What is written: specialise-libraries.json.
"""

import argparse
import ctypes
import hashlib
import json
import os
import pathlib
import subprocess
import sys

ROWS, LENGTH, SIDE, REACH, LAUNCHES, BLOCK = 16384, 256, 1024, 3, 3000, 128
SOURCE = """
extern "C" __global__ void dots(const float *x, const float *y, float *out, int rows, int length) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0;
    for (int i = 0; i < length; i++) sum = fmaf(x[i * rows + row], y[i], sum);
    out[row] = sum;
}
extern "C" __global__ void stencil(const float *x, float *out, int side, int reach) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, column = at % side, row = at / side;
    if (column < reach || row < reach || column >= side - reach || row >= side - reach) return;
    float sum = 0;
    for (int dy = -reach; dy <= reach; dy++)
        for (int dx = -reach; dx <= reach; dx++)
            sum = fmaf(x[(row + dy) * side + column + dx], 0.02f, sum);
    out[at] = sum;
}
"""


def inputs():
    import array
    import random

    chance = random.Random(7)
    return [array.array("f", (chance.uniform(-1, 1) for _ in range(count))) for count in (ROWS * LENGTH, LENGTH, SIDE * SIDE)]


def digest(*outputs):
    whole = hashlib.sha256()
    for output in outputs:
        whole.update(output)
    print(whole.hexdigest(), flush=True)


def with_nvrtc():
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    from lowering import Gpu, open_library

    nvrtc = next(filter(None, map(open_library, ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"))), None)
    if nvrtc is None:
        raise ImportError("libnvrtc.so")
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), SOURCE.encode(), b"kernels.cu", 0, None, None)
    options = (ctypes.c_char_p * 1)(b"--gpu-architecture=compute_90")
    assert nvrtc.nvrtcCompileProgram(program, 1, options) == 0
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, text)
    gpu = Gpu()
    module = ctypes.c_void_p()
    gpu.call("cuModuleLoadData", ctypes.byref(module), text)
    x, y, image = (gpu.memory(values.tobytes()) for values in inputs())
    sums, smooth = gpu.memory(bytes(4 * ROWS)), gpu.memory(bytes(4 * SIDE * SIDE))
    whole = ctypes.c_int
    calls = [
        (b"dots", ROWS, [x, y, sums, whole(ROWS), whole(LENGTH)]),
        (b"stencil", SIDE * SIDE, [image, smooth, whole(SIDE), whole(REACH)]),
    ]
    for name, threads, arguments in calls:
        function = ctypes.c_void_p()
        gpu.call("cuModuleGetFunction", ctypes.byref(function), module, name)
        places = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(one) for one in arguments))
        for _ in range(LAUNCHES):
            gpu.call("cuLaunchKernel", function, threads // BLOCK, 1, 1, BLOCK, 1, 1, 0, None, places, None)
    found = []
    for address, words in ((sums, ROWS), (smooth, SIDE * SIDE)):
        back = ctypes.create_string_buffer(4 * words)
        gpu.call("cuMemcpyDtoH_v2", back, address, ctypes.c_size_t(4 * words))
        found.append(back.raw)
    digest(*found)


def with_cupy():
    os.environ["CUPY_COMPILE_WITH_PTX"] = "1"
    import cupy
    import numpy

    x, y, image = (cupy.asarray(numpy.frombuffer(values, dtype=numpy.float32)) for values in inputs())
    sums, smooth = cupy.zeros(ROWS, cupy.float32), cupy.zeros(SIDE * SIDE, cupy.float32)
    dots, stencil = (cupy.RawKernel(SOURCE, name) for name in ("dots", "stencil"))
    for _ in range(LAUNCHES):
        dots((ROWS // BLOCK,), (BLOCK,), (x, y, sums, numpy.int32(ROWS), numpy.int32(LENGTH)))
        stencil((SIDE * SIDE // BLOCK,), (BLOCK,), (image, smooth, numpy.int32(SIDE), numpy.int32(REACH)))
    # A kernel that CuPy writes by itself.
    for _ in range(LAUNCHES):
        mixed = smooth * smooth + image
    digest(cupy.asnumpy(sums), cupy.asnumpy(smooth), cupy.asnumpy(mixed))


def with_numba():
    import numpy
    from numba import cuda, float32, int32

    @cuda.jit
    def dots(x, y, out, rows, length):
        row = cuda.grid(1)
        if row < rows:
            total = float32(0)
            for i in range(length):
                total += x[i * rows + row] * y[i]
            out[row] = total

    x, y, _ = (cuda.to_device(numpy.frombuffer(values, dtype=numpy.float32)) for values in inputs())
    sums = cuda.to_device(numpy.zeros(ROWS, numpy.float32))
    for _ in range(LAUNCHES):
        dots[ROWS // BLOCK, BLOCK](x, y, sums, int32(ROWS), int32(LENGTH))
    digest(sums.copy_to_host())


LIBRARIES = {"nvrtc": with_nvrtc, "cupy": with_cupy, "numba": with_numba}


def child(name, cache, *under):
    environment = {**os.environ, "CUPY_CACHE_DIR": str(cache / "cupy"), "NUMBA_CACHE_DIR": str(cache / "numba")}
    try:
        done = subprocess.run([*under, sys.executable, __file__, "--child", name], capture_output=True, text=True, timeout=40,
                              env=environment)
    except subprocess.TimeoutExpired:
        return None, "not done in 40 s"
    return (done.stdout.split() or [None])[-1] if done.returncode == 0 else None, done.stderr[-300:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--child", choices=LIBRARIES, help="for this script itself")
    options = parser.parse_args()
    if options.child:
        LIBRARIES[options.child]()
        return
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in LIBRARIES:
        plain, error = child(name, out)
        row = {"library": name, "plain": plain}
        rows.append(row)
        if plain is None:
            row["error"] = error.strip().splitlines()[-1:] or ["it failed"]
            print(f"{name:<8} not measured: {row['error'][0][:100]}", flush=True)
            continue
        session = out / f"session-{name}"
        fast, error = child(name, out, str(options.bundle.resolve() / "apex"), "run", "--fast=specialise", "-o", str(session), "--")
        summary = session / "summary.json"
        told = (json.loads(summary.read_text()).get("fast") or {}).get("specialised") if summary.exists() else None
        row.update(fast=fast, same=fast == plain, specialised=told, error=error if fast is None else None)
        print(f"{name:<8} {'bits equal' if row['same'] else 'DIFFERS'}", flush=True)
        for kernel in (told or {}).get("kernels", []):
            ratio = f"{kernel['original_ns'] / kernel['rewritten_ns']:.3f}" if kernel["rewritten_ns"] else kernel["what"][:90]
            print(f"  {kernel['kernel'][:40]:<42}{kernel['outcome']:<8}{ratio}")
    (out / "specialise-libraries.json").write_text(json.dumps({"launches": LAUNCHES, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Runs what apex made of code for newer chips, on this machine's GPU, and compares every bit.

  lowering.py --bundle BUNDLE --out OUT

BUNDLE/lowering holds, for each form of instruction, PTX that was brought down to sm_90 and what its kernel gave on the
software GPU as sm_120: `list.txt` names them, `input` is what all of them read. The second part compiles a kernel with
NVRTC for compute_120 and loads it without apex and under it. Needs libcuda.so.1, and libnvrtc.so for the second part.
"""

import argparse
import array
import ctypes
import json
import math
import os
import pathlib
import subprocess
import sys
import time

LINE_WORDS = 8
OUTPUT_WORDS = 32
THREADS = 128
# A product's sum on a chip may differ from the exact one by so much of the greatest: it keeps 13 bits of each product.
MOST_OF_SUMS = 2**-11
SOURCE = b"""
extern "C" __global__ void triad(float4 *a, const float4 *b, float by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 x = a[i], y = b[i];
    a[i] = make_float4(x.x + by * y.x, x.y + by * y.y, x.z + by * y.z, fminf(fminf(x.w, y.w), by));
}
"""


class Gpu:
    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        result = getattr(self.cuda, name)(*arguments)
        if result:
            raise RuntimeError(f"{name} gave {result}")

    def memory(self, data):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(len(data)))
        self.call("cuMemcpyHtoD_v2", address, data, ctypes.c_size_t(len(data)))
        return address

    def run(self, image, name, arguments, grid, block, out, size):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        begun = time.perf_counter()
        self.call("cuModuleLoadData", ctypes.byref(module), image)
        seconds = time.perf_counter() - begun
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name)
        places = (ctypes.c_void_p * len(arguments))(*(ctypes.cast(ctypes.byref(one), ctypes.c_void_p) for one in arguments))
        self.call("cuLaunchKernel", function, grid, 1, 1, block, 1, 1, 0, None, places, None)
        back = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", back, out, ctypes.c_size_t(size))
        self.call("cuModuleUnload", module)
        return back.raw, seconds


def rows(gpu, folder):
    data = (folder / "input").read_bytes()
    lines = len(data) // (4 * LINE_WORDS)
    source, size = gpu.memory(data), lines * OUTPUT_WORDS * 4
    found = []
    for line in (folder / "list.txt").read_text().splitlines():
        name, form = line.split(" ", 1)
        row = {"form": form}
        found.append(row)
        expected = (folder / f"{name}.out").read_bytes()
        out = gpu.memory(b"\x55" * size)
        try:
            got, _ = gpu.run((folder / f"{name}.ptx").read_bytes() + b"\0", b"k", [source, out], lines // THREADS, THREADS, out, size)
        except RuntimeError as error:
            row["error"] = str(error)
            if "700" in row["error"] or "71" in row["error"]:
                print("the context is lost: the rest is not tried")
                break
            continue
        finally:
            gpu.cuda.cuMemFree_v2(out)
        if got != expected and "mma.sync" in form:
            row["sums_differ"], row["error_of_sums"] = sums(expected, got)
        elif got != expected:
            ours, theirs = array.array("I", expected), array.array("I", got)
            places = [at for at in range(len(ours)) if ours[at] != theirs[at]]
            at = places[0]
            row["differs"] = len(places)
            row["first"] = f"thread {at // OUTPUT_WORDS} byte {4 * (at % OUTPUT_WORDS)}: {theirs[at]:08x}, expected {ours[at]:08x}"
            row["line"] = data[4 * LINE_WORDS * (at // OUTPUT_WORDS):][:4 * LINE_WORDS].hex()
    return found


def sums(expected, got):
    """How many results of a product differ, and the greatest difference over the greatest result of its warp.

    A chip adds the products of a row in its own order and keeps fewer bits of them than an exact sum has."""
    ours, theirs = array.array("f", expected), array.array("f", got)
    words = OUTPUT_WORDS * 32
    count, most = 0, 0.0
    for start in range(0, len(ours), words):
        warp = range(start, min(start + words, len(ours)))
        unequal = [at for at in warp if ours[at] != theirs[at] and math.isfinite(ours[at])]
        count += len(unequal)
        if unequal:
            top = max(abs(ours[at]) for at in unequal)
            most = max([most, *(abs(ours[at] - theirs[at]) / top for at in unequal)])
    return count, most


def nvrtc_ptx(chip):
    libraries = map(open_library, ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"))
    nvrtc = next(filter(None, libraries), None)
    if nvrtc is None:
        return None
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), SOURCE, b"triad.cu", 0, None, None)
    options = (ctypes.c_char_p * 1)(f"--gpu-architecture=compute_{chip}".encode())
    if nvrtc.nvrtcCompileProgram(program, 1, options):
        return None
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, text)
    return text.raw


def open_library(name):
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


def triad(chip):
    """What a kernel from NVRTC gives, in hexadecimal, or the error; and how long its load took."""
    gpu, text = Gpu(), nvrtc_ptx(chip)
    if text is None:
        return {"error": f"no NVRTC that knows compute_{chip}"}
    values = array.array("f", (i % 97 - 48.5 for i in range(4 * 256)))
    a, b, by = gpu.memory(values.tobytes()), gpu.memory(values[::-1].tobytes()), ctypes.c_float(1.5)
    try:
        got, seconds = gpu.run(text, b"triad", [a, b, by], 1, 256, a, 4 * len(values))
    except RuntimeError as error:
        return {"error": str(error)}
    return {"sum": got.hex()[:4096], "load_ms": 1e3 * seconds}


def child(bundle, chip, under_apex, cache, drivers_too=False):
    command = [sys.executable, __file__, "--triad", str(chip)]
    drivers = {"CUDA_CACHE_PATH": str(cache / "driver")} if drivers_too else {"CUDA_CACHE_DISABLE": "1"}
    environment = {**os.environ, "APEX_COMPATIBILITY_CACHE": str(cache), **drivers}
    if under_apex:
        command = [str(bundle / "apex"), "run", "-o", str(cache / "session-%p"), "--", *command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return {"error": done.stderr[-300:]}


def rewriting(bundle, out):
    """Milliseconds that 100 KB of NVRTC's PTX take: a large text against a small one, the best of five turns."""
    text = nvrtc_ptx(120)
    if text is None:
        return None
    text = text.rstrip(b"\0").decode()
    start = text.index(".visible .entry")
    head, kernel = text[:start], text[start:]
    seconds = {}
    for name, copies in (("small", 1), ("large", 800)):
        kernels = "".join(kernel.replace("triad", f"triad{nth}").replace("$L__", f"$L{nth}__") for nth in range(copies))
        path = out / f"{name}.ptx"
        path.write_text(head + kernels)
        turns = []
        for _ in range(5):
            begun = time.perf_counter()
            subprocess.run([str(bundle / "apex"), "lower", str(path), "-o", str(out / "lowered.ptx")], capture_output=True, check=True)
            turns.append(time.perf_counter() - begun)
        seconds[name] = (min(turns), path.stat().st_size)
    more, bytes_more = (seconds["large"][nth] - seconds["small"][nth] for nth in (0, 1))
    return 1e3 * more / bytes_more * 100_000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--triad", type=int, help="for this script itself")
    options = parser.parse_args()
    if options.triad:
        print(json.dumps(triad(options.triad)))
        return
    found = rows(Gpu(), options.bundle / "lowering")
    cache = (options.out / "cache").resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    cache.mkdir(mode=0o700, exist_ok=True)
    ways = {
        "compute_90 without apex": child(options.bundle, 90, False, cache),
        "compute_120 without apex": child(options.bundle, 120, False, cache),
        "compute_120 under apex": child(options.bundle, 120, True, cache),
        "the same again": child(options.bundle, 120, True, cache),
        "with the driver's cache": child(options.bundle, 120, True, cache, True),
        "with the driver's cache, again": child(options.bundle, 120, True, cache, True),
        "compute_100 under apex": child(options.bundle, 100, True, cache),
    }
    per_100_kb = rewriting(options.bundle, options.out)
    document = {"rows": found, "nvrtc": ways, "rewrite_ms_per_100_kb": per_100_kb}
    (options.out / "lowering.json").write_text(json.dumps(document, indent=1) + "\n")
    products = [row for row in found if "sums_differ" in row]
    wrong = [row for row in found if "error" in row or "differs" in row or row.get("error_of_sums", 0) > MOST_OF_SUMS]
    print(f"{len(found) - len(wrong)} of {len(found)} forms give the same brought down to this GPU, {len(products)} of them "
          f"products whose sums differ by at most {max((row['error_of_sums'] for row in products), default=0):.1e}")
    for row in wrong:
        print(f"  {row['form']}: {row.get('error') or row.get('first') or row['error_of_sums']}")
    if per_100_kb is not None:
        print(f"100 KB of PTX are rewritten, read and written as files, in {per_100_kb:.2f} ms")
    plain = ways["compute_90 without apex"].get("sum")
    for way, row in ways.items():
        word = row.get("error") or ("the same" if row["sum"] == plain else "DIFFERS")
        print(f"  {way:<34} {word}" + (f", load {row['load_ms']:.1f} ms" if "load_ms" in row else ""))


if __name__ == "__main__":
    main()

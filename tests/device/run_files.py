#!/usr/bin/env python3
"""Runs the run files on the GPU at hand: small kernels with inputs and expected outputs.

A run file is a PTX module whose foot says, in comments, how to run it. The same files are
run by `crates/apex-engine/tests/run_files/` on the software GPU; what the hardware gave
is what they expect. Needs Python's standard library and libcuda.so.1 only.

  run_files.py FOLDER --out results.json    runs all files and writes what came out
  run_files.py FOLDER --check               compares with the files' own `expect` lines
  run_files.py FOLDER --write COPY          writes the files into COPY with `expect` filled in
  run_files.py --self-check                 checks the input generator against a known answer

Directives, each a comment line; the kernel's parameters are the output's address, then one
parameter for each `in`, `arg`, `texture` and `surface` line, in their order:

  // run: KERNEL grid=X,Y,Z block=X,Y,Z shared=BYTES cluster=X,Y,Z
  // out: TYPE count=N                 zeroed before the launch
  // in: TYPE KIND count=N seed=S      the address of N generated values (see `generate`)
  // in: TYPE given 1 ff 3             the address of these values, in hexadecimal
  // arg: TYPE 2a                      these values themselves
  // texture: TYPE channels=N width=N height=N depth=N layers=N cube=0|1 linear=0|1
  //          filter=point|linear address=wrap|clamp|mirror|border
  //          coordinates=whole|normalized read=element|float|integer kind=KIND seed=S
  // surface: the same without the last two lines' first six
  // tolerance: ulp=N abs=X nan        what is enough where the ISA leaves the bits open
  // expect: values in hexadecimal, 16 to a line; or `fault N` with the driver's error number

A file whose `.target` the device does not meet is skipped. The kernels run in a second
process, which is replaced when a kernel faults or hangs: the rest goes on.
"""

import argparse
import ctypes
import json
import os
import pathlib
import re
import selectors
import struct
import subprocess
import sys
import time

MASK64 = (1 << 64) - 1
START_SECONDS = 60
FILE_SECONDS = 15

# What the types are made of: width in bits, and for floats the exponent's and mantissa's.
FLOATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "tf32": (8, 23), "f64": (11, 52)}
WIDTHS = {
    "f16": 16, "bf16": 16, "f32": 32, "tf32": 32, "f64": 64, "f16x2": 32, "bf16x2": 32,
    "b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "b32": 32, "u32": 32, "s32": 32,
    "b64": 64, "u64": 64, "s64": 64, "u16x2": 32, "s16x2": 32, "count": 32,
}
PACKED = {"f16x2": "f16", "bf16x2": "bf16", "u16x2": "u16", "s16x2": "s16"}

# Values that go wrong first, the most telling ones in front: combinations take a prefix.
SPECIALS = {
    "f32": """3f800000 7f800000 80000000 7fc00000 00000001 ff7fffff ff800000 00000000 bf800000
        00800000 807fffff 3f800001 bf7fffff 3fc00000 7f800001 ffc12345 3f000000 40200000 bf000000
        4b800001 4f000000 cf000000 4f800000 5f000000 df000000 5f800000 4effffff 43000000 42ff0000
        c3008000 437f0000 437f8000 46fffe00 477fe000 477fefff 477ff000 33000000 33000001 38800000
        387fe000 43e00000 43e80000 3c000000 47600000 47680000 37800000 7effffff c1200000""",
    "f64": """3ff0000000000000 7ff0000000000000 8000000000000000 7ff8000000000000
        0000000000000001 ffefffffffffffff fff0000000000000 0000000000000000 bff0000000000000
        0010000000000000 800fffffffffffff 3ff0000000000001 bfefffffffffffff 3ff8000000000000
        7ff0000000000001 3fe0000000000000 4004000000000000 bfe0000000000000 41e0000000000000
        c1e0000000000000 41dfffffffc00000 41efffffffe00000 41f0000000000000 43e0000000000000
        c3e0000000000000 43f0000000000000 47efffffe0000000 47efffffefffffff 47effffff0000000
        3690000000000000 3690000000000001 380fffffffffffff 40effc0000000000 40effe0000000000
        3e60000000000000 3ff0000010000000 3ff0000030000000 36a0000000000000 4030000000000000
        4340000000000001 c08f400000000000""",
    "f16": """3c00 7c00 8000 7e00 0001 fbff fc00 0000 bc00 0400 83ff 3c01 bbff 3e00 7c01 fe12 3800
        4100 b800 7bff 5bf8 5c00 d800 5800 57f8 7800 6800 e801 2c00 1400""",
    "bf16": """3f80 7f80 8000 7fc0 0001 ff7f ff80 0000 bf80 0080 807f 3f81 bf7f 3fc0 7f81 ffd2 3f00
        4020 bf00 4300 437f 4380 4f00 cf00 4f80 5f00 df00 5f80 3300 4b80""",
    "count": """0 1 1f 20 21 10 f 11 3f 40 41 8 18 ff 100 ffffffff 80000000 7 1e 22""",
}


# The input generator: the same, to the bit, as in generate.rs


class Random:
    """xorshift64*: small, and the same in every language."""

    def __init__(self, seed):
        self.state = (seed * 0x9E3779B97F4A7C15 + 1) & MASK64

    def next(self):
        x = self.state
        x ^= x >> 12
        x = (x ^ (x << 25)) & MASK64
        x ^= x >> 27
        self.state = x
        return (x * 0x2545F4914F6CDD1D) & MASK64


def specials(kind):
    """The values of a type that go wrong first."""
    if kind in PACKED:
        half = specials(PACKED[kind])
        return [low | half[(at + 3) % len(half)] << 16 for at, low in enumerate(half)]
    if kind == "tf32":
        kind = "f32"
    if kind in SPECIALS:
        return [int(word, 16) for word in SPECIALS[kind].split()]
    width = WIDTHS[kind]
    top = 1 << (width - 1)
    values = [
        1, -1, top, top - 1, 0, 2, -2, top + 1, 3, 7, 10, -10, width, width - 1, 0x55555555_55555555,
        0x80, 0x7F, 0xFF, 0x100, -0x80, -0x81, 0x7FFF, 0x8000, 0xFFFF, 0x10000, -0x8001,
        0x1234_5678_9ABC_DEF0,
    ]
    if width == 64:
        values += [1 << 31, (1 << 31) - 1, (1 << 32) - 1, 1 << 32, -(1 << 31) - 1, (1 << 53) + 1]
    return [value & ((1 << width) - 1) for value in values]


def ordinary(kind, random):
    """A float between about 1/16 and 16, or a whole number up to 100."""
    if kind in PACKED:
        return ordinary(PACKED[kind], random) | ordinary(PACKED[kind], random) << 16
    draw = random.next()
    if kind in FLOATS:
        exponent_bits, mantissa_bits = FLOATS[kind]
        bias = (1 << (exponent_bits - 1)) - 1
        exponent = bias - 4 + (draw >> 60 & 7)
        mantissa = draw >> 4 & ((1 << mantissa_bits) - 1)
        return (draw >> 63) << (exponent_bits + mantissa_bits) | exponent << mantissa_bits | mantissa
    value = (draw >> 33) % 201 - (100 if kind.startswith("s") else 0)
    return value & ((1 << WIDTHS[kind]) - 1)


def whole(kind, random):
    """A whole number from -8 to 7 (unsigned: 0 to 15): sums and products of few are exact."""
    if kind in PACKED:
        return whole(PACKED[kind], random) | whole(PACKED[kind], random) << 16
    draw = random.next() >> 60
    if kind not in FLOATS:
        value = draw - 8 if kind.startswith("s") else draw
        return value & ((1 << WIDTHS[kind]) - 1)
    value = draw - 8
    if value == 0:
        return 0
    exponent_bits, mantissa_bits = FLOATS[kind]
    magnitude = abs(value)
    power = magnitude.bit_length() - 1
    bias = (1 << (exponent_bits - 1)) - 1
    mantissa = (magnitude << mantissa_bits >> power) & ((1 << mantissa_bits) - 1)
    sign = (1 if value < 0 else 0) << (exponent_bits + mantissa_bits)
    return sign | (bias + power) << mantissa_bits | mantissa


def bits(kind, random):
    return random.next() >> (64 - WIDTHS[kind])


def generate(line, mixed):
    """The values of an `in` line. `mixed` holds the types of the file's combined inputs.

    Combined inputs (KIND `mixed`, or `nonzero`, the same with 1 for 0) walk through all
    combinations of their first n specials: number k of them changes every n^k elements.
    n is the greatest that fills at most three quarters; the rest is random, ordinary
    numbers at even places and random bits at odd ones.
    """
    kind, random = line.type, Random(line.seed)
    if line.kind == "given":
        return [line.given[i % len(line.given)] for i in range(line.count)]
    if line.kind == "iota":
        return [i & ((1 << WIDTHS[kind]) - 1) for i in range(line.count)]
    single = {"ordinary": ordinary, "whole": whole, "bits": bits}
    if line.kind in single:
        return [single[line.kind](kind, random) for _ in range(line.count)]
    longest = max(len(specials(each)) for each in mixed)
    n = 1
    while n < longest and (n + 1) ** len(mixed) * 4 <= line.count * 3:
        n += 1
    values, own = [], specials(kind)
    for i in range(line.count):
        if i < n ** len(mixed):
            value = own[i // n**line.place % n % len(own)]
        elif i % 2 == 0:
            value = ordinary(kind, random)
        else:
            value = bits(kind, random)
        values.append(1 if value == 0 and line.kind == "nonzero" else value)
    return values


def pack(kind, values):
    size = WIDTHS[kind] // 8
    return b"".join(value.to_bytes(size, "little") for value in values)


def unpack(kind, data):
    size = WIDTHS[kind] // 8
    return [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]


# Reading a run file


class Line:
    """One directive that becomes a parameter."""

    def __init__(self, role, words):
        self.role = role
        self.type = words[0]
        if self.type not in WIDTHS:
            raise ValueError(f"no type is called {self.type}")
        plain = [word for word in words[1:] if "=" not in word]
        self.options = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        self.kind = self.options.get("kind", "ordinary")
        self.given = []
        if role == "arg":
            self.kind, plain = "given", ["given", *plain]
        if role in ("in", "arg"):
            self.kind = plain[0]
            self.given = [int(word, 16) for word in plain[1:]]
        if self.kind not in ("given", "iota", "ordinary", "whole", "bits", "mixed", "nonzero"):
            raise ValueError(f"no kind of input is called {self.kind}")
        self.count = int(self.options.get("count", len(self.given)))
        self.seed = int(self.options.get("seed", 1))
        self.place = 0

    def number(self, name):
        return int(self.options.get(name, 0))


class RunFile:
    """A run file's text and what its foot says."""

    def __init__(self, path, name):
        self.name = name
        self.text = path.read_text()
        self.parameters, self.expect, self.tolerance = [], [], None
        self.target = re.search(r"^\.target\s+sm_(\d+)(\w?)", self.text, re.M).groups()
        for line in self.text.splitlines():
            found = re.match(r"// (run|in|arg|out|texture|surface|tolerance|expect): *(.*)", line)
            if not found:
                continue
            role, words = found.group(1), found.group(2).split()
            if role == "run":
                self.kernel = words[0]
                options = dict(word.split("=", 1) for word in words[1:])
                self.grid = triple(options.get("grid", "1"))
                self.block = triple(options.get("block", "32"))
                self.cluster = triple(options["cluster"]) if "cluster" in options else None
                self.shared = int(options.get("shared", 0))
            elif role == "out":
                self.out = Line("out", words)
            elif role == "tolerance":
                options = dict(word.split("=", 1) for word in words if "=" in word)
                self.tolerance = (int(options.get("ulp", 0)), float(options.get("abs", 0)))
            elif role == "expect":
                self.expect += words
            else:
                self.parameters.append(Line(role, words))
        combined = [line for line in self.parameters if line.kind in ("mixed", "nonzero")]
        for place, line in enumerate(combined):
            line.place = place
        self.mixed = [line.type for line in combined]

    def values(self, line):
        return generate(line, self.mixed)

    def with_expect(self, words):
        """The text with the values in place of those it has."""
        kept = [line for line in self.text.splitlines() if not line.startswith("// expect:")]
        lines = [" ".join(words[at : at + 16]) for at in range(0, len(words), 16)]
        return "\n".join([*kept, *(f"// expect: {line}" for line in lines)]) + "\n"

    def differences(self, words):
        """Sentences on what differs between the values and the file's own."""
        if self.expect == ["pending"] or not self.expect:
            return ["has no expected values yet"]
        if words[0] == "fault" or self.expect[0] == "fault":
            same = words == self.expect
            return [] if same else [f"got {' '.join(words[:2])}, expected {' '.join(self.expect[:2])}"]
        if len(words) != len(self.expect):
            return [f"got {len(words)} values, expected {len(self.expect)}"]
        return [
            f"[{at}] got {got}, expected {expected}"
            for at, (got, expected) in enumerate(zip(words, self.expect))
            if not self.agree(int(got, 16), int(expected, 16))
        ]

    def agree(self, got, expected):
        if got == expected or self.tolerance is None:
            return got == expected
        if self.out.type in PACKED:
            return all(
                close(PACKED[self.out.type], got >> at & 0xFFFF, expected >> at & 0xFFFF, self.tolerance)
                for at in (0, 16)
            )
        return close(self.out.type, got, expected, self.tolerance)


def triple(text):
    numbers = [int(part) for part in text.split(",")]
    return (numbers + [1, 1])[:3]


def close(kind, got, expected, tolerance):
    """True when two floats are near enough; NaN is near NaN only."""
    if kind not in FLOATS:
        return got == expected
    ulp, absolute = tolerance
    exponent_bits, mantissa_bits = FLOATS[kind]
    width = exponent_bits + mantissa_bits
    magnitude = (1 << width) - 1
    infinity = ((1 << exponent_bits) - 1) << mantissa_bits
    nans = [(value & magnitude) > infinity for value in (got, expected)]
    if any(nans):
        return all(nans)
    steps = [-(value & magnitude) if value >> width else value for value in (got, expected)]
    return abs(steps[0] - steps[1]) <= ulp or abs(number(kind, got) - number(kind, expected)) <= absolute


def number(kind, value):
    if kind == "f16":
        return struct.unpack("<e", struct.pack("<H", value))[0]
    if kind == "f64":
        return struct.unpack("<d", struct.pack("<Q", value))[0]
    return struct.unpack("<f", struct.pack("<I", value << 16 if kind == "bf16" else value))[0]


def read_folder(folder):
    files, broken = [], {}
    for path in sorted(folder.rglob("*.ptx")):
        name = path.relative_to(folder).as_posix()
        try:
            files.append(RunFile(path, name))
        except (ValueError, AttributeError, KeyError, IndexError) as error:
            broken[name] = f"not a run file: {type(error).__name__}: {error}"
    return files, broken


# The device, seen through the driver API


class ArrayDescription(ctypes.Structure):
    _fields_ = [
        ("width", ctypes.c_size_t), ("height", ctypes.c_size_t), ("depth", ctypes.c_size_t),
        ("format", ctypes.c_int), ("channels", ctypes.c_uint), ("flags", ctypes.c_uint),
    ]


class Copy3d(ctypes.Structure):
    _fields_ = [
        *((f"src_{name}", ctypes.c_size_t) for name in ("x", "y", "z", "lod")),
        ("src_kind", ctypes.c_int), ("src_host", ctypes.c_void_p), ("src_device", ctypes.c_uint64),
        ("src_array", ctypes.c_void_p), ("src_reserved", ctypes.c_void_p),
        ("src_pitch", ctypes.c_size_t), ("src_height", ctypes.c_size_t),
        *((f"dst_{name}", ctypes.c_size_t) for name in ("x", "y", "z", "lod")),
        ("dst_kind", ctypes.c_int), ("dst_host", ctypes.c_void_p), ("dst_device", ctypes.c_uint64),
        ("dst_array", ctypes.c_void_p), ("dst_reserved", ctypes.c_void_p),
        ("dst_pitch", ctypes.c_size_t), ("dst_height", ctypes.c_size_t),
        ("width", ctypes.c_size_t), ("height", ctypes.c_size_t), ("depth", ctypes.c_size_t),
    ]


class LinearResource(ctypes.Structure):
    _fields_ = [
        ("address", ctypes.c_uint64), ("format", ctypes.c_int), ("channels", ctypes.c_uint),
        ("bytes", ctypes.c_size_t),
    ]


class Resource(ctypes.Union):
    _fields_ = [
        ("array", ctypes.c_void_p), ("linear", LinearResource), ("reserved", ctypes.c_int * 32),
    ]


class ResourceDescription(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("resource", Resource), ("flags", ctypes.c_uint)]


class TextureDescription(ctypes.Structure):
    _fields_ = [
        ("address", ctypes.c_int * 3), ("filter", ctypes.c_int), ("flags", ctypes.c_uint),
        ("anisotropy", ctypes.c_uint), ("mipmap_filter", ctypes.c_int),
        ("mipmap_bias", ctypes.c_float), ("mipmap_least", ctypes.c_float),
        ("mipmap_most", ctypes.c_float), ("border", ctypes.c_float * 4),
        ("reserved", ctypes.c_int * 12),
    ]


class LaunchAttribute(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint * 16)]


class LaunchConfig(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("count", ctypes.c_uint),
    ]


FORMATS = {"u8": 1, "u16": 2, "u32": 3, "s8": 8, "s16": 9, "s32": 10, "f16": 16, "f32": 32}
ADDRESS_MODES = {"wrap": 0, "clamp": 1, "mirror": 2, "border": 3}
SURFACE_FLAGS, LAYERED, CUBE = 2, 1, 4


class Refused(Exception):
    """A driver call that did not succeed."""

    def __init__(self, call, code, log=""):
        super().__init__(f"{call} gave {code}{': ' if log else ''}{log}")
        self.code = code


class Device:
    """The first GPU, with one context."""

    def __init__(self, library):
        self.cuda = ctypes.CDLL(library)
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        name, version = ctypes.create_string_buffer(96), ctypes.c_int()
        self.call("cuDeviceGetName", name, 96, device)
        self.call("cuDriverGetVersion", ctypes.byref(version))
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(major), 75, device)
        self.call("cuDeviceGetAttribute", ctypes.byref(minor), 76, device)
        self.capability = major.value * 10 + minor.value
        self.facts = {
            "device": name.value.decode(), "driver": version.value,
            "capability": f"{major.value}.{minor.value}",
        }
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        code = getattr(self.cuda, name)(*arguments)
        if code != 0:
            raise Refused(name, code)

    def meets(self, file):
        """True when the device has what the file's target asks for: `a` is one chip's own."""
        number, suffix = file.target
        own = suffix == "a" and int(number) != self.capability
        return int(number) <= self.capability and not own

    def run(self, file):
        """The output's values as hexadecimal words, or `fault` and the error number."""
        module = self.load(file.text)
        owned, arguments = [], []
        try:
            out_bytes = file.out.count * WIDTHS[file.out.type] // 8
            out = self.memory(owned, bytes(out_bytes))
            arguments.append(ctypes.c_uint64(out))
            for line in file.parameters:
                arguments.append(self.parameter(file, line, owned))
            try:
                self.launch(module, file, arguments)
                self.call("cuCtxSynchronize")
            except Refused as refused:
                return ["fault", str(refused.code)]
            data = ctypes.create_string_buffer(out_bytes)
            self.call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(out), ctypes.c_size_t(out_bytes))
            width = WIDTHS[file.out.type] // 4
            return [f"{value:0{width}x}" for value in unpack(file.out.type, data.raw)]
        finally:
            for give_back, thing in reversed(owned):
                getattr(self.cuda, give_back)(thing)
            self.cuda.cuModuleUnload(module)

    def load(self, text):
        module, log = ctypes.c_void_p(), ctypes.create_string_buffer(4096)
        # CU_JIT_ERROR_LOG_BUFFER and its size.
        options = (ctypes.c_int * 2)(5, 6)
        values = (ctypes.c_void_p * 2)(ctypes.cast(log, ctypes.c_void_p), 4096)
        code = self.cuda.cuModuleLoadDataEx(
            ctypes.byref(module), text.encode() + b"\0", 2, options, values
        )
        if code != 0:
            raise Refused("cuModuleLoadDataEx", code, log.value.decode(errors="replace").strip())
        return module

    def launch(self, module, file, arguments):
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, file.kernel.encode())
        if file.shared > 48 << 10:
            self.call("cuFuncSetAttribute", function, 8, file.shared)
        pointers = (ctypes.c_void_p * len(arguments))(
            *(ctypes.cast(ctypes.byref(argument), ctypes.c_void_p) for argument in arguments)
        )
        config = LaunchConfig()
        config.grid[:], config.block[:], config.shared = file.grid, file.block, file.shared
        if file.cluster:
            attribute = LaunchAttribute(kind=4)
            attribute.value[0:3] = file.cluster
            config.attributes, config.count = ctypes.pointer(attribute), 1
        self.call("cuLaunchKernelEx", ctypes.byref(config), function, pointers, None)

    def memory(self, owned, data):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(len(data), 16)))
        owned.append(("cuMemFree_v2", address))
        self.call("cuMemcpyHtoD_v2", address, data, ctypes.c_size_t(len(data)))
        return address.value

    def parameter(self, file, line, owned):
        if line.role == "in":
            return ctypes.c_uint64(self.memory(owned, pack(line.type, file.values(line))))
        if line.role == "arg":
            return ctypes.create_string_buffer(pack(line.type, line.given))
        return self.image(file, line, owned)

    def image(self, file, line, owned):
        """A texture or surface object over an array (or plain memory) with generated values."""
        channels = line.number("channels") or 1
        width, height, depth = (line.number(name) for name in ("width", "height", "depth"))
        layers, cube = line.number("layers"), line.number("cube")
        slices = max(depth, 1) * max(layers, 1) * (6 if cube else 1)
        line.count = width * max(height, 1) * slices * channels
        data = pack(line.type, file.values(line))
        resource = ResourceDescription()
        if line.number("linear"):
            resource.kind = 2
            resource.resource.linear = LinearResource(
                self.memory(owned, data), FORMATS[line.type], channels, len(data)
            )
        else:
            flags = (SURFACE_FLAGS if line.role == "surface" else 0)
            flags |= (LAYERED if layers else 0) | (CUBE if cube else 0)
            array, shape = ctypes.c_void_p(), ArrayDescription(
                width, height, slices if slices > 1 or depth or layers else 0,
                FORMATS[line.type], channels, flags,
            )
            self.call("cuArray3DCreate_v2", ctypes.byref(array), ctypes.byref(shape))
            owned.append(("cuArrayDestroy", array))
            kept, row = ctypes.create_string_buffer(data, len(data)), width * channels * WIDTHS[line.type] // 8
            copy = Copy3d(
                src_kind=1, src_host=ctypes.cast(kept, ctypes.c_void_p), src_pitch=row,
                src_height=max(height, 1), dst_kind=3, dst_array=array.value,
                width=row, height=max(height, 1), depth=slices,
            )
            self.call("cuMemcpy3D_v2", ctypes.byref(copy))
            resource.kind = 0
            resource.resource.array = array.value
        handle = ctypes.c_uint64()
        if line.role == "surface":
            self.call("cuSurfObjectCreate", ctypes.byref(handle), ctypes.byref(resource))
            owned.append(("cuSurfObjectDestroy", handle))
            return handle
        texture = TextureDescription()
        texture.address[:] = [ADDRESS_MODES[line.options.get("address", "clamp")]] * 3
        texture.filter = 1 if line.options.get("filter") == "linear" else 0
        # Integers read as integers, coordinates from 0 to 1.
        texture.flags = (1 if line.options.get("read") == "integer" else 0) | (
            2 if line.options.get("coordinates") == "normalized" else 0
        )
        self.call(
            "cuTexObjectCreate", ctypes.byref(handle), ctypes.byref(resource),
            ctypes.byref(texture), None,
        )
        owned.append(("cuTexObjectDestroy", handle))
        return handle


# The process that runs kernels, and the one that watches it


def work(options):
    """Runs the files named on standard input; one line of JSON for each."""
    # What kernels print goes to standard output too, so the answers keep a way of their own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    device = Device(options.library)
    print(json.dumps(device.facts), file=answers, flush=True)
    for name in sys.stdin.read().split():
        try:
            file = RunFile(options.folder / name, name)
            if not device.meets(file):
                answer = {"skipped": f"needs sm_{''.join(file.target)}"}
            else:
                answer = {"words": device.run(file)}
        except Exception as error:  # One file's fault must not lose the others.
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({"file": name, **answer}), file=answers, flush=True)
        if answer.get("words", [""])[0] == "fault":
            return


def run_all(options, names):
    """Results by file, and the device's facts."""
    facts, results, left = {}, {}, list(names)
    end = time.monotonic() + options.seconds
    while left:
        if time.monotonic() > end:
            results.update({name: {"error": "no time left"} for name in left})
            break
        command = [sys.executable, __file__, str(options.folder), "--worker", "--library", options.library]
        worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        worker.stdin.write("\n".join(left).encode())
        worker.stdin.close()
        first = next_line(worker, START_SECONDS)
        if not first:
            worker.kill()
            worker.wait()
            sys.exit("run_files.py: the device cannot be used (see the message above)")
        facts = json.loads(first)
        while left:
            line = next_line(worker, FILE_SECONDS)
            name = left.pop(0)
            results[name] = json.loads(line) if line else {"error": "the process ended or hung"}
            results[name].pop("file", None)
            if not line or results[name].get("words", [""])[0] == "fault":
                break
        worker.kill()
        worker.wait()
    return facts, results


def next_line(worker, seconds):
    """The worker's next line, or nothing when it ended or took too long."""
    if not hasattr(worker, "pending"):
        worker.pending = b""
    with selectors.DefaultSelector() as selector:
        selector.register(worker.stdout, selectors.EVENT_READ)
        end = time.monotonic() + seconds
        while b"\n" not in worker.pending:
            if not selector.select(max(0, end - time.monotonic())):
                return b""
            data = worker.stdout.read1(1 << 16)
            if not data:
                return b""
            worker.pending += data
    line, worker.pending = worker.pending.split(b"\n", 1)
    return line


def self_check():
    """The generator's known answer, which the test in Rust has too."""
    random = Random(7)
    drawn = [f"{random.next():016x}" for _ in range(3)]
    line = Line("in", ["f32", "mixed", "count=40", "seed=7"])
    other = Line("in", ["s16", "mixed", "count=40", "seed=8"])
    other.place = 1
    values = [f"{value:08x}" for value in generate(line, ["f32", "s16"])[29:]]
    others = [f"{value:04x}" for value in generate(other, ["f32", "s16"])[29:]]
    got = " ".join([*drawn, *values, *others])
    if got != KNOWN_ANSWER:
        sys.exit(f"run_files.py: the generator gives\n{got}\nand should give\n{KNOWN_ANSWER}")


KNOWN_ANSWER = (
    "bf52d0a8f2c369f1 e7b279ae7ee308fa bd66bd945b8150a2 "
    "3c5a27f5 bdff6c0a 8329beaf bf32128e 3b1945a4 be56c1c4 04a1493c 40ad7ef7 84d16306 bdfdd759 5d3c3225 "
    "2443 0032 a101 ffa4 5e3c ffbd 87f1 ffcf 21d6 ffd4 7ad0"
)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=pathlib.Path, nargs="?", help="folder of run files")
    parser.add_argument("--out", type=pathlib.Path, help="JSON file for what came out")
    parser.add_argument("--check", action="store_true", help="compare with the files' own values")
    parser.add_argument("--write", type=pathlib.Path, metavar="COPY", help="folder for filled files")
    parser.add_argument("--only", default="", help="run only files whose name contains this")
    parser.add_argument("--seconds", type=float, default=300, help="limit of the whole run")
    parser.add_argument("--library", default="libcuda.so.1", help="the driver's library")
    parser.add_argument("--self-check", action="store_true", help="check the generator and stop")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    self_check()
    if options.self_check:
        return 0
    if options.folder is None or not options.folder.is_dir():
        parser.error("name a folder of run files")
    if options.worker:
        work(options)
        return 0
    files, broken = read_folder(options.folder)
    files = [file for file in files if options.only in file.name]
    # Files that are to fault come last: each costs a process.
    files.sort(key=lambda file: (file.expect[:1] == ["fault"], file.name))
    started = time.monotonic()
    facts, results = run_all(options, [file.name for file in files])
    seconds = time.monotonic() - started
    rows = [f"{name}: {reason}" for name, reason in broken.items()]
    ran = {name: result["words"] for name, result in results.items() if "words" in result}
    skipped = {name: result["skipped"] for name, result in results.items() if "skipped" in result}
    rows += [f"{name}: {result['error']}" for name, result in results.items() if "error" in result]
    for file in files:
        words = ran.get(file.name)
        if words is None:
            continue
        if words[0] == "fault" and file.expect[:1] != ["fault"]:
            rows.append(f"{file.name}: fault {words[1]}")
        elif options.check:
            different = file.differences(words)
            if different:
                more = f" and {len(different) - 4} more" if len(different) > 4 else ""
                rows.append(f"{file.name}: {'; '.join(different[:4])}{more}")
        if options.write:
            path = options.write / file.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file.with_expect(words))
    if options.out:
        document = {
            **facts, "seconds": round(seconds, 1), "files": ran, "skipped": skipped, "failures": rows,
        }
        options.out.write_text(json.dumps(document, indent=1) + "\n")
    print("\n".join(rows))
    print(
        f"{facts.get('device', 'no device')}, driver {facts.get('driver', '?')}: {len(ran)} of"
        f" {len(files)} files ran in {seconds:.1f} s, {len(skipped)} skipped, {len(rows)} to look at"
    )
    return 1 if rows else 0


if __name__ == "__main__":
    sys.exit(main())

"""Packs a staged apex into a tarball and a Python wheel.

    archives.py STAGE SOURCE VERSION OUTPUT

STAGE holds what lies below the prefix (bin/apex, lib/apex/...). Both archives hold the same files; the wheel is
a plain zip, and pip puts them below the prefix of its environment. Nothing in them depends on the day or the machine
that made them. The wheel's tag names the oldest C library that has every symbol the files ask for.
"""

import base64
import gzip
import hashlib
import io
import re
import sys
import tarfile
import zipfile
from pathlib import Path

NAME = "apex_gpu"
SUMMARY = "A layer under unmodified CUDA programs: what they do on the GPU, and a software GPU where there is none."
LONG_AGO = (1980, 1, 1, 0, 0, 0)
LEVEL = 6  # half the time of 9, and one part in a hundred larger
IS_RUN = 0o755
IS_READ = 0o644


def files_below(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def oldest_c_library(paths):
    """The highest version of the C library that the files name: what they need."""
    versions = [re.findall(rb"GLIBC_2\.(\d+)\0", path.read_bytes() + b"\0") for path in paths]
    return max(int(version) for found in versions for version in found)


def mode(path):
    return IS_RUN if path.parent.name == "bin" else IS_READ


def tarball(target, top, files):
    """`files` are pairs of a name and a path."""
    with open(target, "wb") as out, gzip.GzipFile("", "wb", LEVEL, out, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for name, path in files:
                entry = tarfile.TarInfo(f"{top}/{name}")
                content = path.read_bytes()
                entry.size, entry.mode = len(content), mode(path)
                archive.addfile(entry, io.BytesIO(content))


def wheel(target, version, tag, files):
    """`files` are triples of a name, the bytes and the mode."""
    info = f"{NAME}-{version}.dist-info"
    metadata = (
        f"Metadata-Version: 2.1\nName: {NAME.replace('_', '-')}\nVersion: {version}\nSummary: {SUMMARY}\n"
        "License: MIT OR Apache-2.0\nRequires-Python: >=3.8\n"
    )
    kind = f"Wheel-Version: 1.0\nGenerator: apex\nRoot-Is-Purelib: false\nTag: {tag}\n"
    files = files + [
        (f"{info}/METADATA", metadata.encode(), IS_READ),
        (f"{info}/WHEEL", kind.encode(), IS_READ),
    ]
    record = []
    with zipfile.ZipFile(target, "w") as archive:
        for name, content, bits in files:
            entry = zipfile.ZipInfo(name, LONG_AGO)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, (0o100000 | bits) << 16
            archive.writestr(entry, content, compresslevel=LEVEL)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}")
        record.append(f"{info}/RECORD,,")
        entry = zipfile.ZipInfo(f"{info}/RECORD", LONG_AGO)
        archive.writestr(entry, "\n".join(record) + "\n")


def place_in_wheel(name, version):
    """Programs go to the environment's bin; the rest lies below its prefix as in the tarball."""
    data = f"{NAME}-{version}.data"
    return f"{data}/scripts/{name[4:]}" if name.startswith("bin/") else f"{data}/data/{name}"


def main():
    stage, source, version, output = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
    output.mkdir(parents=True, exist_ok=True)
    staged = [(path.relative_to(stage).as_posix(), path) for path in files_below(stage)]
    licences = [(name, source / name) for name in ("LICENSE-APACHE", "LICENSE-MIT")]
    python = [(path.relative_to(source / "python").as_posix(), path) for path in files_below(source / "python")]
    python = [(name, path) for name, path in python if name.endswith(".py")]

    top = f"apex-{version}-x86_64-linux"
    with_python = [(f"python/{name}", path) for name, path in python]
    tarball(output / f"{top}.tar.gz", top, staged + licences + with_python)

    binaries = [path for name, path in staged if name.startswith("bin/") or ".so" in name]
    tag = f"py3-none-manylinux_2_{oldest_c_library(binaries)}_x86_64"
    info = f"{NAME}-{version}.dist-info/licenses"
    files = [(place_in_wheel(name, version), path.read_bytes(), mode(path)) for name, path in staged]
    files += [(name, path.read_bytes(), IS_READ) for name, path in python]
    files += [(f"{info}/{name}", path.read_bytes(), IS_READ) for name, path in licences]
    wheel(output / f"{NAME}-{version}-{tag}.whl", version, tag, files)
    for made in sorted(output.iterdir()):
        print(f"{made}  {made.stat().st_size / 1e6:.1f} MB")


main()

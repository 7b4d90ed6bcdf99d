#!/usr/bin/env python3
"""Takes programs of HeCBench out of a copy of its repository, as the folder that foreign.py reads.

  foreign_sources.py HECBENCH.git OUT [LIST]

HECBENCH.git is a git directory of github.com/zjin-lcf/HeCBench, OUT the folder to make, LIST a file with lines
`GROUP NAME ARGUMENTS…`. Without LIST these five programs are taken, which allocate and free in their loops, with
arguments that let each run for about a second on an H200.
"""

import pathlib
import subprocess
import sys

ALLOC = """\
alloc collision-cuda 150
alloc fpc-cuda 32 1500
alloc mtf-cuda 512 8
alloc nonzero-cuda 64 64 200
alloc remap-cuda 20000 800
"""


def main():
    if not 3 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    repository, out = sys.argv[1], pathlib.Path(sys.argv[2])
    programs = pathlib.Path(sys.argv[3]).read_text() if len(sys.argv) == 4 else ALLOC
    out.mkdir(parents=True)
    for name in sorted({line.split()[1] for line in programs.splitlines() if line.strip()}):
        paths = git(repository, "ls-tree", "-r", "--name-only", "HEAD", f"src/{name}/").decode().splitlines()
        if not paths:
            sys.exit(f"{repository} has no program {name}")
        for path in paths:
            file = out / pathlib.PurePosixPath(path).relative_to("src")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(git(repository, "show", f"HEAD:{path}"))
    (out / "list.txt").write_text(programs)


def git(repository, *words):
    return subprocess.run(["git", "--git-dir", repository, *words], check=True, capture_output=True).stdout


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Programs built by plain nvcc (its runtime linked in) beside the same with `-cudart shared`, on the software GPU.

  static_runtime.py --apex APEX --nvcc NVCC --hecbench HECBENCH.git --rows ROWS.json --out OUT.json [--most N]

ROWS.json is the file of results/softgpu that says which programs of HeCBench pass there, with which arguments; the
quickest N of them are taken. Each is compiled once for no particular chip, as `nvcc prog.cu` does, and linked twice.
Both must end alike and print the same, but for lines that tell a time; a line that two runs of one build print
differently is left out.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import tempfile

TELLS_A_TIME = re.compile(r"\d:\d\d:\d\d|time|second|elapsed|[0-9.] ?(s|ms|us|ns|µs)\b|/s\b|flop|bandwidth|speed|rate|perf", re.I)
BUILD_SECONDS = 120
RUN_SECONDS = 60


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apex", type=pathlib.Path, required=True)
    parser.add_argument("--nvcc", type=pathlib.Path, required=True)
    parser.add_argument("--libraries", type=pathlib.Path, help="where libcudart lies, if nvcc does not know")
    parser.add_argument("--hecbench", required=True)
    parser.add_argument("--rows", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--most", type=int, default=100)
    options = parser.parse_args()
    known = json.loads(options.rows.read_text())["rows"]
    known = sorted((row for row in known if row["outcome"] == "pass"), key=lambda row: row["seconds"])
    rows = []
    for row in known:
        if sum("same" in row for row in rows) == options.most:
            break
        rows.append({"program": row["program"], "arguments": row["arguments"]})
        with tempfile.TemporaryDirectory(prefix="static-runtime-") as folder:
            compare(rows[-1], options, pathlib.Path(folder))
        print(rows[-1], flush=True)
    counted = [row for row in rows if "same" in row]
    document = {"command": f"static_runtime.py --most {options.most}", "device": "apex software GPU",
                "what": "programs of HeCBench by plain nvcc, and with -cudart shared: exit code and output", "rows": rows}
    options.out.write_text(json.dumps(document, indent=1) + "\n")
    print(f"{sum(row['same'] for row in counted)} of {len(counted)} programs give the same with NVIDIA's static runtime")


def compare(row, options, folder):
    name = f"src/{row['program'].removesuffix('-cuda')}-cuda"
    archive = subprocess.run(["git", "--git-dir", options.hecbench, "archive", "HEAD", name], capture_output=True)
    if archive.returncode:
        row["error"] = "not in HeCBench any more"
        return
    subprocess.run(["tar", "x", "-C", folder], input=archive.stdout, check=True)
    source = folder / name
    files = [path.name for pattern in ("*.cu", "*.cpp") for path in sorted(source.glob(pattern))]
    flags = ["-std=c++17", "-O2", "-Wno-deprecated-gpu-targets", "-I."]
    found = [f"-L{options.libraries}"] if options.libraries else []
    try:
        built = run([options.nvcc, *flags, "-dc" if is_relocatable(source) else "-c", *files], source, BUILD_SECONDS)
        objects = [pathlib.Path(name).with_suffix(".o").name for name in files]
        for kind in ("static", "shared"):
            built = built and run([options.nvcc, *objects, *found, "-cudart", kind, "-o", kind], source, BUILD_SECONDS)
    except subprocess.TimeoutExpired:
        built = None
    if built is None or built.returncode:
        row["error"] = "does not build"
        return
    shared = [ended(options, source, "shared", row) for _ in range(2)]
    static = ended(options, source, "static", row)
    if shared[0] is None or shared[1] is None or static is None:
        row["error"] = "does not end in time"
        return
    kept = [here for here, there in zip(shared[0][1], shared[1][1]) if here == there]
    lines = iter(static[1])
    row.update(code=static[0], lines=len(kept), same=static[0] == shared[0][0] and all(line in lines for line in kept))


def is_relocatable(source):
    makefile = source / "Makefile"
    return makefile.exists() and re.search(r"-rdc|-dc\b", makefile.read_text(errors="replace")) is not None


def run(command, folder, limit):
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True, errors="replace", timeout=limit)
    return done if done.returncode == 0 else None


def ended(options, source, kind, row):
    """Exit code and lines of a run that tell no time; None where it does not end."""
    environment = dict(os.environ)
    if options.libraries:
        environment["LD_LIBRARY_PATH"] = str(options.libraries)
    command = [str(options.apex.resolve()), "run", "--device", "soft", "--", f"./{kind}", *row["arguments"].split()]
    try:
        done = subprocess.run(command, cwd=source, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                              timeout=RUN_SECONDS, env=environment)
    except subprocess.TimeoutExpired:
        return None
    return done.returncode, [line for line in done.stdout.splitlines() if not TELLS_A_TIME.search(line)]


if __name__ == "__main__":
    main()

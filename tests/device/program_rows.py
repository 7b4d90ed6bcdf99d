#!/usr/bin/env python3
"""Rows to train on from real programs: each runs under apex, looked at closely, and its times become rows.

  program_rows.py --bundle BUNDLE --out OUT [--foreign FOLDER] [--seconds N]

Programs are the workloads beside this file, models of torchvision and transformers, families of PyTorch's operators, and
those of FOLDER, built as foreign.py builds them. Frameworks start several at once and wait for the GPU one by one, by
the lock of a file; a program that is timed has the GPU for itself. Each program has the passes of --passes:

  full      every kernel by CUPTI
  sampled   event pairs around launches, as `apex run` times by default, but many more of them
  again     as sampled, another run: what the first knew, this one repeats

OUT gets full.parquet, sampled.parquet and again.parquet, programs.json with what became of each program, and one line for
each is printed.
"""

import argparse
import concurrent.futures
import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import foreign

HERE = pathlib.Path(__file__).resolve().parent
AT_ONCE = 6
LONGEST_SECONDS = 120
# What reading code and making rows of the last sessions takes, and putting the rows together.
LAST_SECONDS = 25
PASSES = ("full", "sampled", "again")

MODELS = [
    ("resnet18", "float16", True), ("resnet50", "float32", False), ("resnet50", "bfloat16", True), ("vgg16", "float32", True),
    ("densenet121", "float32", True), ("mobilenet_v3_large", "float16", True), ("efficientnet_b0", "float32", True),
    ("convnext_tiny", "bfloat16", True), ("swin_t", "float16", True), ("vit_b_16", "float32", True),
    ("vit_b_16", "bfloat16", False), ("regnet_y_400mf", "float32", False), ("inception_v3", "float32", False),
    ("shufflenet_v2_x1_0", "float32", False), ("deeplabv3_resnet50", "bfloat16", True), ("fcn_resnet50", "float32", False),
    ("lraspp_mobilenet_v3_large", "float16", False), ("fasterrcnn_resnet50_fpn", "float32", False),
    ("retinanet_resnet50_fpn", "float32", False), ("ssd300_vgg16", "float16", False), ("r3d_18", "float32", True),
    ("maxvit_t", "float32", False), ("bert", "float32", True), ("bert", "float16", False), ("gpt2", "bfloat16", True),
    ("gpt2", "float32", False), ("llama", "bfloat16", True), ("llama", "float16", False), ("mixtral", "bfloat16", False),
    ("t5", "float32", True), ("whisper", "float16", False), ("decode", "float16", False), ("decode", "float32", False),
]
FAMILIES = ("matmul", "batched", "convolution", "elementwise", "reduction", "normalise", "attention", "index", "order",
            "image", "transform", "recurrent")
WORKLOADS = {
    "torch_compile": ("torch_compile.py", "--steps", "3"), "jax_step": ("jax_step.py", "--steps", "5"),
    "cupy_ops": ("cupy_ops.py", "--steps", "3"), "triton_kernel": ("triton_kernel.py", "--steps", "3"),
    "transformer": ("transformer.py", "--steps", "1"),
}


def framework_jobs(gate, seconds):
    """Name and command of each program of a framework; those without the gate of their own are given it from outside."""
    python = [sys.executable]
    jobs = []
    for family in FAMILIES:
        command = [*python, str(HERE / "workloads/operators.py"), "--family", family, "--seconds", str(seconds)]
        jobs.append((f"operators-{family}", [*command, "--gate", str(gate)], False))
    for model, form, train in MODELS:
        name = "-".join(filter(None, (model, form, "train" if train else "")))
        command = [*python, str(HERE / "workloads/many_models.py"), "--model", model, "--format", form]
        jobs.append((name, [*command, *(["--train"] if train else []), "--gate", str(gate)], False))
    for name, (source, *arguments) in WORKLOADS.items():
        jobs.append((name, [*python, str(HERE / "workloads" / source), *arguments], True))
    # One family, then some models, and so on: where time ends, something of everything was seen.
    return [job for nth in range(len(MODELS)) for job in jobs[nth::len(MODELS)]]


class Collection:
    def __init__(self, options):
        self.apex = str(options.bundle.resolve() / "apex")
        self.out = options.out.resolve()
        self.end = time.monotonic() + options.seconds - LAST_SECONDS
        self.gate = self.out / "gate"
        self.lock = threading.Lock()
        self.pieces = dict.fromkeys(PASSES, 0)
        self.told = []
        self.program_seconds = options.program_seconds

    def run(self, name, command, way, hold_gate, folder=None, limit=LONGEST_SECONDS):
        """One program under apex, and the rows of its session."""
        row = {"program": name, "pass": way, "error": ""}
        limit = min(limit, self.end - time.monotonic())
        if limit < 3:
            return
        with tempfile.TemporaryDirectory(prefix="rows-") as place:
            session = pathlib.Path(place, name)
            timing = ["--timing", "full" if way == "full" else "sampled"]
            under = [self.apex, "run", "--mode", "advise", *timing, "-o", str(session), "--", *command]
            environment = {**os.environ, "APEX_SAMPLING_PERCENT": "60", "APEX_CODE_SECONDS": "25",
                           "APEX_STATE": str(pathlib.Path(place, "state"))}
            with open(self.gate, "a") as gate:
                if hold_gate:
                    fcntl.flock(gate, fcntl.LOCK_EX)
                begun = time.monotonic()
                row["code"] = run_limited(under, folder or place, environment, limit)
                row["seconds"] = round(time.monotonic() - begun, 1)
            row.update(self.rows_of(session, way))
        with self.lock:
            self.told.append(row)
            print(line_of(row), flush=True)

    def rows_of(self, session, way):
        with self.lock:
            number = self.pieces[way]
            self.pieces[way] += 1
        piece = self.out / f"{way}.{number:05}.piece"
        collect = [self.apex, "train", "collect", "--from", str(session), "--output", str(piece), "--json"]
        try:
            done = subprocess.run(collect, capture_output=True, text=True, timeout=60)
        except subprocess.TimeoutExpired:
            return {"error": "its rows were not made in time"}
        piece.with_suffix(".md").unlink(missing_ok=True)
        if done.returncode:
            return {"error": done.stderr[-200:].strip()}
        told = json.loads(done.stdout)
        return {key: told[key] for key in ("rows", "kernels", "with_code", "with_walks", "with_arguments") if key in told}

    def finish(self):
        for way in PASSES:
            if self.pieces[way]:
                join = [self.apex, "train", "collect", "--join", "--output", str(self.out / f"{way}.parquet"), "--json"]
                subprocess.run(join, stdout=subprocess.DEVNULL, timeout=60)
        self.gate.unlink(missing_ok=True)
        document = {"device": foreign.gpu(), "programs": self.told}
        (self.out / "programs.json").write_text(json.dumps(document, indent=1) + "\n")


def run_limited(command, folder, environment, limit):
    """Its exit code; None where it was stopped."""
    process = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        # apex hands it on to its program, and ends the session.
        process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return None


def line_of(row):
    counts = "  ".join(f"{row[key]} {key}" for key in ("rows", "kernels", "with_code", "with_walks", "with_arguments") if key in row)
    return f"{row['pass']:<8} {row['program']:<34} {row.get('seconds', 0):>5} s  {counts}  {row['error']}".rstrip()


def built_foreign(folder, build, groups):
    """Name and command of each program of a folder that can be built."""
    programs = [line.split() for line in (folder / "list.txt").read_text().splitlines() if line.strip()]
    programs = [(name, arguments) for group, name, *arguments in programs if not groups or group in groups]
    if (folder / "Common").is_dir():
        shutil.copytree(folder / "Common", build / "Common")
    seen = {}
    for name, arguments in programs:
        seen.setdefault(name, arguments)
    with concurrent.futures.ThreadPoolExecutor(max(2, (os.cpu_count() or 2) - 4)) as pool:
        waiting = {pool.submit(foreign.made, folder / name, build / name): name for name in seen}
        for done in concurrent.futures.as_completed(waiting):
            name = waiting[done]
            if error := done.result():
                print(f"{name:<43} {error[:90]}", flush=True)
            else:
                yield name, ["./main", *seen[name]], build / name


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--foreign", type=pathlib.Path, help="folder of programs that foreign.py builds")
    parser.add_argument("--groups", default="", help="only these groups of its list, with commas")
    parser.add_argument("--seconds", type=float, default=290)
    parser.add_argument("--program-seconds", type=float, default=6, help="the longest that a program of the folder may run")
    parser.add_argument("--family-seconds", type=float, default=2.5)
    parser.add_argument("--passes", default="full", help="those of each program, one after the other, with commas")
    parser.add_argument("--every", type=int, default=1, help="only every so many-th program of a framework")
    parser.add_argument("--only", default="", help="only frameworks' programs whose names begin so")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    collection = Collection(options)
    jobs = [job for job in framework_jobs(collection.gate, options.family_seconds) if job[0].startswith(options.only)]
    jobs = jobs[:: options.every]
    passes = [way for way in PASSES if way in options.passes.split(",")]
    with tempfile.TemporaryDirectory(prefix="rows-build-") as build:
        def run_foreign():
            if not options.foreign:
                return
            groups = set(filter(None, options.groups.split(",")))
            for name, command, folder in built_foreign(options.foreign, pathlib.Path(build), groups):
                for way in passes:
                    collection.run(name, command, way, True, folder, options.program_seconds)

        def run_framework(job):
            name, command, hold_gate = job
            for way in passes:
                collection.run(name, command, way, hold_gate)

        # Building takes long: it begins with the frameworks, and its programs come between them.
        beside = threading.Thread(target=run_foreign)
        beside.start()
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(run_framework, jobs))
        beside.join()
        collection.finish()
    rows = {way: sum(row.get("rows", 0) for row in collection.told if row["pass"] == way) for way in PASSES}
    size = sum(path.stat().st_size for path in collection.out.glob("*.parquet")) / 2**20
    print(f"rows {rows}, {size:.1f} MiB; {sum(bool(row['error']) for row in collection.told)} programs gave none")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Proves apex on a machine with a GPU: runs the workloads beside it and writes what it saw.

It runs from the bundle, a folder that holds the program `apex`, its shim, the program
`check_occupancy` and a copy of this directory; it needs Python's standard library only.
Parts, any of which may be named:

  coverage   apex's count of kernels against CUPTI's, for every workload
  same       output and exit code with apex against those without
  cost       time per empty launch, and training speed, with and without
  occupancy  computed occupancy against the driver's, over random kernels and launches
  bench      `apex bench NAME --json` for the names given by --benches
  run_files  the run files of the folder given by --run-files, against their expected values
  faster     eager PyTorch with `apex run --fast` against without apex, and equal outputs

Without a part named, all are run but faster; bench and run_files only where their option says what.
With --fast, coverage and same run the workloads by `apex run --fast`.
Every part writes one JSON file into --out and rows into the table printed last. A program
that fails, hangs or finds no time left becomes a row with its error; the rest goes on.
The exit code is 0 only when every row is good.
"""

import argparse
import concurrent.futures
import dataclasses
import glob
import json
import os
import pathlib
import random
import re
import shutil
import signal
import site
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PARTS = ["coverage", "same", "cost", "occupancy", "bench", "run_files", "faster"]
LEAST_SECONDS = 5
NULL_LAUNCH_RUNS = 7
TRAINING_RUNS = 5
NULL_LAUNCH_LIMIT = 1.02
TRAINING_LIMIT = 1.01
FASTER_TURNS = 3
FASTER_TRAINING_TURNS = 2
FASTER_SECONDS = "4"
FASTER_LEAST = 1.03
NO_SLOWER_LEAST = 0.995
RESAMPLES = 2000
STRETCH = 10


@dataclasses.dataclass(frozen=True)
class Workload:
    """A program to run, as its source file, the binary built from it, and its arguments."""

    name: str
    source: str
    arguments: tuple = ()
    flags: tuple = ()

    @property
    def is_python(self):
        return self.source.endswith(".py")


WORKLOADS = [
    Workload("resnet50_inference", "resnet50_inference.py", ("--steps", "3")),
    Workload("resnet50_training", "resnet50_training.py", ("--steps", "2")),
    Workload("torch_compile", "torch_compile.py", ("--steps", "3")),
    Workload("cuda_graph_replay", "cuda_graph_replay.py", ("--steps", "1")),
    Workload("transformer", "transformer.py", ("--steps", "1")),
    Workload("jax_step", "jax_step.py", ("--steps", "5")),
    Workload("cupy_ops", "cupy_ops.py", ("--steps", "3")),
    Workload("triton_kernel", "triton_kernel.py", ("--steps", "3")),
    Workload("nvcc_program_static", "nvcc_program.cu", ("--steps", "3"), ("-cudart", "static")),
    Workload("nvcc_program_shared", "nvcc_program.cu", ("--steps", "3"), ("-cudart", "shared")),
    Workload("null_launch", "null_launch.cu", ("--steps", "2000", "--repeats", "2"), ("-lcuda",)),
]
NULL_LAUNCH = dataclasses.replace(WORKLOADS[-1], arguments=("--steps", "100000", "--repeats", "3"))
PAIRED = dataclasses.replace(
    WORKLOADS[-1], arguments=("--paired", "--steps", "5000", "--repeats", "200")
)
TRAINING_LARGE = Workload(
    "resnet50_training", "resnet50_training.py", ("--steps", "80", "--time", "--batch", "128")
)
TRAINING = Workload(
    "resnet50_training", "resnet50_training.py", ("--steps", "300", "--time")
)


EAGER = [
    Workload(f"eager_{model}", "eager.py", ("--model", model, "--seconds", FASTER_SECONDS))
    for model in ("resnet50", "bert", "gpt2")
]


@dataclasses.dataclass
class Finished:
    """How a program ended. `error` is empty when it ended with exit code 0."""

    code: int
    output: bytes
    errors: str
    seconds: float
    error: str


class Machine:
    """The GPU, the tools and the budget of this run."""

    def __init__(self, options):
        self.options = options
        self.deadline = time.monotonic() + options.budget_seconds
        self.bundle = options.bundle.resolve() if options.bundle else find_bundle()
        self.build = self.bundle / "build"
        self.build.mkdir(exist_ok=True)
        self.out = options.out.resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self.device, self.driver, self.capability = query_gpu()
        nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
        self.cuda = pathlib.Path(nvcc).resolve().parent.parent
        self.nvcc = nvcc
        self.cupti_of_toolkit, self.cupti_of_wheels = find_cupti(self.cuda)
        self.build_errors = {}

    @property
    def apex(self):
        return str(self.bundle / "apex")

    def seconds_left(self):
        return self.deadline - time.monotonic()

    def command(self, workload):
        """The command line of a workload."""
        if workload.is_python:
            return ["python3", str(HERE / "workloads" / workload.source), *workload.arguments]
        return [str(self.build / workload.name), *workload.arguments]

    def shown(self, text):
        """A text without the places of this machine."""
        for place in (self.build, HERE / "workloads", HERE, self.bundle, self.out):
            text = text.replace(f"{place}/", "")
        return text.replace(str(self.bundle), "BUNDLE").replace(str(self.out), "OUT")

    def write(self, part, rows, good, **facts):
        """Writes the result file of a part."""
        document = {
            "part": part,
            "device": self.device,
            "driver": self.driver,
            "command": self.shown(f"measure.py {' '.join(sys.argv[1:])}"),
            **facts,
            "rows": rows,
            "ok": good,
        }
        (self.out / f"{part}.json").write_text(json.dumps(document, indent=1) + "\n")


def main():
    options = parse_arguments()
    machine = Machine(options)
    say(f"{machine.device}, driver {machine.driver}, capability {machine.capability}")
    build(machine)
    parts = {
        "coverage": coverage, "same": same, "cost": cost, "occupancy": occupancy, "bench": bench,
        "run_files": run_files, "faster": faster,
    }
    table, all_good = [], True
    for part in options.parts:
        say(f"== {part} ({machine.seconds_left():.0f} s left)")
        try:
            lines, good = parts[part](machine)
        except Exception as error:  # One part's fault must not lose the results of the others.
            lines, good = [f"failed: {type(error).__name__}: {machine.shown(str(error))}"], False
            machine.write(part, [], False, error=lines[0])
        table += [f"[{part}] {'ok' if good else 'NOT OK'}", *(f"  {line}" for line in lines)]
        all_good = all_good and good
    say("")
    print("\n".join(table), flush=True)
    return 0 if all_good else 1


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for the results")
    parser.add_argument("--bundle", type=pathlib.Path, help="folder that holds apex")
    parser.add_argument("--budget-seconds", type=float, default=540)
    parser.add_argument("--program-seconds", type=float, default=180, help="limit of one program")
    parser.add_argument("--jobs", type=int, default=4, help="workloads at once, not in cost")
    parser.add_argument("--only", default="", help="names of workloads, separated by commas")
    parser.add_argument("--benches", default="", help="names for bench, separated by commas")
    parser.add_argument("--run-files", type=pathlib.Path, help="folder for run_files")
    parser.add_argument("--fast", action="store_true", help="coverage and same by apex run --fast")
    parser.add_argument("--occupancy-rows", type=int, default=20000)
    options = parser.parse_args()
    # A part that measured nothing would count as good, so what is named must exist.
    known = {"part": PARTS, "workload": [workload.name for workload in WORKLOADS]}
    options.only = [name for name in options.only.split(",") if name]
    options.benches = [name for name in options.benches.split(",") if name]
    for kind, named in (("part", options.parts), ("workload", options.only)):
        for name in named:
            if name not in known[kind]:
                parser.error(f"no {kind} is called {name}; there are {', '.join(known[kind])}")
    if "bench" in options.parts and not options.benches:
        parser.error("bench needs --benches")
    if "run_files" in options.parts and not options.run_files:
        parser.error("run_files needs --run-files")
    told = {"bench": options.benches, "run_files": options.run_files, "faster": False}
    options.parts = options.parts or [part for part in PARTS if told.get(part, True)]
    return options


def say(text):
    """Progress goes to standard error at once; the table alone is the output."""
    print(text, file=sys.stderr, flush=True)


# What the machine has


def find_bundle():
    for folder in [HERE, *HERE.parents]:
        if (folder / "apex").is_file():
            return folder
    sys.exit("measure.py: no folder above this file holds the program apex; name it by --bundle")


def query_gpu():
    question = ["nvidia-smi", "--query-gpu=name,driver_version,compute_cap", "--format=csv,noheader"]
    try:
        answer = subprocess.run(question, capture_output=True, text=True, timeout=60).stdout
        name, driver, capability = (field.strip() for field in answer.splitlines()[0].split(","))
        return name, driver, capability
    except (OSError, subprocess.TimeoutExpired, IndexError, ValueError):
        return "unknown", "unknown", "unknown"


def find_cupti(cuda):
    """CUPTI's library of the driver's major version: the toolkit's and the Python wheels'.

    A framework loads the copy of its wheels, so a Python workload is counted by that one;
    each falls back to the other.
    """
    try:
        words = subprocess.run(["nvidia-smi"], capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        words = ""
    version = re.search(r"CUDA Version:\s*(\d+)", words)
    name = f"libcupti.so.{version.group(1) if version else 13}"
    toolkit_folders = ["extras/CUPTI/lib64", "targets/x86_64-linux/lib", "lib64"]
    toolkit = [str(cuda / folder / name) for folder in toolkit_folders]
    packages = [*site.getsitepackages(), site.getusersitepackages()]
    wheels = [
        path for folder in packages for path in sorted(glob.glob(f"{folder}/nvidia/*/lib/{name}"))
    ]
    toolkit = [path for path in toolkit if os.path.exists(path)]
    return (toolkit + wheels + [name])[0], (wheels + toolkit + [name])[0]


# Running and building


def run(machine, command, environment=None, seconds=None):
    """Runs a program to its end or its limit; what it prints goes through files, because
    a child that outlives it would hold a pipe open."""
    limit = min(seconds or machine.options.program_seconds, machine.seconds_left())
    if limit < LEAST_SECONDS:
        return Finished(-1, b"", "", 0.0, "no time left")
    fixed = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
    environment = {**os.environ, **fixed, **(environment or {})}
    started = time.monotonic()
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                env=environment, start_new_session=True,
            )
        except OSError as error:
            return Finished(-1, b"", "", 0.0, machine.shown(str(error)))
        try:
            code, late = process.wait(limit), False
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            code, late = process.wait(), True
        elapsed = time.monotonic() - started
        output.seek(0)
        errors.seek(0)
        text = errors.read().decode(errors="replace")
        error = ""
        if late:
            error = f"stopped after {limit:.0f} s"
        elif code != 0:
            error = f"exit code {code}: {machine.shown(text).strip()[-400:]}"
        return Finished(code, output.read(), text, elapsed, error)


def under_apex(machine, command, folder, fast=None):
    fast = machine.options.fast if fast is None else fast
    return [machine.apex, "run", *(["--fast"] if fast else []), "-o", str(folder), "--json", "--", *command]


def in_parallel(machine, work, items):
    """Does `work` for the items, a few at once, and gives the results in their order."""
    with concurrent.futures.ThreadPoolExecutor(machine.options.jobs) as pool:
        return list(pool.map(work, items))


def selected(machine):
    only = machine.options.only
    return [workload for workload in WORKLOADS if not only or workload.name in only]


def build(machine):
    """Builds everything at once. What fails is remembered and told by whoever needs it."""
    libraries = next(
        (machine.cuda / name for name in ("lib64", "targets/x86_64-linux/lib")
         if (machine.cuda / name).is_dir()),
        machine.cuda / "lib64",
    )
    architecture = machine.capability.replace(".", "")
    nvcc = [
        machine.nvcc, "-O2", "-std=c++17",
        f"-arch=sm_{architecture}" if architecture.isdigit() else "-arch=native",
        f"-L{libraries / 'stubs'}", "-Xlinker", f"-rpath={libraries}",
    ]
    recipes = {
        "cupti_count.so": [
            "gcc", "-std=c11", "-O2", "-Wall", "-shared", "-fPIC", "-fvisibility=hidden",
            *header_folders(machine), str(HERE / "cupti_count.c"), "-ldl", "-lpthread",
        ],
        "occupancy_sweep": [*nvcc, str(HERE / "occupancy_sweep.cu"), "-lcuda"],
    }
    for workload in WORKLOADS:
        if not workload.is_python:
            source = str(HERE / "workloads" / workload.source)
            recipes[workload.name] = [*nvcc, source, *workload.flags]

    def make(item):
        name, recipe = item
        finished = run(machine, [*recipe, "-o", str(machine.build / name)])
        if finished.error:
            machine.build_errors[name] = f"not built: {finished.error}"
        say(f"build {name}: {machine.build_errors.get(name, 'ok')} ({finished.seconds:.1f} s)")

    in_parallel(machine, make, recipes.items())


def header_folders(machine):
    """CUPTI's headers where the toolkit has them; the source compares itself to them."""
    folders = [machine.cuda / "extras/CUPTI/include", machine.cuda / "include"]
    if not any((folder / "cupti.h").exists() for folder in folders):
        return []
    return [f"-I{folder}" for folder in folders]


# The parts: each gives its lines of the table and whether all is good


def coverage(machine):
    def measure(workload):
        folder = pathlib.Path(tempfile.mkdtemp(prefix=f"coverage-{workload.name}-"))
        counts_file = folder / "cupti.jsonl"
        command = under_apex(machine, machine.command(workload), folder / "session")
        library = machine.cupti_of_wheels if workload.is_python else machine.cupti_of_toolkit
        row = {"workload": workload.name, "command": shown_command(machine, command)}
        row["error"] = unbuilt(machine, workload, "cupti_count.so")
        if not row["error"]:
            finished = run(machine, command, {
                "CUDA_INJECTION64_PATH": str(machine.build / "cupti_count.so"),
                "CUPTI_COUNT_LIBRARY": library,
                "CUPTI_COUNT_OUT": str(counts_file),
            })
            row["seconds"] = round(finished.seconds, 1)
            row["error"] = finished.error
            row |= compare_counts(folder / "session" / "summary.json", counts_file, row["error"])
        shutil.rmtree(folder, ignore_errors=True)
        say(f"coverage {coverage_line(row)}")
        return row

    rows = in_parallel(machine, measure, selected(machine))
    good = all(row.get("equal") and not row["error"] for row in rows)
    machine.write("coverage", rows, good)
    return [coverage_line(row) for row in rows], good


def compare_counts(summary_file, counts_file, error):
    """The counts of one run. A run with no kernels at all proves nothing and is an error."""
    facts = {"error": error}
    try:
        facts["kernels_apex"] = json.loads(summary_file.read_text())["kernels_executed"]
    except (OSError, ValueError, KeyError) as reason:
        facts["error"] = error or f"no kernels_executed in summary.json: {type(reason).__name__}"
    try:
        processes = [json.loads(line) for line in counts_file.read_text().splitlines()]
    except (OSError, ValueError) as reason:
        facts["error"] = facts["error"] or f"CUPTI's counts are missing: {type(reason).__name__}"
        return facts
    by_name = {}
    for process in processes:
        for name, count in process["by_name"].items():
            by_name[name] = by_name.get(name, 0) + count
    most_frequent = sorted(by_name, key=by_name.get, reverse=True)[:12]
    facts |= {
        "kernels_cupti": sum(process["kernels"] for process in processes),
        "graph_kernels_cupti": sum(process["graph_kernels"] for process in processes),
        "dropped_cupti": sum(process["dropped"] for process in processes),
        "processes_cupti": len(processes),
        "by_name_cupti": {name: by_name[name] for name in most_frequent},
    }
    faults = [process["error"] for process in processes if "error" in process]
    if not facts["error"]:
        if faults:
            facts["error"] = f"CUPTI: {faults[0]}"
        elif facts["dropped_cupti"]:
            facts["error"] = f"CUPTI dropped {facts['dropped_cupti']} records"
        elif not facts["kernels_cupti"]:
            facts["error"] = "CUPTI saw no kernel"
    facts["equal"] = facts.get("kernels_apex") == facts["kernels_cupti"]
    return facts


def coverage_line(row):
    seen = f"apex {row.get('kernels_apex', '-'):>8}  cupti {row.get('kernels_cupti', '-'):>8}"
    seen += f"  in graphs {row.get('graph_kernels_cupti', '-'):>8}"
    return f"{row['workload']:<22} {seen}  {verdict(row, 'equal')}"


def same(machine):
    def measure(workload):
        folder = pathlib.Path(tempfile.mkdtemp(prefix=f"same-{workload.name}-"))
        plain_command = machine.command(workload)
        apex_command = under_apex(machine, plain_command, folder / "session")
        row = {"workload": workload.name, "command": shown_command(machine, apex_command)}
        row["error"] = unbuilt(machine, workload)
        if not row["error"]:
            plain = run(machine, plain_command)
            watched = run(machine, apex_command)
            row["seconds_plain"] = round(plain.seconds, 1)
            row["seconds_apex"] = round(watched.seconds, 1)
            row["codes"] = [plain.code, watched.code]
            row["output"] = plain.output.decode(errors="replace").strip()[:200]
            row["equal"] = (plain.code, plain.output) == (watched.code, watched.output)
            row["error"] = plain.error or watched.error
            if not row["equal"] and not row["error"]:
                row["output_apex"] = watched.output.decode(errors="replace").strip()[:200]
                again = run(machine, plain_command)
                if not again.error and again.output != plain.output:
                    row["error"] = "two runs without apex differ too"
        shutil.rmtree(folder, ignore_errors=True)
        say(f"same {same_line(row)}")
        return row

    rows = in_parallel(machine, measure, selected(machine))
    good = all(row.get("equal") and not row["error"] for row in rows)
    machine.write("same", rows, good)
    return [same_line(row) for row in rows], good


def same_line(row):
    return f"{row['workload']:<22} {row.get('output', '-')[:24]:<24}  {verdict(row, 'equal')}"


def cost(machine):
    """Plain and watched runs alternate, so that a slow drift of the machine hits both."""
    pairs = paired(machine)
    large = alternate(machine, TRAINING_LARGE, TRAINING_RUNS)
    training = alternate(machine, TRAINING, TRAINING_RUNS)
    launches = alternate(machine, NULL_LAUNCH, NULL_LAUNCH_RUNS)
    rows = [
        cost_row("empty launch, paired", "ns", pairs, "ns", NULL_LAUNCH_LIMIT, of_neighbours),
        cost_row("ResNet-50 step, batch 128", "ms", large, "step_ms", TRAINING_LIMIT),
        cost_row("empty launch, runtime API", "ns", launches, "runtime_ns", NULL_LAUNCH_LIMIT),
        cost_row("empty launch, driver API", "ns", launches, "driver_ns", NULL_LAUNCH_LIMIT),
        cost_row("ResNet-50 step, batch 32", "ms", training, "step_ms", TRAINING_LIMIT),
    ]
    good = all(not row["error"] and row["ok"] for row in rows)
    machine.write("cost", rows, good)
    return [cost_line(row) for row in rows], good


def paired(machine):
    """Blocks of launches with and without apex, alternating within one process."""
    command = under_apex(machine, machine.command(PAIRED), pathlib.Path(tempfile.mkdtemp()) / "session")
    found = {"command": shown_command(machine, command), "plain": [], "apex": []}
    found["error"] = unbuilt(machine, PAIRED)
    if not found["error"]:
        finished = run(machine, command)
        line = last_json(finished.errors, ("direct_ns",)) or {}
        found["error"] = finished.error or ("" if line else "printed no measurement")
        found["plain"] = [{"ns": [value]} for value in line.get("direct_ns", [])]
        found["apex"] = [{"ns": [value]} for value in line.get("apex_ns", [])]
    return found


def alternate(machine, workload, times):
    """The JSON lines a workload printed, without apex and with it, and the first error."""
    found = {"command": shown_command(machine, machine.command(workload)), "plain": [], "apex": []}
    found["error"] = unbuilt(machine, workload)
    for turn in range(0 if found["error"] else times):
        for way in ("plain", "apex"):
            folder = pathlib.Path(tempfile.mkdtemp(prefix="cost-"))
            command = machine.command(workload)
            if way == "apex":
                command = under_apex(machine, command, folder / "session")
            finished = run(machine, command)
            shutil.rmtree(folder, ignore_errors=True)
            line = last_json(finished.errors, ("driver_ns", "step_ms"))
            if finished.error or not line:
                found["error"] = found["error"] or finished.error or "printed no measurement"
                say(f"cost {workload.name} {way}: {found['error']}")
                continue
            found[way].append(line)
            say(f"cost {workload.name} {way} {turn + 1}/{times}: {json.dumps(line)}")
    return found


def last_json(text, keys):
    """The last line that is a JSON object with one of the keys; apex's own words surround it."""
    for line in reversed(text.splitlines()):
        if line.startswith("{") and any(f'"{key}"' in line for key in keys):
            try:
                return json.loads(line)
            except ValueError:
                continue
    return None


def cost_row(measure, unit, found, key, limit, compare=None):
    """Medians over all repeats of all runs, and by `compare` the ratio with its interval."""
    plain, apex = ([line[key] for line in found[way]] for way in ("plain", "apex"))
    row = {"measure": measure, "unit": unit, "command": found["command"], "error": found["error"],
           "limit": limit, "ok": False, "plain": plain, "apex": apex}
    if plain and apex:
        row["plain_median"], row["apex_median"] = pooled(plain), pooled(apex)
        row["ratio"], row["ratio_95"] = (compare or of_medians)(plain, apex)
        row["ok"] = row["ratio"] <= limit
    elif not row["error"]:
        row["error"] = "nothing measured"
    return row


def pooled(runs):
    return statistics.median(value for run in runs for value in run)


def of_medians(plain, apex):
    """The ratio of the medians; its interval comes from resampling whole runs."""
    chance = random.Random(1)
    ratios = [
        pooled(chance.choices(apex, k=len(apex))) / pooled(chance.choices(plain, k=len(plain)))
        for _ in range(RESAMPLES)
    ]
    return pooled(apex) / pooled(plain), middle_95(ratios)


def of_neighbours(plain, apex):
    """The median over pairs of neighbouring blocks, whose machine is in one mood; its interval comes from resampling
    stretches of them, because a mood lasts for more than one."""
    ratios = [after[0] / before[0] for before, after in zip(plain, apex)]
    stretches = [ratios[first:first + STRETCH] for first in range(0, len(ratios), STRETCH)]
    chance = random.Random(1)
    drawn = [chance.choices(stretches, k=len(stretches)) for _ in range(RESAMPLES)]
    return statistics.median(ratios), middle_95([pooled(stretches) for stretches in drawn])


def middle_95(values):
    ordered = sorted(values)
    return [ordered[len(ordered) * 25 // 1000], ordered[len(ordered) * 975 // 1000]]


def cost_line(row):
    if "ratio" not in row:
        return f"{row['measure']:<26} {row['error']}"
    medians = f"plain {row['plain_median']:10.3f}  apex {row['apex_median']:10.3f} {row['unit']:<3}"
    low, high = row["ratio_95"]
    word = "ok" if row["ok"] else "OVER"
    return (f"{row['measure']:<26} {medians} ratio {row['ratio']:.4f} ({low:.4f} to {high:.4f}, "
            f"at most {row['limit']})  {word} {row['error']}").rstrip()


def occupancy(machine):
    table = machine.out / "occupancy.csv"
    command = [str(machine.build / "occupancy_sweep"), str(table), str(machine.options.occupancy_rows)]
    row = {"command": shown_command(machine, command)}
    row["error"] = machine.build_errors.get("occupancy_sweep", "")
    if not row["error"]:
        sweep = run(machine, command)
        row |= {"error": sweep.error, "sweep": machine.shown(sweep.errors).strip()[-400:]}
    if not row["error"]:
        capability = sweep.output.decode().split()
        checked = run(machine, [str(machine.bundle / "check_occupancy"), str(table), *capability])
        text = checked.output.decode(errors="replace")
        counted = re.search(r"equal (\d+) different (\d+)", text)
        if counted:
            row |= {"equal": int(counted.group(1)), "different": int(counted.group(2))}
            row["examples"] = text.splitlines()[:20] if row["different"] else []
        row["error"] = "" if counted else checked.error or "check_occupancy printed no counts"
    good = not row["error"] and row.get("different") == 0
    machine.write("occupancy", [row], good, capability=machine.capability)
    line = f"equal {row.get('equal', '-')}  different {row.get('different', '-')}  {row['error']}"
    return [line.rstrip(), *row.get("examples", [])[:5]], good


def bench(machine):
    rows = []
    for name in machine.options.benches:
        command = [machine.apex, "bench", name, "--json"]
        finished = run(machine, command)
        row = {"bench": name, "command": shown_command(machine, command), "error": finished.error}
        if not row["error"]:
            try:
                row["result"] = json.loads(finished.output)
            except ValueError:
                row["error"] = "printed no JSON"
        rows.append(row)
        say(f"bench {name}: {row['error'] or 'ok'}")
    bars = [bar for row in rows for bar in row.get("result", {}).get("bars", [])]
    good = all(not row["error"] for row in rows) and all(bar.get("ok") for bar in bars)
    machine.write("bench", rows, good)
    return [f"{row['bench']:<22} {row['error'] or 'ok'}" for row in rows], good


def run_files(machine):
    values = machine.out / "run_files_values.json"
    folder = str(machine.options.run_files.resolve())
    command = [sys.executable, str(HERE / "run_files.py"), folder, "--check", "--out", str(values)]
    finished = run(machine, command)
    lines = machine.shown(finished.output.decode(errors="replace")).split("\n")
    lines = [line for line in lines if line] or [finished.error]
    good = not finished.error
    machine.write("run_files", lines, good)
    return lines, good


def faster(machine):
    """Plain runs and runs by --fast alternate. Inference is to gain in the mean, training at
    batch 128 to lose nothing."""
    rows = [eager_row(machine, workload) for workload in EAGER]
    training = training_row(machine)
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    mean = statistics.geometric_mean(ratios) if len(ratios) == len(rows) else 0.0
    inference_holds = mean >= FASTER_LEAST
    training_holds = training.get("ratio", 0.0) >= NO_SLOWER_LEAST
    good = all(not row["error"] and row.get("equal") for row in [*rows, training])
    good = good and inference_holds and training_holds
    machine.write("faster", [*rows, training], good, inference_mean=mean, inference_least=FASTER_LEAST,
                  training_least=NO_SLOWER_LEAST)
    lines = [faster_line(row) for row in [*rows, training]]
    word = "ok" if inference_holds else "MISSED"
    lines.append(f"inference, geometric mean {mean:.4f} (at least {FASTER_LEAST})  {word}")
    return lines, good


def eager_row(machine, workload):
    return paired_row(machine, workload, FASTER_TURNS, "steps_per_second", lambda line: [line["steps_per_second"]])


def training_row(machine):
    workload = dataclasses.replace(
        TRAINING_LARGE, arguments=("--steps", "40", "--time", "--batch", "128")
    )
    return paired_row(machine, workload, FASTER_TRAINING_TURNS, "step_ms",
                      lambda line: [1000.0 / time_ms for time_ms in line["step_ms"]])


def paired_row(machine, workload, turns, key, rates):
    """Steps a second of a workload without apex and by --fast, its outputs, and what the queue did."""
    command = machine.command(workload)
    row = {"workload": workload.name, "command": machine.shown(" ".join(command)), "error": "",
           "plain": [], "fast": [], "queue": []}
    outputs = set()
    for turn in range(turns):
        for way in ("plain", "fast") if turn % 2 == 0 else ("fast", "plain"):
            folder = pathlib.Path(tempfile.mkdtemp(prefix="faster-"))
            session = folder / "session"
            finished = run(machine, command if way == "plain" else under_apex(machine, command, session, fast=True))
            line = last_json(finished.errors, (key,))
            if finished.error or not line:
                row["error"] = row["error"] or finished.error or "printed no measurement"
            else:
                row[way].append(rates(line))
                outputs.add(finished.output)
                if way == "fast":
                    row["queue"].append(json.loads((session / "summary.json").read_text()).get("fast"))
            shutil.rmtree(folder, ignore_errors=True)
            say(f"faster {workload.name} {way} {turn + 1}/{turns}: {row['error'] or json.dumps(line)[:120]}")
    row["equal"] = len(outputs) == 1
    if row["plain"] and row["fast"]:
        row["ratio"], row["ratio_95"] = of_medians(row["plain"], row["fast"])
    return row


def faster_line(row):
    if "ratio" not in row:
        return f"{row['workload']:<22} {row['error']}"
    low, high = row["ratio_95"]
    return (f"{row['workload']:<22} plain {pooled(row['plain']):9.2f}  fast {pooled(row['fast']):9.2f} steps/s  "
            f"ratio {row['ratio']:.4f} ({low:.4f} to {high:.4f})  {verdict(row, 'equal')}")


def unbuilt(machine, workload, *more):
    needed = [*more] if workload.is_python else [workload.name, *more]
    return next((machine.build_errors[name] for name in needed if name in machine.build_errors), "")


def shown_command(machine, command):
    """A command line as it would be typed in the bundle."""
    session = command.index("-o") + 1 if "-o" in command else None
    words = ["DIR" if index == session else word for index, word in enumerate(command)]
    return machine.shown(" ".join(words))


def verdict(row, key):
    if row["error"]:
        return f"ERROR {row['error'].splitlines()[-1][:160]}"
    return "ok" if row.get(key) else "DIFFERENT"


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Runs programs that nobody here wrote, without apex and under it, in turns, and compares.

  foreign.py --bundle BUNDLE --programs FOLDER --out OUT [--fast WORDS] [--budget-seconds N]

FOLDER/list.txt has a line `GROUP NAME ARGUMENTS…` for each program, and FOLDER/NAME its sources, with a Makefile that
takes `ARCH` or without one; what several share is in FOLDER/Common. All are built first, many at once; then each runs
alone, sides alternating. A program counts where it ends with 0 without apex within --program-seconds. Its output is right
under apex if every line that two runs without apex agree in stands there too, in their order, and the exit code is the
same; lines that tell a time or a speed are left out. As many kernels are counted with accelerators as without, where no
record was lost. One run under apex without accelerators says how far launches bound the program. With
`--fast specialise` one run's summary says which kernels were compiled again: how many were kept of those tried, the
medians of both forms as the program's own launches gave them, what kernels would have taken over what they took, and why
kernels were left alone. The first run under apex finds nothing kept from earlier runs; the second one decides what the
first has seen often. Both are timed by themselves, and the runs that are compared follow.

With --newer 120 programs are built as PTX alone, for this chip and for compute_120, and the latter run under apex and
without: that is foreign-newer.json.

Foreign sources stay outside this repository; what was measured is one JSON file, foreign.json.
"""

import argparse
import collections
import concurrent.futures
import json
import math
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import tempfile
import threading
import time

BUILD_SECONDS = 100
LEAST_TURNS = 2
TELLS_A_TIME = re.compile(r"time|second|elapsed|[0-9.] ?(s|ms|us|ns|µs)\b|/s\b|flop|bandwidth|speed|rate|perf".encode(), re.I)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=pathlib.Path, required=True)
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--fast", default="launch", help="words for apex run --fast, with commas")
    parser.add_argument("--budget-seconds", type=float, default=300)
    parser.add_argument("--program-seconds", type=float, default=5)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--most", type=int, default=0, help="end when so many programs were measured, drawn by chance; 0 for all")
    parser.add_argument("--groups", default="", help="only these groups of the list, with commas")
    parser.add_argument("--newer", help="run programs that are built for this chip alone, such as 120")
    options = parser.parse_args()
    deadline = time.monotonic() + options.budget_seconds
    wanted = set(filter(None, options.groups.split(",")))
    programs = [line.split() for line in (options.programs / "list.txt").read_text().splitlines() if line.strip()]
    programs = [(group, name, arguments) for group, name, *arguments in programs if not wanted or group in wanted]
    if options.most:
        random.Random(24).shuffle(programs)
        # About one in four is not built or not done in time.
        programs = programs[: options.most * 3 // 2]
    build = pathlib.Path(tempfile.mkdtemp(prefix="foreign-"))
    names = sorted({name for _, name, _ in programs})
    if options.newer:
        newer(options, programs, names, build, deadline)
        return
    share_common(options, build)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        errors = dict(zip(names, pool.map(lambda name: made(options.programs / name, build / name), names)))
    print(f"built {sum(not error for error in errors.values())} of {len(names)}", flush=True)
    rows = []
    for group, name, arguments in programs:
        error = errors[name]
        row = {"group": group, "program": name, "arguments": " ".join(arguments), "error": error}
        if options.most and sum("ratio" in row for row in rows) == options.most:
            break
        if not error and deadline - time.monotonic() < options.program_seconds:
            row["error"] = "no time left"
        elif not error:
            measure(row, options, build / name, arguments, deadline)
        rows.append(row)
        print(line_of(row), flush=True)
    shutil.rmtree(build, ignore_errors=True)
    options.out.mkdir(parents=True, exist_ok=True)
    document = {"device": gpu(), "command": f"foreign.py --fast {options.fast} --turns {options.turns}", "rows": rows}
    (options.out / "foreign.json").write_text(json.dumps(document, indent=1) + "\n")
    tell_reasons(rows)
    for group in sorted({row["group"] for row in rows}):
        print(summary_of(group, [row for row in rows if row["group"] == group and "ratio" in row]))


def gpu():
    asked = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    return subprocess.run(asked, capture_output=True, text=True).stdout.strip()


def share_common(options, build):
    if (options.programs / "Common").is_dir():
        shutil.copytree(options.programs / "Common", build / "Common")


def newer(options, programs, names, build, deadline):
    """Programs built as PTX for a newer chip: their output under apex against that of a build for this one."""
    chips = ("90", options.newer)
    for chip in chips:
        share_common(options, build / chip)

    def both(name):
        if deadline - time.monotonic() < options.budget_seconds / 3:
            return "no time left"
        errors = [made(options.programs / name, build / chip / name, f"compute_{chip} -code=compute_{chip}") for chip in chips]
        return next((error for error in errors if error), "")

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        errors = dict(zip(names, pool.map(both, names)))
    def row_of(program):
        group, name, arguments = program
        row = {"group": group, "program": name, "arguments": " ".join(arguments), "error": errors[name]}
        command, limit = ["./main", *arguments], options.program_seconds
        if not row["error"] and deadline - time.monotonic() < limit:
            row["error"] = "no time left"
        if row["error"]:
            return row
        plain = [finished(command, build / "90" / name, limit) for _ in range(2)]
        if any(run is None or run[1] != 0 for run in plain):
            row["error"] = "does not end with 0 in time as compute_90"
            return row
        folder = build / options.newer / name
        kept = kept_lines(plain[0][2], plain[1][2])
        without = finished(command, folder, limit)
        under_apex = [str(options.bundle.resolve() / "apex"), "run", "--", *command]
        under = finished(under_apex, folder, 3 * limit)
        row.update(without=without is not None and holds(without, kept, plain[0]), right=holds(under, kept, plain[0]),
                   lines_compared=len(kept), code=None if under is None else under[1])
        if not row["right"] and under is not None:
            said = subprocess.run(under_apex, cwd=folder, capture_output=True, timeout=10 * limit)
            row["said"] = (said.stdout[-300:] + said.stderr[-500:]).decode(errors="replace")
        return row

    # No time is measured here, so some run at once.
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(row_of, programs))
    shutil.rmtree(build, ignore_errors=True)
    options.out.mkdir(parents=True, exist_ok=True)
    document = {"device": gpu(), "command": f"foreign.py --newer {options.newer}", "rows": rows}
    (options.out / "foreign-newer.json").write_text(json.dumps(document, indent=1) + "\n")
    counted = [row for row in rows if "right" in row]
    print(f"of {len(counted)} programs that pass as compute_90, built for compute_{options.newer}: "
          f"{sum(row['right'] for row in counted)} pass under apex, {sum(row['without'] for row in counted)} without")
    print("differ under apex:", [f"{row['program']} ({row['code']})" for row in counted if not row["right"]])
    print("not counted:", {row["program"]: row["error"][:60] for row in rows if row["error"]})


def made(source, folder, chip="sm_90"):
    """Builds one program. Says what went wrong."""
    if not source.is_dir():
        return "no sources"
    shutil.copytree(source, folder)
    if (folder / "Makefile").exists():
        command = ["make", "-s", "main", f"ARCH={chip}", "OPTIMIZE=yes"]
    else:
        sources = [str(path.name) for pattern in ("*.cu", "*.cpp") for path in sorted(folder.glob(pattern))]
        libraries = (folder / "libraries").read_text().split() if (folder / "libraries").exists() else []
        command = ["nvcc", "-O3", "-std=c++17", *f"-arch={chip}".split(), "-I.", "-I../Common", *sources, "-o", "main", *libraries]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=BUILD_SECONDS)
    except subprocess.TimeoutExpired:
        return "not built in time"
    return "" if done.returncode == 0 and (folder / "main").exists() else f"not built: {done.stderr[-200:]}"


def measure(row, options, folder, arguments, deadline):
    command = ["./main", *arguments]
    plain = [finished(command, folder, options.program_seconds) for _ in range(2)]
    if any(run is None or run[1] != 0 for run in plain):
        row["error"] = "does not end with 0 in time without apex"
        return
    kept = kept_lines(plain[0][2], plain[1][2])
    fast, seconds = [], [run[0] for run in plain]
    own = {"plain": [own_time(run) for run in plain], "fast": []}
    under = [str(options.bundle.resolve() / "apex"), "run", f"--fast={options.fast}", "--"]
    if "specialise" in options.fast:
        for name in ("first_seconds", "second_seconds"):
            learning = finished([*under, *command], folder, 3 * options.program_seconds)
            row[name] = learning and learning[0]
        watched = {}
    else:
        watched = observed(options, folder, command, [])
    queued = observed(options, folder, command, [f"--fast={options.fast}"])
    row.update(kernels=watched.get("kernels_executed"), launch_bound=watched.get("launch_bound"), queue=queued.get("fast"))
    row.update(specialised_of(queued))
    is_whole = not any(told.get("own", {}).get(word) for told in (watched, queued) for word in ("lost", "damaged"))
    # Whole dependency graphs are for `apex graph`.
    if overlap := (row["queue"] or {}).get("overlap"):
        overlap.pop("sequences", None)
    row["kernels_fast"] = queued.get("kernels_executed")
    right = row["kernels"] in (row["kernels_fast"], None) or not is_whole
    turns = min(options.turns, int((deadline - time.monotonic()) / (2.5 * max(seconds) + 0.5)))
    for turn in range(max(turns, LEAST_TURNS)):
        for way in ("plain", "fast") if turn % 2 == 0 else ("fast", "plain"):
            run = finished([*under, *command] if way == "fast" else command, folder, 3 * options.program_seconds)
            if run is None:
                row["error"] = f"{way}: not done in time"
                return
            (fast if way == "fast" else seconds).append(run[0])
            own[way].append(own_time(run))
            right = right and (way == "plain" or holds(run, kept, plain[0]))
    for name in ("first", "second"):
        if row.get(f"{name}_seconds"):
            row[f"{name}_ratio"] = statistics.median(seconds) / row[f"{name}_seconds"]
    row.update(plain_seconds=seconds, fast_seconds=fast, right=right, lines_compared=len(kept),
               ratio=statistics.median(seconds) / statistics.median(fast))
    if all(own["plain"]) and all(own["fast"]):
        row.update(own_seconds=own, own_ratio=statistics.median(own["plain"]) / statistics.median(own["fast"]))


def own_time(run):
    """What the program says that its work took, without its start; None where it says nothing."""
    said = re.search(rb"^seconds a turn: ([0-9.]+)$", run[2], re.MULTILINE)
    return float(said.group(1)) if said else None


def observed(options, folder, command, words):
    """The summary of a run under apex, by its own command line words: counts, and how far launches bound the program."""
    with tempfile.TemporaryDirectory(prefix="foreign-session-") as session:
        apex = [str(options.bundle.resolve() / "apex"), "run", *words, "-o", f"{session}/s", "--"]
        finished([*apex, *command], folder, 4 * options.program_seconds)
        try:
            return json.loads(pathlib.Path(session, "s/summary.json").read_text())
        except (OSError, ValueError):
            return {}


def specialised_of(summary):
    """What compiling kernels again gave by the layer's own measurement; nothing where it was not switched on."""
    found = (summary.get("fast") or {}).get("specialised")
    if found is None:
        return {}
    kept = [[kernel["kernel"], kernel["original_ns"], kernel["rewritten_ns"]]
            for kernel in found["kernels"] if kernel["outcome"] == "won"]
    share = (summary.get("gpu_busy") or {}).get("share")
    took = share and share * summary.get("gpu_phase_ns", 0)
    reasons = [[kernel["kernel"], kernel["outcome"], kernel["what"]]
               for kernel in found["kernels"] if kernel["outcome"] in ("left", "refused")]
    return {"kept": kept, "reasons": reasons, "tried": found["tried"], "lost": found["lost"], "left": found["left"],
            "kernel_ratio": 1 + found["saved_ns"] / took if took else None}


def finished(command, folder, limit):
    """Seconds, exit code and output of a run; None where it was stopped."""
    with tempfile.TemporaryFile() as output:
        begun = time.monotonic()
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        # A wait with a limit looks only now and then, which would be the measure's grain.
        end = threading.Timer(limit, os.killpg, (process.pid, 9))
        end.start()
        code = process.wait()
        seconds = time.monotonic() - begun
        end.cancel()
        if seconds >= limit:
            return None
        output.seek(0)
        return seconds, code, output.read(1 << 20)


def kept_lines(first, second):
    """The lines at the same places of two runs that are the same and tell no time."""
    lines = zip(first.splitlines(), second.splitlines())
    return [one for one, other in lines if one == other and not TELLS_A_TIME.search(one)]


def holds(run, kept, plain):
    if run is None or run[1] != plain[1]:
        return False
    lines = iter(run[2].splitlines())
    return all(any(line == candidate for candidate in lines) for line in kept)


def line_of(row):
    if "ratio" not in row:
        return f"{row['program']:<24} {row['error'][:90]}"
    word = "" if row["right"] else "DIFFERS"
    bound = (row["launch_bound"] or {}).get("share")
    word = f"launch-bound {bound:.2f}  {word}" if bound is not None else word
    if "own_ratio" in row:
        word = f"by its own clock {row['own_ratio']:.3f}  {word}"
    if overlap := (row.get("queue") or {}).get("overlap"):
        word = (f"proven {overlap['proven']} of {overlap['looked']}, with branches {overlap['beside']}, "
                f"kept in {overlap['kept']} graphs  {word}")
    if "kept" in row:
        ratios = " ".join(f"{original / max(rewritten, 1):.2f}" for _, original, rewritten in row["kept"])
        word = f"first {row.get('first_ratio') or 0:.3f} {row.get('second_ratio') or 0:.3f}, kernels {row['kernel_ratio'] or 1:.3f}, kept {len(row['kept'])} of {row['tried']} ({ratios})  {word}"
    return f"{row['program']:<24} {row['ratio']:.3f}  {statistics.median(row['plain_seconds']):.2f} s  {word}"


def tell_reasons(rows):
    """Why kernels were left alone, without the names and lines in which the reasons differ."""
    words = [re.sub(r"^\S+ (?=has|uses|looks|calls)|,? [_\w]*\d\w*|\(line \d+\)|line \d+", "", what)
             for row in rows for _, _, what in row.get("reasons", [])]
    for reason, times in collections.Counter(words).most_common(12):
        print(f"left alone {times:>4}  {reason[:120]}")


def summary_of(group, rows):
    if not rows:
        return f"{group}: none measured"
    ratios = sorted(row["ratio"] for row in rows)
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    chance = random.Random(1)
    means = sorted(math.exp(statistics.fmean(math.log(chance.choice(ratios)) for _ in ratios)) for _ in range(1000))
    wrong = [row["program"] for row in rows if not row["right"]]
    below = [f"{row['program']} {row['ratio']:.3f}" for row in rows if row["ratio"] < 0.97]
    kernels = sorted(row["kernel_ratio"] for row in rows if row.get("kernel_ratio"))
    of_kernels = ""
    if kernels:
        kernel_mean = math.exp(statistics.fmean(map(math.log, kernels)))
        of_kernels = f"; kernel time {kernel_mean:.3f}, at least 1.1 in {sum(ratio >= 1.1 for ratio in kernels)}"
    for name in ("first", "second"):
        learning = [row[f"{name}_ratio"] for row in rows if row.get(f"{name}_ratio")]
        if learning:
            of_kernels += f"; {name} runs {math.exp(statistics.fmean(map(math.log, learning))):.3f}"
    return (f"{group}: {len(rows)} programs, geometric mean {mean:.3f} [{means[25]:.3f}, {means[975]:.3f}]{of_kernels}, "
            f"least {ratios[0]:.3f}, most {ratios[-1]:.3f}; below 0.97: {below}; differs: {wrong}")


if __name__ == "__main__":
    main()

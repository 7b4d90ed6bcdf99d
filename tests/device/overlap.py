"""Times the six programs of overlap.cu in three forms, in turns, and prints a table.

One stream; branches of one graph, written by hand; one stream under `apex run --fast=launch,overlap`. The graph is timed with
eight turns in it too, as the queue's graphs have several. Results must be equal to the bit. What is printed is written to
overlap.json too, with what apex counted.
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import time

PROGRAMS = ["vectors", "options", "image", "ensemble", "hubs", "network"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--apex", required=True)
    parser.add_argument("--program", required=True, help="overlap.cu, compiled")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget-seconds", type=float, default=110)
    asked = parser.parse_args()
    ends = time.monotonic() + asked.budget_seconds
    rows, lines = [], {}
    for size in ["small", "large"]:
        for name in PROGRAMS:
            times, hashes = {}, set()
            for round_ in range(asked.rounds if size == "small" else 1):
                for form in ["stream", "graph", "fast"] + (["graph8"] if size == "small" else []):
                    if time.monotonic() > ends:
                        break
                    turns = "400" if size == "small" else "20"
                    command = [asked.program, name, "stream" if form == "fast" else form, size, turns]
                    if form == "fast":
                        summary = f"{name}-{size}.json"
                        command = [asked.apex, "run", "--device", "gpu", "--fast=launch,overlap", f"--json={summary}", "--", *command]
                    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
                    if done.returncode != 0:
                        print(f"{name} {form} {size}: {done.stderr.strip()[-200:]}")
                        continue
                    taken, digest = done.stdout.split()[-2:]
                    times.setdefault(form, []).append(float(taken))
                    hashes.add(digest)
                    if form == "fast":
                        lines[f"{name} {size}"] = [line.strip() for line in done.stderr.splitlines() if "  fast: " in line]
                        counted = json.loads(pathlib.Path(summary).read_text())["fast"]
                        # Whole dependency graphs are for `apex graph`.
                        counted["overlap"].pop("sequences", None)
            if {"stream", "graph", "fast"} <= times.keys():
                medians = {form: statistics.median(all_) for form, all_ in times.items()}
                rows.append({"program": name, "size": size, "us": medians, "all": times, "equal": len(hashes) == 1, "fast": counted})
    pathlib.Path("overlap.json").write_text(json.dumps(rows, indent=1))
    print(f"{'program':10} {'size':6} {'stream':>9} {'graph':>9} {'fast':>9}  fast/stream  fast/graph  equal")
    for size in ["small", "large"]:
        logs = []
        for row in (row for row in rows if row["size"] == size):
            us = row["us"]
            ratios = us["stream"] / us["fast"], us["graph"] / us["fast"]
            logs.append([math.log(ratio) for ratio in ratios])
            print(f"{row['program']:10} {size:6} {us['stream']:9.1f} {us['graph']:9.1f} {us['fast']:9.1f}"
                  f"  {ratios[0]:11.3f}  {ratios[1]:10.3f}  {'yes' if row['equal'] else 'NO'}")
        if logs:
            means = [math.exp(statistics.mean(column)) for column in zip(*logs)]
            print(f"{'mean':10} {size:6} {'':29}  {means[0]:11.3f}  {means[1]:10.3f}")
    eight = [f"{row['program']} {row['us']['graph8']:.1f}" for row in rows if "graph8" in row["us"]]
    print("eight turns in a graph by hand:", ", ".join(eight))
    for name, said in lines.items():
        if name.endswith("large"):
            continue
        print(f"{name}:", *said, sep="\n  ")


main()

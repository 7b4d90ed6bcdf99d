"""Advice on a real program, and its numbers against ncu's.

    advice_against_ncu.py APEX OUT -- COMMAND...

Runs COMMAND under `apex run --mode advise`, keeps the transcript, then lets ncu read the heaviest kernels of the
session (three, each with its heaviest shape) in a second run, and prints both sides: threads of a block, blocks,
registers, theoretical occupancy, waves, mean time. Occupancy, registers and shape must be equal; times are ncu's
with its own overhead and cold clocks, and are shown beside ours. Everything lands in OUT.
"""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

KERNELS = 3
METRICS = {
    "launch__block_size": "block threads",
    "launch__grid_size": "blocks",
    "launch__registers_per_thread": "registers",
    "sm__maximum_warps_per_active_cycle_pct": "occupancy %",
    "launch__waves_per_multiprocessor": "waves",
    "gpu__time_duration.sum": "time ns",
}


def advised(apex, out, command):
    session = out / "session"
    with open(out / "transcript.txt", "w") as transcript:
        subprocess.run(
            [apex, "run", "--mode", "advise", "-o", session, "--", *command],
            stdout=transcript, stderr=subprocess.STDOUT, check=True,
        )
    report = lambda *more: json.loads(
        subprocess.run([apex, "report", "--json", *more, session], capture_output=True, check=True).stdout
    )
    (out / "advice.json").write_text(json.dumps(report("--advice"), indent=1))
    return report()


def heaviest(summary):
    """One shape of each of the heaviest kernels: those with a measured time and an occupancy."""
    registers = {kernel["name"]: kernel for kernel in summary["kernels"]}
    chosen = {}
    for config in summary["configs"]:
        if config["gpu"] and config["fit"] and config["name"] not in chosen:
            chosen[config["name"]] = config
    for name, config in list(chosen.items())[:KERNELS]:
        product = lambda sides: sides[0] * sides[1] * sides[2]
        yield name, registers[name]["mangled"], {
            "block threads": product(config["block"]),
            "blocks": product(config["grid"]),
            "registers": registers[name]["registers"],
            "occupancy %": 100 * config["fit"]["occupancy"],
            "waves": config["fit"]["waves"],
            "time ns": config["gpu"]["mean_ns"],
        }


def counted(mangled, ours, command, out):
    """What ncu says of a launch of the same kernel with the same shape."""
    done = subprocess.run(
        ["ncu", "--csv", "--clock-control", "none", "--kernel-name-base", "mangled",
         "--kernel-name", "regex:^" + re.escape(mangled) + "$", "--launch-count", "200",
         "--metrics", ",".join(METRICS), *command],
        capture_output=True, text=True, timeout=500,
    )
    (out / f"ncu-{abs(hash(mangled)) % 10**8}.csv").write_text(done.stdout)
    lines = done.stdout.splitlines()
    begin = next((nth for nth, line in enumerate(lines) if line.startswith('"ID"')), None)
    if begin is None:
        return None
    launches = {}
    for row in csv.DictReader(lines[begin:]):
        name = METRICS.get(row["Metric Name"])
        if name:
            value = float(row["Metric Value"].replace(",", ""))
            unit = row["Metric Unit"]
            scale = {"us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6}.get(unit, 1) if name == "time ns" else 1
            launches.setdefault(row["ID"], {})[name] = value * scale
    same = [one for one in launches.values()
            if one.get("blocks") == ours["blocks"] and one.get("block threads") == ours["block threads"]]
    if not same:
        return None
    mean = dict(same[0])
    mean["time ns"] = sum(one["time ns"] for one in same) / len(same)
    return mean


def main():
    apex, out, dashes, *command = sys.argv[1:]
    assert dashes == "--" and command, __doc__
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    rows, equal = [], True
    for name, mangled, ours in heaviest(advised(apex, out, command)):
        theirs = counted(mangled, ours, command, out)
        rows.append({"kernel": name, "apex": ours, "ncu": theirs})
        if theirs is None:
            print(f"{name}: ncu saw no launch of this shape")
            equal = False
            continue
        print(name)
        for what, value in ours.items():
            exact = what != "time ns"
            agrees = abs(value - theirs[what]) <= 0.01 * max(1.0, abs(value))
            equal &= agrees or not exact
            print(f"  {what:<14} {value:>14.2f} {theirs[what]:>14.2f}  {'equal' if agrees else 'differs'}")
    (out / "against-ncu.json").write_text(json.dumps({"command": command, "kernels": rows, "equal": equal}, indent=1))
    print((out / "transcript.txt").read_text()[-6000:])
    sys.exit(0 if equal and rows else 1)


if __name__ == "__main__":
    main()

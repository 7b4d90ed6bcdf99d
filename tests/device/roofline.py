"""What launches are found to do, beside what their sources say and what ncu counts.

    roofline.py APEX OUT [PART]

Compiles roofline.cu with nvcc, runs it under `apex run --mode advise`, and prints for each kernel: operations and bytes as
the report has them, over those of the source; the share of the roof that was reached; and, where ncu may count, the same
bytes as sectors between the nearest and the second-level cache. Operations and bytes must be those of the source; what
data decides must not be known. Everything lands in OUT.
"""

import csv
import json
import os
import subprocess
import sys
from datetime import date
from pathlib import Path

SOURCE = Path(__file__).with_name("roofline.cu")
SECTORS = "lts__t_sectors_srcunit_tex.sum"
DRAM = "dram__bytes.sum"


def told(apex, out, program):
    session = out / "session"
    ended = subprocess.run([apex, "run", "--mode", "advise", "-o", session, "--", *program], capture_output=True, text=True, check=True)
    report = subprocess.run([apex, "report", "--json", session], capture_output=True, check=True).stdout
    (out / "report.json").write_bytes(report)
    sources = {}
    for line in ended.stdout.splitlines():
        name, flops, moved = line.split()
        sources[name] = {"flops": float(flops), "bytes": float(moved)}
    return sources, json.loads(report)


def counted(program):
    """What ncu counts of one launch of each kernel, the second one; nothing where it may not count."""
    words = ["ncu", "--csv", "--metrics", f"{SECTORS},{DRAM}", "--launch-skip", "5", "--launch-count", "5", *map(str, program)]
    try:
        said = subprocess.run(words, capture_output=True, text=True, timeout=100).stdout
    except (OSError, subprocess.TimeoutExpired):
        return {}
    rows = csv.DictReader(line for line in said.splitlines() if line.startswith('"'))
    scale = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "sector": 32, "": 32}
    found = {}
    for row in rows:
        value = float(row["Metric Value"].replace(",", "")) * scale.get(row["Metric Unit"], 1)
        name = "beyond the nearest cache" if row["Metric Name"] == SECTORS else "from memory"
        found.setdefault(row["Kernel Name"].split("(")[0], {})[name] = value
    return found


def main():
    apex, out, *part = sys.argv[1:]
    out = Path(out)
    program = out / "roofline"
    nvcc = os.environ.get("NVCC", "nvcc")
    # Machine code with the PTX that it was made of, as most programs carry both.
    subprocess.run([nvcc, "-std=c++17", "-O2", "-arch=sm_90", "-o", program, SOURCE], check=True)
    sources, report = told(apex, out, [program, *part])
    ncu = counted([program, *part])
    rows, wrong = [], []
    for config in report["configs"]:
        name, work = config["name"], config["work"]
        row = {"kernel": name, "source": sources[name], "work": work, "unknown": config["work_unknown"], "ncu": ncu.get(name)}
        rows.append(row)
        if name == "follow":
            if work is not None:
                wrong.append(name)
            print(f"{name:13} not known: {row['unknown']}")
            continue
        ratios = {key: work[key] / sources[name][key] if work else 0.0 for key in ("flops", "bytes")}
        if any(abs(ratio - 1) > 0.001 for ratio in ratios.values()):
            wrong.append(name)
        reached = f"{100 * work['reached']:5.1f} % of the roof ({work['bound']})" if work and work["reached"] else f"{row['unknown'] or 'not timed'}"
        against = {key: value / sources[name]["bytes"] for key, value in (row["ncu"] or {}).items()}
        beside = ", ".join(f"{key} {ratio:.3f}" for key, ratio in against.items()) or "nothing"
        print(f"{name:13} operations {ratios['flops']:.3f}, bytes {ratios['bytes']:.3f} of the source's; {reached}; by ncu {beside}")
    device = report["devices"][0]
    (out / "roofline.json").write_text(json.dumps({
        "measured": date.today().isoformat(),
        "command": "roofline.py APEX OUT",
        "device": device["name"],
        "driver": report["driver"],
        "peaks": {key: device[key] for key in ("flops_per_second", "double_flops_per_second", "bytes_per_second")},
        "rows": rows,
        "wrong": wrong,
    }, indent=1))
    peaks = [device[key] or 0.0 for key in ("flops_per_second", "double_flops_per_second", "bytes_per_second")]
    print("peaks: {:.1f} TFLOP/s, in double precision {:.1f}, {:.2f} TB/s".format(*(peak / 1e12 for peak in peaks)))
    print("MISSED" if wrong else "holds ", "operations and bytes are those of the sources", *wrong)
    sys.exit(bool(wrong))


main()

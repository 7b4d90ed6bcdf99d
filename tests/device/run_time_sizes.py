#!/usr/bin/env python3
"""Puts what run_time_sizes.cu said beside what --fast=specialise measured of the same kernels.

  run_time_sizes.py SIZES.txt SUMMARY.json OUT.json

A row is one kernel: the median with sizes as arguments, the median as it was compiled again for them (both of the
layer's own turns in the same run), the median with sizes as template constants, and the ratio of the last two.
"""

import json
import pathlib
import sys


def main():
    sizes, summary, out = map(pathlib.Path, sys.argv[1:])
    found = (json.loads(summary.read_text()).get("fast") or {}).get("specialised") or {}
    rows = []
    for line in sizes.read_text().splitlines():
        name, constant, same = line.split()
        # The form with arguments is the one whose template arguments are all 0.
        told = [kernel for kernel in found.get("kernels", []) if name in kernel["kernel"] and "ILi0E" in kernel["kernel"]]
        timed = [kernel for kernel in told if kernel["original_ns"]]
        last = (timed or told or [{"outcome": "never seen"}])[-1]
        rows.append({**last, "kernel": name, "constant_ns": int(constant), "bits": same})
    out.write_text(json.dumps({"specialised": found, "rows": rows}, indent=1) + "\n")
    print(f"{'kernel':<10}{'arguments':>12}{'again':>12}{'constants':>12}{'gain':>8}{'to go':>8}  outcome")
    for row in rows:
        original, again, constant = row.get("original_ns", 0), row.get("rewritten_ns", 0), row["constant_ns"]
        gain = f"{original / again:.3f}" if again else "-"
        to_go = f"{again / constant:.3f}" if again and constant else "-"
        print(f"{row['kernel']:<10}{original:>12}{again:>12}{constant:>12}{gain:>8}{to_go:>8}  {row['outcome']} {row['bits']}")


if __name__ == "__main__":
    main()

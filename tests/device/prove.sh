#!/usr/bin/env bash
# Proves on a machine with a GPU what the software GPU cannot show: one part after the other, each within its own
# limit, so that a program that hangs costs its part and nothing else.
#
#   prove.sh BUNDLE OUT PART...
#
#   boundary   counts against CUPTI, equal outputs, what apex costs (4 minutes)
#   executor   operations checked, then against cuBLASLt and PyTorch; races looked for (5 minutes)
#   rows       times and counters to train from (8 minutes; see collect.sh)
#   programs-rows
#              times of real programs to train from: PyTorch, JAX, CuPy, Triton, and those of FOREIGN, if there are any (5 minutes)
#   sharing    a program that answers requests beside one that trains (8 minutes)
#   advice     advice on a training script, its numbers against ncu's; blocks it recommends, tried (4 minutes)
#   roofline   what launches do, against their sources and ncu's counts; what they reach of the roof (3 minutes)
#   foreign    the programs of the folder FOREIGN, with accelerators (FAST, default launch, or launch,overlap) and without
#              (7 minutes)
#   lower      code for newer chips brought down to this one: every form, NVRTC, programs of FOREIGN (2.5 minutes)
#   specialise reductions, products and stencils with sizes at run time against the same with constant sizes; kernels of
#              NVRTC, CuPy and Numba; 40 programs of FOREIGN, if there are any, with --fast=specialise and without (7 minutes)
#   fast       launches by --fast against the driver's; the workloads' counts and outputs, eager PyTorch (9 minutes)
#   memory     memory handed out again against the driver's; a Thrust loop, programs of FOREIGN's group alloc, frameworks
#              with pools of their own, programs that fill the device alone and two at a time (5 minutes)
#   l2         a hot set beside a stream: which hints keep it in the L2 cache, and what they cost (1 minute)
#   overlap    six programs with branches: one stream, a graph by hand, one stream under --fast=launch,overlap (3 minutes)
#
# BUNDLE is what `cargo xtask bundle` made. What a part says is kept as OUT/PART.txt, its raw results beside it in
# OUT/PART/; the ends of all of them are printed last.
set -u
bundle=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
shift 2
apex=$bundle/apex
device=$bundle/device
training=(python3 "$device/workloads/resnet50_training.py" --steps 40 --batch 128)

boundary() {
    timeout 300 python3 "$device/measure.py" coverage same cost --bundle "$bundle" --out . --budget-seconds 280
}

executor() {
    APEX_DEVICE=gpu timeout 60 "$bundle/operations" --test-threads 4
    timeout 170 "$apex" bench exec --json >bench-exec.json
    # It slows kernels down a hundredfold: the groups side by side, without their largest cases.
    export APEX_TEST_SLOW=1
    for group in batch_norm elementwise fused matmul reduce rows transpose; do
        APEX_DEVICE=gpu timeout 110 compute-sanitizer --tool racecheck "$bundle/operations" "$group::" \
            --skip f64 --skip bf16 --skip long --skip large --test-threads 1 >"racecheck-$group.txt" 2>&1 &
    done
    wait
    tail -qn 1 racecheck-*.txt
}

rows() {
    "$device/collect.sh" "$bundle" . 16000 1100 300
}

programs-rows() {
    timeout 330 python3 "$device/program_rows.py" --bundle "$bundle" --out . ${FOREIGN:+--foreign "$FOREIGN"} \
        --groups "${FOREIGN_GROUPS:-}" --seconds "${ROWS_SECONDS:-290}" --passes "${ROWS_PASSES:-full}" --every "${ROWS_EVERY:-1}"
}

sharing() {
    timeout 540 "$apex" bench sched --quick --output bench-sched.json --chart plane.svg
}

advice() {
    timeout 150 python3 "$device/advice_against_ncu.py" "$apex" . -- "${training[@]}"
    timeout 60 "$apex" bench advice --live --points 1000 --seed 2 --json >bench-advice.json
}

roofline() {
    timeout 170 python3 "$device/roofline.py" "$apex" .
}

fast() {
    # The sessions' place is where costs are kept, so that runs after this know them.
    export APEX_STATE=$PWD/state
    timeout 40 "$apex" bench launch --calibrate --json >bench-launch-calibrate.json
    timeout 90 "$apex" bench launch --json >bench-launch.json
    timeout 20 "$apex" bench launch --standin --json >bench-launch-standin.json
    timeout 430 python3 "$device/measure.py" coverage same faster --fast --bundle "$bundle" --out . --budget-seconds 420
    python3 - <<'END'
import json
costs = json.load(open("bench-launch-calibrate.json"))["rows"][0]
print("costs", {name: value for name, value in costs.items() if name != "turns"})
for bar in json.load(open("bench-launch.json"))["bars"]:
    print("holds " if bar["ok"] else "MISSED", bar["name"], f"{bar['value']:.3f}", bar["unit"], "limit", bar["limit"])
END
}

foreign() {
    timeout 420 python3 "$device/foreign.py" --bundle "$bundle" --programs "$FOREIGN" --out . --fast "${FAST:-launch}" \
        --groups "${FOREIGN_GROUPS:-}" --budget-seconds "${FOREIGN_SECONDS:-400}"
}

lower() {
    timeout 60 python3 "$device/lowering.py" --bundle "$bundle" --out .
    if [ -n "${FOREIGN:-}" ]; then
        timeout 90 python3 "$device/foreign.py" --bundle "$bundle" --programs "$FOREIGN" --out . --newer 120 \
            --groups "${FOREIGN_GROUPS:-}" --program-seconds 3 --budget-seconds "${FOREIGN_SECONDS:-80}"
    fi
}

memory() {
    timeout 80 "$apex" bench memory --json >bench-memory.json
    timeout 110 python3 "$device/foreign.py" --bundle "$bundle" --programs "$device/programs" --out thrust --fast memory \
        --groups alloc --turns 2 --budget-seconds 100
    if [ -n "${FOREIGN:-}" ]; then
        timeout 130 python3 "$device/foreign.py" --bundle "$bundle" --programs "$FOREIGN" --out alloc --fast memory \
            --groups alloc --turns 2 --budget-seconds 120
    fi
    timeout 130 python3 "$device/own_pools.py" "$apex" own-pools.json
    nvcc -O3 -arch=sm_90 -std=c++17 -o fill "$device/fill.cu"
    for mode in alone pair turns; do
        echo "fill $mode without apex"
        timeout 20 ./fill "$mode" 4 || echo "MISSED fill $mode without apex: ended with $?"
        echo "fill $mode with --fast=memory"
        timeout 20 "$apex" run --fast=memory -- ./fill "$mode" 4 2>"fill-$mode.txt" ||
            echo "MISSED fill $mode: ended with $?"
    done
    python3 - <<'END'
import json
for bar in json.load(open("bench-memory.json"))["bars"]:
    print("holds " if bar["ok"] else "MISSED", bar["name"], f"{bar['value']:.3f}", bar["unit"], "limit", bar["limit"])
END
}

specialise() {
    nvcc -O3 -arch=sm_90 -o run-time-sizes "$device/run_time_sizes.cu" || return
    # Nothing is known from earlier runs.
    export APEX_SPECIALISE_CACHE=$PWD/kept
    timeout 120 "$apex" run --fast=specialise -o session -- ./run-time-sizes >sizes.txt
    echo "ended with $?"
    python3 "$device/run_time_sizes.py" sizes.txt session/summary.json run-time-sizes.json
    timeout 100 python3 "$device/specialise_libraries.py" --bundle "$bundle" --out libraries
    if [ -n "${FOREIGN:-}" ]; then
        timeout 320 python3 "$device/foreign.py" --bundle "$bundle" --programs "$FOREIGN" --out . --fast specialise --most 40 \
            --turns 2 --program-seconds 3 --groups "${FOREIGN_GROUPS:-}" --budget-seconds "${FOREIGN_SECONDS:-300}"
    fi
}

l2() {
    nvcc -O3 -arch=sm_90 -std=c++17 -o hot-set "$device/hot_set.cu" || return
    timeout 50 ./hot-set
}

overlap() {
    timeout 60 nvcc -arch=sm_90 -O3 -o six "$device/overlap.cu"
    timeout 180 python3 "$device/overlap.py" --apex "$apex" --program ./six --rounds 2 --budget-seconds 170
}

for part in "$@"; do
    declare -F -- "$part" >/dev/null || { echo "no such part: $part" >&2; exit 2; }
done
for part in "$@"; do
    mkdir -p "$out/$part"
    (
        cd "$out/$part" || exit
        date -u
        nvidia-smi --query-gpu=name,driver_version,clocks.sm,temperature.gpu --format=csv,noheader
        "$part"
        echo "$part ended with $? after $SECONDS s"
    ) >"$out/$part.txt" 2>&1
done
for part in "$@"; do
    echo "== $part"
    tail -45 "$out/$part.txt"
done

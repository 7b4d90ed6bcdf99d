#!/usr/bin/env bash
# Collects training rows on a machine with a GPU: times of many configurations of the zoo (an H200 takes 15 ms each:
# 22,000 in five and a half minutes) and counters of more than 1,000 of them (some 0.21 s each). It runs from the
# bundle, a folder that holds the program `apex` and a copy of this directory. Training from the rows needs no GPU:
# `apex train fit --rows OUT/rows.parquet --output models`, and `apex bench predict --truth` judges what comes of it.
#
#   collect.sh BUNDLE OUT [POINTS] [COUNTED] [SECONDS]
#
# Everything lands in OUT. Each step has its own limit, and a step that runs past it leaves what it has: the
# collection goes on where it stopped when the script is run again on the same OUT.
set -u
bundle=$1
out=$2
points=${3:-22000}
counted=${4:-1100}
seconds=${5:-500}
apex="$bundle/apex"
mkdir -p "$out"
rows="$out/rows.parquet"
report="$out/collect.txt"
{
    date -u
    nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,temperature.gpu --format=csv,noheader
} >>"$report" 2>&1

resume=()
if compgen -G "$out/rows.*" >/dev/null; then resume=(--resume); fi
timeout "$seconds" "$apex" train collect --device gpu --points "$points" --output "$rows" "${resume[@]}" --json \
    >"$out/collect.json" 2>>"$report"
code=$?
echo "collect ended with $code" >>"$report"
# An interrupted collection has pieces and no file: a collection of no further points puts them together.
if [ ! -e "$rows" ]; then
    timeout 60 "$apex" train collect --device gpu --points 1 --output "$rows" --resume --json \
        >"$out/collect.json" 2>>"$report"
fi

timeout 400 "$apex" train collect --device gpu --ncu "$counted" --output "$rows" --json \
    >"$out/ncu.json" 2>>"$report"
echo "ncu ended with $?" >>"$report"

date -u >>"$report"
tail -40 "$report"

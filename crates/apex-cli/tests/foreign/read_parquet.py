"""Reads an export of the made-up program with pyarrow and checks what stands in it."""

import sys

import pyarrow.parquet

table = pyarrow.parquet.read_table(sys.argv[1])
rows = table.to_pylist()
assert len(rows) == 38, len(rows)

types = {field.name: str(field.type) for field in table.schema}
assert types["time_ns"] == "uint64", types
assert types["grid_x"] == "uint32", types
assert types["pageable"] == "bool", types
assert types["function"].startswith("dictionary<values=string"), types

launches = [row for row in rows if row["kind"] == "launch"]
executed = [row for row in launches if row["result"] == 0 and not row["captured"]]
assert len(executed) == 15, len(executed)
first = launches[0]
assert first["function"] == "cuLaunchKernel", first
assert first["kernel_name"] == "_Z5saxpyifPfS_", first
assert (first["grid_x"], first["block_x"], first["tid"]) == (264, 256, 77), first
assert first["bytes"] is None and first["cluster_x"] is None, first

copies = [row for row in rows if row["kind"] == "copy"]
assert [row["direction"] for row in copies] == ["host-to-device"] * 2, copies
assert sorted(row["pageable"] for row in copies) == [False, True], copies

assert sum(row["function"] == "cuLaunchKernel" for row in rows) == 12, rows
assert all(row["function"] is None for row in rows if row["kind"] == "gpu-time"), rows
times = [row["gpu_ns"] for row in rows if row["kind"] == "gpu-time"]
assert sorted(set(times)) == [2000, 10000], times

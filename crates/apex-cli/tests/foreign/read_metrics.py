"""Reads the dashboard's metrics as Prometheus' own client for Python does. Arguments: a file with the page, and a
session that runs."""

import sys
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

families = {family.name: family for family in text_string_to_metric_families(Path(sys.argv[1]).read_text())}
own = lambda family: [sample for sample in families[family].samples if sample.labels["session"] == sys.argv[2]]
assert families["apex_sessions"].samples[0].value >= 1, families
assert families["hw_gpu_memory_limit_bytes"].type == "gauge"
# The parser leaves out what every counter's name ends with.
assert families["apex_launches"].type == "counter", families
(sample,) = own("apex_launches")
assert sample.value == 17 and sample.labels["program"] == "train", sample
kernels = {sample.labels["kernel"]: sample.value for sample in own("apex_kernel_calls")}
assert kernels["gemm"] >= 5, kernels
assert all(family.documentation for family in families.values())

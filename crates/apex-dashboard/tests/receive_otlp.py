"""A collector of OpenTelemetry that prints its address, refuses one push and checks the next.

What comes is parsed by the protocol's own descriptions: a field that they do not know is an error.
"""

import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality

bodies = []


class Collector(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        bodies.append((self.path, self.headers["Content-Type"], body))
        self.send_response(503 if len(bodies) == 1 else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


def value(one):
    return getattr(one, one.WhichOneof("value"))


def attributes(list_of_pairs):
    return {pair.key: value(pair.value) for pair in list_of_pairs}


server = HTTPServer(("127.0.0.1", 0), Collector)
server.timeout = 240
print(f"http://127.0.0.1:{server.server_port}", flush=True)
while len(bodies) < 2:
    before = len(bodies)
    server.handle_request()
    if len(bodies) == before:
        sys.exit("nothing was pushed in four minutes")

path, kind, body = bodies[1]
assert (path, kind) == ("/v1/metrics", "application/json"), (path, kind)
request = json_format.Parse(body, ExportMetricsServiceRequest())
(resource,) = request.resource_metrics
assert attributes(resource.resource.attributes)["service.name"] == "apex"
(scope,) = resource.scope_metrics
metrics = {metric.name: metric for metric in scope.metrics}
for metric in metrics.values():
    assert metric.sum.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE, metric
    assert metric.description and metric.unit, metric
    assert all(point.time_unix_nano > 10**18 for point in metric.sum.data_points)

(launches,) = metrics["apex.launches"].sum.data_points
assert metrics["apex.launches"].sum.is_monotonic
assert launches.as_double == 2**54, launches
assert launches.start_time_unix_nano == 1767225600000000001, launches
assert attributes(launches.attributes) == {
    "apex.session": "20260101-000000-1",
    "process.pid": 7,
    "process.executable.name": "train",
}
(usage,) = metrics["hw.gpu.memory.usage"].sum.data_points
assert usage.as_double == 4096 and not metrics["hw.gpu.memory.usage"].sum.is_monotonic
assert metrics["hw.gpu.memory.usage"].unit == "By"
assert attributes(usage.attributes) == {"hw.id": "00ff", "hw.name": "NVIDIA H200"}
(kernel,) = metrics["apex.kernel_calls"].sum.data_points
assert attributes(kernel.attributes)["apex.kernel"].startswith('<b>"k"'), kernel

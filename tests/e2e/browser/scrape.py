"""Has a real Prometheus scrape the dashboard beside a program that runs, and prints one JSON document.

Arguments: apex, the folder with `prometheus` and `promtool`, a program that runs on and on with its arguments. Debian's
package has both; `apt-get download prometheus` and `dpkg -x` need no root.
"""

import json
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from datetime import date
from pathlib import Path

from page import PATIENCE, Server

CONFIG = """
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: apex
    static_configs: [{{targets: ["{0}"]}}]
"""
QUERIES = {
    "up": "up",
    "launches": "sum by (program) (apex_launches_total)",
    "launches a second": "sum by (program) (rate(apex_launches_total[10s]))",
    "share of the time that the GPU is busy": "sum(rate(apex_gpu_seconds_total[10s]))",
    "kernels by name": "sum by (kernel) (apex_kernel_calls_total)",
    "share of the device's memory": "hw_gpu_memory_usage_bytes / hw_gpu_memory_limit_bytes",
}


def until(what, asked):
    deadline = time.monotonic() + PATIENCE
    while not (found := asked()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.5)
    return found


def main():
    apex, folder, *program = sys.argv[1:]
    folder = Path(folder)
    run = subprocess.Popen([apex, "run", "--", *program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    server = Server(apex)
    place = tempfile.TemporaryDirectory()
    config = Path(place.name) / "prometheus.yml"
    config.write_text(CONFIG.format(server.address))
    address = "127.0.0.1:19377"
    words = [f"--config.file={config}", f"--storage.tsdb.path={place.name}/data", f"--web.listen-address={address}"]
    prometheus = subprocess.Popen([folder / "prometheus", *words], stderr=subprocess.DEVNULL)

    def ask(query):
        url = f"http://{address}/api/v1/query?query={urllib.parse.quote(query)}"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
                rows = json.load(answer)["data"]["result"]
        except OSError:
            return None
        return [{**row["metric"], "value": float(row["value"][1])} for row in rows]

    try:
        until("a rate", lambda: ask(QUERIES["launches a second"]))
        time.sleep(10)
        answers = {name: ask(query) for name, query in QUERIES.items()}
        with urllib.request.urlopen(server.url("metrics"), timeout=PATIENCE) as answer:
            page = answer.read()
        # It reads the page as Prometheus does, and says what its own rules of names forbid.
        judged = subprocess.run([folder / "promtool", "check", "metrics"], input=page, capture_output=True)
        version = subprocess.run([folder / "prometheus", "--version"], capture_output=True, text=True).stdout
    finally:
        prometheus.terminate()
        prometheus.wait()
        run.terminate()
        run.wait()
        server.process.kill()
    assert answers["up"][0]["value"] == 1
    assert all(answers.values()), answers
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True)
    print(json.dumps({
        "measured": date.today().isoformat(),
        "commit": commit.stdout.strip(),
        "command": f"python3 tests/e2e/browser/scrape.py APEX PROMETHEUS {' '.join(Path(word).name for word in program)}",
        "device": "software GPU",
        "driver": "apex software GPU",
        "prometheus": version.splitlines()[0],
        "queries": {name: {"query": QUERIES[name], "answer": rows} for name, rows in answers.items()},
        "promtool_check_metrics": {"exit_code": judged.returncode, "said": judged.stderr.decode().splitlines()},
    }, indent=1))


main()

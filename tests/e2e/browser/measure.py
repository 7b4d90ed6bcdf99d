"""Measures the dashboard and prints one JSON document.

Arguments: apex, the folder of the browser, a program that runs on and on with its arguments. Costs are processor time over
time, in per cent of one core, of each process of apex; stretches with and without watchers alternate, so that what else
the machine does falls on both. The first paint is the browser's own word for it.
"""

import gzip
import json
import os
import pty
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from datetime import date
from pathlib import Path

from page import Server, browser, watched

SECONDS = 20
ROUNDS = 4
LOADS = 15
PAGE = Path(__file__).parents[3] / "crates/apex-dashboard/page"


def processor_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def share(pids, seconds):
    """What processes take of a core, in per cent, each by its name."""
    before = {name: processor_seconds(pid) for name, pid in pids.items()}
    began = time.monotonic()
    time.sleep(seconds)
    length = time.monotonic() - began
    return {name: 100 * (processor_seconds(pid) - before[name]) / length for name, pid in pids.items()}


def launches(apex):
    said = json.loads(subprocess.run([apex, "top", "--json"], check=True, capture_output=True).stdout)
    return said["sessions"][0]["summary"]["launches"], said["sessions"][0]["at_ns"]


class Listener:
    """A page's connection without a page: takes every frame and counts it."""

    def __init__(self, server):
        self.frames, self.bytes, self.ends = 0, 0, False
        self.url = server.url("api/live")
        self.thread = threading.Thread(target=self.listen)
        self.thread.start()

    def listen(self):
        with urllib.request.urlopen(self.url) as stream:
            for line in stream:
                self.frames += line.startswith(b"event: frame")
                self.bytes += len(line)
                if self.ends:
                    return

    def end(self):
        self.ends = True
        self.thread.join()


def top(apex):
    """`apex top` on a terminal of its own, which somebody reads."""
    master, slave = pty.openpty()
    process = subprocess.Popen([apex, "top"], stdin=slave, stdout=slave, stderr=slave, env={**os.environ, "TERM": "xterm"})
    os.close(slave)

    def read():
        try:
            while os.read(master, 1 << 16):
                pass
        except OSError:
            pass

    threading.Thread(target=read, daemon=True).start()
    return process


def costs(apex, server, run):
    rows = []
    for _ in range(ROUNDS):
        from_count, from_ns = launches(apex)
        alone = share({"apex run": run.pid}, SECONDS)
        to_count, to_ns = launches(apex)
        listener, watcher = Listener(server), top(apex)
        pids = {"apex run": run.pid, "apex dashboard": server.process.pid, "apex top": watcher.pid}
        time.sleep(1)
        frames, got = listener.frames, listener.bytes
        began, began_ns = launches(apex)
        both = share(pids, SECONDS)
        ended, ended_ns = launches(apex)
        rows.append({
            "alone_percent_of_a_core": alone,
            "watched_percent_of_a_core": both,
            "frames_per_second": (listener.frames - frames) / SECONDS,
            "stream_bytes_per_second": (listener.bytes - got) / SECONDS,
            "launches_per_second_alone": (to_count - from_count) / (to_ns - from_ns) * 1e9,
            "launches_per_second_watched": (ended - began) / (ended_ns - began_ns) * 1e9,
        })
        watcher.terminate()
        watcher.wait()
        listener.end()
        time.sleep(4)
    return rows


def first_paint(opened, server):
    paints = []
    for _ in range(LOADS):
        with watched(opened) as page:
            page.goto(server.url("#/live"))
            ask = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
            while (paint := page.evaluate(ask)) is None:
                time.sleep(0.01)
            paints.append(paint)
    return paints


def main():
    apex, folder, *program = sys.argv[1:]
    run = subprocess.Popen([apex, "run", "--", *program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    server = Server(apex)
    try:
        time.sleep(3)
        rows = costs(apex, server, run)
        with browser(folder) as opened:
            paints = first_paint(opened, server)
    finally:
        run.terminate()
        server.process.kill()
    files = {path.name: len(gzip.compress(path.read_bytes(), 9)) for path in sorted(PAGE.iterdir())}
    middle = lambda name, key: statistics.median(row[key][name] for row in rows)
    pair = middle("apex dashboard", "watched_percent_of_a_core") + middle("apex top", "watched_percent_of_a_core")
    more = middle("apex run", "watched_percent_of_a_core") - middle("apex run", "alone_percent_of_a_core")
    ratio = statistics.median(row["launches_per_second_watched"] / row["launches_per_second_alone"] for row in rows)
    bars = [
        ("page, gzipped", sum(files.values()), "bytes", 60_000),
        ("first contentful paint, median", statistics.median(paints), "ms", 200),
        ("dashboard and top, together", pair, "% of a core", 2),
        ("apex run, more while watched", more, "% of a core", 2),
    ]
    print(json.dumps({
        "measured": date.today().isoformat(),
        "command": f"python3 tests/e2e/browser/measure.py APEX BROWSER {' '.join(Path(word).name for word in program)}",
        "commit": subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=PAGE, check=True, capture_output=True, text=True).stdout.strip(),
        "device": "software GPU",
        "driver": "apex software GPU",
        "profile": Path(apex).parent.name,
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "page_bytes_gzipped": files,
        "first_paint_ms": paints,
        "rounds": rows,
        "launches_watched_over_alone": ratio,
        "bars": [{"name": name, "value": value, "unit": unit, "limit": limit, "ok": value <= limit} for name, value, unit, limit in bars],
    }, indent=1))


main()

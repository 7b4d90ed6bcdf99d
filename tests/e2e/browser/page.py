"""The dashboard in a real browser, as the tests see it: started, opened, asked, and ended again."""

import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import sync_playwright

# Only ends what hangs: a machine may be busy with other things.
PATIENCE = 240.0
VIEWS = ["report", "advice", "timeline", "breakdown", "roofline", "prediction", "downloads"]


class Server:
    """`apex dashboard`, which can be lost and come back at the same address."""

    def __init__(self, apex):
        self.apex = apex
        self.address = "127.0.0.1:0"
        self.start()

    def start(self):
        command = [self.apex, "dashboard", "--listen", self.address]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        said = self.process.stderr.readline()
        found = re.search(r"http://(\S+?)/", said)
        assert found, said
        self.address = found.group(1)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE) == 0

    def url(self, path=""):
        return f"http://{self.address}/{path}"

    def document(self, path):
        with urllib.request.urlopen(self.url(path), timeout=PATIENCE) as answer:
            return json.load(answer)


@contextmanager
def browser(folder):
    folder = Path(folder)
    places = {"LD_LIBRARY_PATH": str(folder / "lib")}
    # A plain machine may have no font at all; pictures are taken with those of a usual one.
    if "FONTCONFIG_PATH" not in os.environ:
        places["FONTCONFIG_PATH"] = str(folder)
    # Tests may run as root, where Chromium has no sandbox; the page is our own.
    options = ["--no-sandbox", "--no-zygote", "--disable-gpu"]
    with sync_playwright() as player:
        opened = player.chromium.launch(
            executable_path=str(folder / "chromium"), args=options, env={**os.environ, **places}
        )
        yield opened
        opened.close()


@contextmanager
def watched(opened, **options):
    """A page of which every complaint fails the test: errors of scripts, breaches of the content policy."""
    context = opened.new_context(**options)
    context.set_default_timeout(PATIENCE * 1000)
    page = context.new_page()
    complaints = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
    page.on("request", lambda request: complaints.append(request.url) if "//127.0.0.1" not in request.url else None)
    page.complaints = complaints
    yield page
    assert not complaints, complaints
    context.close()


def until(page, expression, wanted=None, patience=PATIENCE):
    """Waits until an expression about the page holds. Asked from outside, because the page's policy forbids to be asked
    by text that it would have to take for a script."""
    deadline = time.monotonic() + patience
    while not page.evaluate(expression, wanted):
        assert time.monotonic() < deadline, f"waited in vain: {expression}"
        time.sleep(0.02)


def go(page, server, view):
    """Opens a view and waits until it shows more than its heading."""
    page.goto(server.url(f"#/{view}"))
    until(page, "document.querySelectorAll('main > *').length > 1")
    until(page, "!document.querySelector('[aria-busy]')")

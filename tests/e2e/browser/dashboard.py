"""Looks at the dashboard as a user does. Arguments: apex, the folder of the browser, what to look at, and further words."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

from page import VIEWS, Server, browser, go, until, watched

APEX, FOLDER = sys.argv[1], Path(sys.argv[2])


def kept_sessions(server, opened, before, after):
    """Every view of a session, and its figures beside those that the command prints."""
    files = (Path(__file__).parents[3] / "crates/apex-dashboard/page").iterdir()
    assert sum(len(gzip.compress(file.read_bytes())) for file in files) <= 60_000
    with watched(opened) as page:
        figures(page, server, before, after)
        for view in VIEWS:
            go(page, server, f"session/{after}/{view}")
        zoomed_and_filtered(page, server, after)
        compared(page, server, before, after)
        listed(page, server, [before, after])
        downloaded(page, server, after)


def printed(*words):
    return subprocess.run([APEX, *words], check=True, capture_output=True, text=True).stdout


def cells(page, caption):
    rows = page.locator(f"table:has(caption:text-is('{caption}')) tbody tr").all()
    return [[cell.inner_text() for cell in row.locator("td").all()] for row in rows]


def figures(page, server, before, session):
    """The words of the page are the words of the report."""
    go(page, server, f"session/{session}")
    said = printed("report", session)
    document = json.loads(printed("report", "--json", session))
    assert document == server.document(f"api/sessions/{session}/report")
    kernels = cells(page, "Kernels by GPU time")
    assert len(kernels) == len(document["kernels"]) > 0
    for name, share, _total, calls, mean, _timed, occupancy, *_ in kernels:
        line = next(line for line in said.splitlines() if line.endswith(f" {name}"))
        assert line.split() == f"{share} {calls} {mean} {occupancy} {name}".split(), line
    fact = {
        element.get_attribute("data-fact"): element.inner_text()
        for element in page.locator("[data-fact]").all()
    }
    assert f"{fact['gpu_busy']} of {fact['gpu_phase_ns']}" in said, said
    assert f"launch-bound {fact['launch_bound']}" in said
    assert f"{fact['kernels_executed']} kernels executed" in said
    assert f"peak {fact['device_peak_bytes']} on devices" in said
    assert f"{fact['events']} events" in said
    busy = document["gpu_busy"]["share"] * 100
    assert abs(float(fact["gpu_busy"].split()[0]) - busy) <= 0.5
    # The four answers stand above everything else.
    answers = page.locator("#answers")
    assert answers.locator("dt").count() == 4
    assert kernels[0][0] in answers.inner_text()
    changed = printed("diff", before, session).splitlines()[0]
    assert changed.lower() in answers.inner_text().lower()
    for function in cells(page, "Driver functions by the time spent in them"):
        known = next(one for one in document["functions"] if one["name"] == function[0])
        assert function[1].replace(",", "") == str(known["calls"])


def zoomed_and_filtered(page, server, session):
    go(page, server, f"session/{session}/timeline")
    where = page.locator(".timeline [aria-live]")
    whole = where.inner_text()
    page.locator("canvas.lanes").focus()
    for key in ["+", "+", "ArrowRight"]:
        page.keyboard.press(key)
    until(page, "whole => document.querySelector('.timeline [aria-live]').innerText !== whole", whole)
    assert page.locator(".labels div").count() >= 3
    page.keyboard.press("0")
    until(page, "whole => document.querySelector('.timeline [aria-live]').innerText === whole", whole)
    box = page.locator("canvas.lanes").bounding_box()
    page.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 10)
    page.mouse.up()
    until(page, "whole => document.querySelector('.timeline [aria-live]').innerText !== whole", whole)
    go(page, server, f"session/{session}/breakdown")
    bars = page.locator(".flame button")
    before = bars.count()
    bars.nth(1).click()
    until(page, "before => document.querySelectorAll('.flame button').length !== before", before)
    go(page, server, f"session/{session}")
    rows = page.locator("table:has(caption:text-is('Driver functions by the time spent in them')) tbody tr")
    every = rows.count()
    page.get_by_label("Find a function").fill("stream")
    assert 0 < rows.count() < every
    page.get_by_label("Find a function").fill("no such function")
    page.get_by_text("Nothing contains “no such function”.").wait_for()
    # A heading sorts by a key too, and says so.
    heading = page.locator("table:has(caption:text-is('Kernels by GPU time')) th", has_text="Calls")
    heading.locator("button").focus()
    page.keyboard.press("Enter")
    assert heading.get_attribute("aria-sort") == "descending"
    calls = [int(row[3].replace(",", "")) for row in cells(page, "Kernels by GPU time")]
    assert calls == sorted(calls, reverse=True)


def compared(page, server, before, after):
    go(page, server, f"compare/{before}/{after}")
    headline = printed("diff", before, after).splitlines()[0]
    assert page.locator("#headline").inner_text().lower() == f"{headline}.".lower()
    # Without two names it takes the newest and the one of the same command before it.
    go(page, server, f"compare//{after}")
    assert page.locator("select").nth(1).input_value() == after


def listed(page, server, sessions):
    go(page, server, "sessions")
    rows = cells(page, "Kept sessions, newest first")
    assert [row[0] for row in rows][: len(sessions)] == sessions[::-1]
    assert all(row[4] == "exit code 0" for row in rows)


def downloaded(page, server, session):
    go(page, server, f"session/{session}/downloads")
    with page.expect_download() as waiting:
        page.get_by_role("link", name="CSV").click()
    got = Path(waiting.value.path()).read_text()
    assert got == printed("export", "--format", "csv", session)


def roofline(server, opened, session):
    """Where launches are looked at closely, their work stands beside what they reached, as the report has it."""
    with watched(opened) as page:
        go(page, server, f"session/{session}/roofline")
        document = json.loads(printed("report", "--json", session))
        known = [config for config in document["configs"] if config["work"]]
        unknown = [config for config in document["configs"] if config["work_unknown"]]
        assert len(known) + len(unknown) == len(document["configs"]) > 0
        work = {config["name"]: config["work"] for config in known}
        # 16,384 sums: each reads two numbers of four bytes and writes one.
        assert (work["vector_add"]["flops"], work["vector_add"]["bytes"]) == (16384, 12 * 16384), work
        # The tiled product of 128 by 128: two operations for each of 128 cubed.
        assert work["matrix_product"]["flops"] == 2 * 128**3, work
        assert work["matrix_product"]["flops_per_byte"] > 1 > work["vector_add"]["flops_per_byte"]
        rows = cells(page, "What each launch shape does and reaches")
        assert [row[0] for row in rows] == [config["name"] for config in known]
        adds = next(row for row in rows if row[0] == "vector_add")
        assert (adds[3], adds[4]) == ("16.4 kFLOP", "192 KiB") and adds[8].endswith(" ns memory"), adds
        assert len(cells(page, "Launch shapes of which it is not known what they do")) == len(unknown)
        box = page.locator("canvas.scatter").bounding_box()
        said = page.locator("main p[role=status]").first
        places = ((x, y) for x in range(104, int(box["width"]), 20) for y in range(8, int(box["height"]), 20))
        for x, y in places:
            page.mouse.move(box["x"] + x, box["y"] + y)
            if "operations for each byte, " in said.inner_text():
                return
        raise AssertionError("no dot was found under the pointer")


def markup(server, opened, session):
    """A command that is markup is shown and does nothing."""
    with watched(opened) as page:
        for view in ["sessions", f"session/{session}", "compare"]:
            go(page, server, view)
            assert page.locator("main img").count() == 0
            assert page.evaluate("window.owned") is None
        go(page, server, f"session/{session}")
        assert "<img src=x onerror=window.owned=1>" in page.locator("h1").inner_text()


def live(server, opened):
    """What runs beside: figures move, rows are chosen, the page is loaded again, the connection is lost."""
    with watched(opened) as page:
        page.goto(server.url())
        until(page, "document.querySelectorAll('tr.picks').length >= 2")
        until(page, "/\\/s$/.test(document.querySelectorAll('.tile .value')[1].innerText)")
        kernels = lambda: cells(page, "Kernels of the chosen session")
        until(page, "document.querySelectorAll('canvas.trend').length >= 3")
        assert page.get_by_role("link", name="advice, with what it saves").get_attribute("href").endswith("/advice")
        first = int(kernels()[0][4].replace(",", ""))
        until(
            page,
            "least => [...document.querySelectorAll('canvas.trend')].some(one =>"
            " Number(one.closest('tr').cells[4].innerText.replaceAll(',', '')) > least)",
            first + 50,
        )
        # The row of the process is chosen by a key.
        page.locator("tr.inner button").first.focus()
        page.keyboard.press("Enter")
        until(page, "document.querySelector('tr.picked').classList.contains('inner')")
        points = lambda: page.evaluate("import('/live.js').then(({minute}) => Math.max(...[...minute.curves.values()].map(one => one.points.length)))")
        until(page, "import('/live.js').then(({minute}) => [...minute.curves.values()].some(one => one.points.length > 30))")
        seen = points()
        page.reload()
        until(page, "document.querySelectorAll('tr.picks').length >= 2")
        assert points() >= seen, "a page that is loaded again shows the last minute"
        streams(page)
        lost_and_found(page, server)
        page.goto(server.url("#/scheduler"))
        page.get_by_text("No programs share a GPU").wait_for()


def streams(page):
    """The lanes of the last seconds reach farther back by a button, and say what is under the pointer."""
    page.get_by_role("button", name="30 s").click()
    assert page.get_by_role("button", name="30 s").get_attribute("aria-pressed") == "true"
    until(page, "document.querySelectorAll('.labels div').length >= 2")
    box = page.locator("canvas.lanes").bounding_box()
    page.mouse.move(box["x"] + box["width"] - 20, box["y"] + 15)
    until(page, "/ ago, in .* launches, GPU about /.test(document.querySelector('.tracks + .about').innerText)")


def lost_and_found(page, server):
    state = page.locator("#link-state")
    server.stop()
    until(page, "document.querySelector('#link-state').innerText.includes('lost')")
    server.start()
    until(page, "document.querySelector('#link-state').innerText === ''")
    until(page, "document.querySelectorAll('tr.picks').length >= 2")
    # That the server was away is what the browser complains of.
    page.complaints[:] = [words for words in page.complaints if "api/live" not in words and "ERR_" not in words]
    assert state.inner_text() == ""


def sharing(server, opened):
    """Programs that share a GPU, each with its class and its promise."""
    with watched(opened) as page:
        page.goto(server.url("#/scheduler"))
        until(page, "document.querySelectorAll('main tbody tr').length === 2")
        until(page, "[...document.querySelectorAll('main tbody tr')].some(row => /seen/.test(row.cells[4].innerText))")
        shown = {row[1]: row for row in cells(page, "Programs that share this GPU")}
        assert set(shown) == {"latency", "batch"}, shown
        assert shown["latency"][5] == "P95 ≤ 50.0 ms", shown
        page.get_by_text("policy priority").wait_for()


def readable(server, opened, session):
    """Nothing serious for those who do not see the page, in light and dark; nothing cut off on a small screen."""
    checker = (FOLDER / "axe.min.js").read_text()
    views = ["live", "sessions", f"compare//{session}", "scheduler", *(f"session/{session}/{view}" for view in VIEWS)]
    for scheme in ["light", "dark"]:
        with watched(opened, color_scheme=scheme) as page:
            for view in views:
                go(page, server, view)
                page.evaluate(checker)
                found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
                serious = [one for one in found if one["impact"] in ("serious", "critical")]
                told = [(one["id"], one["nodes"][0]["html"], one["nodes"][0]["failureSummary"]) for one in serious]
                assert not told, (scheme, view, told)
    with watched(opened, viewport={"width": 360, "height": 740}) as page:
        for view in views:
            go(page, server, view)
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= 360, (view, wide)


def busy(server, opened):
    """A million launches a second are replayed: what the page does takes so little of a processor that 30 pictures a second
    are no trouble. Asked of the processor's time, because a machine that is busy with other things draws nothing faster."""
    with watched(opened) as page:
        page.goto(server.url("icon.svg"))
        idle, _ = pace(page)
        page.goto(server.url())
        until(page, "/M\\/s$/.test(document.querySelectorAll('.tile .value')[1].innerText)")
        frames, share = pace(page)
        print(json.dumps({"frames_per_second": frames, "of_an_empty_page": idle, "main_thread_percent_of_a_core": 100 * share}))
        # Each of the ten pictures a second may take a thirtieth of a second.
        assert share <= 10 / 30, (frames, idle, share)


def pace(page):
    """Frames a second, and the share of a core that the page's main thread takes."""
    asks = page.context.new_cdp_session(page)
    asks.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent():
        found = {one["name"]: one["value"] for one in asks.send("Performance.getMetrics")["metrics"]}
        return found["TaskDuration"]

    before = spent()
    count, seconds = page.evaluate(
        "new Promise(done => { let count = 0; const since = performance.now();"
        " const next = now => { count += 1; now - since < 3000 ? requestAnimationFrame(next) :"
        " done([count, (now - since) / 1000]); }; requestAnimationFrame(next); })"
    )
    share = (spent() - before) / seconds
    asks.detach()
    return count / seconds, share


def pictures(server, opened, folder, before, after):
    """Pictures for docs/."""
    views = {"live": "live", "report": f"session/{after}", "advice": f"session/{after}/advice",
             "timeline": f"session/{after}/timeline", "roofline": f"session/{after}/roofline",
             "compare": f"compare/{before}/{after}"}
    with watched(opened, viewport={"width": 1180, "height": 760}) as page:
        for name, view in views.items():
            go(page, server, view)
            if name == "live":
                until(page, "import('/live.js').then(({minute}) => [...minute.curves.values()].some(one => one.points.length > 300))")
            page.screenshot(path=f"{folder}/dashboard-{name}.png")


LOOKS = {look.__name__: look for look in [kept_sessions, roofline, markup, live, sharing, readable, busy, pictures]}


def main():
    server = Server(APEX)
    try:
        with browser(FOLDER) as opened:
            LOOKS[sys.argv[3]](server, opened, *sys.argv[4:])
    finally:
        server.process.kill()


main()

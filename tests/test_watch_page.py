"""The live page in a real browser: zoom, filters, keys, live points, tokens, foreign pages, and how it looks."""

from __future__ import annotations

import re
import shutil
import signal
import time
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from railbed.model.meters import Sample, SeriesKey
from railbed.model.record import Measurement
from railbed.store import open_run
from railbed.store.series import SeriesWriter
from railbed.web.page import app
from tests.support.browser import WIDE, Browser
from tests.support.cli import start
from tests.support.events import event
from tests.support.ports import free_port
from tests.support.served import served_app, served_page
from tests.support.smallrun import write_small_run
from tests.support.watched import Generated, generated_run, write_generated

pytestmark = [pytest.mark.browser, pytest.mark.whole, pytest.mark.xdist_group("train")]

READY = "document.documentElement.dataset.ready === 'yes' && document.querySelectorAll('canvas').length > 1"
SPAN = "railbed.view.end - railbed.view.start"
LAST = """(lines => Math.max(...[...lines.all.values()].map(
  line => lines.start + line.low.findLastIndex(value => value === value) * lines.width)))
  (railbed.charts.get('step').lines)"""
"""The time of the last step in the chart."""
LINES = "[...railbed.charts.get('step').lines.all.values()].length"


@pytest.fixture(autouse=True)
def runs_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert (app.STATIC / "uplot").is_dir(), "`make setup` puts uPlot here"
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path / "runs"))


def drag(browser: Browser, start: float, end: float) -> None:
    """Drag across the first chart, from one share of its width to another."""
    left, top, width = browser.evaluate(
        "(box => [box.left, box.top + box.height / 2, box.width])"
        "(document.querySelector('.u-over').getBoundingClientRect())"
    )
    for kind, share in (
        ("mousePressed", start),
        ("mouseMoved", (start + end) / 2),
        ("mouseMoved", end),
        ("mouseReleased", end),
    ):
        browser.ask(
            "Input.dispatchMouseEvent", type=kind, x=left + share * width, y=top, button="left", buttons=1, clickCount=1
        )


def press(browser: Browser, key: str) -> None:
    text = key if len(key) == 1 else ""
    browser.ask("Input.dispatchKeyEvent", type="keyDown", key=key, text=text)
    browser.ask("Input.dispatchKeyEvent", type="keyUp", key=key)


def write_regrouped() -> Path:
    """Write a run of 60 s on three nodes; after 20 s node2 is gone, and a generation on the other two begins."""
    cluster = "name: x\nnodes: {node1: {host: 10.0.0.1}, node2: {host: 10.0.0.2}, node3: {host: 10.0.0.3}}\n"
    start = time.time() - 60
    with open_run("train", cluster_name="x", cluster_text=cluster) as run, SeriesWriter(run.folder) as writer:

        def happen(name: str, when: float, subject: str, **data: object) -> None:
            run.append(event(name, subject=subject, message=f"{name} of {subject}", data=data, time=when))

        names = ["node1", "node2", "node3"]
        happen("generation", start, "generation 1", generation=1, nodes=names)
        for second in range(60):
            when = start + second
            if second == 20:
                names = ["node1", "node3"]
                happen("restart", when, "node2", generation=1)
                happen("generation", when, "generation 2", generation=2, nodes=names)
            for rank, node in enumerate(names):
                writer.append(Sample(node, when, (SeriesKey(node, "cpu_busy_us", "", ""),), (1_000_000 * second,)))
                labels: dict[str, str | int] = {"step": second + 1, "rank": rank, "node": node}
                run.append(Measurement(name="step_seconds", value=0.4, unit="s", labels=labels, time=when))
        run.finish("done", 0)
    return run.folder


def test_nodes_and_ranks_of_earlier_generations_are_apart(browser: Browser) -> None:
    with served_page(write_regrouped()) as served:
        browser.visit(served.url)
        browser.wait_for(READY)
        assert browser.evaluate("document.querySelector('#loading').hidden")
        values = "document.querySelector('[data-chart=step] .values').textContent"
        # Rank 1 was on node2, then on node3, and rank 2 on node3.
        browser.wait_for(f"{values}.includes('2 ended earlier')")
        assert set(re.findall(r"node\d rank \d", browser.evaluate(values))) == {"node1 rank 0", "node3 rank 1"}
        apart = "[...document.querySelectorAll('#devices details input')].map(box => box.value)"
        assert browser.evaluate(apart) == ["node2"]
        assert browser.evaluate("document.querySelector('#devices details').open") is False
        assert browser.evaluate("document.querySelector('#devices summary').textContent") == "Earlier (1)"
        shown = "[...document.querySelectorAll('#devices > label')].map(label => label.textContent)"
        assert browser.evaluate(shown) == ["node1", "node3"]
        browser.photograph("watch-regrouped")
        browser.evaluate("railbed.show(railbed.about.start, railbed.about.start + 15)")
        browser.wait_for(f"{values}.includes('node2 rank 1')")
        browser.evaluate("document.querySelector('#devices details').open = true")
        browser.evaluate("document.querySelector('#devices input[value=node2]').click()")
        browser.wait_for(f"{LINES} === 1")


def test_a_page_whose_run_has_not_arrived_is_loading(browser: Browser) -> None:
    """The server answers everything but the run."""

    async def index(_request: Request) -> HTMLResponse:
        return HTMLResponse((app.STATIC / "index.html").read_text())

    loading = "document.querySelector('#loading')"
    with served_app(lambda _: Starlette(routes=[Route("/", index)])) as served:
        browser.visit(served.url)
        assert browser.evaluate(f"{loading}.hidden") is False
        assert browser.evaluate(f"{loading}.textContent") == "Loading the run …"
    browser.complaints.clear()  # the scripts of the page, which this server does not have


def test_a_finished_run_can_be_zoomed_filtered_and_read(browser: Browser) -> None:
    folder = write_generated(Generated(nodes=4, seconds=200))
    with served_page(folder) as served:
        browser.visit(served.url)
        browser.wait_for(READY)
        total = browser.evaluate(SPAN)
        assert total == pytest.approx(200, abs=5)
        assert browser.evaluate(LINES) == 4
        assert "done" in browser.evaluate("document.querySelector('#state').textContent")
        caption = browser.evaluate("document.querySelector('[data-chart=step] .peak').textContent")
        assert re.match(r"peak 1\.[23]\d? s, node\d rank \d", caption), caption
        painted = "c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(value => value)"
        assert browser.evaluate(f"(c => {painted})(document.querySelector('canvas'))")
        browser.photograph("watch-light")

        drag(browser, 0.25, 0.5)
        browser.wait_for(f"Math.abs({SPAN} - {total / 4}) < {total / 40}")
        press(browser, "+")
        browser.wait_for(f"Math.abs({SPAN} - {total / 8}) < {total / 40}")
        before = browser.evaluate("railbed.view.start")
        press(browser, "ArrowRight")
        assert browser.evaluate("railbed.view.start") > before
        press(browser, "0")
        assert browser.evaluate(SPAN) == pytest.approx(total)
        press(browser, "]")
        browser.wait_for(f"{SPAN} < {total} - 1")
        assert browser.evaluate("railbed.cursor !== null")

        browser.evaluate("document.querySelector('#devices input[value=node2]').click()")
        browser.wait_for(f"{LINES} === 1")
        browser.evaluate("document.querySelector('#devices input[value=node2]').click()")
        browser.wait_for(f"{LINES} === 4")
        press(browser, "?")
        assert browser.evaluate("!document.querySelector('#help').hidden")
        press(browser, "?")

        press(browser, "0")
        browser.evaluate("document.querySelector('#topology').open = true")
        browser.wait_for("document.querySelectorAll('#links tbody tr').length === 8")
        assert "4 nodes, 8 links; busiest: node3" in browser.evaluate("document.querySelector('#map svg').ariaLabel")
        browser.look(width=WIDE, dark=True)
        browser.photograph("watch-dark")
        browser.look(width=360)
        assert browser.evaluate("document.documentElement.scrollWidth") == 360
        browser.photograph("watch-narrow")
        browser.look(width=WIDE)
    assert browser.complaints == []
    assert all(url.startswith(served.url) for url in browser.requests)


def test_points_of_a_real_training_arrive(browser: Browser, tmp_path: Path, warm_python_here: Path) -> None:
    folder = write_small_run(tmp_path, python=warm_python_here, port=free_port("127.0.0.1"))
    words = ["train", "small.yaml", "-c", "cluster.yaml", "--ranks", "1", "--set", "steps=100000"]
    words += ["--watch", "--sample", "0.2"]
    with start(folder, *words) as process:
        try:
            line = next(line for line in process.stderr if b"the page of " in line).decode()
            browser.visit(line.split()[-1])
            browser.wait_for("Number(document.documentElement.dataset.points) > 0")
            browser.wait_for(f"document.querySelector('[data-chart=step]') && {LINES} > 0")
            assert browser.evaluate("document.querySelector('#state').textContent") == "live"
            assert browser.evaluate("railbed.follow")
            end = browser.evaluate(LAST)
            browser.wait_for(f"{LAST} > {end} + 1")
            browser.photograph("watch-live")
            browser.evaluate("document.querySelector('[data-group=host]').scrollIntoView()")
            browser.wait_for("railbed.charts.get('cpu').lines.all.size > 0")
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=120)
            assert process.returncode == 130
            browser.wait_for("document.querySelector('#state').textContent.startsWith('connection lost')")
        finally:
            process.kill()


def test_live_points_extend_the_charts(browser: Browser) -> None:
    about = Generated(nodes=2, seconds=600)
    with generated_run(about) as (run, write):
        for index in range(580):
            write(index)
        with served_page(run.folder) as served:
            browser.visit(served.url)
            browser.wait_for(READY)
            assert browser.evaluate(SPAN) == pytest.approx(300)
            end = browser.evaluate(LAST)
            for index in range(580, 600):
                write(index)
            browser.wait_for(f"{LAST} > {end} + 10")
            run.finish("done", 0)
            browser.wait_for("document.querySelector('#state').textContent.startsWith('done')")


def test_a_server_that_ends_and_returns(browser: Browser) -> None:
    folder = write_generated(Generated(nodes=2, seconds=10))
    with served_page(folder) as served:
        browser.visit(served.url)
        browser.wait_for(READY)
    press(browser, "+")
    browser.wait_for("document.querySelector('#problem').textContent.startsWith('The server does not answer')")
    browser.photograph("watch-stopped")
    with served_page(folder, port=served.port):
        browser.wait_for("document.querySelector('#problem').hidden")


def test_the_token_opens_the_page(browser: Browser) -> None:
    folder = write_generated(Generated(nodes=2, seconds=10))
    token = "t" * 43
    with served_page(folder, token=token) as served:
        plain = served.url.partition("?")[0]
        browser.visit(plain)
        assert "needs the link with the token" in browser.evaluate("document.body.textContent")
        browser.visit(served.url)
        browser.wait_for(READY)
        assert browser.evaluate("location.search") == ""
        assert token not in browser.evaluate("document.cookie")
        browser.visit(plain)
        browser.wait_for(READY)
        browser.ask("Network.clearBrowserCookies")
        browser.visit(plain)
        assert "needs the link with the token" in browser.evaluate("document.body.textContent")


def test_foreign_pages_and_names_are_refused(browser: Browser) -> None:
    async def hello(_request: Request) -> HTMLResponse:
        return HTMLResponse("<!doctype html><title>another site</title>")

    folder = write_generated(Generated(nodes=2, seconds=10))
    with served_page(folder) as ours, served_app(lambda _: Starlette(routes=[Route("/", hello)])) as other:
        browser.visit(f"http://foreign.example:{ours.port}/")
        assert "This server is not foreign.example" in browser.evaluate("document.body.textContent")
        browser.visit(other.url)
        read = f"fetch('{ours.url}api/run').then(answer => answer.text(), error => 'refused')"
        assert browser.evaluate(read) == "refused"
        embedded = (
            f"new Promise(done => {{ const s = document.createElement('script'); s.src = '{ours.url}static/main.js';"
            " s.onload = () => done('loaded'); s.onerror = () => done('refused'); document.head.append(s); })"
        )
        assert browser.evaluate(embedded) == "refused"


def test_a_page_without_uplot_says_so(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(app.STATIC, tmp_path / "static", ignore=shutil.ignore_patterns("uplot"))
    monkeypatch.setattr(app, "STATIC", tmp_path / "static")
    with served_page(write_generated(Generated(nodes=2, seconds=10))) as served:
        browser.visit(served.url)
        browser.wait_for("!document.querySelector('#problem').hidden")
        assert "built without uPlot" in browser.evaluate("document.querySelector('#problem').textContent")

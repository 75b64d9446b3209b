"""Measure how smooth the live page is: an hour of 16 nodes, moved and zoomed in Debian's chromium.

`python -m tools.bench_page` prints, for gestures that change the page in every frame, the time of a redraw of all
visible charts (JavaScript), the time between frames, and the processor time of a frame: of the page's main thread, and
of its process with all threads. The last two hardly depend on what else runs. 60 frames per second leave 16.7 ms.
Then a run of as many nodes goes on, sampled every second, and the server's share of a core is printed, without and with
an open page. `--nodes` and `--seconds` change the size of the run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.support.browser import Browser, chromium
from tests.support.cli import RAILBED
from tests.support.served import served_page
from tests.support.watched import Generated, generated_run, write_generated

FRAMES = 180
DRAWN = "document.documentElement.dataset.ready === 'yes' && document.querySelectorAll('canvas').length > 2"
BEFORE_SECONDS, LIVE_SECONDS = 600, 30
MOVE = """
new Promise(done => {
  const page = window.railbed, frames = [];
  page.redraws.length = 0;
  let before = performance.now(), left = %d;
  const step = now => {
    frames.push(performance.now() - before);
    before = performance.now();
    if (left-- === 0) { done({redraws: page.redraws, frames: frames.slice(1)}); return; }
    %s;
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})
"""
GESTURES = {
    "move": "page.pan(left % 60 < 30 ? 0.01 : -0.01)",
    "zoom": "page.zoom(left % 60 < 30 ? 0.97 : 1 / 0.97)",
    "cursor": "page.point(page.view.start + (page.view.end - page.view.start) * (left % 60) / 60)",
}


def measure(browser: Browser, gesture: str) -> dict[str, list[float]]:
    """Return redraw and frame times of a gesture, and the processor time of a frame, in milliseconds."""
    before = read_times(browser)
    result: dict[str, list[float]] = browser.evaluate(MOVE % (FRAMES, GESTURES[gesture]))
    after = read_times(browser)
    return result | {name: [(after[name] - before[name]) * 1000 / FRAMES] for name in after}


def read_times(browser: Browser) -> dict[str, float]:
    """Return the processor time so far of the page's main thread and of its process, in seconds."""
    metrics = {item["name"]: item["value"] for item in browser.ask("Performance.getMetrics")["metrics"]}
    return {"thread": metrics["ThreadTime"], "process": metrics["ProcessTime"]}


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which a share of all lie."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def show(name: str, times: Sequence[float]) -> None:
    """Print median, 95th percentile and the longest; of a single number, that."""
    shares = (percentile(times, share) for share in (0.5, 0.95, 1.0))
    print(f"| {name} | " + " | ".join(f"{value:.1f} ms" for value in shares) + " |")


def main(nodes: int, seconds: int) -> None:
    """Generate, serve, move, print."""
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        os.environ["RAILBED_RUNS"] = folder
        run = write_generated(Generated(nodes=nodes, seconds=seconds))
        with served_page(run) as served:
            browser.ask("Performance.enable", timeDomain="threadTicks")
            browser.look(width=1200)
            began = time.monotonic()
            browser.visit(served.url)
            browser.wait_for(DRAWN)
            opened = time.monotonic() - began
            browser.evaluate("window.scrollTo(0, 500)")
            browser.evaluate("new Promise(done => setTimeout(done, 2000))")
            charts: dict[str, Any] = browser.evaluate(
                "(shown => ({shown: shown.length, lines: shown.reduce((n, chart) => n + chart.lines.all.size, 0)}))"
                "([...railbed.charts.values()].filter(chart => chart.visible && chart.plot))"
            )
            print(
                f"{nodes} nodes, {seconds} s, {charts['shown']} visible charts with {charts['lines']} lines; "
                f"opened in {opened:.1f} s"
            )
            print("| gesture | median | 95 % | longest |\n|---|--:|--:|--:|")
            for gesture in GESTURES:
                result = measure(browser, gesture)
                if result["redraws"]:
                    show(f"{gesture}: redraw", result["redraws"])
                show(f"{gesture}: between frames", result["frames"])
                show(f"{gesture}: processor time, main thread", result["thread"])
                show(f"{gesture}: processor time, all threads", result["process"])
                browser.evaluate("new Promise(done => setTimeout(done, 1000))")
            assert not browser.complaints, browser.complaints
        measure_server(browser, nodes)


def measure_server(browser: Browser, nodes: int) -> None:
    """Print what the server of a run in progress uses while nobody, and while one page, is connected."""
    about = Generated(nodes=nodes, seconds=BEFORE_SECONDS + 3 * LIVE_SECONDS)
    with generated_run(about, end=time.time() + 3 * LIVE_SECONDS) as (run, write):
        for index in range(BEFORE_SECONDS):
            write(index)
        words = [RAILBED, "watch", run.folder.name, "--page"]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as server:
            assert server.stderr is not None
            url = server.stderr.readline().split()[-1]
            print(f"the server without a page: {share_of_core(server.pid, write, BEFORE_SECONDS):.1%} of a core")
            browser.visit(url)
            browser.wait_for(DRAWN)
            first = BEFORE_SECONDS + LIVE_SECONDS
            print(f"with an open page: {share_of_core(server.pid, write, first):.1%} of a core")
            server.terminate()


def share_of_core(process: int, write: Callable[[int], None], first: int) -> float:
    """Write a sample of all devices every second, and return the share of a core that a process uses meanwhile."""
    before, start = processor_seconds(process), time.monotonic()
    for number in range(LIVE_SECONDS):
        write(first + number)
        time.sleep(max(0.0, start + number + 1 - time.monotonic()))
    return (processor_seconds(process) - before) / (time.monotonic() - start)


def processor_seconds(process: int) -> float:
    """Return the processor time that a process has used so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--seconds", type=int, default=3600)
    arguments = parser.parse_args()
    main(arguments.nodes, arguments.seconds)

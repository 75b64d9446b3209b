"""The server of the live page: what it answers, for a run of last week and for one in progress."""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np
import pytest

from railbed.model.meters import METERS, SeriesKey
from railbed.present.charts import CHARTS, GROUPS
from railbed.store.timeline import Drawn, Timeline
from railbed.web.page import app, page_app
from railbed.web.page.numbers import extremes, short
from railbed.web.page.parameters import Filter, TimeWindow
from railbed.web.page.topology import topology_of
from railbed.web.serve import serving
from tests.support.events import event
from tests.support.http import Answer, get
from tests.support.watched import Generated, generated_run, write_generated


@pytest.fixture(autouse=True)
def runs_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path / "runs"))


@asynccontextmanager
async def page_of(folder: Path) -> AsyncIterator[int]:
    ending = asyncio.Event()
    async with serving(page_app(folder, ending), ending) as served:
        yield served.port


async def drawn(server: int, *charts: str, **parameters: object) -> Answer:
    query = urlencode([*(("chart", chart) for chart in charts), *parameters.items()], doseq=True)
    return await get(server, f"/api/drawn?{query}")


def test_every_meter_is_in_exactly_one_chart() -> None:
    drawn_meters = [meter for chart in CHARTS for meter in chart.meters]
    assert sorted(drawn_meters) == sorted(METERS)
    assert {chart.group for chart in CHARTS} <= GROUPS.keys()
    assert len({chart.name for chart in CHARTS}) == len(CHARTS)


async def test_a_run_of_last_week() -> None:
    about = Generated(seconds=60)
    folder = write_generated(about)
    async with page_of(folder) as port:
        run = (await get(port, "/api/run")).json()
        assert (run["run"], run["status"], run["live"]) == (folder.name, "done", False)
        assert [chart["name"] for chart in run["charts"]][:3] == ["loss", "step", "allreduce"]
        assert len(run["series"]) == len(Timeline(folder).series())
        assert {"notice", "restart", "checkpoint"} <= {kind for _, kind, _, _ in run["marks"]}
        assert run["topology"]["switches"] == ["leaf1"]
        assert len(run["topology"]["links"]) == 8
        answer = (await drawn(port, "rdma-out", "pause-in", start=run["start"], end=run["end"], buckets=30)).json()
        rates = answer["charts"]["rdma-out"]["series"]
        assert len(rates) == 8
        number, low, high = rates[0]
        assert run["series"][number][1] == "rdma_tx_bytes"
        assert len(low) == len(high) == 30
        assert max(value for value in high if value) > 5e10
        # 48 series of four nodes, two ports and eight priorities: only those of priority 3 ever paused
        pause = answer["charts"]["pause-in"]
        assert (pause["members"], pause["busy"]) == (64, 6)
        assert {run["series"][number][3] for number, _, _ in pause["series"]} == {"3"}


async def test_filters() -> None:
    folder = write_generated(Generated(seconds=30))
    async with page_of(folder) as port:
        run = (await get(port, "/api/run")).json()
        span = {"start": run["start"], "end": run["end"], "buckets": 10}

        async def lines(chart: str, **chosen: object) -> list[list[str]]:
            answer = (await drawn(port, chart, **span, **chosen)).json()
            return [run["series"][number] for number, _, _ in answer["charts"][chart]["series"]]

        assert {device for device, *_ in await lines("rdma-out", device=["node1", "node3"])} == {"node1", "node3"}
        assert {port for _, _, port, _ in await lines("rdma-out", port="rail1")} == {"rail1"}
        # a queue restricts only what has queues
        assert len(await lines("step", part="3")) == 4
        assert await lines("pause-in", part="4") == []
        assert await lines("rdma-out", device="no such node") == []


async def test_extremes_survive() -> None:
    about = Generated(seconds=400)
    folder = write_generated(about)
    timeline = Timeline(folder)
    peak = max(np.nanmax(timeline.track(SeriesKey(name, "rdma_tx_bytes", "rail0")).values) for name in about.names) * 8
    async with page_of(folder) as port:
        answer = (await drawn(port, "rdma-out", start=timeline.start, end=timeline.end, buckets=7, port="rail0")).json()
    highs = [value for _, low, high in answer["charts"]["rdma-out"]["series"] for value in high or low]
    assert max(highs) == pytest.approx(peak, rel=1e-4)


def test_buckets_distinguish_gaps_from_nothing_new() -> None:
    times = np.array([0.5, 1.5, 4.5, 9.5])
    values = np.array([1.0, np.nan, 3.0, 4.0])
    low, high, gaps = extremes(Drawn(times, values, values), TimeWindow(0, 10, 10), 2.0)
    assert low[[0, 4, 9]].tolist() == high[[0, 4, 9]].tolist() == [2.0, 6.0, 8.0]
    assert np.flatnonzero(gaps).tolist() == [1]
    assert np.isnan(low).sum() == 7


def test_numbers_are_short() -> None:
    values = np.array([0.0, 1 / 3, -123.456789, 98765432.1, 1e-9, np.nan])
    assert [repr(value) for value in short(values).tolist()][:5] == ["0.0", "0.33333", "-123.46", "98765432.0", "1e-09"]
    assert math.isnan(short(values)[5])


async def test_links_have_rates() -> None:
    about = Generated(seconds=40)
    folder = write_generated(about)
    async with page_of(folder) as port:
        run = (await get(port, "/api/run")).json()
        links = (await get(port, f"/api/links?start={run['start']}&end={run['end']}")).json()
    assert len(links) == 8
    for (mean, peak), received in links:
        assert 4e10 < mean < peak < 1.5e11
        assert received is not None


def test_a_cluster_without_switches_is_drawn_with_its_rails(tmp_path: Path) -> None:
    lines = Generated(nodes=2).cluster().partition("switches:")[0]
    (tmp_path / "cluster.yaml").write_text(lines)
    topology = topology_of(tmp_path)
    assert topology is not None
    assert set(topology.switches) == {"rail0", "rail1"}
    first = topology.links[0]
    assert (first.node, first.port, first.peer, first.speed) == ("node1", "rail0", "rail0", 100.0)
    (tmp_path / "cluster.yaml").write_text("nonsense: [")
    assert topology_of(tmp_path) is None


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("/api/drawn", 400, "chart is missing"),
        ("/api/drawn?chart=x", 404, "no chart 'x'"),
        ("/api/drawn?chart=loss", 400, "start is needed exactly once"),
        ("/api/drawn?chart=loss&start=0&end=0", 400, "at least a millisecond"),
        ("/api/drawn?chart=loss&start=nan&end=1", 400, "must be a number"),
        ("/api/drawn?chart=loss&start=0&end=inf", 400, "must be a number"),
        ("/api/drawn?chart=loss&start=0&end=1e300", 400, "must be a number"),
        ("/api/drawn?chart=loss&start=0&start=1&end=2", 400, "exactly once"),
        ("/api/drawn?chart=loss&start=0&end=1&buckets=2001", 400, "from 1 to 2000"),
        ("/api/drawn?chart=loss&start=0&end=1&buckets=0", 400, "from 1 to 2000"),
        ("/api/drawn?chart=loss&start=0&end=1&buckets=1.5", 400, "from 1 to 2000"),
        (f"/api/drawn?chart=loss&start=0&end=1&device={'x' * 101}", 400, "100 characters"),
        (f"/api/drawn?chart=loss&start=0&end=1{'&part=1' * 300}", 400, "256 times"),
        ("/api/links?start=1", 400, "end is needed"),
        ("/api/live?chart=loss", 400, "since is needed"),
        ("/api/live?chart=loss&since=x", 400, "must be a number"),
        ("/nothing", 404, "nothing at this address"),
        ("/static/", 404, "nothing at this address"),
        ("/static/../app.py", 404, "nothing at this address"),
        ("/static/%2e%2e/app.py", 404, "nothing at this address"),
        ("/static/..%2f..%2faccess.py", 404, "nothing at this address"),
        ("/static//etc/passwd", 404, "nothing at this address"),
        ("/static/%00", 404, "nothing at this address"),
    ],
)
async def test_bad_requests_get_a_sentence(path: str, status: int, sentence: str) -> None:
    folder = write_generated(Generated(nodes=3, seconds=4))
    async with page_of(folder) as port:
        answer = await get(port, path)
        assert (answer.status, sentence in answer.text) == (status, True), answer.text
        assert answer.text.count("\n") == 1


async def test_the_page_and_its_files() -> None:
    folder = write_generated(Generated(nodes=3, seconds=4))
    async with page_of(folder) as port:
        page = await get(port)
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert b"<script>" not in page.body
        assert b" style=" not in page.body
        for name in ("main.js", "page.css", "icon.svg"):
            assert (await get(port, f"/static/{name}")).status == 200
        assert (await get(port, "/static/main.js")).headers["content-type"].startswith("text/javascript")


async def test_random_requests_never_fail() -> None:
    generator = random.Random(7)  # noqa: S311
    folder = write_generated(Generated(nodes=3, seconds=4))
    words = [
        "chart",
        "start",
        "end",
        "buckets",
        "device",
        "port",
        "part",
        "since",
        "token",
        "",
        "loss",
        "0",
        "-1",
        "1e9",
    ]
    words += ["..", "%", "\x00", "é", "'", '"', "<", "[]", "NaN", "9" * 50, "run", "drawn", "links", "static", "api"]
    async with page_of(folder) as port:
        for _ in range(150):
            path = "/" + "/".join(
                generator.choices(["api", "static", "drawn", "run", "links", "..", "x"], k=generator.randint(0, 3))
            )
            pairs = [f"{generator.choice(words)}={generator.choice(words)}" for _ in range(generator.randint(0, 6))]
            answer = await get(port, quote(f"{path}?{'&'.join(pairs)}", safe="/?&=%"))
            assert answer.status in (200, 400, 404), answer
        assert (await get(port, "/api/run")).status == 200


class Stream:
    """A client of the live stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def next(self, name: str) -> Any:
        async with asyncio.timeout(60):
            while True:
                line = (await self._reader.readuntil(b"\n")).decode().strip()
                if line == f"event: {name}":
                    data = (await self._reader.readuntil(b"\n")).decode()
                    return json.loads(data.removeprefix("data: "))

    @classmethod
    async def open(cls, port: int, query: str) -> Stream:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET /api/live?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        return cls(reader, writer)


async def test_new_points_arrive_and_only_those() -> None:
    about = Generated(nodes=2, seconds=60)
    with generated_run(about) as (run, write):
        for index in range(10):
            write(index)
        async with page_of(run.folder) as port:
            described = (await get(port, "/api/run")).json()
            assert described["live"]
            start = Timeline(run.folder).start
            stream = await Stream.open(port, f"chart=cpu&device=node1&since={start + 4.5}")
            first = await stream.next("points")
            assert [len(times) for _, times, _ in first["points"]] == [5]
            write(10)
            write(11)
            times: list[float] = []
            while len(times) < 2:
                ((_, more, values),) = (await stream.next("points"))["points"]
                times += more
                assert all(5 < value < 7 for value in values)
            assert times[0] > first["points"][0][1][-1]
            run.append(event("notice", message="look"))
            assert (await stream.next("points"))["marks"][-1][3] == "look"
            run.finish("done", 0)
            await stream.next("ended")
            stream.writer.close()


async def test_clients_that_vanish_or_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "MOST_LIVE", 2)
    about = Generated(nodes=2, seconds=60)
    with generated_run(about) as (run, write):
        write(0)
        async with page_of(run.folder) as port:
            streams = [await Stream.open(port, "chart=cpu&since=0") for _ in range(2)]
            for stream in streams:
                await stream._reader.readuntil(b"retry")
            assert "already open" in (await get(port, "/api/live?chart=cpu&since=0")).text
            streams[0].writer.transport.abort()
            async with asyncio.timeout(60):
                while True:
                    third = await Stream.open(port, "chart=cpu&since=0")
                    if b"200 OK" in await third._reader.readuntil(b"\r\n"):
                        break
                    third.writer.close()
            for stream in (streams[1], third):
                stream.writer.close()


async def test_simultaneous_clients_do_not_exceed_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "MOST_LIVE", 2)
    with generated_run(Generated(nodes=2, seconds=60)) as (run, write):
        write(0)
        async with page_of(run.folder) as port:
            streams = await asyncio.gather(*(Stream.open(port, "chart=cpu&since=0") for _ in range(6)))
            answers = [await stream._reader.readuntil(b"\r\n") for stream in streams]
            assert sum(b"200 OK" in answer for answer in answers) == 2
            for stream in streams:
                stream.writer.close()


async def test_a_client_that_left_before_its_first_point_frees_its_place() -> None:
    left: list[bool] = []

    async def never() -> AsyncIterator[bytes]:
        yield b""

    async def gone(*_: object) -> Any:
        raise OSError("the client has left")

    with pytest.raises(BaseExceptionGroup):
        await app._Stream(never(), lambda: left.append(True))({"type": "http"}, gone, gone)
    assert left == [True]


def test_a_filter_without_restrictions_accepts_everything() -> None:
    assert Filter().accepts(SeriesKey("a", "loss", part="1"))
    assert not Filter(ports=frozenset({"x"})).accepts(SeriesKey("a", "net_rx_bytes", "y"))
    assert Filter(ports=frozenset({"x"})).accepts(SeriesKey("a", "cpu_busy_us"))

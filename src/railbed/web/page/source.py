"""What the page draws, read from the run by one thread at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from railbed.model.events import GenerationStarted
from railbed.model.meters import METERS
from railbed.present.charts import CHART_OF, GROUPS, Chart
from railbed.store.timeline import Timeline
from railbed.web.page.catalogue import Catalogue
from railbed.web.page.numbers import column, extremes, points
from railbed.web.page.parameters import Filter, TimeWindow
from railbed.web.page.topology import describe_topology, link_rates, topology_of

T = TypeVar("T")
REFRESH_SECONDS = 0.4
MOST_SERIES = 96
"""In one chart: more lines cannot be told apart, and would have to be drawn in 16 ms."""
MOST_MARKS = 2000


class PageData:
    """The timeline of a run; every answer is computed in a thread, so that other clients are served meanwhile."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._timeline = Timeline(folder)
        self._lock = asyncio.Lock()
        self._catalogue = Catalogue()
        self._catalogue.add(self._timeline.series())
        self._topology = topology_of(folder)
        self._refreshed = 0.0
        self.version = 0
        """Grows when there is something new."""

    async def _read(self, work: Callable[[], T]) -> T:
        async with self._lock:
            return await asyncio.to_thread(work)

    async def refresh(self) -> int:
        """Take in what was written since, at most every 0.4 s for all clients together; return the version."""
        async with self._lock:
            if time.monotonic() - self._refreshed >= REFRESH_SECONDS:
                if await asyncio.to_thread(self._refresh):
                    self.version += 1
                self._refreshed = time.monotonic()
        return self.version

    @property
    def live(self) -> bool:
        """Whether the run is still being written."""
        return self._timeline.live

    @property
    def count(self) -> int:
        """Return how many series have a number."""
        return len(self._catalogue.series)

    async def describe(self) -> Mapping[str, Any]:
        """Return the run, its charts and series, its marks and its topology."""
        await self.refresh()
        return await self._read(self._describe)

    async def draw(self, charts: Iterable[Chart], chosen: Filter, window: TimeWindow) -> Mapping[str, Any]:
        """Return the extremes of every bucket, by chart and series."""
        return await self._read(lambda: {chart.name: self._draw(chart, chosen, window) for chart in charts})

    async def since(self, series: Mapping[int, float]) -> list[Any]:
        """Return the samples of series, by number, that are later than a time."""
        return await self._read(lambda: self._since(series))

    async def numbers(self, charts: Iterable[Chart], chosen: Filter) -> dict[int, bool]:
        """Return the numbers of the series in charts, and whether a zero is not worth a word."""
        return await self._read(
            lambda: {number: chart.quiet for chart in charts for number in self._members(chart, chosen)}
        )

    async def marks(self) -> list[list[Any]]:
        """Return all marks, in order."""
        return await self._read(self._marks)

    async def links(self, window: TimeWindow) -> list[Any]:
        """Return the rates of every link of the topology."""
        return await self._read(lambda: link_rates(self._topology, self._timeline, window) if self._topology else [])

    def span(self) -> tuple[float, float]:
        """Return the first and the last time of the run so far."""
        return self._timeline.start, max(self._timeline.end, self._timeline.start + 1.0)

    def _refresh(self) -> bool:
        is_new = self._timeline.refresh()
        if is_new:
            self._catalogue.add(self._timeline.series())
        return is_new

    def _describe(self) -> Mapping[str, Any]:
        summary, (start, end) = self._timeline.summary, self.span()
        return {
            "run": summary.id,
            "verb": summary.verb,
            "cluster": summary.cluster,
            "status": summary.status,
            "live": self.live,
            "start": start,
            "end": end,
            "groups": GROUPS,
            "parts": {name: meter.part for name, meter in METERS.items() if meter.part},
            "charts": [_chart(chart) for chart in self._catalogue.charts()],
            "series": self._catalogue.series,
            "marks": self._marks(),
            "earlier": earlier_nodes(self._timeline),
            "topology": describe_topology(self._topology) if self._topology else None,
        }

    def _marks(self) -> list[list[Any]]:
        return [
            [round(mark.time, 3), mark.kind, mark.subject, mark.text] for mark in self._timeline.marks()[-MOST_MARKS:]
        ]

    def _members(self, chart: Chart, chosen: Filter) -> list[int]:
        return [number for number in self._catalogue.of(chart) if chosen.accepts(self._catalogue.series[number])]

    def _draw(self, chart: Chart, chosen: Filter, window: TimeWindow) -> Mapping[str, Any]:
        """Return the series of a chart; of too many, those with the highest peaks."""
        members = self._members(chart, chosen)
        lines = []
        for number in members:
            drawn = self._timeline.draw(self._catalogue.series[number], window.start, window.end, window.buckets)
            low, high, gaps = extremes(drawn, window, chart.scale)
            peak = float(np.fmax.reduce(np.abs(np.append(high, low)), initial=-1.0))
            if peak > 0 or not chart.quiet:
                lines.append((peak, number, low, high, gaps))
        lines.sort(key=lambda line: -line[0])
        series = [
            [number, column(low, gaps), None if np.array_equal(low, high, equal_nan=True) else column(high, gaps)]
            for _, number, low, high, gaps in sorted(lines[:MOST_SERIES], key=lambda line: line[1])
        ]
        return {"members": len(members), "busy": len(lines), "series": series}

    def _since(self, series: Mapping[int, float]) -> list[Any]:
        news = []
        for number, after in series.items():
            identity = self._catalogue.series[number]
            track = self._timeline.track(identity, after)
            later = track.times > after + 1e-3
            if later.any():
                values = track.values[later] * CHART_OF[identity.meter].scale
                news.append([number, *points(track.times[later], values)])
        return news


def _chart(chart: Chart) -> Mapping[str, Any]:
    return {
        "name": chart.name,
        "group": chart.group,
        "title": chart.title,
        "unit": chart.unit,
        "meters": chart.meters,
        "quiet": chart.quiet,
    }


RECENT_SECONDS = 30.0
"""A node without a sample for this long, before the end of the run so far, is silent."""


def earlier_nodes(timeline: Timeline) -> list[str]:
    """Return the nodes that the latest generation does without, and that are not sampled any more either."""
    generations = [event for event in timeline.events() if isinstance(event, GenerationStarted)]
    if len(generations) < 2:
        return []
    left = {node for generation in generations for node in generation.nodes} - {*generations[-1].nodes}
    return sorted(node for node in left if not _is_sampled(timeline, node))


def _is_sampled(timeline: Timeline, node: str) -> bool:
    since = timeline.end - RECENT_SECONDS
    return any(len(timeline.track(series, since).times) for series in timeline.series() if series.device == node)

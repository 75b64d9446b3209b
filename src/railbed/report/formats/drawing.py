"""A figure for a browser: as many points and digits as are visible. The figure itself has all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan
from typing import Any

from railbed.report.blocks import Figure
from railbed.report.formats.downsample import MOST, downsample

PER_POINT = ("x", "y", "text")
"""Keys of a trace that have a value for each point."""


def drawn(figure: Figure) -> dict[str, Any]:
    """Return the figure for Plotly: long lines downsampled, numbers shortened."""
    stacked = [trace["y"] for trace in figure.traces if "stackgroup" in trace]
    totals = [sum(value or 0.0 for value in at) for at in zip(*stacked, strict=True)]
    traces = [_downsampled(trace, totals if "stackgroup" in trace else trace.get("y", ())) for trace in figure.traces]
    return {"data": _short(traces), "layout": figure.layout, "height": figure.height}


def _downsampled(trace: Mapping[str, Any], heights: Sequence[Any]) -> Mapping[str, Any]:
    """Return a line with the points that matter; stacked areas are all downsampled by their sum."""
    if trace.get("type") != "scatter" or len(heights) <= MOST or "lines" not in trace.get("mode", ""):
        return trace
    positions = downsample([nan if value is None else value for value in heights])
    return {
        key: [value[index] for index in positions] if key in PER_POINT and isinstance(value, list) else value
        for key, value in trace.items()
    }


def _short(value: Any) -> Any:  # noqa: ANN401  (what JSON knows)
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {key: _short(item) for key, item in value.items()}
    return [_short(item) for item in value] if isinstance(value, list | tuple) else value

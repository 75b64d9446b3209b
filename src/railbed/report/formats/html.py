"""A report as one self-contained HTML file, with style, scripts and data.

Device output cannot become markup: blocks contain text, and the templates escape it. Should anything slip
through, the page's content security policy allows only two scripts, by their hash, and no network access.

A browser gets as many points and digits as are visible: the lowest and the highest point of each interval of a line.
The figure itself has all of them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from math import isfinite, nan
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from railbed import __version__
from railbed.errors import ToolMissing
from railbed.model.text import clean
from railbed.present.wording import split_quoted
from railbed.report.blocks import Figure
from railbed.report.document import Report

MOST = 2000


def downsample(values: Sequence[float], most: int = MOST) -> list[int]:
    """Return the indices of at most `most` points to draw: the ends, the extremes, and a point of each gap."""
    count = len(values)
    if count <= most:
        return list(range(count))
    stretches = (most - 2) // 3
    positions = {0, count - 1}
    for number in range(stretches):
        stretch = range(number * count // stretches, (number + 1) * count // stretches)
        finite = [index for index in stretch if isfinite(values[index])]
        if finite:
            positions |= {min(finite, key=values.__getitem__), max(finite, key=values.__getitem__)}
        if len(finite) < len(stretch):
            positions.add(next(index for index in stretch if not isfinite(values[index])))
    return sorted(positions)


PER_POINT = ("x", "y", "text")
"""Keys of a trace that have a value for each point."""


def plotly_figure(figure: Figure) -> dict[str, Any]:
    """Return the figure for Plotly: long lines downsampled, numbers shortened."""
    stacked = [trace["y"] for trace in figure.traces if "stackgroup" in trace]
    totals = [sum(value or 0.0 for value in at) for at in zip(*stacked, strict=True)]
    traces = [
        _downsample_trace(trace, totals if "stackgroup" in trace else trace.get("y", ())) for trace in figure.traces
    ]
    return {"data": _short(traces), "layout": figure.layout, "height": figure.height}


def _downsample_trace(trace: Mapping[str, Any], heights: Sequence[Any]) -> Mapping[str, Any]:
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


TEMPLATES = Path(__file__).parent / "templates"


def as_html(document: Report) -> str:
    """Return a report as one file for a browser."""
    scripts = [_plotly(), (TEMPLATES / "page.js").read_text(encoding="utf-8")] if document.figures else []
    return (
        _environment()
        .get_template("page.html")
        .render(
            document=document,
            policy=_policy(scripts),
            scripts=[Markup(script) for script in scripts],  # noqa: S704  (ours and Plotly's, the same in every page)
            style=Markup((TEMPLATES / "page.css").read_text(encoding="utf-8")),  # noqa: S704
            version=__version__,
        )
    )


def _policy(scripts: Sequence[str]) -> str:
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes) or "'none'"
    # Plotly adds styles, so inline styles are allowed.
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


@cache
def _plotly() -> str:
    """Return Plotly's JavaScript from its wheel, without importing it."""
    spec = find_spec("plotly")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / "package_data" / "plotly.min.js"
        if path.is_file():
            return path.read_text(encoding="utf-8").replace("</script", r"<\/script").replace("<!--", r"<\!--")
    raise ToolMissing(
        "the Python package plotly is not installed here, and the plots need it",
        hint=f"`{sys.executable} -P -m pip install plotly` installs it",
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: clean(value) if type(value) is str else value,
    )
    environment.filters["prose"] = _prose
    environment.filters["figure_json"] = _figure_json
    environment.tests["of"] = lambda value, name: type(value).__name__ == name
    return environment


def _prose(text: str) -> Markup:
    """Return text with the parts between `backticks` as code."""
    parts = split_quoted(clean(text))
    return Markup("").join(Markup("<code>{}</code>").format(part) if code else part for part, code in parts)


def _figure_json(figure: Figure) -> Markup:
    """Return a figure as JSON for a script element: no character in it can end the element."""
    text = json.dumps(plotly_figure(figure), allow_nan=False, separators=(",", ":"))
    for char in "<>&'":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(text)  # noqa: S704  (made safe right above)

"""Labels of marks in a figure: those that are close share a label, and none covers another."""

from __future__ import annotations

from itertools import pairwise

import pytest

from railbed.present.wording import JOIN
from railbed.report.figures import LABEL_SHARE, Line, over_steps
from railbed.report.reading.series import Points

STEPS = 100
WIDTH = LABEL_SHARE * STEPS


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ([], []),
        ([20], [(20, "restart", "left")]),
        ([20, 22], [(22, "2 restarts", "left")]),
        ([22, 20, 21], [(22, "3 restarts", "left")]),
        ([20, 22, 60], [(22, "2 restarts", "left"), (60, "restart", "left")]),
        ([95, 97], [(95, "2 restarts", "right")]),
        ([70, 95], [(70, "restart", "left"), (95, "restart", "right")]),
        (list(range(2, 100, 3)), [(2, "33 restarts", "left")]),
    ],
    ids=str,
)
def test_close_marks_share_a_label(marks: list[float], expected: list[tuple[float, str, str]]) -> None:
    labels = labelled(marks)
    shown = [(label["x"], str(label["text"]).replace(JOIN, " "), label["xanchor"]) for label in labels]
    assert shown == expected
    rows = sorted((label["yshift"], *extent(label)) for label in labels)
    for (row, _, end), (other, start, _) in pairwise(rows):
        assert row != other or end <= start, rows


def labelled(marks: list[float]) -> list[dict[str, object]]:
    points = Points(steps=list(range(STEPS + 1)), values=[1.0] * (STEPS + 1))
    figure = over_steps("Loss", [Line(name="training", points=points)], marks=[(at, "restart") for at in marks])
    assert len(figure.layout["shapes"]) == len(marks), "every mark keeps its line"
    annotations: list[dict[str, object]] = figure.layout["annotations"]
    return annotations


def extent(label: dict[str, object]) -> tuple[float, float]:
    x = float(str(label["x"]))
    return (x - WIDTH, x) if label["xanchor"] == "right" else (x, x + WIDTH)

"""The report compares the perplexity before and after fine-tuning."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.runs import STARTED, plain_run

from railbed.model.record import Measurement
from railbed.report import describe, read
from railbed.report.formats.markdown import as_markdown


def perplexity(value: float, when: str, split: str = "held_out") -> Measurement:
    return Measurement(name="perplexity", value=value, unit="1", labels={"split": split, "when": when}, time=STARTED)


def described(*measurements: Measurement) -> tuple[str, str]:
    report = describe(read(plain_run(list(measurements), verb="train")))
    return report.sentence, as_markdown(report) if "perplexity" in report.sections else ""


@pytest.fixture(autouse=True)
def _runs_here(runs_here: Path) -> None:
    """Runs are in the test's own folder."""


def test_a_fall_is_good_news() -> None:
    sentence, text = described(perplexity(48.5, "before"), perplexity(12.25, "after"))
    assert "the perplexity of held-out text fell from 48.50 to 12.25" in sentence
    assert "| held-out text | 48.50 | 12.25 | 25" in text


def test_a_rise_needs_attention() -> None:
    sentence, _ = described(perplexity(8.0, "before"), perplexity(9.0, "after"))
    assert "went from 8.000 to 9.000, so fine-tuning did not help there" in sentence


def test_the_last_value_counts_in_a_run_that_was_continued() -> None:
    values = (perplexity(9.0, "before"), perplexity(7.0, "after"), perplexity(5.0, "after"))
    assert "from 9.000 to 5.000" in described(*values)[0]


def test_half_a_comparison_is_shown_without_a_verdict() -> None:
    sentence, text = described(perplexity(8.0, "before"))
    assert "perplexity" not in sentence
    assert "| held-out text | 8.000 |" in text


def test_a_run_without_it_has_no_section() -> None:
    loss = Measurement(name="loss", value=3.0, unit="nat", labels={"step": 1, "rank": 0, "node": "a"}, time=STARTED)
    assert described(loss)[1] == ""

"""What `diagnose --follow` reports from one judgement to the next, and the moments that --since names."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

import pytest

from railbed.cli.verbs.diagnose.follow import MISSES, OVER_SECONDS, VerdictNews, moment
from railbed.errors import UsageError
from railbed.model.record import Finding, Verdict

NOW = 1000.0
END = datetime(2026, 11, 17, 9, 30, 15).timestamp()


def verdict(since: float | None = 900.0, until: float | None = None, **other: Any) -> Finding:
    texts = {"check": "link_slow", "subject": "a/eth1", "expected": "", "observed": "slow", "why": "", "remedy": "look"}
    return Finding(**{"verdict": Verdict.FAIL, **texts, "since": since, "until": until, **other})


def kinds(news: VerdictNews, *findings: Finding, now: float = NOW, final: bool = False) -> list[str]:
    return [piece.kind for piece in news.compare(findings, now, final=final)]


def test_a_verdict_is_reported_once_and_again_when_it_ends() -> None:
    news = VerdictNews()
    assert kinds(news, verdict()) == [], "it may be explained by another one when more samples are there"
    assert kinds(news, verdict()) == ["begins"]
    assert kinds(news, verdict(901.0)) == []
    assert kinds(news, verdict(until=NOW - OVER_SECONDS / 2)) == [], "samples are late"
    (ended,) = news.compare([verdict(902.0, NOW - 20)], NOW)
    assert (ended.kind, ended.finding.since, ended.finding.until) == ("ends", 900.0, NOW - 20)
    assert kinds(news, verdict(until=NOW - 20)) == []
    assert kinds(news, verdict(until=NOW - 20), final=True) == []


def test_what_was_over_before_is_reported_at_once() -> None:
    news = VerdictNews()
    assert kinds(news, verdict(800.0, 820.0), verdict(850.0, 870.0), verdict(subject="b")) == ["begins", "begins"]
    assert kinds(news, verdict(800.0, 820.0), verdict(850.0, 870.0), verdict(subject="b")) == ["begins"]
    assert kinds(news, verdict(800.0, 820.0), verdict(850.0, 870.0), verdict(subject="b"), final=True) == []


def test_the_end_of_the_run_ends_what_ended_just_now_and_reports_the_rest() -> None:
    news = VerdictNews()
    kinds(news, verdict())
    kinds(news, verdict())
    assert kinds(news, verdict(until=NOW - 1), verdict(990.0, subject="b"), final=True) == ["ends", "begins"]


def test_a_verdict_that_gets_worse_or_comes_back_is_reported_again() -> None:
    news = VerdictNews()
    mild = verdict(verdict=Verdict.WARN)
    assert [kinds(news, mild), kinds(news, mild), kinds(news, verdict())] == [[], ["begins"], ["begins"]]
    assert kinds(news, verdict(until=950.0)) == ["ends"]
    assert kinds(news, verdict()) == ["begins"]


def test_a_verdict_that_another_one_explains_is_withdrawn() -> None:
    news = VerdictNews()
    kinds(news, verdict())
    kinds(news, verdict())
    explained = verdict(901.0, verdict=Verdict.SKIPPED, observed="slow (explained by link_shared on a/eth1)")
    pieces = [piece for _ in range(MISSES) for piece in news.compare([explained], NOW)]
    assert [(piece.kind, piece.finding.since, piece.finding.observed) for piece in pieces] == [
        ("withdrawn", 900.0, "slow (explained by link_shared on a/eth1)")
    ]
    assert kinds(news, explained, final=True) == []


def test_a_verdict_that_is_not_found_any_more_is_withdrawn() -> None:
    news = VerdictNews()
    kinds(news, verdict())
    kinds(news, verdict())
    assert kinds(news) == [], "once may be chance"
    (piece,) = news.compare([], NOW)
    assert (piece.kind, piece.finding.verdict) == ("withdrawn", Verdict.OK)
    kinds(news, verdict())
    assert kinds(news) == [], "it was never reported"
    assert kinds(news, verdict(verdict=Verdict.OK, since=None)) == []


def test_a_verdict_about_all_of_the_run() -> None:
    news = VerdictNews()
    assert [kinds(news, verdict(None)), kinds(news, verdict(None)), kinds(news, verdict(None))] == [[], ["begins"], []]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10m", END - 600),
        ("90s", END - 90),
        ("1h30m", END - 5400),
        ("2d", END - 2 * 86400),
        ("0s", END),
        ("09:13", datetime(2026, 11, 17, 9, 13).timestamp()),
        (" 9:13:07 ", datetime(2026, 11, 17, 9, 13, 7).timestamp()),
        ("23:59", datetime(2026, 11, 16, 23, 59).timestamp()),
        ("2026-11-17T09:13", datetime(2026, 11, 17, 9, 13).timestamp()),
        ("2026-11-17 09:13:20.5", datetime(2026, 11, 17, 9, 13, 20, 500_000).timestamp()),
        ("2026-11-16", datetime(2026, 11, 16).timestamp()),
        ("2026-11-16T09:13:00Z", 1794820380.0),
        ("2026-11-16T09:13:00+02:00", 1794813180.0),
    ],
)
def test_moments(text: str, expected: float) -> None:
    assert moment(text, END) == pytest.approx(expected)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            "yesterday",
            "30",
            "25:00",
            "9:60",
            "9:1",
            "²:13",
            "-5m",
            "5 m",
            "m",
            "1m1h",
            "10min",
            "9999999999d",
        ),
        *("2026-13-01", "2026-11", "2026-11-17T25:00"),
    ],
)
def test_no_moments(text: str) -> None:
    with pytest.raises(UsageError, match="is neither a time nor a duration") as refused:
        moment(text, END)
    assert "09:13" in refused.value.hint


def test_a_moment_after_the_end_is_refused() -> None:
    ended = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(END))
    with pytest.raises(UsageError, match=f"'2026-11-18' is after the end of the run, {ended}$"):
        moment("2026-11-18", END)

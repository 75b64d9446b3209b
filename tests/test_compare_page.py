"""`railbed compare A B --output FILE`: one page about two runs of any verb, opened by a real browser."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from railbed.model.record import Measurement, Record, Verdict
from railbed.report import Report, read
from railbed.report.blocks import Figure, TableBlock, TextBlock, Value
from railbed.report.compare.changes import MOST_DRAWN, own_labels
from railbed.report.compare.comparison import compare_runs
from railbed.report.compare.page import describe_both
from railbed.report.document import all_blocks
from railbed.report.formats.html import as_html
from tests.support.browser import NARROW, Browser
from tests.support.cli import railbed
from tests.support.runs import finding, plain_run, training_run
from tests.test_cli import assert_one_sentence

pytestmark = pytest.mark.whole

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def runs_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path / "runs"))


def bench_run(tests: Mapping[str, Sequence[float]], verdict: Verdict = Verdict.OK) -> Path:
    records: list[Record] = [finding(verdict, subject="node1/eth1", observed=f"MTU of {verdict}")]
    for test, values in tests.items():
        for repeat, value in enumerate(values, 1):
            labels: dict[str, str | int] = {"test": test, "from": "a", "to": "b", "rail": "rail0", "repeat": repeat}
            records.append(Measurement(name="bandwidth", value=value, unit="Gb/s", labels=labels))
    return plain_run(records, verb="bench")


def described(before: Path, after: Path) -> Report:
    first, second = read(before), read(after)
    return describe_both(first, second, compare_runs(first, second))


def pair() -> tuple[Path, Path]:
    """Return two runs: one number halved, one as it was, one that became three times as much, one from zero."""
    before = bench_run({"fast": [10, 10.1, 9.9], "noisy": [10, 14, 6], "slow": [1, 1, 1], "none": [0, 0, 0]})
    later: Mapping[str, Sequence[float]] = {
        "fast": [5, 5.05, 4.95],
        "noisy": [9, 12, 5],
        "slow": [3, 3, 3],
        "none": [2, 2, 2],
    }
    after = bench_run(later, Verdict.FAIL)
    (after / "cluster.yaml").write_text((after / "cluster.yaml").read_text().replace("speed: 10", "speed: 25"))
    return before, after


def tables(document: Report, section: str) -> list[TableBlock]:
    (part,) = [part for part in document.parts if part.name == section]
    return [block for block in all_blocks(part.blocks) if isinstance(block, TableBlock)]


def test_the_page_says_what_changed_and_by_how_much() -> None:
    document = described(*pair())
    assert document.sections == ["short", "numbers", "unclear", "findings", "cluster", "runs", "method"]
    assert document.sentence.startswith(
        "3 numbers changed, 0 did not, 1 has samples that vary too much; 1 finding differs; 1 key of"
    )
    assert (document.verdict.tone, document.tone_word) == ("bad", "Worse")
    (table,) = tables(document, "numbers")
    assert [(row[1], str(row[4]).replace("\N{NO-BREAK SPACE}", " ")) for row in table.rows] == [
        ("none", "from zero"),
        ("slow", "+200 % (× 3.00)"),
        ("fast", "−50 % (÷ 2.00)"),
    ]
    change = table.rows[1][4]
    assert isinstance(change, Value)
    assert change.value == pytest.approx(2.0)
    (row,) = tables(document, "findings")[0].rows
    assert [str(getattr(cell, "text", cell)) for cell in row][2:] == ["ok", "fail", "MTU of ok", "MTU of fail"]
    assert [str(cell) for cell in tables(document, "cluster")[0].rows[0][1:]] == ["10", "25"]


def test_the_plot_has_the_change_and_the_noise_of_every_number() -> None:
    document = described(*pair())
    (figure,) = [block for part in document.parts for block in part.blocks if isinstance(block, Figure)]
    noise, changed, unclear = figure.traces
    assert changed["x"] == [3.0, 0.5]
    assert unclear["x"] == [0.9]
    # A change is as far beyond chance on the left as on the right.
    right, left = noise["error_x"]["array"], noise["error_x"]["arrayminus"]
    assert [1 / (1 - far) for far in left] == pytest.approx([1 + far for far in right])
    assert right[0] == 0.0
    assert 0.02 < right[1] < 0.06
    assert "1 number is not drawn" in figure.note.replace("\N{NO-BREAK SPACE}", " ")
    names = [f"t{number}" for number in range(40)]
    blocks = described(*(bench_run({name: [value] for name in names}) for value in (1.0, 1.01))).parts[1].blocks
    assert len(next(block for block in blocks if isinstance(block, Figure)).traces[0]["x"]) == MOST_DRAWN


def test_nothing_changed_is_an_answer() -> None:
    document = described(*(bench_run({"fast": [10, 10.1]}) for _ in range(2)))
    assert (document.verdict.tone, document.tone_word) == ("good", "Unchanged")
    assert "None, as far as the samples show." in [
        block.text for part in document.parts for block in part.blocks if isinstance(block, TextBlock)
    ]


def test_zero_that_stays_zero_is_not_a_change() -> None:
    document = described(*(bench_run({"none": [0, 0]}) for _ in range(2)))
    (table,) = tables(document, "unchanged")
    assert str(table.rows[0][4]) == "0\N{NO-BREAK SPACE}%"
    assert document.figures == 0


def test_noise_that_nobody_knows_is_called_unknown() -> None:
    document = described(bench_run({"fast": [10]}), bench_run({"fast": [20]}))
    (table,) = tables(document, "unclear")
    assert table.rows[0][5:] == ("unknown", "1 and 1")
    assert "1\N{NO-BREAK SPACE}number has fewer than 3 samples in one of the runs, too few to compare" in as_html(
        document
    )
    assert (document.verdict.tone, document.tone_word) == ("quiet", "Inconclusive")


def test_settings_and_what_only_one_run_has_are_on_the_page() -> None:
    document = described(training_run(steps=20, fails_at=None), training_run(steps=30, fails_at=12))
    assert "1 setting differs" in document.sentence
    (settings,) = tables(document, "settings")
    assert [str(getattr(cell, "text", cell)) for cell in settings.rows[0]] == ["recipe steps", "20", "30"]
    (alone,) = tables(document, "lone")
    assert ["event", "restart", "after", "once"] in [
        [str(getattr(cell, "text", cell)) for cell in row] for row in alone.rows
    ]


def test_labels_that_all_share_are_reported_once() -> None:
    first, second = (read(run) for run in pair())
    comparison = compare_runs(first, second)
    assert dict(comparison.shared) == {"from": "a", "to": "b", "rail": "rail0"}
    assert {own_labels(value, comparison.shared) for value in comparison.numbers} == {"fast", "noisy", "slow", "none"}


@pytest.mark.parametrize("verb", ["bench", "train", "check"])
def test_runs_of_any_verb_have_a_page(tmp_path: Path, verb: str) -> None:
    makers: Mapping[str, Callable[[], Path]] = {
        "bench": lambda: bench_run({"fast": [10, 11, 10]}),
        "train": lambda: training_run(steps=20, fails_at=None),
        "check": lambda: plain_run([finding(Verdict.WARN)], verb="check"),
    }
    before, after = makers[verb](), makers[verb]()
    result = railbed(tmp_path, "compare", before, after, "--output", "c.html")
    assert (result.code, result.out, result.err) == (0, "c.html\n", "")
    assert (tmp_path / "c.html").read_text().startswith("<!doctype html>")


def test_as_records_and_on_standard_output(tmp_path: Path) -> None:
    before, after = pair()
    *rest, last = railbed(tmp_path, "compare", before, after, "-o", "c.html", "--json").records
    assert (last["kind"], last["name"], last["data"]["file"]) == ("event", "compare", "c.html")
    assert {record["kind"] for record in rest} == {"comparison", "change"}
    assert [record["share"] for record in rest if record.get("of", "").endswith("test none, to b")] == [None]
    assert railbed(tmp_path, "compare", before, after, "-o", "-").out.startswith("<!doctype html>")
    assert_one_sentence(
        railbed(tmp_path, "compare", before, after, "-o", "-", "--json"), 2, "both write to standard output"
    )
    assert_one_sentence(railbed(tmp_path, "compare", before, after, "-o", "no/such/x.html"), 2, "cannot write the page")


def test_what_a_device_says_stays_text() -> None:
    runs = [bench_run({HOSTILE: [value], "b": [1.0]}) for value in (1.0, 2.0)]
    assert HOSTILE not in as_html(described(*runs))


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_the_page_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    before, after = pair()
    page = tmp_path / "compared.html"
    assert railbed(tmp_path, "compare", before, after, "-o", page).code == 0
    browser.look(width=NARROW)
    browser.open(page)
    grounds = set()
    for _ in browser.looks("compare"):
        assert browser.evaluate("document.querySelectorAll('.plot svg.main-svg .points path').length") == 6
        grounds.add(browser.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(grounds) == 2
    assert set(browser.requests) == {page.resolve().as_uri()}
    assert browser.complaints == []

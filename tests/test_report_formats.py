"""`railbed report --format`: the same sections as text and as data, with the numbers of the records in full."""

from __future__ import annotations

import csv
import io
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from railbed.model.record import Measurement, Record, Verdict
from railbed.report import describe, read
from railbed.report.formats.data import as_csv, as_json
from railbed.report.formats.html import MOST
from railbed.report.formats.markdown import as_markdown
from railbed.store import record_lines
from tests.support.cli import railbed
from tests.support.events import event
from tests.support.runs import STARTED, finding, plain_run, training_run
from tests.test_cli import assert_one_sentence

pytestmark = pytest.mark.whole

ODD = 1 / 3
"""No short number of digits is equal to it."""
HOSTILE = "<img src=x> | *a* `b` [c](d) # =1+1"


@pytest.fixture(autouse=True)
def runs_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path / "runs"))


def bandwidth(value: float, **labels: str | int) -> Measurement:
    all_labels: dict[str, str | int] = {
        "tool": "iperf3",
        "test": "iperf3",
        "from": "a",
        "to": "b",
        "rail": "rail0",
        **labels,
    }
    return Measurement(name="bandwidth", value=value, unit="Gb/s", labels=all_labels, time=STARTED)


def blocks(report: dict[str, Any], section: str, kind: str) -> list[dict[str, Any]]:
    (section_found,) = [entry for entry in report["sections"] if entry["name"] == section]
    return [block for block in section_found["blocks"] if block["type"] == kind]


def rows(text: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text.decode())))


def test_every_format_has_its_file_and_can_go_to_standard_output(tmp_path: Path) -> None:
    run = plain_run([bandwidth(ODD)], verb="bench")
    for form, begin in (("md", "# "), ("json", "{"), ("csv", "name,value,unit,source,time,from,rail,")):
        result = railbed(tmp_path, "report", run.name, "--format", form)
        assert (result.code, result.err, Path(result.out.strip()).name) == (0, "", f"report.{form}")
        written = (run / f"report.{form}").read_text()
        assert written.startswith(begin)
        assert railbed(tmp_path, "report", run.name, "--format", form, "-o", "-").out == written
    (record,) = railbed(tmp_path, "report", run.name, "--format", "csv", "--json").records
    assert (record["name"], record["data"]["format"]) == ("report", "csv")
    assert not (tmp_path / "-").exists()


def test_wrong_arguments_are_one_sentence(tmp_path: Path) -> None:
    plain_run()
    assert_one_sentence(railbed(tmp_path, "report", "--json", "-o", "-"), 2, "both write to standard output")
    assert railbed(tmp_path, "report", "--format", "pdf").code == 2


def test_numbers_as_data_are_those_of_the_records_to_the_last_digit() -> None:
    values = [ODD, 10 * ODD, 5 * ODD]
    run = plain_run([bandwidth(value, repeat=at) for at, value in enumerate(values)], verb="bench")
    report = json.loads(as_json(describe(read(run))))
    (table,) = blocks(report, "measured", "table")
    cells = dict(zip(table["columns"], table["rows"][0], strict=True))
    assert cells["median"] == {"value": 5 * ODD, "unit": "Gb/s", "text": "1.667"}
    (spread,) = blocks(report, "method", "table")
    figures = dict(zip(spread["columns"], spread["rows"][0], strict=True))
    assert (figures["values"]["value"], figures["least"]["value"], figures["most"]["value"]) == (3, ODD, 10 * ODD)
    assert [float(row["value"]) for row in rows(as_csv(run))] == values


def test_every_measurement_is_a_row_and_no_other() -> None:
    run = training_run(steps=20, fails_at=13)
    records = [json.loads(line) for line in record_lines(run)]
    wanted = [record for record in records if record["kind"] == "measurement"]
    table = rows(as_csv(run))
    assert len(table) == len(wanted) > 100
    for row, measurement in zip(table, wanted, strict=True):
        assert (row["name"], float(row["value"]), row["unit"]) == (
            measurement["name"],
            measurement["value"],
            measurement["unit"],
        )
        assert {name: row[name] for name in measurement["labels"]} == {
            name: str(measurement["labels"][name]) for name in measurement["labels"]
        }


def test_lines_as_data_are_whole_and_not_rounded() -> None:
    steps = range(1, MOST * 2)
    records = [
        Measurement(name="loss", value=ODD * step, unit="nat", labels={"step": step, "rank": 0}) for step in steps
    ]
    report = json.loads(as_json(describe(read(plain_run(records)))))
    (figure, *_) = blocks(report, "loss", "figure")
    (line,) = figure["series"]
    assert (line["x"], line["y"]) == (list(steps), [ODD * step for step in steps])


def test_all_formats_have_the_same_sections_and_verdict() -> None:
    document = describe(read(training_run(steps=60)))
    report, text = json.loads(as_json(document)), as_markdown(document)
    assert [section["name"] for section in report["sections"]] == document.sections
    assert report["verdict"] == document.sentence
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == [part.title for part in document.parts]
    assert document.sentence in text.replace("\N{NO-BREAK SPACE}", " ")


def test_markdown_tables_are_whole_and_plots_are_tables_or_named() -> None:
    text = as_markdown(describe(read(training_run())))
    lines = text.splitlines()
    for earlier, later in pairwise(lines):
        if earlier.startswith("|") and later.startswith("|"):
            assert earlier.replace(r"\|", "").count("|") == later.replace(r"\|", "").count("|")
    assert "300 points, left out here" in text
    short = as_markdown(describe(read(training_run(steps=5, fails_at=None))))
    assert "**Loss, nat per token**\n\n|  | training | validation |\n| --- | ---: | ---: |\n| 1 | 8." in short


def test_what_a_device_says_is_neither_markup_nor_a_formula() -> None:
    hostile: list[Record] = [
        finding(Verdict.FAIL, observed=HOSTILE, subject=HOSTILE),
        event(name="notice", message=HOSTILE),
        bandwidth(1.0, **{"from": HOSTILE, "to": '=HYPERLINK("x")', "rail": "-1,\n2"}),
    ]
    run = plain_run(hostile, verb="bench")
    text = as_markdown(describe(read(run)))
    assert r"\<img src=x\> \| \*a\*" in text
    assert "<img" not in text.replace(r"\<img", "")
    (row,) = rows(as_csv(run))
    assert (row["to"], row["rail"], row["from"]) == ('\'=HYPERLINK("x")', "'-1,\n2", HOSTILE)


def test_a_run_without_records_has_every_format() -> None:
    run = plain_run(status="running")
    (run / "records.jsonl").unlink()
    assert as_csv(run).decode().strip() == "name,value,unit,source,time"
    assert "died without a message" in as_markdown(describe(read(run)))
    assert json.loads(as_json(describe(read(run))))["tone"] == "bad"

"""Every tool over every case: `cases/tools/<tool>/<case>.txt` is parsed and compared with `<case>.json`.

A case whose JSON is `{"error": "…"}` must raise ParseError with that text. `pytest --update` writes the JSON anew.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_core import to_json, to_jsonable_python

from railbed.bench.tool import all_tools
from railbed.bench.wrapper import unwrap
from railbed.errors import ParseError

CASES = Path(__file__).parent / "cases" / "tools"
FILES = sorted(CASES.glob("*/*.txt"))
NAMES = sorted(all_tools())
SETTINGS = settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
SPLICES = ["", "\n", ":", "\x00", "-1", "null", "{}", "[]", "9" * 400, "\ufffd", "²", "1e999", "NaN", "\t", "\r", "0.0"]


def read(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_case(path: Path, update: bool) -> None:
    tool = all_tools()[path.parent.name]
    try:
        reading = tool.parse(unwrap(read(path)).output)
        result = to_jsonable_python(reading)
        result["samples"] = len(reading.samples)
    except ParseError as error:
        result = {"error": error.message}
    expected = path.with_suffix(".json")
    if update:
        expected.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n")
    assert result == json.loads(expected.read_text())


@pytest.mark.parametrize("name", NAMES)
def test_every_tool_has_cases(name: str) -> None:
    results = [json.loads(path.with_suffix(".json").read_text()) for path in FILES if path.parent.name == name]
    assert any("error" not in result for result in results), "no case that is understood"
    assert any("error" in result for result in results), "no case that is refused"


@pytest.mark.parametrize("name", NAMES)
def test_any_text_is_understood_or_refused(name: str) -> None:
    """Any text; and real output cut short, with pieces swapped and foreign characters spliced in."""
    real = [read(path)[:8000] for path in FILES if path.parent.name == name]

    @SETTINGS
    @given(st.one_of(st.text(max_size=300), st.sampled_from(real)), st.data())
    def survives(text: str, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(text)))
        length = data.draw(st.integers(0, 40))
        splice = data.draw(st.one_of(st.sampled_from(SPLICES), st.text(max_size=20)))
        with contextlib.suppress(ParseError):
            reading = all_tools()[name].parse(unwrap(text[:at] + splice + text[at + length :]).output)
            assert reading.values
            assert b"NaN" not in to_json(reading.values)

    survives()

"""Every probe over every case: `cases/probes/<probe>/<case>.txt` is parsed and compared with `<case>.json`.

A case whose JSON is `{"error": "…"}` must raise ParseError with that text; one without `not_understood` must leave no
line over. `pytest --update` writes the JSON anew.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from railbed.errors import ParseError
from railbed.probes.outputs import all_probes

CASES = Path(__file__).parent / "cases" / "probes"
FILES = sorted(CASES.glob("*/*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_case(path: Path, update: bool) -> None:
    probe = all_probes()[path.parent.name]
    try:
        result = to_jsonable_python(probe.parse(path.read_bytes().decode("utf-8", "replace")))
        TypeAdapter(probe.facts).validate_python(result)
        if not result.get("not_understood", True):
            del result["not_understood"]
    except ParseError as error:
        result = {"error": error.message}
    expected = path.with_suffix(".json")
    if update:
        expected.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n")
    assert result == json.loads(expected.read_text())


@pytest.mark.parametrize("name", sorted(all_probes()))
def test_every_probe_has_cases(name: str) -> None:
    results = [json.loads(path.with_suffix(".json").read_text()) for path in FILES if path.parent.name == name]
    assert any("error" not in result for result in results), "no case that is understood"
    assert any("error" in result for result in results), "no case that is refused"

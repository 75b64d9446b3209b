"""Every text parser over every case with a line that it does not know at every position: the facts stay the same.

Outputs that are JSON have no such lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from railbed.parsing.lines import TextFacts
from railbed.parsing.text import SECTION
from railbed.probes.outputs import all_probes

CASES = Path(__file__).parent / "cases" / "probes"
UNKNOWN = ("This sentence is in no release that we know", "    Nor is this one (that is indented)")


def text_cases() -> Iterator[Path]:
    for path in sorted(CASES.glob("*/*.txt")):
        result = json.loads(path.with_suffix(".json").read_text())
        bodies = SECTION.sub("", path.read_text(errors="replace")).split("\n")
        if "error" not in result and not any(line.startswith(("{", "[")) for line in bodies) and any(bodies):
            yield path


@pytest.mark.parametrize("path", list(text_cases()), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_facts_stay_the_same(path: Path) -> None:
    probe = all_probes()[path.parent.name]
    lines = path.read_bytes().decode("utf-8", "replace").split("\n")
    facts = probe.parse("\n".join(lines))
    for unknown in UNKNOWN:
        for position in range(len(lines) + 1):
            changed = probe.parse("\n".join([*lines[:position], unknown, *lines[position:]]))
            assert changed == facts, f"{unknown!r} at line {position + 1}"

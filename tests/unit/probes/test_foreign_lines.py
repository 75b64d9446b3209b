"""A line that a parser does not know is skipped, wherever it is, and the facts stay the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from railbed.probes.outputs import all_probes

CASES = Path(__file__).parents[2] / "cases" / "probes"
TEXTS = (
    "ethtool_fec/rs_and_none",
    "ethtool_module/sfp",
    "ethtool_module/four_lanes",
    "interrupts/two_cards",
    "mlxconfig/three_columns",
    "mlxlink/two_ports",
    "ib_subnet/two_managers",
)
FOREIGN = ("\x1b[0mWARNING: something else", "    Some Later Field : 7 of 9", "")


@pytest.mark.parametrize("case", TEXTS)
@pytest.mark.parametrize("line", FOREIGN, ids=["warning", "field", "blank"])
def test_foreign_lines_change_nothing(case: str, line: str) -> None:
    parse = all_probes()[case.partition("/")[0]].parse
    lines = (CASES / f"{case}.txt").read_text().split("\n")
    facts = parse("\n".join(lines))
    # Before the first section, text cannot be an answer of the command: some readers refuse it.
    first = 1 if lines[0].startswith("==> ") else 0
    for place in range(first, len(lines) + 1):
        assert parse("\n".join([*lines[:place], line, *lines[place:]])) == facts, place

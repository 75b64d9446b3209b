"""A later field changes no fact, wherever it is; `tests/test_unknown_lines.py` inserts sentences."""

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
FIELD = "    Some Later Field : 7 of 9"


@pytest.mark.parametrize("case", TEXTS)
def test_a_later_field_changes_nothing(case: str) -> None:
    parse = all_probes()[case.partition("/")[0]].parse
    lines = (CASES / f"{case}.txt").read_text().split("\n")
    facts = parse("\n".join(lines))
    # Before the first section, text cannot be an answer of the command: some readers refuse it.
    first = 1 if lines[0].startswith("==> ") else 0
    for place in range(first, len(lines) + 1):
        assert parse("\n".join([*lines[:place], FIELD, *lines[place:]])) == facts, place

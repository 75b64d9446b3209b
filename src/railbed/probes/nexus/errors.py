"""Error counters of the ports of a Nexus (`show interface counters errors`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.nexus.answer import (
    PORT_NAME,
    content,
    count,
    optional_integer,
    port_name,
    read_object,
    require,
    rows,
)
from railbed.parsing.text import Fields

COLUMNS = {
    "Align-Err": "align_err",
    "FCS-Err": "fcs_err",
    "Xmit-Err": "xmit_err",
    "Rcv-Err": "rcv_err",
    "UnderSize": "undersize",
    "OutDiscards": "outdisc",
    "Single-Col": "single_col",
    "Multi-Col": "multi_col",
    "Late-Col": "late_col",
    "Exces-Col": "excess_col",
    "Carri-Sen": "carri_sen",
    "Runts": "runts",
    "Giants": "giants",
    "SQETest-Err": "sqetest_err",
    "Deferred-Tx": "deferred_tx",
    "IntMacTx-Er": "inmactx_err",
    "IntMacRx-Er": "inmacrx_err",
    "Symbol-Err": "symbol_err",
    "InDiscards": "indisc",
    "Stomped-CRC": "stomped_crc",
}
"""Our names are those of NX-OS's JSON, without the prefix `eth_`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortErrors(TextFacts):
    """Error counters by port. One that is absent does not exist there."""

    ports: dict[str, dict[str, int]]


def parse(text: str) -> PortErrors:
    """Read both forms: several tables, or several rows for each port."""
    fields, lines = read_object(text), Lines(text)
    ports: dict[str, dict[str, int]] = {}
    for port, name, value in _of_json(fields) if fields else _of_text(lines):
        ports.setdefault(port, {})[name] = value
    lines.require(ports, "no port")
    return PortErrors(ports=ports, not_understood=lines.not_understood)


def _of_json(fields: Fields) -> Iterator[tuple[str, str, int]]:
    for row in rows(fields, "interface"):
        port = port_name(require(row, "interface"))
        keys = [key for key in dict(row.items()) if key.startswith("eth_")]
        yield from ((port, key.removeprefix("eth_"), value) for key in keys if (value := count(row, key)) is not None)


def _of_text(lines: Lines) -> Iterator[tuple[str, str, int]]:
    columns: list[str] = []
    for line in content(lines):
        port, *cells = line.split()
        if port == "Port":
            columns = [COLUMNS.get(cell, cell.lower().replace("-", "_")) for cell in cells]
        elif not PORT_NAME.fullmatch(port) or not columns or len(cells) != len(columns):
            lines.unknown(line)
        else:
            with lines.reading(line):
                values = [(name, optional_integer(cell)) for name, cell in zip(columns, cells, strict=True)]
                yield from ((port_name(port), name, value) for name, value in values if value is not None)


PROBE = Probe(
    name="nexus_errors",
    title="error counters of the ports of a Nexus",
    command="show interface counters errors | json\nshow interface counters errors",
    parse=parse,
    facts=PortErrors,
    runs_on="switch",
    twice=True,
    one_line=True,
)

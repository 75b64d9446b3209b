"""Error counters of the ports of a Nexus (`show interface counters errors`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.nexus.answer import content, count, optional_integer, port_name, read_object, require, rows
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
class PortErrors:
    """Error counters by port. One that is absent does not exist there."""

    ports: dict[str, dict[str, int]]


def parse(text: str) -> PortErrors:
    """Read both forms: several tables, or several rows for each port."""
    fields = read_object(text)
    ports: dict[str, dict[str, int]] = {}
    for port, name, value in _of_json(fields) if fields else _of_text(text):
        ports.setdefault(port, {})[name] = value
    if not ports:
        raise ParseError("no port", line=text.strip()[:80])
    return PortErrors(ports=ports)


def _of_json(fields: Fields) -> Iterator[tuple[str, str, int]]:
    for row in rows(fields, "interface"):
        port = port_name(require(row, "interface"))
        keys = [key for key in dict(row.items()) if key.startswith("eth_")]
        yield from ((port, key.removeprefix("eth_"), value) for key in keys if (value := count(row, key)) is not None)


def _of_text(text: str) -> Iterator[tuple[str, str, int]]:
    columns: list[str] = []
    for line in content(text):
        port, *cells = line.split()
        if port == "Port":
            columns = [COLUMNS.get(cell, cell.lower().replace("-", "_")) for cell in cells]
            continue
        if line.strip().startswith("show interface"):
            continue
        if not columns or len(cells) != len(columns):
            raise ParseError("expected the errors of a port", line=line)
        for name, cell in zip(columns, cells, strict=True):
            value = optional_integer(cell)
            if value is not None:
                yield port_name(port), name, value


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

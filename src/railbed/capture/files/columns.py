"""Collect the decoded packets of all chunks, from one of two engines with the same results.

numpy is always there; numba is faster for large files.

A packet takes 60 bytes here, which is all that is kept of it: columns grow in place. Beside them are the window
(32 MiB) and the tables of a chunk (about 10 MB). Packets that are not RoCE are only counted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from railbed.capture.files.addresses import AddressTable
from railbed.capture.files.decode import Decoded, Decoder
from railbed.capture.files.formats import pcap
from railbed.capture.files.formats.lanes import Positions, RecordChain, walk_records
from railbed.capture.files.formats.pcap import Records
from railbed.capture.files.layers import REASON_TEXT, Reason
from railbed.capture.files.source import Buffer
from railbed.capture.packets import COLUMNS, NO_SYNDROME, Kind, Packets, Pauses
from railbed.errors import ToolMissing
from railbed.model.requirements import install_package
from railbed.store.cache import ForeignCache

NAMES = COLUMNS.names or ()
PAUSE_COLUMNS = {"number": "u4", "time": "i8", "sender": "u8", "classes": "u1", "quanta": "u2"}
FEWEST_EXPECTED, MOST_EXPECTED = 1 << 12, 1 << 24
"""Room for packets at first. What is used of it comes in huge pages, unlike later growth; the rest takes no memory."""
PLACED_TOGETHER = 1 << 16
Group = tuple[NDArray[np.int64], dict[str, NDArray[Any]]]


class Column:
    """Values of one type, as many as come."""

    def __init__(self, kind: np.dtype[Any], room: int) -> None:
        self.values = np.empty(room, kind)

    def put(self, begin: int, values: NDArray[Any]) -> None:
        """Append values; growing moves no bytes, since the system only moves pages."""
        end = begin + len(values)
        if end > len(self.values):
            self.values.resize(max(end, len(self.values) * 3 // 2), refcheck=False)
        self.values[begin:end] = values

    def take(self, count: int) -> NDArray[Any]:
        """Return the values, and give the rest of the room back."""
        values, self.values = self.values, self.values[:0]
        values.resize(count, refcheck=False)
        return values


class Columns:
    """The packets of a file, as they come."""

    def __init__(self, expected: int = 0) -> None:
        room = min(max(expected, FEWEST_EXPECTED), MOST_EXPECTED)
        self.columns = {name: Column(COLUMNS[name], room) for name in NAMES}
        self.count = 0
        self.pauses: dict[str, list[NDArray[Any]]] = {name: [] for name in PAUSE_COLUMNS}
        self.reasons = np.zeros(len(Reason), np.int64)
        self.total = 0
        self.mirrored = 0

    def add(self, records: Records, decoded: Decoded) -> None:
        """Add a chunk."""
        if decoded.reasons.any():
            self.reasons += np.bincount(decoded.reasons, minlength=len(Reason))
        self.mirrored += decoded.mirrored
        groups = [*decoded.groups, *(self._add_pauses(records, group) for group in decoded.pauses)]
        if groups:
            row, columns = _merge(groups)
            columns["number"] = row + (self.total + 1)
            every = len(row) == len(records)
            columns["time"] = records.time if every else records.time[row]
            columns["length"] = records.length if every else records.length[row]
            for name, column in self.columns.items():
                column.put(self.count, columns[name])
            self.count += len(row)
        self.total += len(records)

    def _add_pauses(self, records: Records, group: Group) -> Group:
        row, columns = group
        order = np.argsort(row)
        for name, column in columns.items():
            if name in self.pauses:
                self.pauses[name].append(column[order])
        self.pauses["number"].append((row[order] + self.total + 1).astype(np.uint32))
        self.pauses["time"].append(records.time[row[order]])
        kinds = np.where(columns["per_class"], Kind.PFC, Kind.PAUSE).astype(np.uint8)
        empty = {name: np.zeros(len(row), COLUMNS[name]) for name in NAMES}
        syndrome = np.full(len(row), NO_SYNDROME, np.uint8)
        return row, empty | {"kind": kinds, "vlan": columns["vlan"], "syndrome": syndrome}

    def packets(self, addresses: AddressTable) -> Packets:
        """Return all packets, and forget them here."""
        texts, places = addresses.in_order()
        columns = {name: column.take(self.count) for name, column in self.columns.items()}
        for name in ("source", "destination"):
            for begin in range(0, self.count, PLACED_TOGETHER):
                part = columns[name][begin : begin + PLACED_TOGETHER]
                part[:] = places[part]
        pauses = {
            name: np.concatenate(parts).astype(PAUSE_COLUMNS[name], copy=False) if parts else np.empty(0, dtype)
            for (name, parts), dtype in zip(self.pauses.items(), PAUSE_COLUMNS.values(), strict=True)
        }
        return Packets(columns, texts, _in_order(pauses))

    def other(self) -> dict[str, int]:
        """Return how many packets were left out, by reason."""
        return {text: int(self.reasons[reason]) for reason, text in REASON_TEXT.items() if self.reasons[reason]}


def _merge(groups: list[Group]) -> Group:
    """Put the packets of all groups into the order of the file."""
    if len(groups) == 1:
        return groups[0]
    row = np.concatenate([row for row, _ in groups])
    order = np.argsort(row, kind="stable")
    columns = {name: np.concatenate([columns[name] for _, columns in groups])[order] for name in groups[0][1]}
    return row[order], columns


def _in_order(pauses: dict[str, NDArray[Any]]) -> Pauses:
    order = np.argsort(pauses["number"], kind="stable")
    ordered = {name: column[order] for name, column in pauses.items()}
    ordered["quanta"] = ordered["quanta"].reshape(-1, 8)
    return Pauses(**ordered)


EngineName = Literal["auto", "numpy", "numba"]
WORTH_COMPILING_BYTES = 1 << 26
"""Loading numba takes about a second, and compiling several, once."""
Fields = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint32]]


class Engine(Protocol):
    """Finds and decodes the packets of one file."""

    def walk(self, chain: RecordChain, position: int, end: int, *, alone: bool = False) -> tuple[Positions, int]:
        """Return where the records begin, and where the walk ended."""

    def pcap_fields(self, buffer: Buffer, header: pcap.PcapHeader, starts: Positions) -> Fields:
        """Return the times, captured bytes and lengths of records."""

    def decode(
        self, buffer: Buffer, start: NDArray[np.int64], captured: NDArray[np.int64], link: NDArray[np.uint8]
    ) -> Decoded:
        """Decode the packets that begin at these positions."""


class NumpyEngine(Decoder):
    """Works on many packets at once."""

    def walk(self, chain: RecordChain, position: int, end: int, *, alone: bool = False) -> tuple[Positions, int]:
        """Return where the records begin, and where the walk ended."""
        return walk_records(chain, position, end, alone=alone)

    def pcap_fields(self, buffer: Buffer, header: pcap.PcapHeader, starts: Positions) -> Fields:
        """Return the times, captured bytes and lengths of records."""
        return pcap.record_fields(buffer, header, starts)


def make_engine(name: EngineName, addresses: AddressTable, path: Path) -> Engine:
    """Return an engine for a file; `auto` takes numba if it is installed and the file is large."""
    if name == "numpy" or (name == "auto" and not _is_large(path)):
        return NumpyEngine(addresses)
    try:
        from railbed.capture.files.compiled.engine import CompiledEngine
    except ForeignCache:
        if name == "auto":
            return NumpyEngine(addresses)
        raise
    except (ImportError, RuntimeError) as error:  # numba raises the latter if it can store its code nowhere
        if name == "auto":
            return NumpyEngine(addresses)
        raise ToolMissing(f"numba cannot be used here: {error}", hint=install_package("numba")) from None
    return CompiledEngine(addresses)


def _is_large(path: Path) -> bool:
    try:
        return path.stat().st_size >= WORTH_COMPILING_BYTES
    except OSError:
        return False

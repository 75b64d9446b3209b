"""Two engines with the same results: numpy, which is always there, and numba, which is faster for large files."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from railbed.capture.files.addresses import AddressTable
from railbed.capture.files.decode import Decoded, Decoder
from railbed.capture.files.formats import pcap
from railbed.capture.files.formats.lanes import Chain, Positions, walk_records
from railbed.capture.files.window import Buffer
from railbed.errors import ToolMissing
from railbed.model.requirements import install_package
from railbed.store.cache import ForeignCache

EngineName = Literal["auto", "numpy", "numba"]
WORTH_COMPILING_BYTES = 1 << 26
"""Loading numba takes about a second, and compiling several, once."""
Fields = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint32]]


class Engine(Protocol):
    """Finds and decodes the packets of one file."""

    def walk(self, chain: Chain, position: int, end: int, *, alone: bool = False) -> tuple[Positions, int]:
        """Return where the records begin, and where the walk ended."""

    def pcap_fields(self, buffer: Buffer, header: pcap.PcapHeader, starts: Positions) -> Fields:
        """Return the times, captured bytes and lengths of records."""

    def decode(
        self, buffer: Buffer, start: NDArray[np.int64], captured: NDArray[np.int64], link: NDArray[np.uint8]
    ) -> Decoded:
        """Decode the packets that begin at these positions."""


class NumpyEngine(Decoder):
    """Works on many packets at once."""

    def walk(self, chain: Chain, position: int, end: int, *, alone: bool = False) -> tuple[Positions, int]:
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

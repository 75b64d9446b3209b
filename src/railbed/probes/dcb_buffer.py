"""Receive buffers of every interface, and which priority uses which (`dcb -j buffer show`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing import dcb
from railbed.parsing.dcb import Words
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.text import integer

KEYWORDS = ("prio-buffer", "buffer-size", "total-size")
UNITS = {"": 1, "b": 1, "Kb": 2**10, "Mb": 2**20, "Gb": 2**30}
"""iproute2 writes bytes as `b`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffers:
    """Receive buffers of one interface; rows run from 0 to 7."""

    prio_buffer: tuple[int, ...]
    """Buffer of each priority."""
    sizes: tuple[int, ...]
    """Bytes of each buffer."""
    total: int | None = None
    """Bytes of all buffers together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DcbBuffer(TextFacts):
    """Receive buffers by interface; the saved output of a single interface is under the empty name."""

    interfaces: dict[str, Buffers]
    refused: dict[str, str]
    """The kernel's error message for interfaces that do not support it."""


def parse(text: str) -> DcbBuffer:
    """Read the sections of all interfaces, or the JSON or text of one."""
    lines = Lines(text)
    interfaces, refused = dcb.read_interfaces(lines, KEYWORDS)
    return DcbBuffer(
        interfaces={name: _buffers(words) for name, words in interfaces.items()},
        refused=refused,
        not_understood=lines.not_understood,
    )


def _buffers(words: Words) -> Buffers:
    prio_buffer, sizes, total = words.numbers("prio-buffer"), words.row("buffer-size"), words.single("total-size")
    if prio_buffer is None or sizes is None:
        raise ParseError("no prio-buffer or buffer-size")
    return Buffers(
        prio_buffer=prio_buffer,
        sizes=tuple(_bytes(size) for size in sizes),
        total=_bytes(total) if total is not None else None,
    )


def _bytes(word: str) -> int:
    match = re.fullmatch(r"(\d{1,20})([KMG]?b|)", word, re.ASCII)
    if not match:
        raise ParseError("expected a size", line=word)
    return integer(match[1]) * UNITS[match[2]]


PROBE = Probe(
    name="dcb_buffer",
    title="receive buffers of interfaces",
    command=dcb.command("buffer"),
    parse=parse,
    facts=DcbBuffer,
    tool="dcb",
    package="iproute2",
    one_line=True,
)

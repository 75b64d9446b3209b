"""The traffic class that RDMA connections get by default: RDMA-CM's (configfs) and OFED's global one (sysfs)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.text import integer

CM_LINE = re.compile(r"(?:.*/)?([^/:\s]+)/ports/(\d{1,3})/default_roce_tos:\s*(\d{1,3})\s*", re.ASCII)
GLOBAL_LINE = re.compile(r"(?:.*/)?([^/:\s]+)/tc/(\d{1,3})/traffic_class:([\s\S]*)", re.ASCII)
GLOBAL = re.compile(r"Global tclass=(\d{1,3})", re.ASCII)
RULE = re.compile(r"(?:(?:src|dst)_ip6?=[0-9a-fA-F:./]+,)+tclass=\d{1,3}", re.ASCII)
"""Another line of that file: the class of connections between specific addresses."""
CONFIGURABLE = "rdma_cm:"
"""Printed where configfs has RDMA-CM's folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tos:
    """Defaults of one RDMA port, as the whole byte: DSCP and the two ECN bits."""

    cm_tos: int | None = None
    """Of connections made with RDMA-CM. None if configfs has no folder for the device; creating one would show it."""
    global_tclass: int | None = None
    """OFED's override for all connections; None if none is set, and with drivers that do not have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoceTos(TextFacts):
    """Defaults by `device/port`; a bare value is under the empty name."""

    ports: dict[str, Tos]
    configurable: bool = False
    """Whether configfs has RDMA-CM's folder, in which a folder for each device can be created."""


def parse(text: str) -> RoceTos:
    """Read `path:value` lines, the number that `cma_roce_tos` prints, or the file with the `Global tclass=` line."""
    ports: dict[str, Tos] = {}
    lines = Lines(text)
    shown = list(lines)
    for port, cm_tos, global_tclass in _values(shown, lines):
        before = ports.get(port, Tos())
        ports[port] = Tos(
            cm_tos=_either(before.cm_tos, cm_tos), global_tclass=_either(before.global_tclass, global_tclass)
        )
    lines.require_known("not a default traffic class")
    configurable = CONFIGURABLE in map(str.strip, shown)
    return RoceTos(ports=ports, configurable=configurable, not_understood=lines.not_understood)


def _values(shown: Iterable[str], lines: Lines) -> Iterator[tuple[str, int | None, int | None]]:
    for line in shown:
        word = line.strip()
        if match := CM_LINE.fullmatch(word):
            yield f"{match[1]}/{integer(match[2])}", _byte(match[3]), None
        elif match := GLOBAL_LINE.fullmatch(word):
            value = GLOBAL.fullmatch(match[3].strip())
            yield f"{match[1]}/{integer(match[2])}", None, _byte(value[1]) if value else None
        elif match := GLOBAL.fullmatch(word):
            yield "", None, _byte(match[1])
        elif RULE.fullmatch(word):
            yield "", None, None
        elif word.isascii() and word.isdigit():
            yield "", _byte(word), None
        elif word != CONFIGURABLE:
            lines.unknown(line)


def _either(before: int | None, now: int | None) -> int | None:
    if before is not None and now is not None and before != now:
        raise ParseError(f"a second value after {before}, without device names", line=str(now))
    return before if now is None else now


def _byte(word: str) -> int:
    value = integer(word)
    if value > 255:
        raise ParseError("expected a byte", line=word)
    return value


COMMAND = f"""
(cd /sys/kernel/config/rdma_cm 2>/dev/null && echo {CONFIGURABLE} && grep -sH '' */ports/*/default_roce_tos)
(cd /sys/class/infiniband 2>/dev/null && grep -sH '' */tc/*/traffic_class)
exit 0
"""

PROBE = Probe(
    name="roce_tos",
    title="default traffic class of RDMA connections",
    command=COMMAND,
    parse=parse,
    facts=RoceTos,
)

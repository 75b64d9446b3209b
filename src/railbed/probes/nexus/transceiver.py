"""Transceivers and cables in the ports of a Nexus (`show interface transceiver`)."""

from __future__ import annotations

from dataclasses import dataclass

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.nexus.answer import read_object
from railbed.parsing.nexus.modules import Cage, cages


@dataclass(frozen=True, slots=True, kw_only=True)
class Transceiver:
    """What is plugged into a port."""

    type: str | None = None
    vendor: str | None = None
    part: str | None = None
    serial: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transceivers(TextFacts):
    """Transceivers by port; None for a port without one."""

    ports: dict[str, Transceiver | None]


def parse(text: str) -> Transceivers:
    """Read both forms, also with details; what modules measure is read by `nexus_optics`."""
    lines = Lines(text)
    ports = {cage.port: _transceiver(cage) for cage in cages(read_object(text), lines)}
    lines.require(ports, "no port with or without a transceiver")
    return Transceivers(ports=ports, not_understood=lines.not_understood)


def _transceiver(cage: Cage) -> Transceiver | None:
    if not cage.is_present:
        return None
    return Transceiver(
        type=cage.names.get("type"),
        vendor=cage.names.get("name"),
        part=cage.names.get("part number"),
        serial=cage.names.get("serial number"),
    )


PROBE = Probe(
    name="nexus_transceiver",
    title="transceivers and cables in the ports of a Nexus",
    command="show interface transceiver | json\nshow interface transceiver",
    parse=parse,
    facts=Transceivers,
    runs_on="switch",
    one_line=True,
)

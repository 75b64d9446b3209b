"""VLANs of a Nexus and the ports in them (`show vlan brief`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.nexus.answer import content, port_name, read_object, require, rows, value_of
from railbed.parsing.text import Fields, integer

STATES = ("active", "suspended", "act/", "sus/")
HEADING = ("VLAN Name", "VLAN Type", "Remote SPAN", "Primary ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vlan:
    """One VLAN."""

    number: int
    name: str
    active: bool
    ports: tuple[str, ...] = ()
    """Ports that are in it without a tag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vlans(TextFacts):
    """The VLANs of a switch."""

    vlans: tuple[Vlan, ...]


def parse(text: str) -> Vlans:
    """Read both forms, of `show vlan` and of `show vlan brief`."""
    fields, lines = read_object(text), Lines(text)
    vlans = tuple(_of_json(fields) if fields else _of_text(lines))
    lines.require(vlans, "no VLAN, not even the first")
    return Vlans(vlans=vlans, not_understood=lines.not_understood)


def _of_json(fields: Fields) -> Iterator[Vlan]:
    for row in rows(fields, "vlanbrief") or rows(fields, "vlanbriefxbrief"):
        yield Vlan(
            number=integer(require(row, "vlanshowbr-vlanid-utf")),
            name=value_of(row, "vlanshowbr-vlanname") or "",
            active=value_of(row, "vlanshowbr-vlanstate") == "active",
            ports=_ports(value_of(row, "vlanshowplist-ifidx") or ""),
        )


def _of_text(lines: Lines) -> Iterator[Vlan]:
    vlan: Vlan | None = None
    for line in content(lines):
        if line.startswith("VLAN Type"):
            break
        if begun := _vlan(line):
            if vlan:
                yield vlan
            vlan = begun
        elif vlan and line.startswith(("Eth", "Po", "po", "mgmt", "ii")):
            vlan = replace(vlan, ports=(*vlan.ports, *_ports(line)))
        elif not line.startswith(HEADING):
            lines.unknown(line)
    if vlan:
        yield vlan


def _vlan(line: str) -> Vlan | None:
    """Return the VLAN that a line begins; its name may have spaces, and ends before the state."""
    first, *words = line.split()
    state = next((index for index, word in enumerate(words) if index and word.startswith(STATES)), None)
    if not first.isdecimal() or state is None:
        return None
    ports = _ports(" ".join(words[state + 1 :]))
    return Vlan(number=integer(first), name=" ".join(words[:state]), active=words[state] == "active", ports=ports)


def _ports(text: str) -> tuple[str, ...]:
    return tuple(port_name(name) for name in text.split(",") if name.strip())


PROBE = Probe(
    name="nexus_vlan",
    title="VLANs of a Nexus and the ports in them",
    command="show vlan brief | json\nshow vlan brief",
    parse=parse,
    facts=Vlans,
    runs_on="switch",
    one_line=True,
)

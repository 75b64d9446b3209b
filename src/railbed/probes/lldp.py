"""LLDP neighbours: the switch and port at the other end of each cable (`lldpctl -f json`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.cabling import Neighbour
from railbed.model.probe import Probe
from railbed.parsing.text import Fields, json_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """Neighbours by interface; an interface without any is absent."""

    interfaces: dict[str, tuple[Neighbour, ...]]


def parse(text: str) -> Neighbours:
    """Read both forms of lldpd: `json`, where single items are not lists and names are keys, and `json0`, all lists."""
    neighbours: dict[str, tuple[Neighbour, ...]] = {}
    root = Fields(_first(json_value(text)))
    if "lldp" not in root:
        raise ParseError("no field 'lldp'", line=text.strip()[:80])
    for name, interface in _interfaces(Fields(_first(root.get("lldp")) or {}).get("interface")):
        neighbours[name] = (*neighbours.get(name, ()), _neighbour(interface))
    return Neighbours(interfaces=neighbours)


def _interfaces(value: object) -> Iterator[tuple[str, Fields]]:
    for item in _all(value):
        entry = Fields(item)
        if isinstance(entry.get("name"), str):
            yield entry.text("name"), entry
        else:
            for name, inner in entry.items():
                for below in _all(inner):
                    yield str(name), Fields(below)


def _neighbour(interface: Fields) -> Neighbour:
    system, chassis = _chassis(Fields(_first(interface.get("chassis")) or {}))
    port = Fields(_first(interface.get("port")) or {})
    port_id = _text(port.get("id"))
    if port_id is None:
        raise ParseError("a neighbour without a port", line=str(dict(interface.items()))[:120])
    return Neighbour(
        system=system,
        system_description=_text(chassis.get("descr")),
        chassis=_text(chassis.get("id")),
        port=port_id,
        port_type=_kind(port.get("id")),
        port_description=_text(port.get("descr")),
        addresses=tuple(filter(None, (_text(address) for address in _all(chassis.get("mgmt-ip"))))),
    )


def _chassis(fields: Fields) -> tuple[str | None, Fields]:
    """Return the name and the other fields: the name is the enclosing key, a field, or missing."""
    name = _text(fields.get("name")) if "id" in fields else None
    if name is None and "id" not in fields:
        for key, inner in fields.items():
            return str(key), Fields(inner)
    return name, fields


def _all(value: object) -> list[object]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _first(value: object) -> object:
    return next(iter(_all(value)), None)


def _text(value: object) -> str | None:
    text = _first(value)
    if isinstance(text, dict):
        text = text.get("value")
    if text is not None and not isinstance(text, str):
        raise ParseError("expected a string", line=str(text)[:80])
    return text


def _kind(value: object) -> str | None:
    first = _first(value)
    kind = first.get("type") if isinstance(first, dict) else None
    return kind if isinstance(kind, str) else None


PROBE = Probe(
    name="lldp",
    title="LLDP neighbours: switch and port of each cable",
    command="lldpctl -f json 2>/dev/null || { echo 'lldpd does not answer: is it running?' >&2; exit 1; }",
    parse=parse,
    facts=Neighbours,
    tool="lldpctl",
    package="lldpd",
    needs_root=True,
    one_line=True,
)

"""What lines of a switch's configuration interrupt.

A queuing or network-qos policy of `system qos` acts on every port of the switch, so that every port loses packets while
it changes. That holds for lines of a policy-map, too, wherever the policy is in force. A policy that is in force
nowhere interrupts nothing. `flowcontrol` takes the link of its port down and up; PFC does not. (Cisco Nexus 9000 Series
NX-OS Quality of Service Configuration Guide, "Configuring Queuing and Scheduling" and "Configuring Link Level Flow
Control"; that network-qos is as disruptive as queuing, and that a new MTU interrupts its port, is assumed.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from railbed.model.fix import ALL_PORTS, Interruption
from railbed.parsing.nexus.slots import ConfigSection, parse_lines

SYSTEM = "system qos"
InForce = Mapping[str, frozenset[str]]
"""Where policies are in force, by type and name such as `queuing EGRESS`: names of interfaces, or SYSTEM."""
POLICY = re.compile(r"policy-map type (?P<kind>queuing|network-qos) (?P<name>\S+)")
SERVICE = re.compile(
    r"service-policy type (?P<kind>queuing|network-qos)(?: (?:input|output))?(?: (?P<name>\S+))?(?: .*)?"
)
INTERFACE = "interface "


def interruption_of(lines: Iterable[str], in_force: InForce | None) -> Interruption:
    """Return what lines interrupt; without knowing where policies are in force, each may be in force everywhere."""
    losing: dict[str, None] = {}
    flapping: dict[str, None] = {}
    for section in parse_lines(lines).below.values():
        losing |= dict.fromkeys(_losing(section, in_force))
        if section.line.startswith(INTERFACE) and any(_is_flow_control(line) for line in section.below):
            flapping[section.line.removeprefix(INTERFACE)] = None
    return Interruption(losing=(ALL_PORTS,) if ALL_PORTS in losing else tuple(losing), flapping=tuple(flapping))


def _losing(section: ConfigSection, in_force: InForce | None) -> Iterator[str]:
    if section.line == SYSTEM and any(SERVICE.fullmatch(_positive(line)) for line in section.below):
        yield ALL_PORTS
    elif section.line.startswith(INTERFACE):
        if any(SERVICE.fullmatch(_positive(line)) or _positive(line).startswith("mtu") for line in section.below):
            yield section.line.removeprefix(INTERFACE)
    elif match := POLICY.fullmatch(_positive(section.line)):
        if in_force is None:
            yield ALL_PORTS
        else:
            places = in_force.get(f"{match['kind']} {match['name']}", frozenset())
            yield from (ALL_PORTS,) if SYSTEM in places else sorted(places)


def _positive(line: str) -> str:
    return line.removeprefix("no ")


def _is_flow_control(line: str) -> bool:
    return _positive(line).startswith("flowcontrol")


def places_in(configuration: ConfigSection) -> InForce:
    """Return where a configuration has policies in force."""
    places: dict[str, frozenset[str]] = {}
    for section in configuration.below.values():
        where = SYSTEM if section.line == SYSTEM else section.line.removeprefix(INTERFACE)
        for line in section.below:
            match = SERVICE.fullmatch(line)
            if match and match["name"]:
                key = f"{match['kind']} {match['name']}"
                places[key] = places.get(key, frozenset()) | {where}
    return places

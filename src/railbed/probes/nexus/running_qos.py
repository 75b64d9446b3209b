"""QoS in the running configuration of a Nexus: what was configured, without the defaults."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.nexus.answer import port_name
from railbed.parsing.nexus.interruption import SYSTEM, InForce
from railbed.parsing.nexus.policies import configured_policies
from railbed.parsing.nexus.qos import CLASS_MAP, TYPES, ClassMap, PolicyMap, policy_type

COMMANDS = (
    "show running-config ipqos",
    'show running-config | section "class-map|policy-map|system qos|priority-flow-control|interface"',
)
"""Never the whole configuration: the rest contains password hashes and SNMP communities."""
SERVICE_POLICY = re.compile(
    r"service-policy type (?P<place>qos input|queuing input|queuing output|network-qos) (?P<name>\S++)(?: .*)?"
)
PLAIN_SERVICE_POLICY = re.compile(r"service-policy input (?P<name>\S+)")
INTERFACE = re.compile(r"interface (?P<name>\S+)", re.IGNORECASE)
MODE = re.compile(r"priority-flow-control mode (?P<mode>on|off|auto)(?: .*)?")
WATCHDOG = re.compile(r"(?P<no>no )?priority-flow-control watch-dog-interval(?: (?P<state>on|off))?(?: .*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class PortQos:
    """The configuration of one port."""

    mode: str | None = None
    """`on`, `off` or `auto`; None if the default applies (auto)."""
    watchdog: bool | None = None
    policies: dict[str, str] = field(default_factory=dict)
    """Names of policies by type and direction: `qos input`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningQos:
    """The QoS configuration of a switch."""

    watchdog: bool | None = None
    """Whether the PFC watchdog is on for the switch; None if the default applies."""
    class_maps: tuple[ClassMap, ...] = ()
    policies: tuple[PolicyMap, ...] = ()
    system: dict[str, str] = field(default_factory=dict)
    """Names of the policies of `system qos`, by type and direction."""
    ports: dict[str, PortQos] = field(default_factory=dict)

    @property
    def places(self) -> InForce:
        """Where queuing and network-qos policies are in force."""
        attached = [(SYSTEM, self.system), *((port, qos.policies) for port, qos in self.ports.items())]
        places: dict[str, frozenset[str]] = {}
        for where, policies in attached:
            for place, name in policies.items():
                key = f"{place.partition(' ')[0]} {name}"
                places[key] = places.get(key, frozenset()) | {where}
        return places

    def class_map(self, name: str, kind: str = "qos") -> ClassMap | None:
        """Return a class-map that was configured."""
        return next((item for item in self.class_maps if (item.type, item.name) == (kind, name)), None)

    def policy(self, name: str, kind: str) -> PolicyMap | None:
        """Return a policy that was configured."""
        return next((item for item in self.policies if (item.type, item.name) == (kind, name)), None)


def parse(text: str) -> RunningQos:
    """Read sections of a running configuration; those that are not about QoS are skipped."""
    sections = list(_sections(text))
    if not sections and "!Command: show running-config" not in text:
        raise ParseError("not a configuration", line=text.strip()[:80])
    global_lines = [head for head, _ in sections]
    return RunningQos(
        watchdog=_watchdog(global_lines),
        class_maps=tuple(_class_maps(sections)),
        policies=tuple(configured_policies(iter(sections))),
        system={place: name for head, lines in sections if head == "system qos" for place, name in _policies(lines)},
        ports={
            port_name(match["name"]): PortQos(
                mode=_mode(lines), watchdog=_watchdog(lines), policies=dict(_policies(lines))
            )
            for head, lines in sections
            if (match := INTERFACE.fullmatch(head))
            and any("priority-flow" in line or "service-policy" in line for line in lines)
        },
    )


def _sections(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the lines that are not indented, each with the lines below it."""
    head, lines = "", list[str]()
    for line in text.splitlines():
        if not line.strip() or line.startswith("!"):
            continue
        if not line.startswith(" "):
            if head:
                yield head, lines
            head, lines = " ".join(line.split()), []
        elif not head:
            raise ParseError("an indented line without a section", line=line)
        else:
            lines.append(" ".join(line.split()))
    if head:
        yield head, lines


def _class_maps(sections: list[tuple[str, list[str]]]) -> Iterator[ClassMap]:
    for head, lines in sections:
        match = CLASS_MAP.fullmatch(head)
        if match and (match["type"] or "qos") in TYPES:
            kind = policy_type(match["type"])
            mode = (match["match"] or "").strip() or ("match-all" if kind == "qos" else "match-any")
            matches = tuple(line.removeprefix("match ") for line in lines if line.startswith("match "))
            yield ClassMap(type=kind, name=match["name"], match_all=mode == "match-all", matches=matches)


def _policies(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        if match := SERVICE_POLICY.fullmatch(line):
            yield match["place"], match["name"]
        elif plain := PLAIN_SERVICE_POLICY.fullmatch(line):
            yield "qos input", plain["name"]


def _mode(lines: list[str]) -> str | None:
    return next((match["mode"] for line in lines if (match := MODE.fullmatch(line))), None)


def _watchdog(lines: list[str]) -> bool | None:
    match = next(filter(None, map(WATCHDOG.fullmatch, lines)), None)
    return None if match is None else match["no"] is None and match["state"] != "off"


PROBE = Probe(
    name="nexus_running_qos",
    title="QoS in the running configuration of a Nexus",
    command="\n".join(COMMANDS),
    parse=parse,
    facts=RunningQos,
    runs_on="switch",
)

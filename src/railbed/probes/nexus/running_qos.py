"""QoS in the running configuration of a Nexus: what was configured, without the defaults."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.nexus.answer import port_names
from railbed.parsing.nexus.interruption import SYSTEM, InForce
from railbed.parsing.nexus.policies import configured_policy
from railbed.parsing.nexus.qos import CLASS_MAP, POLICY_MAP, TYPES, ClassMap, PolicyMap, match_of, policy_type

COMMANDS = (
    "show running-config ipqos",
    'show running-config | section "class-map|policy-map|system qos|priority-flow-control|interface"',
)
"""Never the whole configuration: the rest contains password hashes and SNMP communities."""
SERVICE_POLICY = re.compile(
    r"service-policy type (?P<place>qos input|queuing input|queuing output|network-qos) (?P<name>\S++)(?: .*)?"
)
PLAIN_SERVICE_POLICY = re.compile(r"service-policy input (?P<name>\S+)")
INTERFACE = re.compile(r"interface (?P<names>[A-Za-z-]+\d.*)", re.IGNORECASE)
COMMAND = re.compile(r"(?:[a-z][a-z0-9-]*+|\d++)(?: .*)?")
"""A line of a configuration, as opposed to a banner."""
HEAD = re.compile(r"(?:version|class-map|policy-map|system qos|interface|hostname|feature|priority-flow-control)\b")
WITH_LINES = re.compile(r"class-map|policy-map|system qos|interface")
BELOW = re.compile(
    r"class |match |set |mtu |pause|bandwidth |priority|random-detect|service-policy|description|queue-limit|shape |no "
    r"|police |switchport|ip |shutdown|speed |channel-group"
)
"""How lines begin that belong to the section before them, where the indents were lost."""
OF_QOS = re.compile(r"(?:no )?(?:priority-flow-control|service-policy)\b")
MODE = re.compile(r"priority-flow-control mode (?P<mode>on|off|auto)\b.*")
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
class RunningQos(TextFacts):
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
    lines = Lines(text)
    sections = list(_sections(lines))
    is_configuration = "!Command: show running-config" in text or any(map(HEAD.match, (head for head, _ in sections)))
    lines.require(is_configuration, "not a configuration")
    return RunningQos(
        watchdog=_watchdog([head for head, _ in sections]),
        class_maps=tuple(_class_maps(sections, lines)),
        policies=tuple(
            configured_policy(match, below, lines)
            for head, below in sections
            if (match := POLICY_MAP.fullmatch(head)) and (match["type"] or "qos") in TYPES
        ),
        system={place: name for head, below in sections if head == "system qos" for place, name in _policies(below)},
        ports={name: _port(below) for name, below in _ports(sections, lines).items() if any(map(OF_QOS.match, below))},
        not_understood=lines.not_understood,
    )


def _sections(lines: Lines) -> Iterator[tuple[str, list[str]]]:
    """Yield the lines that are not indented, each with the lines below it; some people save them without indents."""
    shown = [line for line in lines if not line.startswith("!")]
    is_flat = not any(line.startswith(" ") and BELOW.match(line.lstrip()) for line in shown)
    head, below = "", list[str]()
    for line in shown:
        words = " ".join(line.split())
        if not COMMAND.fullmatch(words) or (line.startswith(" ") and not head):
            lines.unknown(line)
        elif line.startswith(" ") or (is_flat and WITH_LINES.match(head) and BELOW.match(words)):
            below.append(words)
        else:
            if head:
                yield head, below
            head, below = words, []
    if head:
        yield head, below


def _class_maps(sections: list[tuple[str, list[str]]], lines: Lines) -> Iterator[ClassMap]:
    for head, below in sections:
        match = CLASS_MAP.fullmatch(head)
        if match and (match["type"] or "qos") in TYPES:
            kind = policy_type(match["type"])
            mode = (match["match"] or "").strip() or ("match-all" if kind == "qos" else "match-any")
            matches = list[str]()
            for line in below:
                with lines.reading(line):
                    if line.startswith("match "):
                        matches.append(match_of(line))
                    elif not line.startswith("description "):
                        lines.unknown(line)
            yield ClassMap(type=kind, name=match["name"], match_all=mode == "match-all", matches=tuple(matches))


def _ports(sections: list[tuple[str, list[str]]], lines: Lines) -> dict[str, list[str]]:
    """Return the lines of each port; a section may be about a range of ports."""
    ports: dict[str, list[str]] = {}
    for head, below in sections:
        if match := INTERFACE.fullmatch(head):
            with lines.reading(head):
                for name in port_names(match["names"]):
                    ports.setdefault(name, []).extend(below)
    return ports


def _port(lines: list[str]) -> PortQos:
    return PortQos(mode=_mode(lines), watchdog=_watchdog(lines), policies=dict(_policies(lines)))


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

"""The emulated Nexus as a site to judge: its output through the probes, and fixes as lines that it accepts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import ip_address, ip_network
from typing import Any

from railbed.check.book import CHECK_BOOK
from railbed.model.cluster import Cluster, Node, Policy, Port, Rail, Switch, SwitchPort
from railbed.model.fix import ConfigStep
from railbed.model.reading import DeviceFacts, Known, Output, Unknown
from railbed.model.record import Finding
from railbed.probes.outputs import all_probes, parse_output
from railbed.rules.engine import judge
from railbed.rules.rule import Rule
from railbed.rules.site import Site
from switchlab.nexus.commands.loader import apply_lines
from switchlab.nexus.model.counters import MacEntry, Neighbour
from switchlab.nexus.model.platform import PLATFORMS
from switchlab.nexus.model.switch import Switch as Emulated
from switchlab.nexus.session import Session

PORTS = ("Ethernet1/1", "Ethernet1/2")


def cluster(*, names: Sequence[str] = PORTS, **policy: Any) -> Cluster:
    """Return two nodes on a switch, with a policy."""
    ports = {
        name: Port(netdev="eth1", rail="r", address=ip_address(f"10.1.0.{number}"), rdma="mlx5_0")
        for number, name in enumerate("ab", 1)
    }
    cables = tuple(SwitchPort(name=port, node=node, netdev="eth1") for port, node in zip(names, "ab", strict=True))
    return Cluster(
        name="x",
        policy=Policy(**policy),
        rails={"r": Rail(subnet=ip_network("10.1.0.0/24"))},
        nodes={name: Node(host=f"10.0.0.{name}", ports=(port,)) for name, port in ports.items()},
        switches={"s1": Switch(host="10.0.0.9", ports=cables)},
    )


def connected(platform: str, config: str = "") -> Emulated:
    """Return a switch with two nodes on its first ports."""
    switch = Emulated(PLATFORMS[platform])
    assert apply_lines(switch, config.splitlines()) == []
    for number, port in enumerate(PORTS, 1):
        mac = f"0c42.a1aa.000{number}"
        switch.add_mac(MacEntry(vlan=1, address=mac, port=port))
        switch.add_neighbour(Neighbour(port=port, chassis_id=mac, port_id="eth1", system_name="ab"[number - 1]))
    return switch


def printed(switch: Emulated, command: str) -> Output:
    """Return what the switch prints: the first of the alternatives that it accepts."""
    session = Session(switch)
    replies = []
    for line in command.splitlines():
        replies.append(session.execute(line))
        if not replies[-1].failed:
            break
    accepted = None if replies[-1].failed else replies[-1]
    return Output(
        device="s1",
        key="",
        command=command,
        stdout=accepted.text.encode() if accepted else b"",
        stderr=b"" if accepted else replies[-1].text.strip().encode(),
        exit=0 if accepted else 1,
        sent=0.0,
        received=0.0,
    )


def readings(switch: Emulated) -> dict[str, Known[Any] | Unknown]:
    """Return what every probe of switches reads."""
    probes = {name: probe for name, probe in all_probes().items() if probe.runs_on == "switch"}
    return {name: parse_output(probe, printed(switch, str(probe.command))) for name, probe in probes.items()}


def checks() -> list[Rule[Any]]:
    """Return the rules about switches."""
    return [check for check in CHECK_BOOK.rules.values() if check.scope in ("switch", "switch port")]


def judged(
    switch: Emulated, wanted: Cluster | None = None, *, before: dict[str, Known[Any] | Unknown] | None = None
) -> list[Finding]:
    """Judge a switch by all rules about switches; with an earlier reading, by what changed since."""
    second = readings(switch)
    first = before or second
    facts = DeviceFacts(device="s1", readings={name: (first[name], second[name]) for name in second})
    return list(judge(CHECK_BOOK, Site(wanted or cluster(), {"s1": facts}), checks()))


def repair(switch: Emulated, findings: Iterable[Finding]) -> list[str]:
    """Enter the lines of all fixes, each step from the top of the configuration; return what the switch refused."""
    steps = (step for finding in findings if finding.fix for step in finding.fix.apply)
    return [error for step in steps if isinstance(step, ConfigStep) for error in apply_lines(switch, step.lines)]


def verdicts(findings: Iterable[Finding]) -> dict[str, set[str]]:
    """Return the verdicts by rule."""
    result: dict[str, set[str]] = {}
    for finding in findings:
        result.setdefault(finding.check, set()).add(str(finding.verdict))
    return result

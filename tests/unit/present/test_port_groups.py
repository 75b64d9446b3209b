"""One entry for ports with the same finding or change, one block for devices with the same changes; nothing is lost."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railbed.cli.console import SafeConsole, break_between_commands
from railbed.cli.hints import use_cluster_file
from railbed.cli.screens.configure import ConfigureScreen
from railbed.cli.screens.plan import PlanPrinter
from railbed.cli.screens.text import TextScreen
from railbed.model import events
from railbed.model.cluster import Cluster, Node, Port, Rail, Switch, SwitchPort
from railbed.model.fix import Fix, Persistence, as_steps
from railbed.model.record import Change, Finding, Record, Verdict
from railbed.present.changes import device_groups
from railbed.present.groups import NameMask, blocks, group_findings, group_of, port_groups
from railbed.report.reading.run import RunData
from railbed.report.sections import findings as findings_section
from railbed.store import RunSummary

RANGE = re.compile(r"(\S*?)(\d+)(?:–\1(\d+)|-(\d+))")


def site(nodes: int = 2, rails: int = 2) -> Cluster:
    """Return a cluster in which each rail of each node has an RDMA device and a port of the switch."""
    places = [(node, rail) for node in range(1, nodes + 1) for rail in range(rails)]
    return Cluster(
        name="c",
        rails={f"rail{rail}": Rail(subnet=ip_network(f"10.{rail}.0.0/16")) for rail in range(rails)},
        nodes={
            f"node{node}": Node(
                host=f"node{node}",
                ports=tuple(
                    Port(
                        netdev=f"rail{rail}",
                        rdma=f"rxe{rail}",
                        rail=f"rail{rail}",
                        address=ip_address(f"10.{rail}.0.{node}"),
                    )
                    for rail in range(rails)
                ),
            )
            for node in range(1, nodes + 1)
        },
        switches={
            "nexus": Switch(
                ports=tuple(
                    SwitchPort(name=f"Ethernet1/{number}", node=f"node{node}", netdev=f"rail{rail}")
                    for number, (node, rail) in enumerate(places, 1)
                )
            )
        },
    )


def finding(subject: str, observed: str = "off", *, check: str = "pfc", remedy: str = "", **more: Any) -> Finding:
    wrong = Finding(
        check=check, subject=subject, verdict=Verdict.FAIL, expected="on", observed=observed, why="", remedy=remedy
    )
    return replace(wrong, **more)


def on_ports(text: str, *ports: str, device: str = "nexus", observed: str = "off") -> list[Finding]:
    """Return one finding for each port, whose name replaces {} in the remedy and in what was observed."""
    return [finding(f"{device}/{port}", observed.format(port), remedy=text.format(port)) for port in ports]


CASES = {
    "four ports": (
        on_ports("interface {} ; mtu 9216", *(f"Ethernet1/{n}" for n in (1, 2, 3, 4))),
        [("Ethernet1/1-4", "off", "interface Ethernet1/1 ; mtu 9216", "likewise on Ethernet1/2-4")],
    ),
    "ports that are not consecutive": (
        on_ports("{}", "Ethernet1/7", "Ethernet1/12", "Ethernet1/1"),
        [("Ethernet1/1, Ethernet1/7, Ethernet1/12", "off", "Ethernet1/1", "likewise on Ethernet1/7, Ethernet1/12")],
    ),
    "the remedy names no port": (
        on_ports("system qos", "Ethernet1/1", "Ethernet1/2"),
        [("Ethernet1/1, Ethernet1/2", "off", "system qos", "")],
    ),
    "a port whose remedy differs": (
        [*on_ports("{}", "Ethernet1/1", "Ethernet1/3"), *on_ports("no {}", "Ethernet1/2")],
        [
            ("Ethernet1/1, Ethernet1/3", "off", "Ethernet1/1", "likewise on Ethernet1/3"),
            ("Ethernet1/2", "off", "no Ethernet1/2", ""),
        ],
    ),
    "a remedy about another port": (
        [*on_ports("{}", "Ethernet1/1"), finding("nexus/Ethernet1/2", remedy="Ethernet1/1")],
        [("Ethernet1/1", "off", "Ethernet1/1", ""), ("Ethernet1/2", "off", "Ethernet1/1", "")],
    ),
    "names that begin alike": (
        on_ports("{0} {0}0", "Ethernet1/1", "Ethernet1/2"),
        [
            ("Ethernet1/1", "off", "Ethernet1/1 Ethernet1/10", ""),
            ("Ethernet1/2", "off", "Ethernet1/2 Ethernet1/20", ""),
        ],
    ),
    "lanes of a port": (
        on_ports("{0} {0}/1", "Ethernet1/1", "Ethernet1/2"),
        [
            ("Ethernet1/1", "off", "Ethernet1/1 Ethernet1/1/1", ""),
            ("Ethernet1/2", "off", "Ethernet1/2 Ethernet1/2/1", ""),
        ],
    ),
    "what was observed names the port": (
        on_ports("", "rail0", "rail1", device="node1", observed="{} has no speed"),
        [("rail0, rail1", "rail0, rail1 has no speed", "", "")],
    ),
    "RDMA devices": (
        [finding(f"node1/rail{n}", remedy=f"echo > /sys/rdma_cm/rxe{n}/ports") for n in (0, 1)],
        [("rail0, rail1", "off", "echo > /sys/rdma_cm/rxe0/ports", "likewise on rail1 (rxe1)")],
    ),
    "the device of another port": (
        [finding(f"node1/rail{n}", remedy=f"echo > /sys/rdma_cm/rxe{1 - n}/ports") for n in (0, 1)],
        [
            ("rail0", "off", "echo > /sys/rdma_cm/rxe1/ports", ""),
            ("rail1", "off", "echo > /sys/rdma_cm/rxe0/ports", ""),
        ],
    ),
    "ends of cables": (
        [finding(f"node1/rail{n}", f"MTU 1500 at nexus/Ethernet1/{n + 1}") for n in (0, 1)],
        [("rail0, rail1", "MTU 1500 at nexus/Ethernet1/1, nexus/Ethernet1/2", "", "")],
    ),
    "crossed cables": (
        [finding(f"node1/rail{n}", f"nexus/Ethernet1/{2 - n}") for n in (0, 1)],
        [("rail0", "nexus/Ethernet1/2", "", ""), ("rail1", "nexus/Ethernet1/1", "", "")],
    ),
    "ports named like values": (
        [finding("node1/on", "PFC on"), finding("node1/off", "PFC off")],
        [("on", "PFC on", "", ""), ("off", "PFC off", "", "")],
    ),
    "ports named like numbers": (
        [finding("node1/1500", "MTU 1500"), finding("node1/9000", "MTU 9000")],
        [("1500", "MTU 1500", "", ""), ("9000", "MTU 9000", "", "")],
    ),
    "ports named like patterns": (
        on_ports("set {}", "a.*1", "b(2", "\\1"),
        [("\\1", "off", "set \\1", ""), ("a.*1, b(2", "off", "set a.*1", "likewise on b(2")],
    ),
    "the device itself": ([finding("node1"), finding("node1/rail0")], [("", "off", "", ""), ("rail0", "off", "", "")]),
    "repeats": (
        [finding("node1/rail0"), finding("node1/rail1"), finding("node1/rail0")],
        [("rail0", "off (2 times)", "", ""), ("rail1", "off", "", "")],
    ),
    "other verdicts": (
        [finding("node1/rail0"), finding("node1/rail1", verdict=Verdict.WARN)],
        [("rail0", "off", "", ""), ("rail1", "off", "", "")],
    ),
}


@pytest.mark.parametrize(("findings", "entries"), CASES.values(), ids=CASES)
def test_findings_of_ports(findings: list[Finding], entries: list[tuple[str, ...]]) -> None:
    groups = port_groups([(finding,) for finding in findings], NameMask(site()))
    assert sorted((group.ports, group.text, group.finding.remedy, group.likewise) for group in groups) == sorted(
        entries
    )


def change(subject: str, *apply: str, **more: Any) -> Change:
    plain = Change(subject=subject, action="set", before="off", after="on", check="pfc", apply=apply)
    return replace(plain, **more)


def shown_changes(changes: Sequence[Change], cluster: Cluster | None = None) -> list[tuple[object, ...]]:
    return [
        (group.names, group.count, [(entry.ports, entry.change.apply, entry.likewise) for entry in group.changes])
        for group in device_groups(changes, NameMask(cluster or site()))
    ]


def test_sixteen_nodes_with_the_same_changes_share_one_block() -> None:
    changes = [change(f"node{n}/rail{r}", f"pfc rail{r} rxe{r}") for n in range(1, 17) for r in (0, 1)]
    names = tuple(f"node{n}" for n in range(1, 17))
    entry = ("rail0, rail1", ("pfc rail0 rxe0",), "likewise on rail1 (rxe1)")
    assert shown_changes(changes, site(16)) == [(names, 2, [entry])]


@pytest.mark.parametrize(
    "different",
    [
        {"apply": ("pfc on rail0", "one more line")},
        {"undo": ("pfc off rail0",)},
        {"before": "unknown"},
        {"interrupts": True},
        {"check": "pfc, dscp_map"},
        {"left_out": "needs your decision"},
        {"subject": "node2/rail1"},
    ],
    ids=lambda different: str(*different),
)
def test_a_device_with_one_difference_has_its_own_block(different: dict[str, Any]) -> None:
    alike = [change(f"node{n}/rail0", "pfc on rail0") for n in (1, 2, 3)]
    assert [names for names, *_ in shown_changes(alike, site(3))] == [("node1", "node2", "node3")]
    alike[1] = replace(alike[1], **different)
    assert [names for names, *_ in shown_changes(alike, site(3))] == [("node1", "node3"), ("node2",)]


def test_addresses_and_names_in_commands_are_differences() -> None:
    """Unlike remedies, the lines of configure are exact."""
    addresses = [change(f"node{n}/rail0", f"ip addr add 10.0.0.{n}/16 dev rail0") for n in (1, 2)]
    assert [names for names, *_ in shown_changes(addresses)] == [("node1",), ("node2",)]
    names = [change(f"node{n}", f"hostnamectl set-hostname node{n}") for n in (1, 2)]
    assert [names for names, *_ in shown_changes(names)] == [("node1",), ("node2",)]
    wrong = [change(f"node{n}", "x", before=f"node{n} is wrong") for n in (1, 2)]
    (group,) = device_groups(wrong, NameMask(site()))
    assert group.changes[0].change.before == "node1, node2 is wrong"


def test_nodes_and_ports_that_are_alike_are_all_named() -> None:
    """In what was observed; a remedy is that of the first, and the others follow."""
    cables = [
        finding(f"node{n}/rail{r}", f"MTU 1500 at nexus/Ethernet1/{2 * n + r - 1}") for n in (1, 2, 3) for r in (0, 1)
    ]
    ends = [finding(f"node{n}/rail0", f"node{n}/rail0 reports no speed", check="speed") for n in (1, 2, 3)]
    moved = [
        finding(f"node{n}/rail0", "none", check="address", remedy=f"ip addr add 10.0.0.{n}/16 dev rail0")
        for n in (1, 2, 3)
    ]
    named = [finding(f"node{n}", check="name", remedy=f"hostnamectl set-hostname node{n}") for n in (1, 2, 3)]
    mask = NameMask(site(nodes=3))
    groups = [(group_of(group[0]), group) for group in group_findings([*cables, *ends, *moved, *named])]
    (block,) = blocks(groups, mask, verbose=False)
    shown = port_groups(block.alike, mask)
    assert [(group.ports, group.text, group.finding.remedy, group.likewise) for group in shown] == [
        (
            "rail0",
            "none",
            "ip addr add 10.0.0.1/16 dev rail0",
            "likewise on node2, node3, each with its own address",
        ),
        ("", "off", "hostnamectl set-hostname node1", "likewise on node2, node3"),
        ("rail0, rail1", "MTU 1500 at nexus/Ethernet1/1-6", "", ""),
        ("rail0", "rail0 of node1–node3 reports no speed", "", ""),
    ]


def test_two_changes_of_a_device_itself_stay_apart() -> None:
    assert shown_changes([change("nexus", "a"), change("nexus", "a")]) == [(("nexus",), 2, [("", ("a",), "")] * 2)]


def printed(screen: TextScreen, *records: Record, columns: int = 80) -> list[str]:
    out = StringIO()
    screen._out = SafeConsole(file=out, width=columns, highlight=False)
    if isinstance(screen, ConfigureScreen):
        screen._plan = PlanPrinter(screen._out, site())
    for record in records:
        screen.show(record)
    screen.finish(Path("runs/x"))
    return out.getvalue().splitlines()


def planned(*devices: str, interrupts: Sequence[str] = ()) -> events.ChangesPlanned:
    return events.ChangesPlanned(message="", devices=list(devices), changes=1, left_out=0, interrupts=list(interrupts))


def test_the_screen_of_configure() -> None:
    long = "a word that is repeated until the line has to be continued on the next line"
    node = [
        change(f"node{n}/rail{r}", f"dcb pfc set dev rail{r} on", undo=(f"dcb pfc set dev rail{r} off",), before=long)
        for n in (1, 2)
        for r in (0, 1)
    ]
    switch = [
        change(f"nexus/Ethernet1/{n}", f"interface Ethernet1/{n}", f"  a line of the switch {'x' * 80}")
        for n in (1, 2, 3)
    ]
    left_out = [change(f"node{n}/rail0", "mtu", left_out="needs your decision", check="mtu") for n in (1, 2)]
    plan = planned("node1", "node2", "nexus", interrupts=["nexus"])
    assert printed(ConfigureScreen(cluster=site()), *node, *switch, *left_out, plan) == [
        "node1, node2  each of 2: 2 changes",
        "  ~ pfc  rail0, rail1: a word that is repeated until the line has to be",
        "    continued on the next line → on",
        "      dcb pfc set dev rail0 on",
        "      undo: dcb pfc set dev rail0 off",
        "      → likewise on rail1",
        "",
        "nexus  3 changes; traffic may stop for a moment",
        "  ~ pfc  Ethernet1/1-3: off → on",
        "      interface Ethernet1/1",
        f"        a line of the switch {'x' * 80}",
        "      → likewise on Ethernet1/2, Ethernet1/3",
        "  undo: takes back these lines alone; the checkpoint railbed-RUN is the whole",
        "        state before them",
        "",
        "node1, node2  each of 2: 1 change left out",
        "  ~ mtu  rail0: off → on",
        "      mtu",
        "    → needs your decision",
        "",
    ]


def test_an_undo_has_no_undo() -> None:
    back = change("nexus", "rollback running-config checkpoint railbed-x atomic", check="", before="", after="before x")
    shown = printed(ConfigureScreen(cluster=site()), back, planned("nexus"))
    assert shown[:3] == ["nexus  1 change", "  ~ before x", "      rollback running-config checkpoint railbed-x atomic"]
    assert not any("undo" in line for line in shown)


def test_check_names_the_command_for_several_fixes() -> None:
    fix = Fix(device="node1", apply=as_steps("x"), undo=(), persistence=Persistence.KEPT)
    wrong = [finding(f"node1/rail{n}", fix=fix) for n in (0, 1)]
    unfixed, fine = finding("node2"), finding("node2/rail0", verdict=Verdict.OK, fix=fix)

    def last_line(*findings: Finding, configurable: bool = True) -> str:
        return printed(TextScreen(verbose=False, cluster=site(), configurable=configurable), *findings)[-1]

    use_cluster_file(Path("lab.yaml"))
    try:
        hint = "railbed configure -c lab.yaml shows the fixes of 2 findings, and applies them"
        assert hint in printed(TextScreen(verbose=False, configurable=True), *wrong, unfixed, fine)
    finally:
        use_cluster_file(None)
    assert last_line(*wrong).startswith("railbed configure shows the fixes of 2 findings")
    assert "saved in" in last_line(wrong[0], unfixed, fine)
    assert "saved in" in last_line(*wrong, configurable=False)


def test_all_lists_each_port_on_its_own() -> None:
    shown = printed(TextScreen(verbose=True, cluster=site()), *on_ports("{}", "Ethernet1/1", "Ethernet1/2"))
    assert [line.strip() for line in shown[1:5]] == [
        "fail     pfc  Ethernet1/1: off; expected on",
        "→ Ethernet1/1",
        "fail     pfc  Ethernet1/2: off; expected on",
        "→ Ethernet1/2",
    ]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one ; two ; three", ["one ; two ;", "three"]),
        ("one ; two and more", ["one ;", "two and more"]),
        ("prose; more prose", ["prose; more prose"]),
        ("a command that is too long ; b", ["a command that is too long ;", "b"]),
        ("", [""]),
    ],
)
def test_commands_are_broken_between_commands(text: str, lines: list[str]) -> None:
    assert break_between_commands(text, 12).splitlines() == [line for line in lines if line]
    assert " ".join(break_between_commands(text, 12).splitlines()) == text


def test_the_report_merges_ports_as_the_terminal_does() -> None:
    summary = RunSummary(id="x", verb="check", arguments=(), cluster="c", version="1", started=0.0)
    data = RunData(summary=summary, findings=on_ports("interface {}", *(f"Ethernet1/{n}" for n in (1, 2, 3))))
    shown = str(findings_section.show(data))
    assert "pfc on Ethernet1/1-3" in shown
    assert "interface Ethernet1/1 (likewise on Ethernet1/2, Ethernet1/3)" in shown
    assert "3 failed" in shown


def expanded(text: str) -> set[str]:
    """Return the words of a text, with every name of its ranges."""
    words = set(re.split(r"[\s,:]+", text))
    for match in RANGE.finditer(text):
        words |= {f"{match[1]}{number}" for number in range(int(match[2]), int(match[3] or match[4]) + 1)}
    return words


PORTS = st.sampled_from([f"Ethernet1/{n}" for n in range(1, 13)] + [f"rail{n}" for n in range(4)] + ["on", "x", "a.*"])


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(PORTS, st.sampled_from(["off", "{}", "x {}"]), st.sampled_from(["", "fix {}"])), min_size=1))
def test_every_port_is_named(drawn: list[tuple[str, str, str]]) -> None:
    findings = [
        finding(f"nexus/{port}", observed.format(port), remedy=remedy.format(port)) for port, observed, remedy in drawn
    ]
    changes = [
        change(f"nexus/{port}", remedy.format(port), before=before.format(port)) for port, before, remedy in drawn
    ]
    check = printed(TextScreen(verbose=False, cluster=site()), *findings)
    configure = printed(ConfigureScreen(cluster=site()), *changes, planned("nexus"))
    assert {port for port, *_ in drawn} <= expanded(" ".join(check))
    assert {port for port, *_ in drawn} <= expanded(" ".join(configure))
    assert check[0] == f"nexus  {len(findings)} failed"
    assert max(map(len, check)) <= 80

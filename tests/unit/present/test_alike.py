"""One block for nodes with the same findings, and its title."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.model.test_pairs import cluster_of

from railbed.cli.console import SafeConsole
from railbed.cli.screens.text import TextScreen
from railbed.model.record import Finding, Verdict
from railbed.present.groups import NameMask, blocks, group_findings, group_of
from railbed.present.wording import name_range


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["node1"], "node1"),
        (["node2", "node1"], "node1, node2"),
        (["node4", "node2", "node1", "node3"], "node1–node4"),
        (["node1", "node2", "node3", "node7"], "node1–node3, node7"),
        (["node9", "node10", "node11"], "node9–node11"),
        (["gpu01", "gpu02", "gpu03", "gpu04"], "gpu01–gpu04"),
        (["gpu09", "gpu10", "gpu11"], "gpu09–gpu11"),
        (["n9", "n010"], "n9, n010"),
        (["a1", "a2", "a3", "b1", "b2", "b3"], "a1–a3, b1–b3"),
        (["rack1-n1", "rack1-n2", "rack1-n3", "rack2-n1"], "rack1-n1–rack1-n3, rack2-n1"),
        (["ada", "bob", "eve", "mia", "zoe"], "ada, bob, eve, mia, zoe"),
        (["7", "8", "9"], "7–9"),
        (["Ethernet1/2", "Ethernet1/1"], "Ethernet1/1, Ethernet1/2"),
        ([f"Ethernet1/{port}" for port in range(1, 33)], "Ethernet1/1-32"),
        (["Ethernet1/9", "Ethernet1/10", "Ethernet1/11", "Ethernet1/13"], "Ethernet1/9-11, Ethernet1/13"),
        ([f"Ethernet{card}/{port}" for card in (1, 2) for port in (1, 2, 3)], "Ethernet1/1-3, Ethernet2/1-3"),
        ([f"Ethernet1/1/{lane}" for lane in (1, 2, 3, 4)], "Ethernet1/1/1-4"),
        (["Ethernet1/1", "Ethernet1/1/2", "Ethernet1/3"], "Ethernet1/1, Ethernet1/1/2, Ethernet1/3"),
        (["x/", "/1", "", "/"], ", /, /1, x/"),
        (["n1", "n1"], "n1"),
        ([f"rail0 > n{peer}" for peer in (1, 2, 3)], "rail0 > n1, rail0 > n2, rail0 > n3"),
    ],
)
def test_names(names: list[str], text: str) -> None:
    assert name_range(names) == text


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([f"{letter}x" for letter in "abcdefghijklmnop"], "ax, bx, cx, dx and 12 others"),
        ([f"n{number}" for number in range(1, 30, 2)], "n1, n3, n5, n7 and 11 others"),
    ],
)
def test_a_long_list_is_shortened_only_on_request(names: list[str], text: str) -> None:
    assert name_range(names, shortened=True) == text
    assert name_range(names) == ", ".join(names)


@given(st.sets(st.integers(0, 60), min_size=1))
def test_a_name_stands_for_every_node_once(numbers: set[int]) -> None:
    text, _, others = name_range([f"n{number}" for number in numbers], shortened=True).partition(" and ")
    counted = int(others.split()[0]) if others else 0
    for part in text.split(", "):
        first, _, last = part.partition("–")
        counted += int((last or first)[1:]) - int(first[1:]) + 1
    assert counted == len(numbers)


def finding(
    subject: str, verdict: Verdict = Verdict.OK, observed: str = "fine", *, check: str = "mtu", remedy: str = ""
) -> Finding:
    return Finding(check=check, subject=subject, verdict=verdict, expected="", observed=observed, why="", remedy=remedy)


def names_of(findings: list[Finding], *, verbose: bool = False, nodes: int = 4) -> list[str]:
    named = [(group_of(group[0]), group) for group in group_findings(findings)]
    return [name_range(block.names) for block in blocks(named, NameMask(cluster_of([[0]] * nodes)), verbose=verbose)]


def test_nodes_that_differ_in_their_own_names_and_addresses_only_are_alike() -> None:
    failing = [
        finding(
            f"n{i}/eth0",
            Verdict.FAIL,
            f"n{i} has no address",
            remedy=f"ip addr add 10.0.{i}.1/16 dev eth0",
        )
        for i in range(4)
    ]
    named = [(group_of(group[0]), group) for group in group_findings(failing)]
    (block,) = blocks(named, NameMask(cluster_of([[0]] * 4)), verbose=False)
    assert block.names == ("n0", "n1", "n2", "n3")
    assert block.alike == [tuple(failing)]


def test_a_node_alone_keeps_its_words() -> None:
    alone = finding("n0/eth0", Verdict.FAIL, "n0 has no address")
    named = [("n0", [alone])]
    assert blocks(named, NameMask(cluster_of([[0]] * 2)), verbose=False)[0].findings == [alone]


def test_unlike_nodes_keep_blocks_of_their_own() -> None:
    fine = [finding(f"n{i}/eth0") for i in range(3)]
    assert names_of([*fine, finding("n3/eth0", Verdict.FAIL, "MTU 1500")]) == ["n3", "n0–n2"]
    assert set(names_of([*fine, finding("n3/eth0"), finding("n3", check="bond")])) == {"n3", "n0–n2"}
    other_peer = [finding(f"n{i}/eth0", Verdict.FAIL, f"n{3 - i}: no answer") for i in range(2)]
    assert names_of(other_peer) == ["n0", "n1"]
    assert names_of([finding("n0/eth0", Verdict.FAIL), finding("n1/eth1", Verdict.FAIL)]) == ["n0", "n1"]


def test_names_that_begin_alike_are_not_taken_for_each_other() -> None:
    both = [finding("n1", Verdict.FAIL, "n1: no answer"), finding("n10", Verdict.FAIL, "n1: no answer")]
    assert names_of(both, nodes=12) == ["n1", "n10"]


def test_what_is_well_may_differ_where_it_is_not_shown() -> None:
    fine = [finding(f"n{i}", observed=f"{i} s apart") for i in range(3)]
    assert names_of(fine) == ["n0–n2"]
    assert names_of(fine, verbose=True) == ["n0", "n1", "n2"]


@pytest.mark.parametrize("columns", [80, 200])
def test_64_healthy_nodes_fit_on_a_screen(columns: int) -> None:
    screen = TextScreen(verbose=False, cluster=cluster_of([[0]] * 64))
    out = StringIO()
    screen._out = SafeConsole(file=out, width=columns, highlight=False)
    for i in range(64):
        screen.show(finding(f"n{i}", Verdict.UNKNOWN, "no time service", check="clock"))
        for rule in range(17):
            screen.show(finding(f"n{i}/eth0", check=f"rule_name_{rule}"))
            screen.show(finding(f"n{i}/eth0", Verdict.SKIPPED, "no RDMA device", check=f"skipped_{rule}"))
    screen.finish(Path("runs/x"))
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("n0–n63  each of 64: 1 unknown")
    assert len(lines) <= 14
    assert max(map(len, lines)) <= columns

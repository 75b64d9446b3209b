"""configure on a netns lab: apply, a clean second run, drift, undo, and everything that may cut it short."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from railbed import clusterfile
from railbed.probes.pending_change import FOLDER, LOCK
from tests.support.background import Background
from tests.support.cli import RAILBED, environment
from tests.support.configuring import address_command, applied, changes, configure, named, runs_of
from tests.support.kills.changes import UndoKilled
from tests.support.kills.scenario import attack
from tests.support.labs import RunningLab, cache_variables, call
from tests.support.ranks import wait_for
from tests.support.terminal import Terminal

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("configure")]


@pytest.fixture
def lab(netns_lab: RunningLab, tmp_path: Path) -> Iterator[RunningLab]:
    """Two nodes of the lab with one rail; node1 has the wrong MTU, node2 has lost its address."""
    lab = netns_lab.seen_from(tmp_path, nodes=2)
    assert lab.run_inside("node1", "ip link set dev rail0 mtu 1500").code == 0
    assert lab.run_inside("node2", f"ip addr del {rail_address(lab, 'node2')} dev rail0").code == 0
    yield lab
    for node in NODES:
        repair = f"ip link set dev rail0 mtu 9000 && ip addr replace {rail_address(lab, node)} dev rail0"
        assert lab.run_inside(node, repair).code == 0


def rail_address(lab: RunningLab, node: str) -> str:
    cluster = clusterfile.load(lab.cluster)
    (port,) = cluster.nodes[node].ports
    subnet = cluster.rails["rail0"].subnet
    assert subnet
    return f"{port.address}/{subnet.prefixlen}"


def state(lab: RunningLab) -> dict[str, str]:
    """Return MTU and addresses of the rail on both nodes."""
    return {
        node: lab.run_inside(node, "ip -o -4 addr show dev rail0; cat /sys/class/net/rail0/mtu").out for node in NODES
    }


NODES = ("node1", "node2")


def start(lab: RunningLab, *options: str) -> Background:
    words = ["configure", "--json", "--apply", "--yes", "--cluster", str(lab.cluster), *options]
    return Background(words, cwd=lab.folder, env=environment(**cache_variables()))


def until(process: Background, event: str) -> None:
    assert process.stdout is not None
    next(line for line in process.stdout if json.loads(line).get("name") == event)


def test_apply_makes_it_right_a_second_run_finds_nothing_and_undo_restores_it(lab: RunningLab) -> None:
    before = state(lab)
    shown = configure(lab)
    assert shown.code == 1
    assert changes(shown) == {
        "node1/rail0": ["ip link set dev rail0 mtu 9000"],
        "node2/rail0": [f"ip addr replace {rail_address(lab, 'node2')} dev rail0"],
    }
    assert state(lab) == before, "showing changes nothing"
    run = applied(lab)
    assert lab.failing("mtu", "rail_address") == set()
    again = configure(lab)
    assert (again.code, changes(again)) == (0, {})
    assert lab.run_inside("node1", "ip link set dev rail0 mtu 4000").code == 0
    assert ("mtu", "node1/rail0") in lab.failing("mtu")
    assert list(changes(configure(lab))) == ["node1/rail0"], "drift is in the next difference"
    assert lab.run_inside("node1", "ip link set dev rail0 mtu 9000").code == 0
    undone = configure(lab, "--undo", run, "--yes")
    assert undone.code == 0, undone
    assert state(lab) == before
    assert configure(lab, "--undo", run, "--yes").code == 2, "nothing is left to undo"


def test_the_scope_can_be_narrowed_and_written_to_files(lab: RunningLab, tmp_path: Path) -> None:
    assert list(changes(configure(lab, "--only", "node2"))) == ["node2/rail0"]
    assert list(changes(configure(lab, "--rule", "mtu"))) == ["node1/rail0"]
    assert configure(lab, "--only", "node9").code == 2
    result = configure(lab, "--render", str(tmp_path / "out"))
    assert result.code == 1
    assert named(result, "files_rendered")[0]["data"]["files"] == [
        *("node1-undo.sh", "node1.sh", "node2-undo.sh", "node2.sh")
    ]
    assert "ip link set dev rail0 mtu 9000" in (tmp_path / "out" / "node1.sh").read_text()


def test_without_a_terminal_nothing_is_changed_unless_yes_is_given(lab: RunningLab) -> None:
    before = state(lab)
    result = call(lab.folder, "configure", "--apply", "--cluster", lab.cluster)
    assert (result.code, "give --yes" in result.err) == (2, True)
    assert state(lab) == before


def on_a_terminal(lab: RunningLab, *options: str) -> Terminal:
    command = [RAILBED, "configure", "--apply", "--cluster", str(lab.cluster), "--timeout", "120", *options]
    return Terminal(command, lab.folder, environment(**cache_variables()))


def test_a_step_that_fails_restores_its_device_and_not_the_others(lab: RunningLab) -> None:
    address = rail_address(lab, "node1")
    assert lab.run_inside("node1", f"ip addr del {address} dev rail0").code == 0
    before = state(lab)
    with address_command(lab, "node1", "echo no room >&2; exit 1"), on_a_terminal(lab) as terminal:
        shown = terminal.read("[y/N]")
        assert "change node1, node2; traffic of node1 may stop for a moment?" in shown
        terminal.type("y\n")
        shown = " ".join(terminal.read().split())
        assert terminal.process.wait() == 1
    assert f"node1 cannot be changed: no room (at: ip addr replace {address} dev rail0)" in shown
    assert "node2 was changed" in shown
    assert state(lab)["node1"] == before["node1"], "the step before the one that failed is undone"
    assert rail_address(lab, "node2") in state(lab)["node2"]


def test_no_is_no(lab: RunningLab) -> None:
    before = state(lab)
    with on_a_terminal(lab) as terminal:
        terminal.read("[y/N]")
        terminal.type("\n")
        assert "nothing was changed" in terminal.read()
        assert terminal.process.wait() == 1
    assert state(lab) == before


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.soak)])
def test_a_run_that_is_cut_short_is_restored_reported_and_can_be_undone(
    lab: RunningLab, number: signal.Signals
) -> None:
    """It is cut short when node1's MTU is set and node2's address is not: undoing the step that never ran works."""
    assert lab.run_inside("node1", f"ip addr del {rail_address(lab, 'node1')} dev rail0").code == 0
    before = state(lab)
    waiting = "touch /run/waiting; exec sleep 60"
    with address_command(lab, "node1", waiting), address_command(lab, "node2", waiting):
        with start(lab) as process:
            wait_for(lambda: all(lab.file_inside(node, "/run/waiting").exists() for node in NODES))
            process.send_signal(number)
            process.communicate(timeout=120)
        (run,) = runs_of(lab)
        # The guards on the nodes bring back whatever had been done by then.
        wait_for(lambda: all(lab.file_inside(node, LOCK).read_text() == "" for node in NODES))
    assert state(lab) == before
    after = configure(lab)
    if number is signal.SIGKILL:
        unfinished = named(after, "change_unfinished")
        assert [event["subject"] for event in unfinished] == [*NODES]
        assert all(f"`railbed configure --undo {run}" in event["message"] for event in unfinished)
        undone = configure(lab, "--undo", run, "--yes")
        assert undone.code == 0, undone.out + undone.err
    else:
        assert process.returncode == 130
        assert named(after, "change_unfinished") == []
    assert state(lab) == before
    applied(lab)
    assert named(configure(lab), "change_unfinished") == []


def test_an_undo_that_is_killed_is_reported_until_it_is_repeated(netns_lab: RunningLab, tmp_path: Path) -> None:
    lab = netns_lab.seen_from(tmp_path, nodes=2)
    undo = UndoKilled(tmp_path, lab.name, site=lab, only=",".join(NODES))
    try:
        assert attack(undo, kills=2, seed=1) == []
    finally:
        undo.heal()


CUT = """touch /run/waiting; pid=$$
until grep -q ^sshd /proc/$pid/comm; do pid=$(cut -d " " -f 4 /proc/$pid/stat); done; kill -9 $pid; exec sleep 60"""


def test_a_connection_that_breaks_in_the_middle_of_the_steps_restores_the_node(lab: RunningLab) -> None:
    """The session ends when node1's MTU is set and its address is not; railbed can log in again."""
    assert lab.run_inside("node1", f"ip addr del {rail_address(lab, 'node1')} dev rail0").code == 0
    before = state(lab)
    with address_command(lab, "node1", CUT):
        result = configure(lab, "--apply", "--yes")
        assert lab.run_inside("node1", "cat /run/waiting").code == 0
    outcomes = {event["subject"]: event["data"]["outcome"] for event in named(result, "device_changed")}
    assert (result.code, outcomes) == (1, {"node1": "restored", "node2": "applied"})
    assert state(lab)["node1"] == before["node1"]
    assert named(configure(lab), "change_unfinished") == []


@pytest.mark.soak
def test_a_node_that_stops_answering_restores_itself_and_the_next_run_reports_it(
    netns_lab: RunningLab, lab: RunningLab
) -> None:
    """The guard restores it as soon as the node continues, since railbed's session is gone by then."""
    address = rail_address(lab, "node1")
    assert lab.run_inside("node1", f"ip addr del {address} dev rail0").code == 0
    # The address is set, and the step does not end.
    script = 'touch /run/waiting; /run/ip.real "$@"; exec sleep 600'
    with address_command(lab, "node1", script), start(lab) as process:
        wait_for(lambda: address in state(lab)["node1"])
        assert netns_lab.fault("freeze", "node1").code == 0
        process.communicate(timeout=600)
        assert process.returncode == 1
        (run,) = runs_of(lab)
        netns_lab.heal()
        wait_for(lambda: lab.run_inside("node1", f"cat {LOCK}").out == "", seconds=300)
    assert address not in state(lab)["node1"]
    (unfinished,) = named(configure(lab), "change_unfinished")
    assert "the node restored itself" in unfinished["message"]
    assert f"railbed configure --undo {run}" in unfinished["message"]
    assert configure(lab, "--undo", run, "--yes", "--only", "node1").code == 0
    assert address not in state(lab)["node1"]


def test_a_second_configure_is_refused_and_names_the_first(lab: RunningLab) -> None:
    with on_a_terminal(lab) as first:
        first.read("[y/N]")
        second = configure(lab, "--apply", "--yes")
        assert second.code == 2
        assert re.search(
            rf"another `railbed configure` is running: run \S+, \w+ on \S+, pid {first.process.pid}", second.err
        )
        first.process.kill()
        first.process.wait()
    applied(lab)


def test_a_node_that_somebody_else_changes_is_left_alone(lab: RunningLab) -> None:
    """A run in another folder, or on another machine, holds the lock of the node."""
    locking = f"mkdir -pm 700 {FOLDER}; exec 9>>{LOCK}; flock 9; echo run x of ada >{LOCK}"
    holding = lab.start_inside("node1", f"{locking}; echo ready; read x; : >{LOCK}")
    assert holding.stdout is not None
    try:
        assert holding.stdout.readline() == "ready\n"
        result = configure(lab, "--apply", "--yes")
        assert [record["left_out"] for record in result.records if record.get("left_out")] == [
            "node1 is being changed by run x of ada"
        ]
        assert [event["subject"] for event in named(result, "device_changed")] == ["node2"]
        assert result.code == 1
    finally:
        holding.communicate("\n", timeout=60)


def test_a_change_that_would_cut_the_management_path_is_refused(lab: RunningLab, tmp_path: Path) -> None:
    """The rail's address in the cluster file is the one that SSH uses, which the node has on eth0."""
    cluster = clusterfile.load(lab.cluster)
    host = cluster.nodes["node1"].host
    text = re.sub(
        rf"address: {re.escape(str(cluster.nodes['node1'].ports[0].address))}",
        f"address: {host}",
        lab.cluster.read_text(),
    )
    text = re.sub(r"subnet: [^\s}]+", "subnet: 10.0.0.0/8", text)
    (tmp_path / "cut.yaml").write_text(text)
    assert lab.run_inside("node1", f"ip addr add {host}/32 dev rail0").code == 0
    try:
        result = call(
            tmp_path,
            "configure",
            "--json",
            "--apply",
            "--yes",
            "--rule",
            "rail_address",
            "--only",
            "node1",
            "--cluster",
            tmp_path / "cut.yaml",
        )
        left_out = [record["left_out"] for record in result.records if record["kind"] == "change"]
        assert left_out == [f"refused: railbed reaches node1 at {host}, which this would remove"]
        assert result.code == 1
        assert named(result, "device_changed") == []
    finally:
        lab.run_inside("node1", f"ip addr del {host}/32 dev rail0")

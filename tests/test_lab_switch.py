"""The emulated switch of a lab: cabled to the nodes, broken by faults, and removed with the lab."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from railbed import clusterfile
from railbed.lab.folder import load_lab
from railbed.lab.host import is_alive
from railbed.lab.switch import processes
from railbed.model.cluster import Login
from tests.support.benchsite import processes_with
from tests.support.cli import railbed
from tests.support.labs import RunningLab, end_up_at, running_lab

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("configure")]


@pytest.fixture
def lab(switch_lab: RunningLab) -> RunningLab:
    return switch_lab


@pytest.fixture
def healed(lab: RunningLab) -> Iterator[RunningLab]:
    yield lab
    lab.heal()


def show(lab: RunningLab, command: str) -> str:
    """Return what the switch prints, over plain ssh."""
    result = lab.shell("nexus", command)
    assert result.code == 0, result
    return result.out


def neighbours(lab: RunningLab) -> set[tuple[str, str, str]]:
    """Return the LLDP neighbours of the switch: port, node, interface."""
    table = json.loads(show(lab, "show lldp neighbors | json")).get("TABLE_nbor", {"ROW_nbor": []})
    rows = table["ROW_nbor"]
    return {
        (row["l_port_id"].replace("Eth", "Ethernet"), row["chassis_id"], row["port_id"])
        for row in (rows if isinstance(rows, list) else [rows])
    }


def test_the_switch_is_in_the_cluster_file_without_a_secret(lab: RunningLab) -> None:
    cluster = clusterfile.load(lab.cluster)
    switch = cluster.switches["nexus"]
    assert switch.login == Login(user="admin")
    assert {(port.name, port.node, port.netdev) for port in switch.ports} == {
        ("Ethernet1/1", "node1", "rail0"),
        ("Ethernet1/2", "node1", "rail1"),
        ("Ethernet1/3", "node2", "rail0"),
        ("Ethernet1/4", "node2", "rail1"),
    }
    assert lab.verdicts("reachable")["reachable", "node1"] == "ok"
    assert (lab.status()["switch"], lab.status()["states"]["nexus"]) == ("n9k", "up")


def test_its_tables_are_the_cabling_of_the_nodes(lab: RunningLab) -> None:
    ports = {(port.name, port.node, port.netdev) for port in clusterfile.load(lab.cluster).switches["nexus"].ports}
    assert neighbours(lab) == ports
    table = show(lab, "show mac address-table")
    for name, node, netdev in ports:
        digits = lab.run_inside(node, f"cat /sys/class/net/{netdev}/address").out.strip().replace(":", "")
        address = f"{digits[:4]}.{digits[4:8]}.{digits[8:]}"
        assert any(
            line.split()[2:3] == [address] and line.endswith(name.replace("ernet", "")) for line in table.splitlines()
        )


def test_its_ports_have_the_speed_of_the_cables(lab: RunningLab) -> None:
    assert "10 Gb/s" in show(lab, "show interface e1/1")
    assert "Speed: 10000Mb/s" in lab.run_inside("node1", "ethtool rail0").out


def test_it_is_in_factory_state_but_for_its_name_and_lldp(lab: RunningLab) -> None:
    lines = [line for line in show(lab, "show running-config").splitlines() if line and not line.startswith(("!", " "))]
    assert [line for line in lines if not line.startswith(("version", "interface"))] == [
        "hostname nexus",
        "feature lldp",
        "vlan 1",
    ]


def test_a_cut_node_loses_its_ports(healed: RunningLab) -> None:
    assert healed.fault("cut", "node2").code == 0
    assert {node for _, node, _ in neighbours(healed)} == {"node1"}
    healed.heal()
    assert {node for _, node, _ in neighbours(healed)} == {"node1", "node2"}


def test_a_cut_switch_keeps_its_configuration(healed: RunningLab) -> None:
    show(healed, "configure terminal ; vlan 77")
    assert healed.fault("cut", "nexus").code == 0
    assert healed.shell("nexus", "show hostname").code != 0
    healed.heal()
    assert "VLAN0077" in show(healed, "show vlan brief")
    show(healed, "configure terminal ; no vlan 77")


def test_a_switch_without_power_forgets_what_was_not_saved(healed: RunningLab) -> None:
    show(healed, "configure terminal ; vlan 78")
    assert healed.fault("kill", "nexus").code == 0
    assert healed.status()["states"]["nexus"] == "off"
    assert healed.shell("nexus", "show hostname").code != 0
    healed.heal()
    assert "VLAN0078" not in show(healed, "show vlan brief")
    assert len(neighbours(healed)) == 4


def test_a_frozen_switch_continues(healed: RunningLab) -> None:
    assert healed.fault("freeze", "nexus").code == 0
    assert healed.status()["states"] == {"node1": "up", "node2": "up", "nexus": "frozen"}
    healed.heal()
    assert show(healed, "show hostname").strip() == "nexus"


def test_a_refused_command_is_accepted_after_healing(healed: RunningLab) -> None:
    assert healed.fault("refuse", "nexus", "checkpoint").code == 0
    assert "Permission denied" in show(healed, "checkpoint before")
    assert [(fault["target"], fault["text"]) for fault in healed.status()["faults"]] == [
        ("nexus", "refuse 'checkpoint'")
    ]
    healed.heal()
    assert "Permission denied" not in show(healed, "checkpoint before")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["mtu", "nexus", "1500"], "'nexus' is not a node"),
        (["lose", "nexus", "5"], "'nexus' is not a rail"),
        (["refuse", "node1", "show"], "'node1' is not a switch"),
        (["refuse", "nexus", " "], "needs the start of a command"),
    ],
)
def test_wrong_faults_are_refused_in_a_sentence(lab: RunningLab, arguments: list[str], sentence: str) -> None:
    result = lab.fault(*arguments)
    assert (result.code, sentence in result.err) == (2, True), result


def test_the_control_socket_is_the_owners_alone(lab: RunningLab) -> None:
    socket = lab.cluster.parent / "nexus" / "control"
    assert socket.is_socket()
    assert socket.stat().st_mode & 0o077 == 0


def test_other_models_have_their_own_ports(tmp_path: Path) -> None:
    with running_lab(tmp_path, "--nodes", "1", "--switch", "n5k") as other:
        assert "Nexus5548" in show(other, "show version")
        pids = processes(load_lab(other.name))
        assert len(pids) == 1
    assert not is_alive(pids[0])


def test_nothing_is_left_of_an_up_that_was_killed(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    options = ("--name", "killed", "--nodes", "1", "--switch")
    end_up_at("lab_switch_up", signal.SIGKILL, tmp_path, *options, RAILBED_CACHE=str(cache))
    assert processes_with(f"{cache}/labs/killed/nexus")
    assert railbed(tmp_path, "lab", "down", RAILBED_CACHE=str(cache)).code == 0
    assert not processes_with(f"{cache}/labs/killed/nexus")
    assert not list(cache.glob("labs/*"))

"""Counters follow the configured policies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from switchlab.nexus.model.counters import MacEntry, Neighbour
from switchlab.nexus.model.platform import PLATFORMS
from switchlab.nexus.model.switch import Switch
from switchlab.nexus.model.traffic import Packets
from switchlab.nexus.session import Session
from tests.switchlab.nexus.support import run

MEGABYTE = 1_000_000


def connect(switch: Switch) -> Switch:
    """Bring up the links of ports 1 and 2."""
    switch.set_link("Ethernet1/1", up=True)
    switch.set_link("Ethernet1/2", up=True)
    return switch


def carry(switch: Switch, dscp: int = 26, *, depth: int = 0, cos: int = 0) -> tuple[int, int, int, int, int]:
    """Send a burst from port 1 to port 2; return group, sent, marked, dropped and pauses."""
    connect(switch)
    outcome = switch.carry(
        "Ethernet1/1", "Ethernet1/2", Packets(dscp=dscp, bytes=MEGABYTE, packet_size=1000, depth=depth, cos=cos)
    )
    return outcome.group, outcome.sent, outcome.marked, outcome.dropped, outcome.pauses


@pytest.mark.parametrize(("dscp", "group"), [(26, 3), (48, 7), (0, 0), (27, 0)])
def test_dscp_selects_the_queue(lossless: Switch, dscp: int, group: int) -> None:
    assert carry(lossless, dscp)[:2] == (group, 1000)
    assert {number: queue.tx_bytes for number, queue in lossless.ports["Ethernet1/2"].queues.items()} == {
        group: MEGABYTE
    }
    assert lossless.ports["Ethernet1/1"].rx_bytes == lossless.ports["Ethernet1/2"].tx_bytes == MEGABYTE


def test_without_a_policy_everything_is_in_the_default_queue(switch: Switch) -> None:
    assert carry(switch)[0] == 0


def test_a_change_of_the_configuration_moves_the_traffic(lossless: Switch) -> None:
    run(Session(lossless), "conf t", "class-map type qos match-any ROCE", "no match dscp 26", "match dscp 24")
    assert carry(lossless)[0] == 0
    assert carry(lossless, 24)[0] == 3


def test_match_all_needs_every_criterion(switch: Switch) -> None:
    run(Session(switch), "conf t", "class-map type qos match-all BOTH", "match dscp 26", "match cos 3")
    run(
        Session(switch),
        "conf t",
        "policy-map type qos P",
        "class BOTH",
        "set qos-group 3",
        "int e1/1",
        "service-policy type qos input P",
    )
    assert carry(switch)[0] == 0
    assert carry(switch, cos=3)[0] == 3


@pytest.mark.parametrize(
    ("depth", "marked"), [(0, 0), (149_999, 0), (825_000, 50), (1_500_000, 1000), (9_000_000, 1000)]
)
def test_wred_marks_along_the_ramp_and_everything_above_it(lossless: Switch, depth: int, marked: int) -> None:
    assert carry(lossless, depth=depth)[1:4] == (1000, marked, 0)
    assert lossless.ports["Ethernet1/2"].queue(3).ecn_packets == marked


def test_wred_without_ecn_drops(lossless: Switch) -> None:
    session = Session(lossless)
    run(session, "conf t", "policy-map type queuing EGRESS", "class type queuing c-out-8q-q3", "no random-detect")
    run(
        session, "random-detect minimum-threshold 150 kbytes maximum-threshold 1500 kbytes drop-probability 10 weight 0"
    )
    assert carry(lossless, depth=825_000)[2:4] == (0, 50)


def test_a_paused_class_does_not_drop_and_a_lossy_one_does(lossless: Switch) -> None:
    assert carry(lossless, depth=2 * MEGABYTE)[3:] == (0, 1000)
    assert lossless.ports["Ethernet1/1"].pfc_tx == [0, 0, 0, 1000, 0, 0, 0, 0]
    assert carry(lossless, 0, depth=2 * MEGABYTE)[3:] == (1000, 0)
    run(Session(lossless), "conf t", "int e1/1", "priority-flow-control mode off")
    assert carry(lossless, depth=2 * MEGABYTE)[3:] == (1000, 0)


def test_packets_over_the_mtu_are_lost(switch: Switch) -> None:
    """As giants at the ingress, as discards at the egress."""
    jumbo = Packets(dscp=0, bytes=40_000, packet_size=4000)
    session = Session(connect(switch))
    assert (outcome := switch.carry("Ethernet1/1", "Ethernet1/2", jumbo)).dropped == 10
    assert outcome.sent == 0
    assert "10 giants" in run(session, "show interface e1/1")
    run(session, "conf t", "interface e1/1", "mtu 9216")
    assert switch.carry("Ethernet1/1", "Ethernet1/2", jumbo).dropped == 10
    assert "10 output discard" in run(session, "show interface e1/2")
    run(session, "conf t", "interface e1/2", "mtu 9216")
    assert switch.carry("Ethernet1/1", "Ethernet1/2", jumbo).sent == 10


def test_the_mtu_of_an_n5k_is_that_of_the_class() -> None:
    switch = connect(Switch(PLATFORMS["n5k"]))
    jumbo = Packets(dscp=0, bytes=40_000, packet_size=4000)
    assert switch.carry("Ethernet1/1", "Ethernet1/2", jumbo).sent == 0
    run(
        Session(switch),
        "conf t",
        "policy-map type network-qos JUMBO",
        "class type network-qos class-default",
        "mtu 9216",
    )
    run(Session(switch), "conf t", "system qos", "service-policy type network-qos JUMBO")
    assert switch.carry("Ethernet1/1", "Ethernet1/2", jumbo).sent == 10


def test_nothing_passes_a_port_that_is_down(lossless: Switch) -> None:
    assert carry(lossless)[1] == 1000
    run(Session(lossless), "conf t", "interface e1/2", "shutdown")
    outcome = lossless.carry("Ethernet1/1", "Ethernet1/2", Packets(dscp=26, bytes=MEGABYTE))
    assert (outcome.sent, lossless.ports["Ethernet1/1"].rx_bytes) == (0, MEGABYTE)


def test_pfc_auto_needs_a_dcbx_peer(lossless: Switch) -> None:
    session = Session(lossless)
    run(session, "conf t", "interface e1/1", "priority-flow-control mode auto")
    assert "Auto Off" in run(session, "show interface e1/1 priority-flow-control")
    lossless.set_link("Ethernet1/1", up=True, dcbx_peer=True)
    assert "Auto On   (8)" in run(session, "show interface e1/1 priority-flow-control")


@pytest.mark.parametrize("name", ["n9k", "n9k-400g", "n9k-9.2", "n9k-ale"])
def test_queue_counters_in_text_and_json_agree(name: str) -> None:
    switch = Switch(PLATFORMS[name])
    for counter in ("tx_packets", "tx_bytes", "drop_packets", "ecn_packets"):
        switch.add("Ethernet1/1", counter, 77, group=2)
    switch.add("Ethernet1/1", "pfc_rx", 5, priority=3)
    session = Session(switch)
    text = run(session, "show queuing interface e1/1")
    egress, ingress = json.loads(run(session, "show queuing interface e1/1 | json"))["TABLE_module"]["ROW_module"][
        "TABLE_queuing_interface"
    ]["ROW_queuing_interface"]
    assert (egress["dir"], ingress["dir"], ingress["rx-ppp"]) == ("Egress", "Ingress", "5")
    groups = egress["TABLE_qosgrp_egress_stats"]["ROW_qosgrp_egress_stats"]
    entries = groups[2]["TABLE_qosgrp_egress_stats_entry"]["ROW_qosgrp_egress_stats_entry"]
    values = {f"{entry['eq-stat-type']} {entry['eq-stat-units']}": entry["eq-uc-stat-value"] for entry in entries}
    assert values["Tx Pkts"] == values["Tx Byts"] == "77"
    assert ("eq-oobfc-uc-stat-value" in entries[0]) == (name == "n9k-ale")
    assert values.get("ECN Pkts") == ("77" if name in ("n9k", "n9k-400g") else None)
    block = text.split("QOS GROUP 2")[1].split("QOS GROUP 3")[0]
    for label, value in values.items():
        (row,) = [line for line in block.splitlines() if line.strip("| ").startswith(f"{label} ")]
        assert row.split("|")[2].strip() == value


def test_rows_are_a_dict_when_single_and_a_list_otherwise(session: Session) -> None:
    single = json.loads(run(session, "show interface e1/1 status | json"))["TABLE_interface"]["ROW_interface"]
    several = json.loads(run(session, "show interface status | json"))["TABLE_interface"]["ROW_interface"]
    assert isinstance(single, dict)
    assert isinstance(several, list)
    assert run(session, "show mac address-table | json") == ""


def test_counters_can_be_driven(lossless: Switch) -> None:
    lossless.add("Ethernet1/1", "fcs", 3)
    lossless.add("Ethernet1/1", "watchdog.shutdown", 2, group=3)
    lossless.add("Ethernet1/1", "watchdog.active", 1, group=3)
    lossless.add("Ethernet1/1", "pfc_rx", 9, priority=3)
    lossless.add("Ethernet1/1", "rx_pause", 4)
    session = Session(lossless)
    assert "3 CRC" in run(session, "show interface e1/1")
    assert "4 Rx pause" in run(session, "show interface e1/1")
    assert "On   (8)       9" in run(session, "show interface e1/1 priority-flow-control")
    detail = run(session, "show queuing pfc-queue interface e1/1 detail")
    assert "| QOS GROUP 3 [Shutdown] PFC [YES] PFC-COS [3]" in detail
    assert "Shutdown|                   2|" in detail
    run(session, "clear counters")
    assert "0 CRC" in run(session, "show interface e1/1")


@pytest.mark.parametrize("counter", ["nonsense", "errors", "queues", "__class__"])
def test_unknown_counters_are_refused(switch: Switch, counter: str) -> None:
    with pytest.raises(ValueError, match="unknown counter"):
        switch.add("Ethernet1/1", counter)
    with pytest.raises(ValueError, match="no port"):
        switch.add("Ethernet9/9", "fcs")


def test_neighbours_and_addresses_come_from_outside(lossless: Switch) -> None:
    lossless.add_neighbour(
        Neighbour(port="Ethernet1/1", chassis_id="0c42.a1aa.0001", port_id="ens1f0", system_name="node1")
    )
    lossless.add_mac(MacEntry(vlan=1, address="0c42.a1aa.0001", port="Ethernet1/1"))
    session = Session(lossless)
    assert "node1                Eth1/1" in run(session, "show lldp neighbors")
    row = json.loads(run(session, "show lldp neighbors detail | json"))["TABLE_nbor_detail"]["ROW_nbor_detail"]
    assert (row["sys_name"], row["l_port_id"], row["port_id"]) == ("node1", "Eth1/1", "ens1f0")
    assert "0c42.a1aa.0001   dynamic  0         F      F    Eth1/1" in run(session, "show mac address-table")
    run(session, "conf t", "interface e1/1", "shutdown")
    assert "Total entries displayed: 0" in run(session, "show lldp neighbors")
    assert "0c42" not in run(session, "show mac address-table")


def row(data: Any, *path: str) -> Any:
    """Follow TABLE_x and ROW_x through structured output."""
    for name in path:
        data = data[f"TABLE_{name}"][f"ROW_{name}"]
    return data


def test_policies_as_data(lossless: Switch) -> None:
    session = Session(lossless)
    policy = json.loads(run(session, "show policy-map type queuing EGRESS | json"))
    classes = {item["cmap-name"]: row(item, "action") for item in row(policy, "pmap", "cmap")}
    bandwidth, wred = classes["c-out-8q-q3"]
    assert (bandwidth["rem-bw-units"], bandwidth["rem-bw-rate"]) == ("percent", "50")
    assert wred["rdet-ecn"] == "ecn"
    thresholds = row(wred, "rdet")
    assert (thresholds["rdet-min-thresh"], thresholds["rdet-max-thresh"], thresholds["rdet-size-units"]) == (
        "150",
        "1500",
        "kbytes",
    )
    assert classes["c-out-8q-q7"]["prio-level"] == "1"
    classification = json.loads(run(session, "show policy-map type qos CLASSIFY | json"))
    assert [row(item, "action")["qos-group"] for item in row(classification, "pmap", "cmap")] == ["3", "7"]
    class_map = json.loads(run(session, "show class-map type qos ROCE | json"))
    assert row(class_map, "cmap")["any_or_all"] == "match-any"
    assert row(class_map, "cmap", "match")["dscp-list"] == "26"
    network = json.loads(run(session, "show policy-map type network-qos NETWORK | json"))
    assert row(network, "xpmap", "xcmap")[0]["xcmap-name"] == "c-8q-nq3"
    every = {item["pmap-key"] for item in row(json.loads(run(session, "show policy-map | json")), "pmap")}
    assert {"CLASSIFY", "NETWORK", "EGRESS"} < every


def test_the_policy_of_the_system_as_data(lossless: Switch) -> None:
    system = json.loads(run(Session(lossless), "show policy-map system | json"))
    network = {item["xcmap-name"]: row(item, "xaction") for item in row(system, "xpmap", "xcmap")}
    group, mtu, pause = network["c-8q-nq3"]
    assert (group["qos-group-list"], mtu["mtu"], pause["pfc-cos-list"]) == ("3", "9216", "3")
    assert (row(system, "pmap")["in-or-out"], row(system, "pmap")["pmap-name"]) == ("output", "EGRESS")


def test_the_watchdog_as_data(lossless: Switch) -> None:
    lossless.add("Ethernet1/1", "watchdog.shutdown", 2, group=3)
    module = row(json.loads(run(Session(lossless), "show queuing pfc-queue interface e1/1 detail | json")), "module")
    assert (module["glb-wd-status"], module["glb-wd-timer"]) == ("Enabled", "100")
    port = row(module, "queuing_interface")
    assert (port["wd-status"], port["vl-bmp"]) == ("Enabled", "0x8")
    group = row(port, "qosgrp_stats")
    assert (group["eq-qosgrp"], group["pfc-cos"], group["eq-qosgrp-state"]) == ("3", "3", "Active")
    assert {"q-stat-type": "Shutdown", "q-shutdown": "2"} in row(group, "qosgrp_stats_entry")

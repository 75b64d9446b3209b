"""What changes of the configuration do to traffic, and what the hardware has no room for."""

from __future__ import annotations

import pytest

from switchlab.nexus.commands.loader import apply_lines, boot
from switchlab.nexus.model.disturbance import LOST_PACKETS
from switchlab.nexus.model.platform import PLATFORMS
from switchlab.nexus.model.switch import Switch
from switchlab.nexus.session import Session
from tests.switchlab.nexus.support import refuse, run

PORTS = ("Ethernet1/1", "Ethernet1/2", "Ethernet1/9")
SYSTEM = ("conf t", "system qos", "service-policy type queuing output EGRESS2")
EGRESS2 = """
policy-map type queuing EGRESS2
  class type queuing c-out-8q-q3
    bandwidth remaining percent 40
"""


def lines(switch: Switch, text: str) -> list[str]:
    return apply_lines(switch, text.splitlines())


def lost(switch: Switch) -> set[str]:
    return {name for name, port in switch.ports.items() if port.errors["out_discards"]}


@pytest.fixture
def linked(switch: Switch) -> Switch:
    assert lines(switch, EGRESS2) == []
    for port in PORTS:
        switch.set_link(port, up=True)
    return switch


def test_a_policy_that_is_in_force_nowhere_disturbs_nobody(linked: Switch) -> None:
    assert lines(linked, EGRESS2.replace("40", "50")) == []
    assert (linked.disturbances, lost(linked)) == ([], set())


@pytest.mark.parametrize(
    "change",
    [
        "system qos\n  service-policy type queuing output EGRESS2",
        "policy-map type network-qos N\n  class type network-qos c-8q-nq3\n    mtu 9216\n"
        "system qos\n  service-policy type network-qos N",
    ],
)
def test_system_qos_disturbs_every_port_with_a_link(linked: Switch, change: str) -> None:
    assert lines(linked, change) == []
    assert lost(linked) == set(PORTS)
    assert linked.ports[PORTS[2]].errors["out_discards"] == LOST_PACKETS


def test_a_policy_that_is_in_force_disturbs_when_it_is_edited_and_when_it_is_rolled_back(linked: Switch) -> None:
    session = Session(linked)
    run(session, *SYSTEM, "end", "checkpoint before")
    linked.disturbances.clear()
    assert lines(linked, EGRESS2.replace("40", "50")) == []
    assert [item.ports for item in linked.disturbances] == [PORTS]
    run(session, "rollback running-config checkpoint before")
    assert [item.ports for item in linked.disturbances] == [PORTS, PORTS]


def test_a_policy_of_one_port_disturbs_that_port(linked: Switch) -> None:
    assert lines(linked, "interface Ethernet1/2\n  service-policy type queuing output EGRESS2") == []
    assert lost(linked) == {"Ethernet1/2"}
    assert lines(linked, EGRESS2.replace("40", "50")) == []
    assert linked.ports["Ethernet1/2"].errors["out_discards"] == 2 * LOST_PACKETS


def test_flow_control_flaps_its_port_and_wins_over_pfc(linked: Switch) -> None:
    pfc = "policy-map type network-qos N\n  class type network-qos c-8q-nq3\n    pause pfc-cos 3\nsystem qos\n"
    pfc += "  service-policy type network-qos N\ninterface Ethernet1/1\n  priority-flow-control mode on"
    assert lines(linked, pfc) == []
    assert linked.pfc_on("Ethernet1/1") == {3: 3}
    linked.disturbances.clear()
    assert lines(linked, "interface Ethernet1/1\n  flowcontrol receive on") == []
    assert [(item.ports, item.flapped) for item in linked.disturbances] == [(("Ethernet1/1",), True)]
    assert (linked.ports["Ethernet1/1"].resets, linked.pfc_on("Ethernet1/1")) == (1, {})
    assert "Ethernet1/1        On   Off" in run(Session(linked), "show interface priority-flow-control")


def test_members_of_a_port_channel_obey_it_and_refuse_settings_of_their_own(linked: Switch) -> None:
    channel = "interface Ethernet1/1-2\n  channel-group 10 mode active\ninterface port-channel10\n"
    assert lines(linked, f"{channel}  mtu 9216\n  priority-flow-control mode on") == []
    session = Session(linked)
    run(session, "conf t", "policy-map type qos P", "exit", "interface Ethernet1/1")
    assert "requested config change not allowed" in refuse(session, "mtu 9216")
    assert "requested config change not allowed" in refuse(session, "priority-flow-control mode on")
    assert refuse(session, "service-policy type qos input P").startswith("command failed: ")
    run(session, "interface port-channel10", "service-policy type queuing output EGRESS2", "end")
    assert [item.ports for item in linked.disturbances] == [("Ethernet1/1", "Ethernet1/2")]
    assert "Ethernet1/2        On   On" in run(session, "show interface priority-flow-control")
    assert "10    Po10(SU)    Eth      LACP      Eth1/1(P)    Eth1/2(P)" in run(session, "show port-channel summary")
    assert "MTU 9216 bytes" in run(session, "show interface Ethernet1/1")


def test_a_qos_policy_needs_a_tcam_region_and_a_reload_makes_it(switch: Switch) -> None:
    switch.tcam["ing-l2-qos"] = 0
    session = Session(switch)
    attach = ("conf t", "policy-map type qos P", "exit", "interface Ethernet1/1")
    run(session, *attach)
    assert "TCAM region is not configured" in refuse(session, "service-policy type qos input P")
    run(session, "hardware access-list tcam region ing-l2-qos 256", "end")
    assert "[ing-l2-qos] size =    0" in run(session, "show hardware access-list tcam region")
    run(session, "copy running-config startup-config")
    boot(switch)
    session = Session(switch)
    assert "[ing-l2-qos] size =  256" in run(session, "show hardware access-list tcam region")
    run(session, *attach, "service-policy type qos input P", "end", "checkpoint here")


def test_strict_queues_of_four_are_the_highest() -> None:
    session = Session(Switch(PLATFORMS["n9k-ale"]))
    run(session, "conf t", "policy-map type queuing P", "class type queuing c-out-q2")
    assert "qos-group 3" in refuse(session, "priority level 1")
    run(session, "class type queuing c-out-q3", "priority level 1", "class type queuing c-out-q2", "priority level 2")

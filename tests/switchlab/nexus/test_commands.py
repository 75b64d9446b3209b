"""The command line: abbreviations, errors, modes and what a Nexus rejects."""

from __future__ import annotations

import json

import pytest

from switchlab.nexus.commands.loader import apply_lines
from switchlab.nexus.model.platform import PLATFORMS
from switchlab.nexus.model.switch import Switch
from switchlab.nexus.session import Session
from tests.switchlab.nexus.support import config_lines, refuse, run


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("sh ver", "show version"),
        ("sh int e1/1", "show interface ethernet 1/1"),
        ("sh int eth 1/1 cou er", "show interface Ethernet1/1 counters errors"),
        ("sh queui int e1/1", "show queuing interface ethernet1/1"),
        ("SHOW VERSION", "show version"),
    ],
)
def test_abbreviations(session: Session, short: str, full: str) -> None:
    assert run(session, short) == run(session, full)


@pytest.mark.parametrize(
    ("command", "problem", "column"),
    [
        ("show foo", "Invalid command", 6),
        ("show ve x", "Invalid command", 8),
        ("show", "Incomplete command", 4),
        ("show interface ethernet", "Incomplete command", 23),
        ("show running-config foo", "Invalid command", 20),
        ("show c", "Ambiguous command", 5),
        ("terminal length 9999", "Invalid number", 16),
        ("feature lldp", "Invalid command", 0),
    ],
)
def test_error_points_at_the_column(session: Session, command: str, problem: str, column: int) -> None:
    assert refuse(session, command) == " " * column + f"^\n% {problem} at '^' marker.\n"


def test_caret_is_aligned_with_the_prompt(session: Session) -> None:
    reply = session.execute("show foo", prompt_width=len(session.prompt))
    assert reply.text.startswith(" " * (len("switch# ") + 6) + "^\n")


@pytest.mark.parametrize(
    ("commands", "prompt"),
    [
        ((), "switch# "),
        (("conf t",), "switch(config)# "),
        (("conf t", "int e1/1"), "switch(config-if)# "),
        (("conf t", "int e1/1-4"), "switch(config-if-range)# "),
        (("conf t", "vlan 10"), "switch(config-vlan)# "),
        (("conf t", "system qos"), "switch(config-sys-qos)# "),
        (("conf t", "class-map type qos match-any A"), "switch(config-cmap-qos)# "),
        (("conf t", "policy-map type network-qos A"), "switch(config-pmap-nqos)# "),
        (
            ("conf t", "policy-map type network-qos A", "class type network-qos c-8q-nq3"),
            "switch(config-pmap-nqos-c)# ",
        ),
        (("conf t", "policy-map type queuing A", "class type queuing c-out-8q-q3"), "switch(config-pmap-c-que)# "),
        (("conf t", "policy-map type qos A", "class class-default"), "switch(config-pmap-c-qos)# "),
        (("conf t", "int e1/1", "vlan 10", "exit"), "switch(config)# "),
        (("conf t", "int e1/1", "end"), "switch# "),
        (("conf t", "hostname leaf7"), "leaf7(config)# "),
    ],
)
def test_prompt_follows_the_mode(session: Session, commands: tuple[str, ...], prompt: str) -> None:
    run(session, *commands)
    assert session.prompt == prompt


def test_show_works_in_every_mode(session: Session) -> None:
    run(session, "conf t", "interface e1/1", "mtu 9216")
    assert "mtu 9216" in run(session, "sh run int e1/1")
    assert session.prompt == "switch(config-if)# "


@pytest.mark.parametrize(
    ("setup", "command", "message"),
    [
        (("policy-map type network-qos A",), "class type queuing c-out-8q-q3", "% Invalid command"),
        (("policy-map type network-qos A",), "class type network-qos c-out-8q-q3", "ERROR: Class-map c-out-8q-q3"),
        (("policy-map type queuing A",), "class type queuing c-out-q3", "ERROR: Class-map c-out-q3"),
        (("policy-map type qos A",), "class UNKNOWN", "ERROR: Class-map UNKNOWN"),
        ((), "feature qos", "% Invalid command"),
        ((), "class-map type queuing match-any MINE", "ERROR: User-defined class-maps of type queuing"),
        ((), "class-map type network-qos MINE", "ERROR: User-defined class-maps of type network-qos"),
        ((), "no class-map type queuing c-out-8q-q3", "ERROR: Class-map c-out-8q-q3 is system-defined"),
        ((), "policy-map type queuing default-8q-out-policy", "ERROR: Policy-map default-8q-out-policy is system"),
        ((), "no policy-map type qos MISSING", "ERROR: Policy-map MISSING"),
        ((), "interface Ethernet1/99", "Invalid range"),
        ((), "no vlan 1", "ERROR: Default VLAN 1"),
        ((), "vlan 5000", "% Invalid number"),
        (("interface e1/1",), "mtu 9000", "MTU on L2 interfaces can only be set to default or system-jumboMTU"),
        (("interface e1/1",), "mtu 99999", "% Invalid number"),
        (("interface mgmt0",), "priority-flow-control mode on", "ERROR: mgmt0"),
        (("interface e1/1",), "service-policy type qos input MISSING", "ERROR: Policy-map MISSING"),
        (("system qos",), "service-policy type network-qos MISSING", "ERROR: Policy-map MISSING"),
        (("system qos",), "no service-policy type network-qos", "is not attached"),
        (("class-map type qos A",), "match dscp 64", "% Invalid number"),
        (("class-map type qos A",), "no match dscp 26", "ERROR: Match criteria"),
        (("policy-map type qos A", "class class-default"), "set qos-group 8", "% Invalid number"),
        (
            ("policy-map type network-qos A", "class type network-qos c-8q-nq-default"),
            "pause pfc-cos 0",
            "ERROR: pause",
        ),
        (("policy-map type network-qos A", "class type network-qos c-8q-nq3"), "mtu 64", "% Invalid number"),
        (
            ("policy-map type queuing A", "class type queuing c-out-8q-q3", "priority level 1"),
            "bandwidth remaining percent 10",
            "ERROR: bandwidth and priority",
        ),
        (
            ("policy-map type queuing A", "class type queuing c-out-8q-q3"),
            "random-detect minimum-threshold 9 mbytes maximum-threshold 8 kbytes ecn",
            "ERROR: Minimum threshold",
        ),
        (
            ("policy-map type queuing A", "class type queuing c-in-q3"),
            "pause buffer-size 1000 pause-threshold 20000 resume-threshold 20000",
            "ERROR: pause buffer-size must be at least 27456",
        ),
    ],
)
def test_what_a_nexus_rejects(session: Session, setup: tuple[str, ...], command: str, message: str) -> None:
    run(session, "configure terminal", *setup)
    before = session.prompt, session.context.switch.running_text()
    assert message in refuse(session, command)
    assert (session.prompt, session.context.switch.running_text()) == before


def test_a_name_may_look_like_a_keyword(session: Session) -> None:
    run(
        session,
        "conf t",
        "class-map match-any type",
        "match dscp 26",
        "policy-map type qos queuing",
        "class class-default",
    )
    run(session, "interface e1/1", "service-policy input queuing")
    assert "service-policy type qos input queuing" in run(session, "show running-config interface e1/1")
    assert "class-map type qos match-any type" in run(session, "show running-config ipqos")


PUBLISHED_LAB = """
hardware access-list tcam region ing-l3-vlan-qos 256
hardware qos nodrop-queue-thresholds queue-green 1000
congestion-control random-detect forward-nonecn
class-map type qos match-any ROCE
  match dscp 26
policy-map type qos MARK
  class ROCE
    set qos-group 5
policy-map type network-qos NETWORK
  class type network-qos c-8q-nq5
    mtu 9216
    pause pfc-cos 5
policy-map type queuing INPUT
  class type queuing c-in-q5
    pause buffer-size 147456 pause-threshold 114688 resume-threshold 107688
policy-map type queuing OUTPUT
  class type queuing c-out-8q-q5
    bandwidth remaining percent 60
    random-detect minimum-threshold 400 kbytes maximum-threshold 800 kbytes drop-probability 5 weight 7 ecn
system qos
  service-policy type queuing input INPUT
  service-policy type queuing output OUTPUT
  service-policy type network-qos NETWORK
interface Ethernet1/51
  priority-flow-control mode on
  service-policy type qos input MARK
"""


def test_another_published_configuration(switch: Switch) -> None:
    """Priority 5 instead of 3, with pause buffers in an input policy."""
    assert apply_lines(switch, PUBLISHED_LAB.splitlines()) == []
    session = Session(switch)
    assert config_lines(PUBLISHED_LAB) <= config_lines(run(session, "show running-config"))
    switch.set_link("Ethernet1/51", up=True)
    assert "On   On   (20)" in run(session, "show interface priority-flow-control")
    run(session, "conf t", "policy-map type queuing INPUT", "class type queuing c-in-q5")
    assert "cannot be configured together" in refuse(session, "bandwidth percent 10")


def test_bandwidth_of_all_classes_is_limited(session: Session) -> None:
    run(
        session,
        "conf t",
        "policy-map type queuing A",
        "class type queuing c-out-8q-q3",
        "bandwidth remaining percent 60",
    )
    run(session, "class type queuing c-out-8q-q2")
    assert "cannot exceed 100 percent" in refuse(session, "bandwidth remaining percent 50")
    run(session, "bandwidth remaining percent 40")


def test_one_priority_is_paused_for_one_class(session: Session) -> None:
    run(session, "conf t", "policy-map type network-qos A", "class type network-qos c-8q-nq3", "pause pfc-cos 3")
    run(session, "class type network-qos c-8q-nq4")
    assert "pfc-cos 3 is already used by class c-8q-nq3" in refuse(session, "pause pfc-cos 3")


def test_nothing_in_use_can_be_deleted(lossless: Switch) -> None:
    session = Session(lossless)
    run(session, "configure terminal")
    assert "in use by Ethernet1/1" in refuse(session, "no policy-map type qos CLASSIFY")
    assert "in use by system qos" in refuse(session, "no policy-map type queuing EGRESS")
    assert "in use by policy-map CLASSIFY" in refuse(session, "no class-map type qos match-any ROCE")
    run(session, "interface Ethernet1/1-2", "no service-policy type qos input CLASSIFY")
    run(
        session,
        "system qos",
        "no service-policy type queuing output EGRESS",
        "no service-policy type network-qos NETWORK",
    )
    run(
        session,
        "no policy-map type qos CLASSIFY",
        "no policy-map type queuing EGRESS",
        "no policy-map type network-qos NETWORK",
    )
    run(session, "no class-map type qos ROCE", "no class-map type qos CNP")
    assert "policy-map" not in lossless.running_text()


def test_a_second_policy_needs_the_first_removed(lossless: Switch) -> None:
    session = Session(lossless)
    run(session, "conf t", "policy-map type qos OTHER", "class class-default", "interface e1/1")
    assert "already attached" in refuse(session, "service-policy type qos input OTHER")


@pytest.mark.parametrize(
    ("mode", "line"),
    [
        ("interface Ethernet1/1", "mtu 9216"),
        ("interface Ethernet1/1", "priority-flow-control mode on"),
        ("interface Ethernet1/1", "priority-flow-control watch-dog-interval on"),
        ("interface Ethernet1/1", "description to node1, rail 0"),
        ("interface Ethernet1/1", "switchport mode trunk"),
        ("interface Ethernet1/1", "shutdown"),
        ("policy-map type queuing A", "class type queuing c-out-8q-q3"),
        ("class-map type qos match-any A", "match dscp 24-31"),
        ("vlan 20", "name storage"),
    ],
)
def test_no_undoes_a_line(session: Session, mode: str, line: str) -> None:
    run(session, "conf t", mode)
    before = run(session, "show running-config")
    run(session, mode, line)
    assert line in run(session, "show running-config")
    run(session, mode, f"no {line}")
    assert run(session, "show running-config").split("version", 1)[1] == before.split("version", 1)[1]


def test_a_default_value_is_not_shown_except_with_all(session: Session) -> None:
    run(session, "conf t", "interface e1/1", "priority-flow-control mode on", "priority-flow-control mode auto")
    assert "priority-flow-control" not in run(session, "show running-config interface e1/1")
    assert "  priority-flow-control mode auto\n" in run(session, "show running-config interface e1/1 all")


def test_built_in_names_follow_the_platform() -> None:
    eight, four = Session(Switch(PLATFORMS["n9k"])), Session(Switch(PLATFORMS["n9k-ale"]))
    assert "c-8q-nq3" in run(eight, "show class-map type network-qos")
    assert "default-8q-out-policy" in run(eight, "show policy-map system type queuing")
    names = run(four, "show class-map type network-qos")
    assert "c-nq3" in names
    assert "c-nq4" not in names
    assert "default-out-policy" in run(four, "show policy-map system")
    run(four, "conf t", "policy-map type qos A", "class class-default")
    assert "out of range (0-3)" in refuse(four, "set qos-group 5")


def test_n5k_defines_its_own_classes_and_has_no_json() -> None:
    session = Session(Switch(PLATFORMS["n5k"]))
    run(session, "conf t", "class-map type network-qos LOSSLESS", "match qos-group 3")
    run(session, "policy-map type network-qos NQ", "class type network-qos LOSSLESS", "pause no-drop", "mtu 9216")
    run(session, "system qos", "service-policy type network-qos NQ")
    assert "drop-type: no-drop" in run(session, "show queuing interface e1/1")
    assert "% Invalid command" in refuse(session, "show version | json")
    assert "% Invalid command" in refuse(session, "interface e1/1 mtu 9216")


def test_lldp_commands_need_the_feature(session: Session) -> None:
    assert "% Invalid command" in refuse(session, "show lldp neighbors")
    run(session, "conf t", "feature lldp")
    assert "Total entries displayed: 0" in run(session, "show lldp neighbors")
    run(session, "lldp timer 10", "no feature lldp")
    assert "lldp" not in run(session, "show running-config")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (
            "show vlan | include default",
            ["1    default                          active    Eth1/1, Eth1/2, Eth1/3, Eth1/4"],
        ),
        ("show running-config | section mgmt", ["interface mgmt0"]),
        ("show feature | include ^lacp.*d$", ["lacp                  1         disabled"]),
        ("show vlan brief | count", ["18"]),
    ],
)
def test_filters(session: Session, command: str, expected: list[str]) -> None:
    assert run(session, command).splitlines() == expected


def test_filter_errors(session: Session) -> None:
    assert "% Invalid command" in refuse(session, "show version | nonsense")
    assert "% Incomplete command" in refuse(session, "show version |")
    assert "% Incomplete command" in refuse(session, "show version | include")
    assert "% Invalid command" in refuse(session, "terminal length 0 | include x")
    assert "ERROR: Structured output" in refuse(session, "show running-config | json")


def test_several_commands_on_one_line(session: Session) -> None:
    assert session.commands('show hostname ; show clock | include "a ; b" ; ! note') == [
        "show hostname",
        'show clock | include "a ; b"',
    ]


def test_help_lists_what_can_follow(session: Session) -> None:
    assert {"interface", "version"} <= set(session.help("show "))
    assert session.help("show ver") == ["version"]
    assert session.help("show version ") == ["<CR>"]


def test_pfc_detail_as_data(lossless: Switch) -> None:
    lossless.add("Ethernet1/1", "pfc_rx", 7, priority=3)
    document = json.loads(run(Session(lossless), "show interface priority-flow-control detail interface e1/1 | json"))
    port = document["TABLE_module"]["ROW_module"]["TABLE_pfc_interface"]["ROW_pfc_interface"]
    assert (port["if_name_str"], port["admin"], port["oper"], port["vl-bmap"]) == ("Ethernet1/1", "On", "On  (8)", "8")
    rows = port["TABLE_pfc_priority"]["ROW_pfc_priority"]
    assert [row["rx-ppp"] for row in rows] == ["0", "0", "0", "7", "0", "0", "0", "0"]


def test_interface_policies_as_data(lossless: Switch) -> None:
    lossless.add("Ethernet1/1", "drop_packets", 5, group=3)
    document = json.loads(run(Session(lossless), "show policy-map interface e1/1-2 output | json"))
    first, second = document["TABLE_interface"]["ROW_interface"]
    assert (first["if-name-str"], second["if-name-str"]) == ("Ethernet1/1", "Ethernet1/2")
    classes = {row["cmap-name"]: row for row in first["TABLE_pmap"]["ROW_pmap"]["TABLE_cmap"]["ROW_cmap"]}
    assert classes["c-out-8q-q3"]["queue-drop-pkts"] == "5"
    assert classes["c-out-8q-q-default"]["queue-drop-pkts"] == "0"

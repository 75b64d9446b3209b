"""What lines of a switch's configuration interrupt, by where policies are in force."""

from __future__ import annotations

import pytest

from railbed.model.fix import ALL_PORTS, NOTHING, Interruption
from railbed.parsing.nexus.interruption import interruption_of, places_in
from railbed.parsing.nexus.slots import parse_lines

RUNNING = """
policy-map type queuing EVERYWHERE
  class type queuing c-out-8q-q3
    bandwidth remaining percent 50
system qos
  service-policy type queuing output EVERYWHERE
  service-policy type network-qos NETWORK
interface Ethernet1/1
  service-policy type qos input CLASSIFY
  service-policy type queuing output PORT
interface port-channel10
  service-policy type queuing output PORT no-stats
"""
ALL = Interruption(losing=(ALL_PORTS,))


def lines(text: str) -> list[str]:
    return text.split("; ")


def test_places_are_read_by_type_and_name() -> None:
    assert places_in(parse_lines(RUNNING.splitlines())) == {
        "queuing EVERYWHERE": {"system qos"},
        "network-qos NETWORK": {"system qos"},
        "queuing PORT": {"Ethernet1/1", "port-channel10"},
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("policy-map type queuing NEW;   class type queuing c-out-8q-q3;     priority level 1", NOTHING),
        ("policy-map type queuing EVERYWHERE;   class type queuing c-out-8q-q3;     no random-detect", ALL),
        ("policy-map type network-qos NETWORK;   class type network-qos c-8q-nq3;     mtu 9216", ALL),
        ("policy-map type network-qos PORT;   class type network-qos c-8q-nq3;     mtu 9216", NOTHING),
        (
            "policy-map type queuing PORT;   class type queuing c-out-8q-q3;     priority level 1",
            Interruption(losing=("Ethernet1/1", "port-channel10")),
        ),
        ("policy-map type qos CLASSIFY;   class A;     set qos-group 3", NOTHING),
        ("class-map type qos match-any A;   match dscp 26", NOTHING),
        ("system qos;   service-policy type network-qos NETWORK", ALL),
        ("system qos;   no service-policy type queuing output EVERYWHERE", ALL),
        ("interface Ethernet1/2;   service-policy type queuing output NEW", Interruption(losing=("Ethernet1/2",))),
        ("interface Ethernet1/2;   no service-policy type queuing output", Interruption(losing=("Ethernet1/2",))),
        ("interface Ethernet1/2;   service-policy type qos input CLASSIFY", NOTHING),
        ("interface Ethernet1/2;   mtu 9216", Interruption(losing=("Ethernet1/2",))),
        ("interface Ethernet1/2;   priority-flow-control mode on;   no shutdown", NOTHING),
        ("interface Ethernet1/2;   flowcontrol receive off", Interruption(flapping=("Ethernet1/2",))),
        ("interface Ethernet1/2;   no flowcontrol send", Interruption(flapping=("Ethernet1/2",))),
        ("priority-flow-control watch-dog-interval on", NOTHING),
        (
            "interface Ethernet1/2;   flowcontrol send off; system qos;   service-policy type queuing output X",
            Interruption(losing=(ALL_PORTS,), flapping=("Ethernet1/2",)),
        ),
    ],
)
def test_what_lines_interrupt(text: str, expected: Interruption) -> None:
    assert interruption_of(lines(text), places_in(parse_lines(RUNNING.splitlines()))) == expected


def test_a_policy_may_be_in_force_everywhere_if_nothing_is_known() -> None:
    edit = ["policy-map type queuing P", "  class type queuing c-out-8q-q3", "    priority level 1"]
    assert interruption_of(edit, None) == ALL
    assert interruption_of(["interface Ethernet1/1", "  no shutdown"], None) == NOTHING


def test_it_is_described_with_the_switch_and_its_ports() -> None:
    assert ALL.describe("leaf1") == "all ports of leaf1 lose packets for a moment, also those not in the cluster file"
    ports = tuple(f"Ethernet1/{number}" for number in range(1, 8))
    assert Interruption(losing=ports).describe("s") == (
        "Ethernet1/1, Ethernet1/2, Ethernet1/3, Ethernet1/4 and 3 more ports of s lose packets for a moment"
    )
    assert Interruption(losing=ports[:1], flapping=ports[1:2]).describe("s") == (
        "Ethernet1/1 of s loses packets for a moment; Ethernet1/2 of s: the link goes down and comes up again"
    )
    assert NOTHING.describe("s") == ""
    assert Interruption(losing=ports[:1]) | ALL == ALL

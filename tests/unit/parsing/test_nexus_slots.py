"""Slots of a switch's configuration: what belongs together, and the lines that take back a change and nothing else."""

from __future__ import annotations

import pytest

from railbed.parsing.nexus.slots import (
    changed_between,
    content_of,
    is_changed_since,
    parse_lines,
    restoring_lines,
    slot_of,
    touched_by,
)

BEFORE = """\
!Time: Mon Nov 16 18:00:00 2026
policy-map type qos SITE
  class A
    set qos-group 1
system qos
  service-policy type queuing output OLD

interface Ethernet1/1
  description by hand
  mtu 1500
interface Ethernet1/2
"""
AFTER = """\
policy-map type qos SITE
  class A
    set qos-group 1
  class B
    set qos-group 3
system qos
  service-policy type queuing output NEW
interface Ethernet1/1
  description by hand
  mtu 9216
  no lldp transmit
interface Ethernet1/2
"""
UNDO = """\
policy-map type qos SITE
  no class B
system qos
  no service-policy type queuing output NEW
  service-policy type queuing output OLD
interface Ethernet1/1
  no mtu 9216
  mtu 1500
  lldp transmit
"""


@pytest.mark.parametrize(
    ("line", "slot"),
    [
        ("mtu 9216", "mtu"),
        ("no mtu", "mtu"),
        ("no service-policy type qos input X", "service-policy type qos input"),
        ("service-policy type network-qos X", "service-policy type network-qos"),
        ("priority-flow-control mode on", "priority-flow-control mode"),
        ("priority-flow-control watch-dog-interval on", "priority-flow-control watch-dog-interval"),
        ("no feature lldp", "feature lldp"),
        ("policy-map type qos X", "policy-map type qos X"),
        ("class type queuing c-out-8q-q3", "class type queuing c-out-8q-q3"),
    ],
)
def test_lines_that_replace_each_other_share_a_slot(line: str, slot: str) -> None:
    assert slot_of(line) == slot


def test_the_lines_that_take_back_a_change() -> None:
    before, after = parse_lines(BEFORE.splitlines()), parse_lines(AFTER.splitlines())
    steps = changed_between(before, after)
    assert restoring_lines(steps, after) == UNDO.splitlines()
    assert restoring_lines(steps, before) == [], "nothing is left to do"


def test_lines_that_were_cut_short_touch_their_slots() -> None:
    before = parse_lines(BEFORE.splitlines())
    lines = ["interface Ethernet1/1", "  mtu 9216", "system qos", "  no service-policy type queuing output OLD"]
    touched = touched_by([*lines, "policy-map type qos RAILBED", "  class B"], before)
    assert [(step.section, step.slot, step.before, step.after) for step in touched] == [
        (("interface Ethernet1/1",), "mtu", ("mtu 1500",), None),
        (("system qos",), "service-policy type queuing output", ("service-policy type queuing output OLD",), None),
        ((), "policy-map type qos RAILBED", (), None),
    ]


@pytest.mark.parametrize(
    ("mtu", "changed", "changed_if_half_undone"),
    [(["  mtu 9216"], False, False), (["  mtu 1500"], False, False), (["  mtu 4000"], True, True), ([], True, False)],
)
def test_a_slot_with_other_lines_was_changed_since(mtu: list[str], changed: bool, changed_if_half_undone: bool) -> None:
    before, after = (parse_lines(["interface Ethernet1/1", f"  mtu {size}"]) for size in (1500, 9216))
    (step,) = changed_between(before, after)
    current = content_of(step, parse_lines(["interface Ethernet1/1", *mtu]))
    assert is_changed_since(step, current, half_undone=False) is changed
    assert is_changed_since(step, current, half_undone=True) is changed_if_half_undone


def test_a_port_is_never_removed() -> None:
    steps = changed_between(parse_lines([]), parse_lines(["interface Ethernet1/1", "  mtu 9216"]))
    assert restoring_lines(steps, parse_lines(["interface Ethernet1/1", "  mtu 9216"])) == [
        *("interface Ethernet1/1", "  no mtu 9216")
    ]

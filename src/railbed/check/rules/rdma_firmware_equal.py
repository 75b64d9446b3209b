"""The RDMA cards of a rail are of the same kind and have the same firmware.

What
----
`board_id` and `fw_ver` are equal on all nodes of the rail.

Why
---
Congestion control, adaptive retransmission and counters change with firmware. A node with another version reacts to
congestion differently, gets less or more than its share of the link, and holds up every step; its
counters may have other meanings than those of its peers.

Fix
---
Update the cards that differ with `mlxfwmanager`, or query and burn them with `mstflint`, and reset them. Replace cards
of another kind, or put them on a separate rail.

Source
------
Linux kernel documentation, ABI/stable/sysfs-class-infiniband (fw_ver, board_id); NVIDIA firmware release notes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from railbed.check.shared.card import CARD_PROBES, Ability, card_of
from railbed.check.shared.port import by_value, rdma_ports, read_ports, report_unread
from railbed.model.text import plural
from railbed.probes import infiniband
from railbed.probes.infiniband import RdmaDevice, RdmaDevices
from railbed.rules.judgement import Judgement, ok, skip, unknown, warn
from railbed.rules.rule import Rule
from railbed.rules.site import PortView, RailView

EXPECTED = "one board and firmware on the rail"

NOTHING_TO_COMPARE = "fewer than two cards with firmware to compare"


def judge(rail: RailView) -> Iterator[Judgement]:
    """Compare boards first, then the firmware of equal boards."""
    hardware = [port for port in rdma_ports(rail) if not card_of(port).lacks(Ability.FIRMWARE)]
    read, unread = read_ports(hardware, infiniband.PROBE)
    yield from report_unread(unread, EXPECTED)
    devices = {port.subject: device for port, facts in read if (device := _device(port, facts))}
    if len(devices) < 2:
        if not unread:
            yield skip(NOTHING_TO_COMPARE, expected=EXPECTED)
        return
    yield from _compare(devices)


def _compare(devices: Mapping[str, RdmaDevice]) -> Iterator[Judgement]:
    boards = {port: device.board_id or device.hca_type for port, device in devices.items()}
    versions = {port: device.fw_ver for port, device in devices.items()}
    if None in versions.values():
        silent = [port for port, version in versions.items() if version is None]
        yield unknown(expected=EXPECTED, observed=f"no fw_ver on {', '.join(silent)}")
    elif len(set(boards.values())) > 1:
        yield warn(expected=EXPECTED, observed=f"boards differ: {by_value(boards)}")
    elif len(set(versions.values())) > 1:
        yield warn(expected=EXPECTED, observed=f"firmware {by_value(versions)}")
    else:
        yield ok(
            expected=EXPECTED, observed=f"firmware {next(iter(versions.values()))} on {plural(len(devices), 'port')}"
        )


def _device(port: PortView, facts: RdmaDevices) -> RdmaDevice | None:
    return facts.devices.get(port.port.rdma or "")


def _unless(rail: RailView) -> str:
    return "" if rdma_ports(rail) else NOTHING_TO_COMPARE


RULE = Rule(
    name="rdma_firmware_equal",
    title="one firmware on the rail",
    scope="rail",
    stage="card",
    needs=CARD_PROBES,
    judge=judge,
    unless=_unless,
    doc=__doc__,
)

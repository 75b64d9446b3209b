"""The ports of the nodes with their cards and firmware, and the switches with theirs."""

from __future__ import annotations

from collections.abc import Sequence

from railbed.model import events
from railbed.present.wording import NOT_KNOWN, moment, name_range
from railbed.report.blocks import Block, Cell, Code, Heading, MarkCell, TableBlock, TextBlock, Value
from railbed.report.document import Section
from railbed.report.handover.data import HandoverData, distinct

PORTS = ("node", "interface", "address", "rail", "RDMA", "state", "Gb/s", "MTU", "far end")
CARDS = ("node", "interface", "card", "firmware", "driver", "PCI", "MAC")
SWITCHES = ("switch", "reached as", "model", "NX-OS", "serial", "read")
SWITCH_PORTS = ("switch", "port", "node", "state", "Gb/s", "MTU", "transceiver")


def show(data: HandoverData) -> Sequence[Block] | None:
    """Show ports, cards, switches and their ports; nothing for a cluster without any."""
    ports, switches = data.of(events.NodePortListed), data.of(events.SwitchListed)
    if not ports and not switches:
        return None
    blocks: list[Block] = []
    if ports:
        blocks += [TableBlock(PORTS, [_port(port) for port in ports], numbers=("Gb/s", "MTU"))]
        blocks += [Heading("Cards"), *_firmware(ports), TableBlock(CARDS, [_card(port) for port in ports])]
    if switches:
        rows = [_switch(switch) for switch in switches]
        of_switches = [_switch_port(port) for port in data.of(events.SwitchPortListed)]
        blocks += [Heading("Switches"), TableBlock(SWITCHES, rows)]
        blocks += [TableBlock(SWITCH_PORTS, of_switches, numbers=("Gb/s", "MTU"))] if of_switches else []
    return blocks


def _port(port: events.NodePortListed) -> tuple[Cell, ...]:
    node, _, interface = port.subject.partition("/")
    return (
        node,
        Code(interface),
        Code(port.address),
        port.rail,
        Code(port.rdma) if port.rdma else "none",
        port.state or NOT_KNOWN,
        _speed(port.speed_gbps),
        str(port.mtu) if port.mtu is not None else NOT_KNOWN,
        port.far_end or "not in the file",
    )


def _firmware(ports: Sequence[events.NodePortListed]) -> Sequence[Block]:
    """Say which firmware each kind of card has, if any was read."""
    versions = distinct({port.subject: f"{port.card} {port.firmware}" for port in ports if port.card and port.firmware})
    text = "; ".join(f"{version} in {name_range(names, shortened=True)}" for version, names in versions.items())
    return [TextBlock(f"{text}.")] if text else []


def _card(port: events.NodePortListed) -> tuple[Cell, ...]:
    node, _, interface = port.subject.partition("/")
    values = (port.card, port.firmware, port.driver, port.pci, port.mac)
    return (node, Code(interface), *(value or NOT_KNOWN for value in values))


def _switch(switch: events.SwitchListed) -> tuple[Cell, ...]:
    return (
        switch.subject,
        Code(switch.host) if switch.host else "cannot be logged in to",
        *(value or NOT_KNOWN for value in (switch.model, switch.release, switch.serial)),
        moment(switch.read) if switch.read is not None else MarkCell("never", "notice"),
    )


def _switch_port(port: events.SwitchPortListed) -> tuple[Cell, ...]:
    switch, _, name = port.subject.partition(" ")
    return (
        switch,
        Code(name),
        f"{port.node}/{port.interface}",
        _up(port.up),
        _speed(port.speed_gbps),
        str(port.mtu) if port.mtu is not None else NOT_KNOWN,
        port.transceiver or NOT_KNOWN,
    )


def _up(is_up: bool | None) -> Cell:
    if is_up is None:
        return NOT_KNOWN
    return "up" if is_up else MarkCell("down", "bad")


def _speed(gbps: float | None) -> Cell:
    return Value(gbps, "Gb/s", f"{gbps:g}") if gbps is not None else NOT_KNOWN


SECTION = Section(name="ports", title="Ports, cards and switches", order=60, show=show)

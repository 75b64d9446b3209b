"""`show interface` of random ports, states and unknown lines: no counter of a port ever appears on another."""

from __future__ import annotations

import random

import pytest

from railbed.probes.nexus import interface

SEEDS = range(200)
NAMES = [
    *(f"Ethernet1/{port}" for port in range(1, 20)),
    "Ethernet1/49/2",
    "port-channel10",
    "Vlan100",
    "mgmt0",
    "ii1/1/1",
]
STATES = (
    "up",
    "down (Link not connected)",
    "down (Administratively down)",
    "down (suspended(no LACP PDUs))",
    "down (SFP not inserted), line protocol is down",
    "administratively down",
    "down (DCX-No ACK in 100 PDUs)",
    "errDisabled (bpduguard)",
    "link-up-pending",
)
ODD_HEADERS = ("{name} (rail 1) is up", "{name}: up", "{name}  is-up", "{name}")
"""First lines of no form that we know: the port is lost, but its counters are nobody else's."""
UNKNOWN = (
    "A sentence of a later release",
    "    Some new feature is turned on: 17 packets",
    "  New-Counter: 99",
    "leaf1# show interface",
    " --More-- ",
    "2026 Nov 19 20:50:00 leaf1 %ETHPORT-5-IF_DOWN_LINK_FAILURE: Interface Ethernet1/1 is down (Link failure)",
)


def port_lines(header: str, mark: int) -> list[str]:
    """Return the lines of a port all of whose counters have one value."""
    return [
        header,
        f"admin state is {'up' if mark % 2 else 'down'}, Dedicated Interface",
        f"  Hardware: 100/1000/10000 Ethernet, address: 0000.0000.{mark:04x} (bia 0000.0000.{mark:04x})",
        f"  MTU {mark} bytes, BW 10000000 Kbit , DLY 10 usec",
        "  RX",
        f"    {mark} unicast packets  {mark} multicast packets  {mark} broadcast packets",
        f"    {mark} input packets  {mark} bytes",
        f"    {mark} runts  {mark} giants  {mark} CRC  {mark} no buffer",
        f"    {mark} input error  {mark} short frame  {mark} overrun   {mark} underrun  {mark} ignored",
        f"    {mark} Rx pause",
        "  TX",
        f"    {mark} unicast packets  {mark} multicast packets  {mark} broadcast packets",
        f"    {mark} output packets  {mark} bytes",
        f"    {mark} output error  {mark} collision",
        f"    {mark} Tx pause",
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_counter_appears_on_another_port(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311  (not for secrets)
    names = rng.sample(NAMES, rng.randint(1, 8))
    marks = {name: 1000 + number for number, name in enumerate(names)}
    lost = {name for name in names[1:] if rng.random() < 0.2}
    lines: list[str] = []
    for name, mark in marks.items():
        form = rng.choice(ODD_HEADERS) if name in lost else "{name} is " + rng.choice(STATES)
        block = port_lines(form.format(name=name), mark)
        # Old releases leave out lines; only a port with its own first line may.
        block = [line for line in block if name in lost or line.startswith(name) or rng.random() < 0.9]
        lines += [*block, ""] if rng.random() < 0.5 else block
    for _ in range(rng.randint(0, 20)):
        lines.insert(rng.randint(0, len(lines)), rng.choice(UNKNOWN))
    ports = interface.parse("\n".join(lines)).ports
    assert set(ports) <= set(names)
    assert set(ports) >= set(names) - lost
    for name, port in ports.items():
        assert set(port.counters.values()) <= {marks[name]}, name
        assert port.mtu in (None, marks[name])
        assert port.address in (None, f"0000.0000.{marks[name]:04x}")


def test_a_suspended_port_keeps_its_own_counters() -> None:
    text = "\n".join(
        [*port_lines("Ethernet1/1 is up", 41), *port_lines("Ethernet1/2 is down (suspended(no LACP PDUs))", 77)]
    )
    ports = interface.parse(text).ports
    assert (ports["Ethernet1/1"].counters["crc"], ports["Ethernet1/2"].counters["crc"]) == (41, 77)
    assert (ports["Ethernet1/2"].up, ports["Ethernet1/2"].reason) == (False, "suspended(no LACP PDUs)")


@pytest.mark.parametrize("odd", ODD_HEADERS)
def test_counters_below_an_unknown_first_line_are_nobodys(odd: str) -> None:
    text = "\n".join([*port_lines("Ethernet1/1 is up", 41), *port_lines(odd.format(name="Ethernet1/2"), 77)])
    facts = interface.parse(text)
    assert set(facts.ports["Ethernet1/1"].counters.values()) == {41}
    assert odd.format(name="Ethernet1/2") in facts.not_understood

"""Ports of a Nexus: state, speed, MTU, counters and errors (`show interface`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.nexus.answer import count, port_name, read_object, require, rows, value_of
from railbed.parsing.nexus.port_blocks import port_blocks
from railbed.parsing.text import Fields, integer, number

REASON = re.compile(r"down \((?P<reason>(?:[^()]|\([^()]*+\))*+)\)")
ADMIN = re.compile(r"admin state is (up|down)\b.*")
MTU = re.compile(r"MTU (\d+) bytes\b.*")
SPEED = re.compile(r"(?:full|half|auto)-duplex, (\d+) ([GM])b/s\b.*")
JSON_SPEED = re.compile(r"(\d+(?:\.\d+)?) ([GM])b/s")
MODE = re.compile(r"Port mode is (\S+)")
ADDRESS = re.compile(r"Hardware: .*\baddress: ([0-9a-f.]+)\b.*")
COUNTERS = {
    # our name: (JSON key, direction and label in the text)
    "rx_packets": ("eth_inpkts", "rx input packets"),
    "rx_bytes": ("eth_inbytes", "rx bytes"),
    "rx_unicast": ("eth_inucast", "rx unicast packets"),
    "rx_multicast": ("eth_inmcast", "rx multicast packets"),
    "rx_broadcast": ("eth_inbcast", "rx broadcast packets"),
    "rx_jumbo": ("eth_jumbo_inpkts", "rx jumbo packets"),
    "rx_pause": ("eth_inpause", "rx rx pause"),
    "rx_errors": ("eth_inerr", "rx input error"),
    "rx_discards": ("eth_indiscard", "rx input discard"),
    "runts": ("eth_runts", "rx runts"),
    "giants": ("eth_giants", "rx giants"),
    "crc": ("eth_crc", "rx crc"),
    "no_buffer": ("eth_nobuf", "rx no buffer"),
    "overrun": ("eth_overrun", "rx overrun"),
    "underrun": ("eth_underrun", "rx underrun"),
    "stomped_crc": ("eth_stomped_crc", "rx stomped crc"),
    "tx_packets": ("eth_outpkts", "tx output packets"),
    "tx_bytes": ("eth_outbytes", "tx bytes"),
    "tx_unicast": ("eth_outucast", "tx unicast packets"),
    "tx_multicast": ("eth_outmcast", "tx multicast packets"),
    "tx_broadcast": ("eth_outbcast", "tx broadcast packets"),
    "tx_jumbo": ("eth_jumbo_outpkts", "tx jumbo packets"),
    "tx_pause": ("eth_outpause", "tx tx pause"),
    "tx_errors": ("eth_outerr", "tx output error"),
    "tx_discards": ("eth_outdiscard", "tx output discard"),
}
LABELS = {label: name for name, (_, label) in COUNTERS.items()}
LABELS |= {"rx crc/fcs": "crc", "tx output errors": "tx_errors"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchInterface:
    """One port."""

    up: bool
    reason: str | None = None
    """Why it is down."""
    enabled: bool
    """Not shut down by the administrator."""
    mtu: int | None = None
    speed_mbps: int | None = None
    """The speed of the link; None while it is not known."""
    mode: str | None = None
    """`access`, `trunk` or `routed`."""
    address: str | None = None
    """MAC address of the port."""
    counters: dict[str, int] = field(default_factory=dict)
    """Counters; one that is absent does not exist on this switch. `rx_pause` and `tx_pause` are 802.3x, not PFC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interfaces(TextFacts):
    """All interfaces of a switch by full name (`Ethernet1/1`), internal ports and SVIs included."""

    ports: dict[str, SwitchInterface]


def parse(text: str) -> Interfaces:
    """Read both forms."""
    fields, lines = read_object(text), Lines(text)
    if fields:
        ports = {port_name(require(row, "interface")): _of_json(row) for row in rows(fields, "interface")}
    else:
        ports = {port_name(name): _interface(state, block) for name, state, block in port_blocks(lines)}
    lines.require(ports, "no interface")
    return Interfaces(ports=ports, not_understood=lines.not_understood)


def _of_json(row: Fields) -> SwitchInterface:
    state = (value_of(row, "state") or value_of(row, "svi_line_proto") or "down").lower()
    reason = value_of(row, "state_rsn_desc")
    speed = JSON_SPEED.fullmatch(value_of(row, "eth_speed") or "")
    mtu = count(row, "eth_mtu")
    return SwitchInterface(
        up=state.startswith(("up", "connected")),
        reason=reason,
        enabled=(value_of(row, "admin_state") or value_of(row, "svi_admin_state") or "up") == "up",
        mtu=mtu if mtu is not None else count(row, "svi_mtu"),
        speed_mbps=_mbps(speed[1], speed[2]) if speed else None,
        mode=value_of(row, "eth_mode"),
        address=value_of(row, "eth_hw_addr"),
        counters={name: value for name, (key, _) in COUNTERS.items() if (value := count(row, key)) is not None},
    )


def _mbps(amount: str, unit: str) -> int:
    return round(number(amount) * (1000 if unit == "G" else 1))


def _interface(state: str, lines: list[str]) -> SwitchInterface:
    admin, mtu, mode = (_first(pattern, lines) for pattern in (ADMIN, MTU, MODE))
    address = _first(ADDRESS, lines)
    speed = next(filter(None, map(SPEED.fullmatch, lines)), None)
    is_up = state.partition(" ")[0].rstrip(",").lower() == "up"
    return SwitchInterface(
        up=is_up,
        reason=None if is_up else _reason(state),
        enabled=admin == "up" if admin else "administratively down" not in state.lower(),
        mtu=integer(mtu) if mtu else None,
        speed_mbps=_mbps(speed[1], speed[2]) if speed else None,
        mode=mode,
        address=address,
        counters=dict(_counters(lines)),
    )


def _reason(state: str) -> str | None:
    if match := REASON.match(state):
        return match["reason"]
    words = state.partition(",")[0].strip()
    return None if words == "down" else words


def _first(pattern: re.Pattern[str], lines: Iterable[str]) -> str | None:
    match = next(filter(None, map(pattern.fullmatch, lines)), None)
    return match[1] if match else None


def _counters(lines: Iterable[str]) -> Iterator[tuple[str, int]]:
    direction = ""
    for line in lines:
        if line.upper() in ("RX", "TX"):
            direction = line.lower()
        elif direction:
            for value, label in _label_numbers(line):
                name = LABELS.get(f"{direction} {label}")
                if name:
                    yield name, value


def _label_numbers(line: str) -> Iterator[tuple[int, str]]:
    """Yield the numbers of a line, each with the words after it: `0 runts  0 no buffer`."""
    value, words = "", list[str]()
    for word in line.split():
        if word.isdecimal():
            if value:
                yield integer(value), " ".join(words).lower()
            value, words = word, []
        else:
            words.append(word)
    if value:
        yield integer(value), " ".join(words).lower()


PROBE = Probe(
    name="nexus_interface",
    title="ports of a Nexus: state, speed, MTU, counters and errors",
    command="show interface | json\nshow interface",
    parse=parse,
    facts=Interfaces,
    runs_on="switch",
    twice=True,
    one_line=True,
)

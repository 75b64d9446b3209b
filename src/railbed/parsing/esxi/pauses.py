"""Global pause and PFC of an ESXi host: settings, the state that DCBX left, and counters."""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.parsing.esxi.layout import below, fields, table, truth, word
from railbed.parsing.text import integer

MODE = re.compile(r"(?:\d+ - )?(\w+) Mode")
COUNTER = re.compile(r"\s*+([A-Za-z]\w*+)\s*+:\s*+(\d+)", re.ASCII)
JSON_COUNTER = re.compile(r'\s*+"([A-Za-z]\w*+)"\s*+:\s*+(\d+),?', re.ASCII)
JSON_LINE = re.compile(r'^ *+"', re.MULTILINE)
TRAFFIC_CLASS = re.compile(r"PFC TC\[(\d)\]: RxXon=(\d+) RxXoff=(\d+) TxXon=(\d+) TxXoff=(\d+)\b.*", re.ASCII)
REFUSED = "Unable to complete Sysinfo operation"
"""The answer of `pauseParams set` while PFC is on; the reason is in vmkernel.log only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EsxiPause:
    """Global pause of a port; beside PFC it is off."""

    rx: bool
    tx: bool
    auto: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EsxiDcb:
    """What `esxcli network nic dcb status get` reports of a port: the result of DCBX or of the driver's parameters."""

    mode: str | None
    """`ieee` or `cee`; None if DCBX has not settled on either."""
    pfc: bool | None
    priorities: tuple[int, ...] | None
    """The priorities that PFC protects."""
    sent: tuple[int, ...] | None
    """PFC frames sent, by priority."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EsxiClassPauses:
    """PFC frames of one traffic class of an Intel card: `off` asks to pause, `on` to go on."""

    rx_on: int
    rx_off: int
    tx_on: int
    tx_off: int


def parse_pauses(text: str) -> dict[str, EsxiPause]:
    """Read `esxcli network nic pauseParams list`: global pause by port."""
    pauses: dict[str, EsxiPause] = {}
    for row in table(text, "NIC", "Pause RX", "Pause TX"):
        rx, tx = truth(row["Pause RX"]), truth(row["Pause TX"])
        if rx is None or tx is None:
            raise ParseError("no state of pause", line=row["NIC"])
        pauses[row["NIC"]] = EsxiPause(rx=rx, tx=tx, auto=truth(row.get("Auto Negotiation")))
    return pauses


def parse_dcb(text: str) -> EsxiDcb:
    """Read `esxcli network nic dcb status get`."""
    tree = fields(text)
    if not {"Mode", "PFC Enabled", "PFC Configuration"} & tree.keys():
        raise ParseError("no status of DCB", line=text.strip()[:80])
    mode = MODE.match(word(tree, "Mode") or "")
    bits = _numbers(word(tree, "PFC Configuration"))
    sent = word(tree, "Sent PFC Frames") or word(below(tree, "IEEE PFC Configuration"), "Sent PFC Frames")
    return EsxiDcb(
        mode=mode[1].lower() if mode else None,
        pfc=truth(word(tree, "PFC Enabled")),
        priorities=None if bits is None else tuple(priority for priority, bit in enumerate(bits) if bit),
        sent=_numbers(sent),
    )


def _numbers(text: str | None) -> tuple[int, ...] | None:
    return None if text is None else tuple(integer(item) for item in text.split())


def parse_counters(text: str) -> dict[str, int]:
    """Read counters of `vsish`, by name: `Name: value` lines, or the almost-JSON of its Python mode.

    Other lines are left out: a deprecated mode announces itself, and a driver adds counters of queues as free text.
    """
    pattern = JSON_COUNTER if JSON_LINE.search(text) else COUNTER
    counters = {
        match[1]: integer(match[2]) for line in text.splitlines() if (match := pattern.fullmatch(line.rstrip()))
    }
    if not counters:
        raise ParseError("no counter", line=text.strip()[:80])
    return counters


def parse_class_pauses(text: str) -> dict[int, EsxiClassPauses]:
    """Read `networkinternal nic privstats get` of an Intel card: PFC frames by traffic class."""
    matches = [match for line in text.splitlines() if (match := TRAFFIC_CLASS.fullmatch(line.strip()))]
    if not matches:
        raise ParseError("no counter of PFC", line=text.strip()[:80])
    classes: dict[int, EsxiClassPauses] = {}
    for match in matches:
        number, rx_on, rx_off, tx_on, tx_off = (integer(group) for group in match.groups())
        classes[number] = EsxiClassPauses(rx_on=rx_on, rx_off=rx_off, tx_on=tx_on, tx_off=tx_off)
    return classes

"""Congestion control of mlx5 cards (DCQCN): OFED's settings per priority, or the inbox driver's parameters."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.text import integer

SWITCH = re.compile(r"(?:.*/)?([^/\s]+)/ecn/(roce_np|roce_rp)/enable/([0-7]):\s*([01])\s*", re.ASCII)
OFED = re.compile(r"(?:.*/)?([^/\s]+)/ecn/roce_(np|rp)/(\w+):\s*(-?\d+)\s*", re.ASCII)
INBOX = re.compile(r"(?:(?:.*/)?([^/\s]+)/)?cc_params/(\w+):\s*(-?\d+)\s*", re.ASCII)
ALONE = re.compile(r"((?:rp|np|rtt)_\w+)(?::\s*(-?\d+))?\s*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ecn:
    """Congestion control of one interface, from OFED's sysfs."""

    notification: dict[str, bool] = field(default_factory=dict)
    """Per priority: answers marked packets with notifications (NP)."""
    reaction: dict[str, bool] = field(default_factory=dict)
    """Per priority: slows down on notifications (RP)."""
    parameters: dict[str, int] = field(default_factory=dict)
    """By name, with `np_` or `rp_` in front: `np_cnp_dscp`, …"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dcqcn(TextFacts):
    """Congestion control of all mlx5 cards."""

    interfaces: dict[str, Ecn]
    """OFED: by interface."""
    cards: dict[str, dict[str, int | None]]
    """Inbox driver: parameters by PCI address. A bare list of names is under the empty name, without values."""


def parse(text: str) -> Dcqcn:
    """Read `path:value` lines of both places, or the bare names of parameters; no output: both are missing."""
    interfaces: dict[str, Ecn] = {}
    cards: dict[str, dict[str, int | None]] = {}
    lines = Lines(text)
    for line in lines:
        word = line.strip()
        if match := SWITCH.fullmatch(word):
            ecn = interfaces.setdefault(match[1], Ecn())
            side = ecn.notification if match[2] == "roce_np" else ecn.reaction
            side[match[3]] = match[4] == "1"
        elif match := OFED.fullmatch(word):
            interfaces.setdefault(match[1], Ecn()).parameters[f"{match[2]}_{match[3]}"] = integer(match[4])
        elif match := INBOX.fullmatch(word):
            cards.setdefault(match[1] or "", {})[match[2]] = integer(match[3])
        elif match := ALONE.fullmatch(word):
            cards.setdefault("", {})[match[1]] = integer(match[2]) if match[2] else None
        else:
            lines.unknown(line)
    lines.require_known("not a parameter of congestion control")
    return Dcqcn(interfaces=interfaces, cards=cards, not_understood=lines.not_understood)


COMMAND = """
(cd /sys/class/net && grep -sH '' */ecn/roce_np/* */ecn/roce_rp/* */ecn/roce_np/enable/* */ecn/roce_rp/enable/*)
(cd /sys/kernel/debug/mlx5 2>/dev/null && grep -sH '' */cc_params/*)
exit 0
"""

PROBE = Probe(
    name="dcqcn",
    title="congestion control of mlx5 cards (DCQCN)",
    command=COMMAND,
    parse=parse,
    facts=Dcqcn,
    needs_root=True,
)

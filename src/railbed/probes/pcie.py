"""PCIe link of every network and RDMA card: speed and width now and at most, NUMA node, driver."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.ports import COMPLAINT
from railbed.parsing.text import integer, number

ADDRESS = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"
LINE = re.compile(
    rf"((?:(?:{ADDRESS}(?::\w+)?|pci[0-9a-fA-F]{{4,8}}:[0-9a-fA-F]{{2}}|[^/:]*)/)*+)([^/:\s]+):(.*)",
    re.ASCII | re.DOTALL,
)
"""Folders, file and value; only folders of PCI devices have a colon in their names."""
CARD = re.compile(rf"(?:.*/)?({ADDRESS})/(.*)|(?:.*/)?(net|infiniband)/([^/]+)/device/(.*)", re.ASCII | re.DOTALL)
"""Folder of a card, by PCI address, interface or RDMA device, and the path below it."""
BELOW = re.compile(r"(net|infiniband)/([^/]+)/.*", re.ASCII)
SPEED = re.compile(r"(\d{1,3}(?:\.\d)?) GT/s(?: PCIe)?", re.ASCII)
GEN2, GEN6 = 5.0, 64.0
"""GT/s up to which encoding takes a fifth, and from which packets are sent in flits."""
NO_WIDTH = (0, 63, 255)
"""The value without a trained link, and for virtual functions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieCard:
    """One PCI function."""

    netdevs: tuple[str, ...] = ()
    rdma: tuple[str, ...] = ()
    speed_gts: float | None = None
    """GT/s of each lane now."""
    width: int | None = None
    """Lanes now."""
    max_speed_gts: float | None = None
    max_width: int | None = None
    numa_node: int | None = None
    vendor: str | None = None
    device: str | None = None
    driver: str | None = None
    virtual_function: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieCards(TextFacts):
    """All network and RDMA cards, by PCI address; if that was not saved, by interface or under an empty name."""

    cards: dict[str, PcieCard]

    def card_of(self, netdev: str, rdma: str | None) -> tuple[str, PcieCard | None]:
        """Return the card of an interface or RDMA device with its PCI address, or what stands for that."""
        return next(
            (
                (address, card)
                for address, card in self.cards.items()
                if netdev in card.netdevs or (rdma and rdma in card.rdma)
            ),
            ("", None),
        )


def slot_of(address: str) -> str:
    """Return what the functions of one card have in common: the PCI address without the function."""
    return address.rpartition(".")[0] or address


def carried_gbps(speed_gts: float, width: int) -> float:
    """Return the bandwidth of a link after encoding, in Gb/s."""
    encoding = 0.8 if speed_gts <= GEN2 else 242 / 256 if speed_gts >= GEN6 else 128 / 130
    return speed_gts * width * encoding


def parse(text: str) -> PcieCards:
    """Read sections per PCI address with `file:value` lines, or such lines with paths; no lines mean no card."""
    cards: dict[str, PcieCard] = {}
    lines = Lines(text)
    for address, body in lines.sections():
        by_card = _by_card(body)
        cards |= {address or name: _card(values) for name, values in by_card.items() if _is_card(values)}
    lines.require(cards or not text.strip(), "no PCI device")
    return PcieCards(cards=cards, not_understood=lines.not_understood)


def _by_card(lines: Lines) -> dict[str, dict[str, list[str]]]:
    """Return the values of each file by card; files in folders below a card only show that the folder exists."""
    cards: dict[str, dict[str, list[str]]] = {}
    for line in lines:
        if COMPLAINT.match(line):
            continue
        match = LINE.fullmatch(line.strip())
        if not match:
            lines.unknown(line)
            continue
        below = match[1].removeprefix("./")
        values = cards.setdefault("", {})
        if place := CARD.fullmatch(below):
            values = cards.setdefault(place[1] or place[4], {})
            below = place[2] if place[1] else place[5]
            if place[3]:
                values.setdefault(place[3], []).append(place[4])
        if not below:
            values.setdefault(match[2], []).append(match[3].strip())
        elif kind := BELOW.fullmatch(below):
            values.setdefault(kind[1], []).append(kind[2])
    return cards


def _is_card(values: Mapping[str, list[str]]) -> bool:
    return bool({"current_link_speed", "vendor", "uevent", "net", "infiniband"} & values.keys())


def _card(values: Mapping[str, list[str]]) -> PcieCard:
    first = {name: by_card[0] for name, by_card in values.items()}
    return PcieCard(
        netdevs=tuple(sorted(filter(None, set(values.get("net", []))))),
        rdma=tuple(sorted(filter(None, set(values.get("infiniband", []))))),
        speed_gts=_speed(first.get("current_link_speed")),
        width=_width(first.get("current_link_width")),
        max_speed_gts=_speed(first.get("max_link_speed")),
        max_width=_width(first.get("max_link_width")),
        numa_node=_numa_node(first.get("numa_node")),
        vendor=first.get("vendor") or None,
        device=first.get("device") or None,
        driver=_driver(values),
        virtual_function="virtual_function" in values,
    )


def _speed(value: str | None) -> float | None:
    if not value or value.startswith("Unknown"):
        return None
    match = SPEED.fullmatch(value)
    if not match:
        raise ParseError("expected a speed in GT/s", line=value)
    return number(match[1])


def _width(value: str | None) -> int | None:
    if not value or value.startswith("Unknown"):
        return None
    width = integer(value)
    return None if width in NO_WIDTH else width


def _numa_node(value: str | None) -> int | None:
    node = integer(value) if value else -1
    return node if node >= 0 else None


def _driver(values: Mapping[str, list[str]]) -> str | None:
    prefix = "DRIVER="
    return next((line.removeprefix(prefix) for line in values.get("uevent", []) if line.startswith(prefix)), None)


COMMAND = """
cd /sys/bus/pci/devices 2>/dev/null || exit 0
for address in *; do
  [ -d "$address/net" ] || [ -d "$address/infiniband" ] || continue
  echo "==> $address <=="
  (cd "$address" && grep -sH '' current_link_speed current_link_width max_link_speed max_link_width numa_node \
    vendor device uevent
  for name in net/* infiniband/*; do [ -e "$name" ] && echo "${name%%/*}:${name##*/}"; done
  [ -e physfn ] && echo virtual_function:1)
done
exit 0
"""

PROBE = Probe(
    name="pcie",
    title="PCIe link of network and RDMA cards",
    command=COMMAND,
    parse=parse,
    facts=PcieCards,
)

"""Ports of network cards: what they are, what is behind the cable, and what they count."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from switchlab.esxi.model.pci import PciAddress

GENERAL_COUNTERS = (
    *("rxpkt", "txpkt", "rxbytes", "txbytes", "rxerr", "txerr", "rxdrp", "txdrp", "rxmltcast", "rxbrdcast"),
    *("txmltcast", "txbrdcast", "col", "rxlgterr", "rxoverr", "rxcrcerr", "rxfrmerr", "rxfifoerr", "rxmisserr"),
    *("txaborterr", "txcarerr", "txfifoerr", "txhearterr", "txwinerr", "intrxpkt", "inttxpkt", "intrxdrp", "inttxdrp"),
)
"""The counters of every card, in the order of vsish."""


@dataclass
class Counters:
    """Numbers that grow when told to, or steadily: what a test adds, and rates by the second."""

    clock: Callable[[], float] = time.monotonic
    _values: dict[str, int] = field(default_factory=dict)
    _rates: dict[str, tuple[float, float]] = field(default_factory=dict)
    """By name: how much it grows in a second, and since when."""

    def add(self, name: str, amount: int = 1) -> None:
        self._values[name] = self._values.get(name, 0) + amount

    def grow(self, name: str, per_second: float) -> None:
        """Let a counter grow from now on; 0 stops it."""
        self._values[name] = self.get(name)
        self._rates[name] = (per_second, self.clock())

    def get(self, name: str) -> int:
        rate, since = self._rates.get(name, (0.0, 0.0))
        return self._values.get(name, 0) + int(rate * (self.clock() - since) if rate else 0)

    def names(self) -> list[str]:
        return list(dict.fromkeys((*self._values, *self._rates)))

    def clear(self) -> None:
        """Start from zero; what grows continues to grow."""
        self._values.clear()
        now = self.clock()
        self._rates = {name: (rate, now) for name, (rate, _) in self._rates.items()}


@dataclass(slots=True, kw_only=True)
class SwitchPort:
    """The other end of a card's cable."""

    switch: str = ""
    port: str = ""
    dcbx: str = ""
    """What its DCBX speaks: `ieee` or `cee`; empty if it sends none."""
    pfc: int | None = None
    """The priorities with PFC that it offers, a bit for each; None if its DCBX does not mention PFC."""


@dataclass(slots=True)
class Pause:
    """Global pause of a port."""

    rx: bool = False
    tx: bool = False
    auto: bool = False


@dataclass(kw_only=True)
class Nic:
    """A port of a card; `vf_first` is the address of its first virtual function."""

    name: str
    pci: PciAddress
    driver: str
    mac: str
    description: str
    up: bool = True
    mbps: int = 25000
    mtu: int = 1500
    device_id: str = "15b3:1015"
    subsystem: str = "15b3:0001"
    irq: str = "A"
    firmware: str = "14.32.1010"
    driver_version: str = "4.21.71.101"
    link_modes: tuple[str, ...] = ("Auto", "10000BaseCR/Full", "25000BaseCR/Full")
    cable: str = "DA"
    wakeon: str = "None"
    vf_first: PciAddress | None = None
    has_rdma: bool = False
    peer: SwitchPort = field(default_factory=SwitchPort)
    pause: Pause = field(default_factory=Pause)
    counters: Counters = field(default_factory=Counters)
    hardware_text: str = ""
    """What the driver adds to its statistics as text, such as counters of each queue."""

    @property
    def shown_mbps(self) -> int:
        return self.mbps if self.up else 0

    @property
    def duplex(self) -> str:
        return "Full" if self.up else "Half"

    @property
    def link(self) -> str:
        return "Up" if self.up else "Down"

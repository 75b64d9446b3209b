"""The switch: its configurations, counters, links and neighbours. Everything else reads and changes this."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from switchlab.common.faults import Faults
from switchlab.common.files import write_atomically
from switchlab.nexus.model.config import Config, Interface
from switchlab.nexus.model.counters import Link, MacEntry, Neighbour, Port, add_to_counter
from switchlab.nexus.model.defaults import factory_config
from switchlab.nexus.model.disturbance import Disturbance, State, disturb, disturbances, hardware_state
from switchlab.nexus.model.platform import Platform
from switchlab.nexus.model.render import render, running_blocks
from switchlab.nexus.model.tcam import region_sizes
from switchlab.nexus.model.traffic import Crossing, Outcome, Packets, forward, pfc_priorities


@dataclass(frozen=True, slots=True)
class Checkpoint:
    name: str
    text: str
    time: float
    user: str = "admin"
    description: str = ""


@dataclass
class Switch:
    """An emulated Nexus.

    `state` is a folder for the startup configuration and the checkpoints; without one they live in memory.
    """

    platform: Platform
    state: Path | None = None
    running: Config = field(init=False)
    startup: str | None = field(init=False, default=None)
    checkpoints: dict[str, Checkpoint] = field(init=False, default_factory=dict)
    ports: dict[str, Port] = field(init=False, default_factory=dict)
    links: dict[str, Link] = field(init=False, default_factory=dict)
    neighbours: list[Neighbour] = field(init=False, default_factory=list)
    macs: list[MacEntry] = field(init=False, default_factory=list)
    booted: float = field(init=False, default_factory=time.time)
    configured: float = field(init=False, default_factory=time.time)
    observers: list[Callable[[], None]] = field(init=False, default_factory=list)
    connection_droppers: list[Callable[[], None]] = field(init=False, default_factory=list)
    faults: Faults = field(init=False, default_factory=Faults)
    tcam: dict[str, int] = field(init=False)
    """Sizes of TCAM regions since the last boot; empty if none is too small."""
    disturbances: list[Disturbance] = field(init=False, default_factory=list)
    """What changes of the configuration did to traffic."""
    _programmed: State = field(init=False)

    def __post_init__(self) -> None:
        self.running = factory_config(self.platform)
        for name in (*self.platform.port_names, *self.internal_ports, "mgmt0"):
            self.ports[name] = Port()
            self.links[name] = Link(mbps=self._line_rate(name))
        self.links["mgmt0"].up = True
        self.tcam = region_sizes(self.platform, self.running)
        self._programmed = hardware_state(self.running)
        if self.state is not None:
            self._read_state(self.state)

    @property
    def internal_ports(self) -> tuple[str, ...]:
        """Links between the front-panel ASIC and the fabric ASIC; boxes with an ALE list them beside real ports."""
        return tuple(f"ii1/1/{number}" for number in range(1, self.platform.internal_ports + 1))

    def _line_rate(self, name: str) -> int:
        number = int(name.rsplit("/", 1)[1]) if name.startswith("Ethernet") else 0
        return self.platform.port_group(number).mbps if number else 40_000 if name.startswith("ii") else 1_000

    # What tests and labs drive

    def set_link(self, port: str, *, up: bool, mbps: int | None = None, dcbx_peer: bool | None = None) -> None:
        link = self._link(port)
        if link.up != up:
            link.up, link.changed = up, time.time()
            self.ports[port].resets += not up
        link.mbps = mbps or link.mbps
        link.dcbx_peer = link.dcbx_peer if dcbx_peer is None else dcbx_peer
        self._check_management()

    def add_neighbour(self, neighbour: Neighbour) -> None:
        """Connect an LLDP neighbour; its port comes up."""
        self.set_link(neighbour.port, up=True)
        self.neighbours = [
            item for item in self.neighbours if (item.port, item.port_id) != (neighbour.port, neighbour.port_id)
        ]
        self.neighbours.append(neighbour)

    def add_mac(self, entry: MacEntry) -> None:
        """Let the switch learn an address; its port comes up."""
        self.set_link(entry.port, up=True)
        self.macs = [item for item in self.macs if (item.vlan, item.address) != (entry.vlan, entry.address)]
        self.macs.append(entry)

    def disconnect(self, port: str) -> None:
        """Unplug a port: the link goes down, its neighbours and addresses are forgotten."""
        self.set_link(port, up=False)
        self.neighbours = [item for item in self.neighbours if item.port != port]
        self.macs = [item for item in self.macs if item.port != port]

    @property
    def is_reachable(self) -> bool:
        """Whether the management port has a link and is not shut: SSH and NX-API are behind it."""
        return self.is_up(self.running.interfaces["mgmt0"])

    def _check_management(self) -> None:
        if not self.is_reachable:
            self.drop_connections()

    def drop_connections(self) -> None:
        """Cut every connection."""
        for drop in self.connection_droppers:
            drop()

    def add(
        self, port: str, counter: str, amount: int = 1, *, group: int | None = None, priority: int | None = None
    ) -> None:
        """Increase a counter of a port, of one of its queues (`group`) or priorities."""
        self._link(port)
        add_to_counter(self.ports[port], counter, amount, group=group, priority=priority)

    def carry(self, port_in: str, port_out: str, packets: Packets) -> Outcome:
        """Forward a burst as the configuration says, and count it; a port that is down loses it uncounted."""
        if not (self._carries(port_in) and self._carries(port_out)):
            return Outcome(group=0, lossless=False, sent=0, dropped=packets.count)
        way = Crossing(
            port_in=port_in,
            port_out=port_out,
            incoming=self.ports[port_in],
            outgoing=self.ports[port_out],
            pfc=self.pfc_on(port_in),
        )
        return forward(self.running, way, packets)

    def pfc_on(self, port: str) -> dict[int, int]:
        """Return the priorities that PFC protects on a port now, with their QoS groups."""
        link = self.links[port]
        return pfc_priorities(self.running, port, up=link.up, dcbx_peer=link.dcbx_peer)

    def is_up(self, interface: Interface) -> bool:
        return not interface.shut and (interface.name not in self.links or self.links[interface.name].up)

    def _carries(self, port: str) -> bool:
        interface = self.running.interfaces.get(port)
        return self._link(port).up and not (interface and interface.shut)

    def _link(self, port: str) -> Link:
        if port not in self.links:
            raise ValueError(f"the switch has no port {port}")
        return self.links[port]

    # Configurations

    def running_text(self) -> str:
        return render(running_blocks(self.running))

    def replace_running(self, config: Config) -> None:
        self.running = config
        self.config_changed()

    def config_changed(self) -> None:
        self.configured = time.time()
        self._disturb()
        self._check_management()
        for observer in self.observers:
            observer()

    def _disturb(self) -> None:
        """Let ports lose traffic if the hardware has to be programmed again."""
        before, self._programmed = self._programmed, hardware_state(self.running)
        if before != self._programmed:
            for disturbance in disturbances(before, self._programmed, self.running, self.links):
                disturb(disturbance, self.ports, self.links)
                self.disturbances.append(disturbance)

    def save(self) -> None:
        self.startup = self.running_text()
        self._write("startup-config", self.startup)

    def erase_startup(self) -> None:
        self.startup = None
        if self.state is not None:
            (self.state / "startup-config").unlink(missing_ok=True)

    def add_checkpoint(self, checkpoint: Checkpoint) -> None:
        self.checkpoints[checkpoint.name] = checkpoint
        self._write(f"checkpoints/{checkpoint.name}", checkpoint.text)
        self._write(f"descriptions/{checkpoint.name}", checkpoint.description)

    def remove_checkpoint(self, name: str) -> None:
        del self.checkpoints[name]
        if self.state is not None:
            for folder in ("checkpoints", "descriptions"):
                (self.state / folder / name).unlink(missing_ok=True)

    def restart(self, config: Config) -> None:
        """Start over with a configuration: counters and the MAC table are gone, links stay."""
        self.booted = time.time()
        self.macs.clear()
        self.tcam = region_sizes(self.platform, config)
        self.replace_running(config)
        for port in self.ports.values():
            port.clear()
        self.drop_connections()

    def _read_state(self, folder: Path) -> None:
        saved = folder / "startup-config"
        self.startup = saved.read_text() if saved.is_file() else None
        for path in sorted((folder / "checkpoints").glob("*")):
            if not path.name.startswith("."):
                described = folder / "descriptions" / path.name
                self.checkpoints[path.name] = Checkpoint(
                    path.name,
                    path.read_text(),
                    path.stat().st_mtime,
                    description=described.read_text() if described.is_file() else "",
                )

    def _write(self, name: str, text: str) -> None:
        """Write a file of the state folder."""
        if self.state is not None:
            write_atomically(self.state / name, text)

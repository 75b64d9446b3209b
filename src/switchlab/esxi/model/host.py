"""The host: what runs, what is stored for the next boot, what surrounds it. Everything else reads and changes this."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from switchlab.common.faults import Faults
from switchlab.common.files import write_atomically
from switchlab.esxi.model import dcb
from switchlab.esxi.model.cards import Nic, Pause
from switchlab.esxi.model.description import Description
from switchlab.esxi.model.drivers import MODULES, RDMA_MODULES, parse_options
from switchlab.esxi.model.functions import FunctionTable
from switchlab.esxi.model.networks import Vm
from switchlab.esxi.model.release import Release

LOCKDOWN = ("off", "on", "read-only")
FIRST_WORLD = 2099152
MOST_LOG_LINES = 10_000


class Refused(Exception):
    """The host refuses a command, with this text."""


@dataclass
class Host:
    """An emulated ESXi host; `state` is a folder for what survives a boot, without one it lives in memory."""

    release: Release
    description: Description = field(default_factory=Description)
    hostname: str = "localhost"
    state: Path | None = None
    clock: Callable[[], float] = time.time
    stored: dict[str, str] = field(init=False, default_factory=dict)
    """The options of each module for the next boot."""
    boot_bank: dict[str, str] = field(init=False, default_factory=dict)
    """Those that a power cut leaves: `auto-backup.sh` and a shutdown write them."""
    loaded: dict[str, dict[str, str]] = field(init=False, default_factory=dict)
    """The options that each module was loaded with."""
    nics: dict[str, Nic] = field(init=False, default_factory=dict)
    vms: list[Vm] = field(init=False, default_factory=list)
    maintenance: bool = field(init=False, default=False)
    lockdown: str = field(init=False, default="off")
    needs_reboot: bool = field(init=False, default=False)
    log: list[str] = field(init=False, default_factory=list)
    """The lines of /var/log/vmkernel.log."""
    commands: list[str] = field(init=False, default_factory=list)
    """Every command that a login ran."""
    booted: float = field(init=False, default=0.0)
    boots: int = field(init=False, default=0)
    unreachable_until: float = field(init=False, default=0.0)
    connection_droppers: list[Callable[[], None]] = field(init=False, default_factory=list)
    faults: Faults = field(init=False, default_factory=Faults)

    def __post_init__(self) -> None:
        self.nics = {nic.name: nic for nic in self.description.nics}
        self.vms = self.description.vms
        self.stored = {name: self.description.modules.get(name, "") for name in self._module_names()}
        if self.state is not None:
            self._read_state(self.state)
        self.boot_bank = dict(self.stored)
        self._boot()

    def _module_names(self) -> list[str]:
        drivers = {nic.driver for nic in self.nics.values()}
        rdma = {RDMA_MODULES[driver] for driver in drivers if driver in RDMA_MODULES}
        return sorted(drivers | rdma | set(self.description.modules))

    # Booting

    def _boot(self) -> None:
        self.loaded = {name: parse_options(options) for name, options in self.stored.items()}
        self.booted = self.clock()
        self.boots += 1
        self.needs_reboot = False
        for nic in self.nics.values():
            nic.counters.clear()
            pauses = MODULES[nic.driver].pauses
            nic.pause = Pause(rx=pauses, tx=pauses)
        world = FIRST_WORLD
        for vm in self.vms:
            vm.cartel, vm.world, vm.running = world, world + 1, False
            world += 316
            self.power_on(vm)

    def reboot(self, *, seconds: float = 0.0) -> None:
        """Shut down in order and boot again: what is stored is loaded, counters start from zero."""
        self.boot_bank = dict(self.stored)
        self._boot()
        self._go_away(seconds)

    def cut_power(self, *, seconds: float = 0.0) -> None:
        """Boot again without a shutdown: what has not been backed up is lost."""
        self.stored = dict(self.boot_bank)
        self._boot()
        self._go_away(seconds)

    def _go_away(self, seconds: float) -> None:
        self.unreachable_until = self.clock() + seconds
        self.save()
        self.drop_connections()

    def back_up(self) -> None:
        """Write the stored configuration to the boot bank, as `auto-backup.sh` does."""
        self.boot_bank = dict(self.stored)
        self.save()

    def drop_connections(self) -> None:
        """Cut every connection."""
        for drop in self.connection_droppers:
            drop()

    @property
    def is_reachable(self) -> bool:
        """Whether it answers; not while it reboots."""
        return self.clock() >= self.unreachable_until

    @property
    def accepts_logins(self) -> bool:
        """Whether root may log in; not in lockdown mode."""
        return self.lockdown != "on"

    # VMs

    def power_on(self, vm: Vm) -> bool:
        """Start a VM, unless a virtual function that it needs does not exist."""
        table = FunctionTable(self)
        missing = [vf for vf in vm.vfs if not table.has(vf.nic, vf.number)]
        vm.running = not missing
        for vf in missing:
            self.write_log(f"WARNING: PCIPassthru: {vm.name}: no virtual function {vf.number} on {vf.nic}")
        return vm.running

    def vm(self, name: str) -> Vm:
        for vm in self.vms:
            if vm.name == name:
                return vm
        raise ValueError(f"the host has no VM {name}")

    # Cards

    @property
    def passed_through(self) -> set[str]:
        """The PCI addresses of devices that the host has given away."""
        by_vms = {address for vm in self.vms for address in vm.passthrough}
        return by_vms | {address for address, on in self.description.passthrough.items() if on}

    @property
    def own_nics(self) -> list[Nic]:
        """The cards that the vmkernel drives, in the order of their names."""
        own = [nic for nic in self.nics.values() if str(nic.pci) not in self.passed_through]
        return sorted(own, key=lambda nic: (len(nic.name), nic.name))

    def own_nic(self, name: str) -> Nic | None:
        return next((nic for nic in self.own_nics if nic.name == name), None)

    def nic(self, name: str) -> Nic:
        if name not in self.nics:
            raise ValueError(f"the host has no nic {name}")
        return self.nics[name]

    def dcb_of(self, nic: Nic) -> dcb.Dcb:
        """Return what decides about PFC on a port now."""
        return dcb.running(nic, self.loaded.get(nic.driver, {}), self.release)

    def pause_of(self, nic: Nic) -> Pause:
        """Return the global pause that runs: none beside PFC."""
        return Pause(auto=nic.pause.auto) if self.dcb_of(nic).is_on else nic.pause

    def set_pause(self, nic: Nic, *, rx: bool | None, tx: bool | None, auto: bool | None) -> None:
        """Set global pause; the driver refuses while PFC is on."""
        if self.dcb_of(nic).is_on:
            self.write_log(f"<NMLX_WRN> {nic.driver}: {nic.name}: pause parameters cannot be set when pfc is enabled")
            raise Refused("Unable to complete Sysinfo operation")
        current = nic.pause
        nic.pause = Pause(
            rx=current.rx if rx is None else rx,
            tx=current.tx if tx is None else tx,
            auto=current.auto if auto is None else auto,
        )

    def take_pause(self, nic: Nic, direction: str, frames: int, priority: int | None) -> int:
        """Count pause frames that a port receives (`rx`) or sends (`tx`); return how many took effect."""
        return dcb.count_pause(nic, self.dcb_of(nic), self.pause_of(nic), direction, frames=frames, priority=priority)

    # Modules

    def store_options(self, module: str, options: str) -> None:
        """Store the options of a module for the next boot: all of them, in place of what was there."""
        self.stored[module] = options
        self.save()

    @property
    def pending(self) -> list[str]:
        """The modules whose stored options are not those that run."""
        return [name for name, options in self.stored.items() if parse_options(options) != self.loaded.get(name, {})]

    # What survives

    def write_log(self, line: str) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(self.clock()))
        self.log.append(f"{stamp} cpu3:{FIRST_WORLD}){line}")
        del self.log[:-MOST_LOG_LINES]

    def save(self) -> None:
        if self.state is None:
            return
        mtu = {switch.name: switch.mtu for switch in self.description.vswitches}
        content = {"modules": self.stored, "mtu": mtu, "maintenance": self.maintenance}
        write_atomically(self.state / "host.json", json.dumps(content, indent=1))

    def _read_state(self, folder: Path) -> None:
        path = folder / "host.json"
        if not path.is_file():
            self.save()
            return
        content = json.loads(path.read_text())
        self.stored |= content["modules"]
        self.maintenance = content["maintenance"]
        for switch in self.description.vswitches:
            switch.mtu = content["mtu"].get(switch.name, switch.mtu)

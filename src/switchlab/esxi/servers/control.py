"""The requests of the control socket: what surrounds the host, and what its user does to it."""

from __future__ import annotations

from switchlab.common.control_socket import ControlSocket
from switchlab.common.fields import Arguments, check_names, flag, number, optional_number, text
from switchlab.esxi.model.cards import GENERAL_COUNTERS
from switchlab.esxi.model.dcb import pause_counters
from switchlab.esxi.model.description import read_peer
from switchlab.esxi.model.host import LOCKDOWN, Host


class HostControl(ControlSocket):
    def __init__(self, host: Host) -> None:
        self._host = host
        actions = {
            "reboot": lambda arguments: host.reboot(seconds=number(arguments, "seconds", 0)),
            "power_cut": lambda arguments: host.cut_power(seconds=number(arguments, "seconds", 0)),
            "power": self._power,
            "lockdown": self._lockdown,
            "link": self._link,
            "peer": self._peer,
            "pause": self._pause,
            "traffic": self._traffic,
            "add": self._add,
            "rate": self._rate,
            "counters": self._counters,
            "age": self._age,
            "state": self._state,
            "commands": lambda _: list(host.commands),
        }
        super().__init__(actions, host.faults, host.drop_connections)

    def _power(self, arguments: Arguments) -> bool:
        """Power a VM on or off; return whether it runs."""
        vm = self._host.vm(text(arguments, "vm"))
        if flag(arguments, "on"):
            return self._host.power_on(vm)
        vm.running = False
        return False

    def _lockdown(self, arguments: Arguments) -> None:
        mode = text(arguments, "mode")
        if mode not in LOCKDOWN:
            raise ValueError(f"mode must be one of {', '.join(LOCKDOWN)}")
        self._host.lockdown = mode
        if mode == "on":
            self._host.drop_connections()

    def _link(self, arguments: Arguments) -> None:
        nic = self._host.nic(text(arguments, "nic"))
        nic.up = flag(arguments, "up")
        nic.mbps = optional_number(arguments, "mbps") or nic.mbps

    def _peer(self, arguments: Arguments) -> None:
        """Connect a card to another switch port, or change what the switch offers by DCBX."""
        nic = self._host.nic(text(arguments, "nic"))
        nic.peer = read_peer({name: value for name, value in arguments.items() if name != "nic"})

    def _pause(self, arguments: Arguments) -> int:
        nic = self._host.nic(text(arguments, "nic"))
        frames, priority = number(arguments, "frames", 1), optional_number(arguments, "priority")
        return self._host.take_pause(nic, text(arguments, "direction", "rx"), frames, priority)

    def _traffic(self, arguments: Arguments) -> None:
        nic = self._host.nic(text(arguments, "nic"))
        direction, size = text(arguments, "direction", "rx"), number(arguments, "bytes")
        packet = number(arguments, "packet_size", 4096)
        if direction not in ("rx", "tx") or size < 0 or packet < 1:
            raise ValueError("direction must be rx or tx, and sizes must be positive")
        nic.counters.add(f"{direction}bytes", size)
        nic.counters.add(f"{direction}pkt", -(-size // packet))

    def _add(self, arguments: Arguments) -> None:
        nic = self._host.nic(text(arguments, "nic"))
        nic.counters.add(text(arguments, "counter"), number(arguments, "amount", 1))

    def _rate(self, arguments: Arguments) -> None:
        nic = self._host.nic(text(arguments, "nic"))
        nic.counters.grow(text(arguments, "counter"), number(arguments, "per_second"))

    def _counters(self, arguments: Arguments) -> dict[str, int]:
        """Return all counters of a card, also those that its mode hides."""
        nic = self._host.nic(text(arguments, "nic"))
        names = dict.fromkeys((*GENERAL_COUNTERS, *nic.counters.names()))
        shown = pause_counters(nic, self._host.dcb_of(nic), self._host.pause_of(nic))
        return {name: nic.counters.get(name) for name in (*names, *shown)}

    def _age(self, arguments: Arguments) -> None:
        """Let the host have been up for so many seconds."""
        check_names(arguments, ("seconds",))
        self._host.booted = self._host.clock() - number(arguments, "seconds")

    def _state(self, _arguments: Arguments) -> dict[str, object]:
        host = self._host
        return {
            "boots": host.boots,
            "stored": dict(host.stored),
            "loaded": {name: dict(options) for name, options in host.loaded.items()},
            "pending": host.pending,
            "maintenance": host.maintenance,
            "lockdown": host.lockdown,
            "vms": {vm.name: vm.running for vm in host.vms},
        }

"""The requests of the control socket: links, neighbours, counters and traffic of the switch."""

from __future__ import annotations

from dataclasses import asdict

from switchlab.common import fields
from switchlab.common.control_socket import ControlSocket
from switchlab.common.fields import Arguments
from switchlab.nexus.cli.arguments import expand_interfaces
from switchlab.nexus.model.switch import Switch
from switchlab.nexus.servers import requests


class ControlService(ControlSocket):
    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        actions = {
            "link": self._link,
            "neighbour": lambda arguments: switch.add_neighbour(requests.neighbour(arguments)),
            "mac": lambda arguments: switch.add_mac(requests.mac_entry(arguments)),
            "add": self._add,
            "carry": self._carry,
            "counters": self._counters,
            "disconnect": lambda arguments: switch.disconnect(fields.text(arguments, "port")),
            "tcam": self._tcam,
            "disturbances": lambda _: [asdict(item) for item in switch.disturbances],
        }
        super().__init__(actions, switch.faults, switch.drop_connections)

    def prepare(self, arguments: dict[str, object]) -> Arguments:
        ports = ("port", "port_in", "port_out")
        return {name: _port_name(value) if name in ports else value for name, value in arguments.items()}

    def _link(self, arguments: Arguments) -> None:
        self._switch.set_link(
            fields.text(arguments, "port"),
            up=fields.flag(arguments, "up"),
            mbps=fields.optional_number(arguments, "mbps"),
            dcbx_peer=fields.flag(arguments, "dcbx_peer") if "dcbx_peer" in arguments else None,
        )

    def _add(self, arguments: Arguments) -> None:
        self._switch.add(
            fields.text(arguments, "port"),
            fields.text(arguments, "counter"),
            fields.number(arguments, "amount", 1),
            group=fields.optional_number(arguments, "group"),
            priority=fields.optional_number(arguments, "priority"),
        )

    def _carry(self, arguments: Arguments) -> object:
        ports = fields.text(arguments, "port_in"), fields.text(arguments, "port_out")
        return asdict(self._switch.carry(*ports, requests.packets(arguments)))

    def _tcam(self, arguments: Arguments) -> None:
        """Give a TCAM region another size, as after a reload."""
        region = fields.text(arguments, "region")
        if region not in self._switch.tcam:
            raise ValueError(f"the switch has no TCAM region {region}")
        self._switch.tcam[region] = fields.number(arguments, "size")

    def _counters(self, arguments: Arguments) -> object:
        return asdict(self._switch.ports[fields.text(arguments, "port")])


def _port_name(value: object) -> str:
    names = expand_interfaces(str(value))
    if names is None or len(names) != 1:
        return str(value)
    return names[0]

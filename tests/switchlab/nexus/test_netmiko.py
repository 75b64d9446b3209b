"""An independent client: netmiko's driver for NX-OS."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from switchlab.nexus.model.counters import MacEntry, Neighbour
from switchlab.nexus.model.platform import PLATFORMS
from switchlab.nexus.model.switch import Switch
from switchlab.nexus.service import Emulator
from switchlab.nexus.session import Session
from tests.switchlab.nexus.conftest import StartEmulator
from tests.switchlab.nexus.support import PASSWORD, run

netmiko = pytest.importorskip("netmiko")
ntc_parse = pytest.importorskip("ntc_templates.parse")  # comes with netmiko
T = TypeVar("T")


async def with_netmiko(emulator: Emulator, work: Callable[[Any], T]) -> T:
    """Run blocking work with a netmiko connection, in a thread."""

    def connect_and_work() -> T:
        connection = netmiko.ConnectHandler(
            device_type="cisco_nxos",
            host="127.0.0.1",
            port=emulator.ssh_port,
            username="admin",
            password=PASSWORD,
            conn_timeout=30,
            read_timeout_override=60,
        )
        try:
            return work(connection)
        finally:
            connection.disconnect()

    return await asyncio.to_thread(connect_and_work)


@pytest.mark.parametrize("name", ["n9k", "n9k-ale", "n5k"])
async def test_reading(name: str, emulate: StartEmulator) -> None:
    def read(connection: Any) -> tuple[str, str, str]:
        return (
            connection.find_prompt(),
            connection.send_command("show queuing interface ethernet 1/1"),
            connection.send_command("show interface priority-flow-control"),
        )

    async with emulate(Switch(PLATFORMS[name])) as emulator:
        prompt, queuing, pfc = await with_netmiko(emulator, read)
    assert prompt == "switch#"
    assert "Ethernet1/1" in queuing
    assert "Oper(VL bmap)" in pfc
    assert "--More--" not in queuing + pfc


async def test_configuring_and_saving(switch: Switch, emulate: StartEmulator) -> None:
    lines = [
        "class-map type qos match-any ROCE",
        "match dscp 26",
        "interface Ethernet1/1",
        "priority-flow-control mode on",
    ]

    def configure(connection: Any) -> tuple[str, str]:
        output = connection.send_config_set(lines)
        return output, connection.save_config()

    async with emulate(switch) as emulator:
        output, saved = await with_netmiko(emulator, configure)
    assert "(config-cmap-qos)#" in output
    assert "Copy complete." in saved
    assert switch.startup is not None
    assert "  match dscp 26\n" in switch.startup
    assert "  priority-flow-control mode on\n" in switch.startup


async def test_errors_are_recognised(switch: Switch, emulate: StartEmulator) -> None:
    def provoke(connection: Any) -> None:
        connection.send_config_set(["interface Ethernet1/1", "mtu nonsense"], error_pattern=r"% Invalid|ERROR:")

    async with emulate(switch) as emulator:
        with pytest.raises(netmiko.exceptions.ConfigInvalidException):
            await with_netmiko(emulator, provoke)


@pytest.mark.parametrize(
    ("command", "fields"),
    [
        ("show version", {"os": "10.4(3)", "hostname": "switch"}),
        ("show inventory", {"name": "Chassis", "pid": "N9K-C93180YC-FX3"}),
        ("show interface", {"interface": "Ethernet1/1", "link_status": "up", "mtu": "1500"}),
        ("show interface status", {"port": "Eth1/1", "status": "connected", "vlan_id": "1", "speed": "25G"}),
        ("show interface transceiver", {"interface": "Ethernet1/1", "type": "SFP-H25GB-CU3M"}),
        ("show vlan", {"vlan_id": "1", "vlan_name": "default", "status": "active"}),
        ("show mac address-table", {"mac_address": "0c42.a1aa.0001", "ports": "Eth1/1", "vlan_id": "1"}),
        ("show lldp neighbors", {"neighbor_name": "node1", "local_interface": "Eth1/1"}),
        ("show lldp neighbors detail", {"neighbor_name": "node1", "chassis_id": "0c42.a1aa.0001"}),
    ],
)
def test_templates_written_for_real_switches_read_the_output(
    lossless: Switch, command: str, fields: dict[str, str]
) -> None:
    lossless.add_neighbour(
        Neighbour(port="Ethernet1/1", chassis_id="0c42.a1aa.0001", port_id="ens1", system_name="node1")
    )
    lossless.add_mac(MacEntry(vlan=1, address="0c42.a1aa.0001", port="Ethernet1/1"))
    run(Session(lossless), "conf t", "interface e1/1", "no mtu")
    first = ntc_parse.parse_output(platform="cisco_nxos", command=command, data=run(Session(lossless), command))[0]
    assert {name: first.get(name) for name in fields} == fields

"""LLDP neighbours and the MAC address table."""

from __future__ import annotations

from switchlab.nexus.cli.context import Shown
from switchlab.nexus.model.counters import Neighbour
from switchlab.nexus.model.switch import Switch
from switchlab.nexus.show.layout import Row, table

CAPABILITIES = """Capability codes:
  (R) Router, (B) Bridge, (T) Telephone, (C) DOCSIS Cable Device
  (W) WLAN Access Point, (P) Repeater, (S) Station, (O) Other
Device ID            Local Intf      Hold-time  Capability  Port ID
"""
MAC_LEGEND = """Legend:
        * - primary entry, G - Gateway MAC, (R) - Routed MAC, O - Overlay MAC
        age - seconds since last seen,+ - primary entry using vPC Peer-Link,
        (T) - True, (F) - False, C - ControlPlane MAC, ~ - vsan
   VLAN     MAC Address      Type      age     Secure NTFY Ports
---------+-----------------+--------+---------+------+----+------------------
"""


def visible_neighbours(switch: Switch, port: str | None = None) -> list[Neighbour]:
    """Return the neighbours whose frames the switch receives: the port is up and `lldp receive` is on."""
    heard = []
    for neighbour in switch.neighbours:
        interface = switch.running.interfaces.get(neighbour.port)
        if interface is None or not switch.is_up(interface) or port not in (None, neighbour.port):
            continue
        if interface.settings.get("lldp receive") != "no lldp receive":
            heard.append(neighbour)
    return heard


def local_port(neighbour: Neighbour) -> str:
    return neighbour.port.replace("Ethernet", "Eth")


def show_lldp_neighbours(switch: Switch, port: str | None = None) -> Shown:
    entries = visible_neighbours(switch, port)
    lines = [
        f"{item.system_name[:20]:<20} {local_port(item):<15} {item.hold:<10} {item.capabilities:<11} {item.port_id}  "
        for item in entries
    ]
    rows: list[Row] = [
        {
            "chassis_type": 7,
            "chassis_id": item.system_name,
            "l_port_id": local_port(item),
            "hold_time": item.hold,
            "system_capability": item.capabilities,
            "enabled_capability": item.capabilities,
            "port_type": 7,
            "port_id": item.port_id,
            "mgmt_addr_type": "IPV4",
            "mgmt_addr": item.management_address,
        }
        for item in entries
    ]
    body = "".join(f"{line}\n" for line in lines)
    text = f"{CAPABILITIES}{body}Total entries displayed: {len(entries)}\n"
    return Shown(text, {**table("nbor", rows), "neigh_count": len(entries)})


def show_lldp_detail(switch: Switch, port: str | None = None) -> Shown:
    entries = visible_neighbours(switch, port)
    text = (
        CAPABILITIES
        + "\n"
        + "\n".join(_detail(item) for item in entries)
        + f"\nTotal entries displayed: {len(entries)}\n"
    )
    rows: list[Row] = [
        {
            "chassis_type": 4,
            "chassis_id": item.chassis_id,
            "port_type": 3,
            "port_id": item.port_id,
            "l_port_id": local_port(item),
            "port_desc": item.port_description,
            "sys_name": item.system_name,
            "sys_desc": item.system_description,
            "ttl": item.hold,
            "system_capability": item.capabilities,
            "enabled_capability": item.capabilities,
            "mgmt_addr_type": "IPV4",
            "mgmt_addr": item.management_address,
            "mgmt_addr_ipv6_type": "IPV6",
            "mgmt_addr_ipv6": "not advertised",
            "vlan_id": item.vlan,
        }
        for item in entries
    ]
    return Shown(text, {**table("nbor_detail", rows), "neigh_count": len(entries)})


def _detail(item: Neighbour) -> str:
    return f"""Chassis id: {item.chassis_id}
Port id: {item.port_id}
Local Port id: {local_port(item)}
Port Description: {item.port_description}
System Name: {item.system_name}
System Description: {item.system_description}
Time remaining: {item.hold} seconds
System Capabilities: {item.capabilities}
Enabled Capabilities: {item.capabilities}
Management Address: {item.management_address}
Management Address IPV6: not advertised
Vlan ID: {item.vlan}

"""


def show_macs(switch: Switch, port: str | None = None, vlan: int | None = None) -> Shown:
    entries = sorted(
        (item for item in switch.macs if port in (None, item.port) and vlan in (None, item.vlan)),
        key=lambda item: (item.vlan, item.address),
    )
    entries = [item for item in entries if switch.is_up(switch.running.interfaces[item.port])]
    lines = [
        f"*{item.vlan:>5}     {item.address}   dynamic  0         F      F    {item.port.replace('Ethernet', 'Eth')}"
        for item in entries
    ]
    rows: list[Row] = [
        {
            "disp_mac_addr": item.address,
            "disp_type": "* ",
            "disp_vlan": item.vlan,
            "disp_is_static": "disabled",
            "disp_age": 0,
            "disp_is_secure": "disabled",
            "disp_is_ntfy": "disabled",
            "disp_port": item.port,
        }
        for item in entries
    ]
    return Shown(MAC_LEGEND + "".join(f"{line}\n" for line in lines), table("mac_address", rows))

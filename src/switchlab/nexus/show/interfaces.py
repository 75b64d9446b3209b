"""`show interface`, in full, as status and as brief; transceivers."""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence

from switchlab.nexus.cli.context import Shown
from switchlab.nexus.model.config import Interface
from switchlab.nexus.model.counters import Link, Port
from switchlab.nexus.model.switch import Switch
from switchlab.nexus.show.layout import Row, age, speed_name, table

RULE = "-" * 80
PORT_KEYS = (
    *(("inucast", "rx_unicast"), ("inmcast", "rx_multicast"), ("inbcast", "rx_broadcast"), ("inbytes", "rx_bytes")),
    *(("outucast", "tx_unicast"), ("outmcast", "tx_multicast"), ("outbcast", "tx_broadcast"), ("outbytes", "tx_bytes")),
    *(("jumbo_inpkts", "rx_jumbo"), ("jumbo_outpkts", "tx_jumbo"), ("inpause", "rx_pause"), ("outpause", "tx_pause")),
)
ERROR_KEYS = (
    *(("runts", "runts"), ("giants", "giants"), ("crc", "fcs"), ("inerr", "rcv"), ("indiscard", "in_discards")),
    *(("outerr", "xmit"), ("outdiscard", "out_discards")),
)
UNUSED_KEYS = (
    *("storm_supp", "nobuf", "frame", "overrun", "underrun", "ignored", "watchdog", "bad_eth", "bad_proto"),
    *("in_ifdown_drops", "dribble", "coll", "deferred", "latecoll", "lostcarrier", "nocarrier", "babbles"),
)


def select_interfaces(switch: Switch, names: Sequence[str] = ()) -> list[Interface]:
    """Return the interfaces that a command is about: those named, or all."""
    config = switch.running
    return [config.interfaces[name] for name in names] if names else config.ordered_interfaces()


def mac_of(name: str) -> str:
    """Return the port's own address, made from its name."""
    digest = zlib.crc32(name.encode())
    return f"0062.ec{digest >> 24 & 0xFF:02x}.{digest & 0xFFFF:04x}"


def down_reason(interface: Interface) -> str:
    return "Administratively down" if interface.shut else "Link not connected"


def show_interface(switch: Switch, names: Sequence[str] = ()) -> Shown:
    interfaces = select_interfaces(switch, names)
    text = "\n".join(_full_text(switch, interface) for interface in interfaces)
    return Shown(text + "\n", table("interface", (_full_row(switch, interface) for interface in interfaces)))


def _parts(switch: Switch, interface: Interface) -> tuple[bool, Port, Link]:
    up = switch.is_up(interface)
    return up, switch.ports.get(interface.name, Port()), switch.links.get(interface.name, Link(mbps=1000))


def _full_text(switch: Switch, interface: Interface) -> str:
    up, port, link = _parts(switch, interface)
    if interface.kind == "vlan":
        return _vlan_text(switch, interface)
    if interface.kind in ("mgmt", "loopback"):
        return _management_text(interface, up, port)
    state = "up" if up else f"down ({down_reason(interface)})"
    admin = "down" if interface.shut else "up"
    description = f"  Description: {interface.description}\n" if interface.description else ""
    duplex = f"full-duplex, {link.mbps // 1000} Gb/s" if up else "auto-duplex, auto-speed"
    media = f", media type is {speed_name(link.mbps)}" if up else ""
    flapped = age(time.time() - link.changed) if link.changed else "never"
    governing = switch.running.governing(interface.name) or interface
    header = f"""{interface.name} is {state}
admin state is {admin}, Dedicated Interface
  Hardware: {_hardware(switch, interface)}, address: {mac_of(interface.name)} (bia {mac_of(interface.name)})
{description}  MTU {governing.mtu} bytes, BW {link.mbps * 1000} Kbit, DLY 10 usec
  reliability 255/255, txload 1/255, rxload 1/255
  Encapsulation ARPA, medium is broadcast
  Port mode is {governing.port_mode}
  {duplex}{media}
  Beacon is turned off
  Auto-Negotiation is turned on, FEC mode is Auto
  Input flow-control is {_flow(governing, "receive")}, output flow-control is {_flow(governing, "send")}
  Auto-mdix is turned off
  Rate mode is dedicated
  Switchport monitor is off
  EtherType is 0x8100
  EEE (efficient-ethernet) : n/a
  Last link flapped {flapped}
  Last clearing of "show interface" counters never
  {port.resets} interface resets
  Load-Interval #1: 30 seconds
    30 seconds input rate 0 bits/sec, 0 packets/sec
    30 seconds output rate 0 bits/sec, 0 packets/sec
    input rate 0 bps, 0 pps; output rate 0 bps, 0 pps
  Load-Interval #2: 5 minute (300 seconds)
    300 seconds input rate 0 bits/sec, 0 packets/sec
    300 seconds output rate 0 bits/sec, 0 packets/sec
    input rate 0 bps, 0 pps; output rate 0 bps, 0 pps
"""
    return header + _counter_text(switch, port)


def _flow(interface: Interface, side: str) -> str:
    return interface.settings.get(f"flowcontrol {side}", "off").split()[-1]


def _counter_text(switch: Switch, port: Port) -> str:
    errors = port.errors
    stomped = f"\n    {errors['stomped_crc']} Stomped CRC" if switch.platform.layout == "cloudscale" else ""
    return f"""  RX
    {port.rx_unicast} unicast packets  {port.rx_multicast} multicast packets  {port.rx_broadcast} broadcast packets
    {_rx_packets(port)} input packets  {port.rx_bytes} bytes
    {port.rx_jumbo} jumbo packets  0 storm suppression packets
    {errors["runts"]} runts  {errors["giants"]} giants  {errors["fcs"]} CRC  0 no buffer
    {errors["rcv"]} input error  0 short frame  0 overrun   0 underrun  0 ignored
    0 watchdog  0 bad etype drop  0 bad proto drop  0 if down drop
    0 input with dribble  {errors["in_discards"]} input discard
    {port.rx_pause} Rx pause{stomped}
  TX
    {port.tx_unicast} unicast packets  {port.tx_multicast} multicast packets  {port.tx_broadcast} broadcast packets
    {_tx_packets(port)} output packets  {port.tx_bytes} bytes
    {port.tx_jumbo} jumbo packets
    {errors["xmit"]} output error  0 collision  {errors["deferred"]} deferred  0 late collision
    0 lost carrier  0 no carrier  0 babble  {errors["out_discards"]} output discard
    {port.tx_pause} Tx pause
"""


def _rx_packets(port: Port) -> int:
    return port.rx_unicast + port.rx_multicast + port.rx_broadcast


def _tx_packets(port: Port) -> int:
    return port.tx_unicast + port.tx_multicast + port.tx_broadcast


def _hardware(switch: Switch, interface: Interface) -> str:
    return switch.platform.port_group(interface.number).hardware if interface.kind == "ethernet" else "Ethernet"


def _management_text(interface: Interface, up: bool, port: Port) -> str:
    address = interface.settings.get("ip address", "").removeprefix("ip address ")
    internet = f"  Internet Address is {address}\n" if address else ""
    return f"""{interface.name} is {"up" if up else "down (Administratively down)"}
admin state is {"down" if interface.shut else "up"},
  Hardware: Ethernet, address: {mac_of(interface.name)} (bia {mac_of(interface.name)})
{internet}  MTU {interface.mtu} bytes, BW 1000000 Kbit, DLY 10 usec
  reliability 255/255, txload 1/255, rxload 1/255
  Encapsulation ARPA, medium is broadcast
  Port mode is routed
  full-duplex, 1000 Mb/s
  Auto-Negotiation is turned on
  EtherType is 0x0000
  1 minute input rate 0 bits/sec, 0 packets/sec
  1 minute output rate 0 bits/sec, 0 packets/sec
  Rx
    {_rx_packets(port)} input packets {port.rx_unicast} unicast packets {port.rx_multicast} multicast packets
    {port.rx_broadcast} broadcast packets {port.rx_bytes} bytes
  Tx
    {_tx_packets(port)} output packets {port.tx_unicast} unicast packets {port.tx_multicast} multicast packets
    {port.tx_broadcast} broadcast packets {port.tx_bytes} bytes
"""


def _vlan_text(switch: Switch, interface: Interface) -> str:
    up = switch.is_up(interface)
    state = "up, line protocol is up" if up else "down (Administratively down), line protocol is down"
    return f"""{interface.name} is {state}, autostate enabled
  Hardware is EtherSVI, address is  {mac_of("Vlan")}
  MTU {interface.mtu} bytes, BW 1000000 Kbit, DLY 10 usec,
   reliability 255/255, txload 1/255, rxload 1/255
  Encapsulation ARPA, loopback not set
  Keepalive not supported
  ARP type: ARPA
  Last clearing of "show interface" counters never
  L3 in Switched:
    ucast: 0 pkts, 0 bytes
"""


def _full_row(switch: Switch, interface: Interface) -> Row:
    up, port, link = _parts(switch, interface)
    governing = switch.running.governing(interface.name) or interface
    row: Row = {"interface": interface.name, "state": "up" if up else "down"}
    if not up:
        row["state_rsn_desc"] = down_reason(interface)
    row |= {"admin_state": "down" if interface.shut else "up", "share_state": "Dedicated"}
    row |= {"eth_hw_desc": _hardware(switch, interface), "eth_hw_addr": mac_of(interface.name)}
    row["eth_bia_addr"] = mac_of(interface.name)
    if interface.description:
        row["desc"] = interface.description
    row |= {
        "eth_mtu": str(governing.mtu),
        "eth_bw": link.mbps * 1000,
        "eth_dly": 10,
        "eth_reliability": "255",
        "eth_txload": "1",
        "eth_rxload": "1",
        "medium": "broadcast",
        "eth_mode": governing.port_mode,
        "eth_duplex": "full" if up else "auto",
        "eth_speed": f"{link.mbps // 1000} Gb/s" if up else "auto-speed",
        "eth_beacon": "off",
        "eth_autoneg": "on",
        "eth_in_flowctrl": _flow(governing, "receive"),
        "eth_out_flowctrl": _flow(governing, "send"),
        "eth_ethertype": "0x8100",
        "eth_link_flapped": age(time.time() - link.changed) if link.changed else "never",
        "eth_clear_counters": "never",
        "eth_reset_cntr": port.resets,
        "eth_load_interval1_rx": 30,
        "eth_inrate1_bits": "0",
        "eth_inrate1_pkts": "0",
        "eth_load_interval1_tx": "30",
        "eth_outrate1_bits": "0",
        "eth_outrate1_pkts": "0",
    }
    return row | _counter_row(switch, port)


def _counter_row(switch: Switch, port: Port) -> Row:
    errors = port.errors
    row: Row = {f"eth_{key}": getattr(port, counter) for key, counter in PORT_KEYS}
    row |= {f"eth_{key}": str(errors[counter]) for key, counter in ERROR_KEYS}
    row |= {f"eth_{key}": "0" for key in UNUSED_KEYS}
    row |= {"eth_inpkts": _rx_packets(port), "eth_outpkts": _tx_packets(port)}
    if switch.platform.layout == "cloudscale":
        row["eth_stomped_crc"] = str(errors["stomped_crc"])
    return row


def show_status(switch: Switch, names: Sequence[str] = ()) -> Shown:
    lines = [RULE, "Port          Name               Status    Vlan      Duplex  Speed   Type", RULE]
    rows: list[Row] = []
    for interface in select_interfaces(switch, names):
        up, _, link = _parts(switch, interface)
        status = "connected" if up else "disabled" if interface.shut else "notconnec"
        vlan = interface.port_mode if interface.port_mode != "access" else str(interface.access_vlan)
        kind = switch.platform.port_group(interface.number).transceiver if interface.kind == "ethernet" else "--"
        duplex, speed = ("full", speed_name(link.mbps)) if up else ("auto", "auto")
        name = interface.description[:18] or "--"
        lines.append(f"{interface.short_name:<13} {name:<18} {status:<9} {vlan:<9} {duplex:<7} {speed:<7} {kind}")
        row: Row = {
            "interface": interface.name,
            "state": status,
            "vlan": vlan,
            "duplex": duplex,
            "speed": speed,
            "type": kind,
        }
        rows.append(row | ({"name": interface.description} if interface.description else {}))
    return Shown("\n".join(["", *lines]) + "\n", table("interface", rows))


def show_brief(switch: Switch) -> Shown:
    lines = [
        RULE,
        "Ethernet        VLAN    Type Mode   Status  Reason                 Speed     Port",
        "Interface                                                                    Ch #",
        RULE,
    ]
    rows: list[Row] = []
    for interface in switch.running.ordered_interfaces():
        if interface.kind != "ethernet":
            continue
        up, _, link = _parts(switch, interface)
        status, reason = ("up", "none") if up else ("down", down_reason(interface))
        vlan = str(interface.access_vlan) if interface.port_mode != "routed" else "--"
        speed = f"{speed_name(link.mbps)}(D)" if up else "auto(D)"
        lines.append(
            f"{interface.short_name:<15} {vlan:<7} eth  {interface.port_mode:<6} {status:<7} {reason:<22} {speed:<9} --"
        )
        row: Row = {"interface": interface.name, "vlan": vlan, "type": "eth", "portmode": interface.port_mode}
        rows.append(row | {"state": status, "state_rsn_desc": reason, "speed": speed_name(link.mbps), "ratemode": "D"})
    return Shown("\n".join(["", *lines]) + "\n", table("interface", rows))


def show_transceivers(switch: Switch, names: Sequence[str] = ()) -> Shown:
    text, rows = "", list[Row]()
    for interface in select_interfaces(switch, names):
        if interface.kind != "ethernet":
            continue
        if not switch.links[interface.name].up:
            text += f"{interface.name}\n    transceiver is not present\n\n"
            rows.append({"interface": interface.name, "sfp": "not present"})
            continue
        kind = switch.platform.port_group(interface.number).transceiver
        number = f"EMU{zlib.crc32(interface.name.encode()) % 10**8:08}"
        bitrate = switch.links[interface.name].mbps
        text += f"""{interface.name}
    transceiver is present
    type is {kind}
    name is CISCO-EMULATED
    part number is {kind}
    revision is A
    serial number is {number}
    nominal bitrate is {bitrate} MBit/sec
    Link length supported for copper is 3 m
    cisco id is 17
    cisco extended id number is 16

"""
        row: Row = {
            "interface": interface.name,
            "sfp": "present",
            "type": kind,
            "name": "CISCO-EMULATED",
            "partnum": kind,
        }
        rows.append(row | {"rev": "A", "serialnum": number, "nom_bitrate": bitrate, "len_cu": 3, "ciscoid": "17"})
    return Shown(text, table("interface", rows))

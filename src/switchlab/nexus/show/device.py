"""`show version`, `show inventory`, `show vlan` and other facts about the box."""

from __future__ import annotations

import time
import zlib

from switchlab.nexus.cli.context import Shown
from switchlab.nexus.model.switch import Switch
from switchlab.nexus.show.layout import Row, table, timestamp

LEGAL = """Cisco Nexus Operating System (NX-OS) Software
TAC support: http://www.cisco.com/tac
Emulated by railbed; contains no Cisco software.
"""


def serial(switch: Switch, part: str = "chassis") -> str:
    """Return a serial number that stays the same for one platform and part."""
    digits = zlib.crc32(f"{switch.platform.model} {part}".encode()) % 10**8
    return f"EMU{digits:08}"


def show_version(switch: Switch) -> Shown:
    platform = switch.platform
    uptime = int(time.time() - switch.booted)
    days, hours, minutes, seconds = uptime // 86_400, uptime // 3600 % 24, uptime // 60 % 60, uptime % 60
    software = _software_n5k(switch) if platform.family == "n5k" else _software_n9k(switch)
    text = f"""{LEGAL}
Software
{software}
Hardware
  cisco {platform.chassis}
  Intel(R) Xeon(R) CPU D-1526 @ 1.80GHz with 24569568 kB of memory.
  Processor Board ID {serial(switch)}
  Device name: {switch.running.hostname}
  bootflash:   53298520 kB

Kernel uptime is {days} day(s), {hours} hour(s), {minutes} minute(s), {seconds} second(s)

Last reset at 370750 usecs after {timestamp(switch.booted)}
  Reason: Reset Requested by CLI command reload
  System version: {platform.release}
  Service:

plugin
  Core Plugin, Ethernet Plugin

Active Package(s):

"""
    return Shown(text, _version_data(switch, (days, hours, minutes, seconds)))


def _software_n9k(switch: Switch) -> str:
    platform = switch.platform
    return f"""  BIOS: version {platform.bios}
  NXOS: version {platform.release}
  BIOS compile time:  05/13/2022
  NXOS image file is: bootflash:///{platform.image}
  NXOS compile time:  3/31/2024 12:00:00 [12/28/2023 22:08:41]

"""


def _software_n5k(switch: Switch) -> str:
    platform = switch.platform
    return f"""  BIOS:      version {platform.bios}
  loader:    version N/A
  kickstart: version {platform.release}
  system:    version {platform.release}
  BIOS compile time:       05/09/2012
  kickstart image file is: bootflash:///{platform.image.replace("uk9", "uk9-kickstart")}
  kickstart compile time:  5/12/2017 23:00:00 [05/13/2017 07:01:16]
  system image file is:    bootflash:///{platform.image}
  system compile time:     5/12/2017 23:00:00 [05/13/2017 08:21:28]

"""


def _version_data(switch: Switch, uptime: tuple[int, int, int, int]) -> Row:
    platform = switch.platform
    newer = platform.release.startswith("10.")
    return {
        "header_str": LEGAL,
        "bios_ver_str": platform.bios,
        ("nxos_ver_str" if newer else "kickstart_ver_str"): platform.release,
        "bios_cmpl_time": "05/13/2022",
        ("nxos_file_name" if newer else "kick_file_name"): f"bootflash:///{platform.image}",
        "chassis_id": platform.chassis,
        "cpu_name": "Intel(R) Xeon(R) CPU D-1526 @ 1.80GHz",
        "memory": 24569568,
        "mem_type": "kB",
        "proc_board_id": serial(switch),
        "host_name": switch.running.hostname,
        "bootflash_size": 53298520,
        "kern_uptm_days": uptime[0],
        "kern_uptm_hrs": uptime[1],
        "kern_uptm_mins": uptime[2],
        "kern_uptm_secs": uptime[3],
        "rr_usecs": 370750,
        "rr_ctime": timestamp(switch.booted),
        "rr_reason": "Reset Requested by CLI command reload",
        "rr_sys_ver": platform.release,
        "rr_service": "",
        "plugins": "Core Plugin, Ethernet Plugin",
        "manufacturer": "Cisco Systems, Inc.",
        **table("package_list", [{"package_id": ""}]),
    }


def show_inventory(switch: Switch) -> Shown:
    platform = switch.platform
    parts = [
        ("Chassis", platform.chassis, platform.model, "V01", serial(switch)),
        ("Slot 1", platform.module, platform.model, "V01", serial(switch, "module")),
        ("Power Supply 1", f"{platform.chassis} Power Supply", "NXA-PAC-650W-PI", "V01", serial(switch, "power")),
        ("Fan 1", f"{platform.chassis} Fan Module", "NXA-FAN-35CFM-PI", "V01", "N/A"),
    ]
    text = "".join(
        f'NAME: "{name}",  DESCR: "{description}"  \nPID: {product:<20},  VID: {revision} ,  SN: {number}  \n\n'
        for name, description, product, revision, number in parts
    )
    rows: list[Row] = [
        {"name": name, "desc": description, "productid": product, "vendorid": revision, "serialnum": number}
        for name, description, product, revision, number in parts
    ]
    return Shown(text, table("inv", rows))


def show_hostname(switch: Switch) -> Shown:
    return Shown(f"{switch.running.hostname} \n", {"hostname": switch.running.hostname})


def show_clock(_: Switch) -> Shown:
    now = time.strftime("%H:%M:%S.000 UTC %a %b %d %Y", time.gmtime())
    return Shown(f"{now}\n", {"simple_time": now})


def show_feature(switch: Switch, names: tuple[str, ...]) -> Shown:
    enabled = switch.running.features
    lines = ["Feature Name          Instance  State", "--------------------  --------  --------"]
    states = [(name, "enabled" if name in enabled else "disabled") for name in sorted(names)]
    lines += [f"{name:<22}{1:<10}{state}" for name, state in states]
    rows: list[Row] = [{"cfcFeatureCtrlName2": name, "cfcFeatureCtrlOpStatus2": state} for name, state in states]
    return Shown("\n".join(lines) + "\n", table("cfcFeatureCtrl2Table", rows))


def show_vlan(switch: Switch, *, only: int | None = None, brief: bool = False) -> Shown:
    config = switch.running
    ports: dict[int, list[str]] = {number: [] for number in config.vlans}
    for interface in config.ordered_interfaces():
        if interface.kind == "ethernet" and interface.port_mode != "routed":
            members = list(config.vlans) if interface.port_mode == "trunk" else [interface.access_vlan]
            for number in members:
                ports.get(number, []).append(interface.short_name)
    chosen = [number for number in sorted(config.vlans) if only in (None, number)]
    lines = ["", "VLAN Name                             Status    Ports", f"{'-' * 4} {'-' * 32} {'-' * 9} {'-' * 31}"]
    rows: list[Row] = []
    for number in chosen:
        name, state = vlan_name(switch, number)
        groups = [ports[number][at : at + 4] for at in range(0, len(ports[number]), 4)] or [[]]
        lines.append(f"{number:<4} {name:<32} {state:<9} {', '.join(groups[0])}".rstrip())
        lines += [f"{'':48}{', '.join(group)}" for group in groups[1:]]
        rows.append(_vlan_row(switch, number, ports[number]))
    data = table("vlanbrief" if not brief else "vlanbriefxbrief", rows)
    if not brief:
        lines += ["", "VLAN Type         Vlan-mode", "---- -----        ----------"]
        lines += [f"{number:<4} {'enet':<12} {'CE':<7}" for number in chosen]
        mtu = [
            {"vlanshowinfo-vlanid": n, "vlanshowinfo-media-type": "enet", "vlanshowinfo-vlanmode": "ce-vlan"}
            for n in chosen
        ]
        data |= table("mtuinfo", mtu)
    return Shown("\n".join(lines) + "\n\n", data)


def vlan_name(switch: Switch, number: int) -> tuple[str, str]:
    settings = switch.running.vlans[number]
    default = "default" if number == 1 else f"VLAN{number:04}"
    state = "suspend" if "state" in settings else "act/lshut" if "shutdown" in settings else "active"
    return settings.get("name", f"name {default}").removeprefix("name "), state


def _vlan_row(switch: Switch, number: int, ports: list[str]) -> Row:
    name, state = vlan_name(switch, number)
    row: Row = {
        "vlanshowbr-vlanid": number,
        "vlanshowbr-vlanid-utf": number,
        "vlanshowbr-vlanname": name,
        "vlanshowbr-vlanstate": "suspend" if state == "suspend" else "active",
        "vlanshowbr-shutstate": "shutdown" if state == "act/lshut" else "noshutdown",
    }
    if ports:
        row["vlanshowplist-ifidx"] = ",".join(port.replace("Eth", "Ethernet") for port in ports)
    return row

"""Port-channels with their members, and the regions of the TCAM."""

from __future__ import annotations

from switchlab.nexus.cli.context import Shown
from switchlab.nexus.model.config import Interface
from switchlab.nexus.model.switch import Switch
from switchlab.nexus.model.tcam import describe, regions_of
from switchlab.nexus.show.layout import Row, table

RULE = "-" * 80
LEGEND = f"""Flags:  D - Down        P - Up in port-channel (members)
        I - Individual  H - Hot-standby (LACP only)
        s - Suspended   r - Module-removed
        b - BFD Session Wait
        S - Switched    R - Routed
        U - Up (port-channel)
        p - Up in delay-lacp mode (member)
        M - Not in use. Min-links not met
{RULE}
Group Port-       Type     Protocol  Member Ports
      Channel
{RULE}
"""


def show_channels(switch: Switch) -> Shown:
    """Return `show port-channel summary`."""
    text, rows = LEGEND, list[Row]()
    for channel in switch.running.ordered_interfaces():
        if channel.kind != "port-channel":
            continue
        members = [switch.running.interfaces[name] for name in switch.running.physical_ports(channel.name)]
        flags = {member.name: "P" if switch.is_up(member) else "D" for member in members}
        layer, state = "R" if channel.routed else "S", "U" if "P" in flags.values() else "D"
        named = "    ".join(f"{member.short_name}({flags[member.name]})" for member in members) or "--"
        protocol = _protocol(members)
        name = f"{channel.short_name}({layer}{state})"
        text += f"{channel.number:<5} {name:<11} {'Eth':<8} {protocol:<9} {named}\n"
        listed: list[Row] = [{"port": member.name, "port-status": flags[member.name]} for member in members]
        row: Row = {"group": channel.number, "port-channel": channel.name, "layer": layer, "status": state}
        rows.append(row | {"type": "Eth", "prtcl": protocol} | table("member", listed))
    return Shown(text, table("channel", rows))


def _protocol(members: list[Interface]) -> str:
    lines = [member.settings["channel-group"] for member in members]
    return "LACP" if any(line.endswith(("active", "passive")) for line in lines) else "NONE"


def show_tcam(switch: Switch) -> Shown:
    """Return `show hardware access-list tcam region`."""
    sizes = switch.tcam
    rows: list[Row] = [
        {"type": f"{region.label} [{region.name}] size", "tcam_size": sizes.get(region.name, region.size)}
        for region in regions_of(switch.platform)
    ]
    return Shown(describe(switch.platform, sizes), {"TCAM_Region": table("Sizes", rows)})

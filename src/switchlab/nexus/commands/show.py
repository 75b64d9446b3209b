"""The show commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from switchlab.nexus.cli.commandset import CommandSet, Match
from switchlab.nexus.cli.context import Context, Shown
from switchlab.nexus.commands.general import FEATURES
from switchlab.nexus.model.config import QosKind, Rejected
from switchlab.nexus.model.switch import Switch
from switchlab.nexus.show import channels, counters, device, interfaces, neighbours, pfc, policies, queuing

show = CommandSet()
N9K = ("n9k",)


def existing(context: Context, match: Match) -> list[str]:
    """Return the interfaces that a command names, all of which must exist."""
    names = match.names("interface") or match.names("interfaces")
    for name in names:
        if name not in context.config.interfaces:
            raise Rejected(
                f"ERROR: Invalid interface {name}\n" if not name.startswith("Ethernet") else "Invalid range\n"
            )
    return names


def _physical(context: Context, match: Match) -> list[str]:
    names = existing(context, match)
    if any(name not in context.switch.ports for name in names):
        raise Rejected("ERROR: command is not supported on this interface\n")
    return names


@show.add("exec", "show version")
def version(context: Context, _: Match) -> Shown:
    return device.show_version(context.switch)


@show.add("exec", "show inventory [chassis|module]")
def inventory(context: Context, _: Match) -> Shown:
    return device.show_inventory(context.switch)


@show.add("exec", "show hostname", "show switchname")
def hostname(context: Context, _: Match) -> Shown:
    return device.show_hostname(context.switch)


@show.add("exec", "show clock")
def clock(context: Context, _: Match) -> Shown:
    return device.show_clock(context.switch)


@show.add("exec", "show feature")
def feature(context: Context, _: Match) -> Shown:
    return device.show_feature(context.switch, FEATURES)


@show.add("exec", "show vlan [brief]", "show vlan id <vlan:1-4094>")
def vlan(context: Context, match: Match) -> Shown:
    only = match.values.get("vlan")
    if only is not None and only not in context.config.vlans:
        raise Rejected(f"VLAN {only} not found in current VLAN database\n")
    return device.show_vlan(
        context.switch, only=match.number("vlan") if only else None, brief="brief" in match.keywords
    )


Reader = Callable[[Switch, Sequence[str]], Shown]
PORT_TABLES: tuple[tuple[str, Reader, tuple[str, ...]], ...] = (
    ("", interfaces.show_interface, ("n9k", "n5k")),
    ("status", interfaces.show_status, ("n9k", "n5k")),
    ("transceiver", interfaces.show_transceivers, ("n9k", "n5k")),
    ("counters", counters.show_counters, ("n9k", "n5k")),
    ("counters errors", counters.show_errors, ("n9k", "n5k")),
    ("priority-flow-control", pfc.show_pfc, ("n9k", "n5k")),
    ("priority-flow-control detail", pfc.show_pfc_detail, N9K),
    ("flowcontrol", pfc.show_flowcontrol, ("n9k", "n5k")),
)


def _register(suffix: str, reader: Reader, families: tuple[str, ...]) -> None:
    patterns = [f"show interface {suffix}", f"show interface <interfaces> {suffix}"]
    if suffix.startswith("priority-flow-control"):
        patterns.append(f"show interface {suffix} interface <interfaces>")

    @show.add("exec", *patterns, families=families)
    def read(context: Context, match: Match) -> Shown:
        names = existing(context, match) if suffix in ("", "status") else _physical(context, match)
        return reader(context.switch, names)


for _suffix, _reader, _families in PORT_TABLES:
    _register(_suffix, _reader, _families)


@show.add("exec", "show port-channel summary")
def port_channels(context: Context, _: Match) -> Shown:
    return channels.show_channels(context.switch)


@show.add("exec", "show hardware access-list tcam region", families=N9K)
def tcam_regions(context: Context, _: Match) -> Shown:
    return channels.show_tcam(context.switch)


@show.add("exec", "show interface brief")
def interface_brief(context: Context, _: Match) -> Shown:
    return interfaces.show_brief(context.switch)


@show.add("exec", "show queuing interface [<interfaces>]", "show queuing [<interfaces>]")
def queuing_interface(context: Context, match: Match) -> Shown:
    return queuing.show_queuing(context.switch, _physical(context, match))


@show.add("exec", "show queuing summary", families=N9K)
def queuing_summary(context: Context, _: Match) -> Shown:
    return queuing.show_queuing_summary(context.switch)


@show.add("exec", "show queuing pfc-queue [interface <interfaces>]", families=N9K)
def pfc_queue(context: Context, match: Match) -> Shown:
    return pfc.show_pfc_queue(context.switch, _physical(context, match))


@show.add("exec", "show queuing pfc-queue [interface <interfaces>] detail", families=N9K)
def pfc_queue_detail(context: Context, match: Match) -> Shown:
    return pfc.show_pfc_queue_detail(context.switch, _physical(context, match))


@show.add("exec", "show lldp neighbors [interface <interface>]", feature="lldp")
def lldp(context: Context, match: Match) -> Shown:
    return neighbours.show_lldp_neighbours(context.switch, next(iter(existing(context, match)), None))


@show.add("exec", "show lldp neighbors [interface <interface>] detail", feature="lldp")
def lldp_detail(context: Context, match: Match) -> Shown:
    return neighbours.show_lldp_detail(context.switch, next(iter(existing(context, match)), None))


@show.add("exec", "show mac address-table [dynamic] [interface <interface>] [vlan <vlan:1-4094>]")
def mac_table(context: Context, match: Match) -> Shown:
    vlan_number = match.number("vlan") if "vlan" in match.values else None
    return neighbours.show_macs(context.switch, next(iter(existing(context, match)), None), vlan_number)


def _kind(match: Match) -> QosKind | None:
    named = match.keywords[match.keywords.index("type") + 1] if "type" in match.keywords else None
    kinds: tuple[QosKind, ...] = ("qos", "queuing", "network-qos")
    return next((kind for kind in kinds if kind == named), None)


TYPE = "[type qos|type queuing|type network-qos]"


@show.add("exec", f"show policy-map {TYPE} [<name>]")
def policy_map(context: Context, match: Match) -> Shown:
    name = str(match.values["name"]) if "name" in match.values else None
    if name is not None and not any(item.name == name for item in context.config.policy_maps.values()):
        raise Rejected(f"ERROR: Policy-map {name} does not exist\n")
    return policies.show_policy_maps(context.switch, _kind(match), name)


@show.add("exec", f"show policy-map system {TYPE}")
def policy_map_system(context: Context, match: Match) -> Shown:
    return policies.show_system_policies(context.switch, _kind(match))


@show.add("exec", "show policy-map interface [<interfaces>] [input|output] [type qos|type queuing]")
@show.add("exec", "show policy-map interface <interfaces> type (qos|queuing) (input|output)")
def policy_map_interface(context: Context, match: Match) -> Shown:
    direction = next((word for word in match.keywords if word in ("input", "output")), None)
    return policies.show_interface_policies(context.switch, _physical(context, match), _kind(match), direction)


@show.add("exec", f"show class-map {TYPE} [<name>]")
def class_map(context: Context, match: Match) -> Shown:
    name = str(match.values["name"]) if "name" in match.values else None
    if name is not None and not any(item.name == name for item in context.config.class_maps.values()):
        raise Rejected(f"ERROR: Class-map {name} does not exist\n")
    return policies.show_class_maps(context.switch, _kind(match), name)


@show.add(
    "exec",
    "show running-config [all]",
    "show running-config ipqos [all]",
    "show running-config interface [<interfaces>] [all]",
)
def running_config(context: Context, match: Match) -> Shown:
    part = next((word for word in ("ipqos", "interface") if word in match.keywords), "")
    everything = match.keywords[-1] == "all"
    return policies.show_running(
        context.switch, match.line, part=part, everything=everything, names=existing(context, match)
    )


@show.add("exec", *(f"show running-config {part} [all]" for part in ("lldp", "vlan", "nxapi")))
def running_part(context: Context, match: Match) -> Shown:
    return policies.show_running(
        context.switch, match.line, part=match.keywords[2], everything=match.keywords[-1] == "all"
    )


@show.add("exec", "show startup-config")
def startup_config(context: Context, match: Match) -> Shown:
    return policies.show_startup(context.switch, match.line)

"""Configuration of interfaces."""

from __future__ import annotations

from collections.abc import Iterator

from switchlab.nexus.cli.commandset import CommandSet, Match
from switchlab.nexus.cli.context import Context
from switchlab.nexus.commands.general import store
from switchlab.nexus.commands.qos import kind_of
from switchlab.nexus.model.config import Config, Interface, QosKind, Rejected
from switchlab.nexus.model.settings import INTERFACE_SETTINGS, Setting
from switchlab.nexus.model.switch import Switch
from switchlab.nexus.model.tcam import qos_region

interface_commands = CommandSet()


def _targets(context: Context) -> Iterator[Interface]:
    for name in context.mode.keys:
        if name not in context.config.interfaces:
            raise Rejected(f"ERROR: {name}: interface does not exist\n")
        yield context.config.interfaces[name]


def _register(setting: Setting) -> None:
    @interface_commands.add(
        "interface", setting.pattern, setting.no_pattern, families=setting.families, feature=setting.feature
    )
    def apply(context: Context, match: Match) -> None:
        targets = list(_targets(context))
        for interface in targets:
            _check(context.config, interface, setting, match)
        for interface in targets:
            store(interface.settings, setting, match, setting.default_on(interface))
            if interface.channel:
                context.config.interfaces.setdefault(interface.channel, Interface(interface.channel))


for _setting in INTERFACE_SETTINGS:
    _register(_setting)


OF_THE_CHANNEL = ("mtu", "speed", "switchport", "flowcontrol", "priority-flow-control")
"""First words of settings that a member of a port-channel takes over from it."""


def _check(config: Config, interface: Interface, setting: Setting, match: Match) -> None:
    if interface.kind not in setting.kinds:
        raise Rejected(f"ERROR: {interface.name}: command is not supported on this interface\n")
    if interface.channel and setting.key.startswith(OF_THE_CHANNEL):
        raise Rejected(f"ERROR: {interface.name}: requested config change not allowed\n")
    if setting.key == "ip address" and not interface.routed:
        raise Rejected(f"ERROR: {interface.name}: IP address cannot be configured on an L2 port\n")
    if setting.key == "mtu" and not match.negated and not interface.routed:
        wanted = match.number("mtu")
        if wanted not in (1500, config.jumbo_mtu):
            raise Rejected(
                f"ERROR: {interface.name}: MTU on L2 interfaces can only be set to default or system-jumboMTU\n"
            )


@interface_commands.add(
    "interface",
    "service-policy type qos (input|output) <policy:name> [no-stats]",
    "service-policy (input|output) <policy:name> [no-stats]",
    "service-policy type queuing (input|output) <policy:name> [no-stats]",
    "no service-policy type qos (input|output) [<policy:name>] [no-stats]",
    "no service-policy (input|output) [<policy:name>] [no-stats]",
    "no service-policy type queuing (input|output) [<policy:name>] [no-stats]",
)
def service_policy(context: Context, match: Match) -> None:
    where = kind_of(match), "input" if "input" in match.keywords else "output"
    targets = list(_targets(context))
    for interface in targets:
        _check_policy(context.config, interface, where, match)
        if not match.negated:
            _check_place(context.switch, interface, where)
    for interface in targets:
        interface.policies.pop(where, None)
        interface.no_stats.discard(where)
        if not match.negated:
            interface.policies[where] = match.text("policy")
            if "no-stats" in match.keywords:
                interface.no_stats.add(where)


def _check_policy(config: Config, interface: Interface, where: tuple[QosKind, str], match: Match) -> None:
    if interface.kind not in ("ethernet", "port-channel"):
        raise Rejected(f"ERROR: {interface.name}: service-policy is not supported on this interface\n")
    attached, name = interface.policies.get(where), str(match.values.get("policy", ""))
    if match.negated:
        if attached is None or (name and name != attached):
            raise Rejected(f"ERROR: Policy-map {name or 'of this type'} is not attached to {interface.name}\n")
        return
    if (where[0], name) not in config.policy_maps:
        raise Rejected(f"ERROR: Policy-map {name} of type {where[0]} does not exist\n")
    if attached not in (None, name):
        raise Rejected(f"ERROR: {interface.name}: policy-map {attached} is already attached; remove it first\n")


def _check_place(switch: Switch, interface: Interface, where: tuple[QosKind, str]) -> None:
    """Refuse a policy where it has no effect, or where the hardware has no room for it."""
    if interface.channel:
        raise Rejected(f"command failed: {interface.name} is a member of {interface.channel}\n")
    region = qos_region(switch.platform, interface) if where[0] == "qos" else None
    if region and switch.tcam.get(region) == 0:
        raise Rejected(
            "Unable to perform the action due to incompatibility:  Module 1 returned status "
            '"TCAM region is not configured. Please configure TCAM region and retry"\n'
        )

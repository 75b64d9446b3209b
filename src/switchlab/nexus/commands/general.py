"""Global configuration: settings, features, VLANs, and entering an interface."""

from __future__ import annotations

import re

from switchlab.nexus.cli.commandset import CommandSet, Match
from switchlab.nexus.cli.context import CONFIG, Context, Mode
from switchlab.nexus.model.config import Interface, Rejected
from switchlab.nexus.model.settings import GLOBAL_SETTINGS, Setting

general = CommandSet()
FEATURES = (
    *("bash-shell", "bfd", "bgp", "dhcp", "eigrp", "hsrp", "interface-vlan", "isis", "lacp", "lldp", "netconf", "ntp"),
    *(
        "nv overlay",
        "nxapi",
        "ospf",
        "pim",
        "privilege",
        "ptp",
        "restconf",
        "scp-server",
        "sftp-server",
        "ssh",
        "telnet",
    ),
    *("tacacs+", "udld", "vn-segment-vlan-based", "vpc", "vrrp"),
)
_HOSTNAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,62}")


def store(settings: dict[str, str], setting: Setting, match: Match, default: str) -> None:
    """Set a line or return it to its default; a line that equals the default is not stored."""
    words = match.line.split(" ")
    key = " ".join(words[: setting.key_words])
    if setting.switch:
        line = f"no {match.line}" if match.negated else match.line
        default = default or f"no {match.line}"
    else:
        line = default if match.negated else match.line
    if line == default:
        settings.pop(key, None)
    else:
        settings[key] = line


def _register(setting: Setting) -> None:
    @general.add("config", setting.pattern, setting.no_pattern, families=setting.families, feature=setting.feature)
    def apply(context: Context, match: Match) -> None:
        if setting.key == "hostname" and not match.negated and not _HOSTNAME.fullmatch(match.text("name")):
            raise Rejected("ERROR: Invalid switch name\n")
        store(context.config.settings, setting, match, setting.default)


for _setting in GLOBAL_SETTINGS:
    _register(_setting)


@general.add("config", "switchname <name:long>", "no switchname")
def switchname(context: Context, match: Match) -> None:
    if match.negated:
        context.config.settings.pop("hostname", None)
    elif not _HOSTNAME.fullmatch(match.text("name")):
        raise Rejected("ERROR: Invalid switch name\n")
    else:
        context.config.settings["hostname"] = f"hostname {match.text('name')}"


@general.add("any", "end")
def end(context: Context, _: Match) -> None:
    context.modes.clear()


@general.add("any", "exit")
def leave(context: Context, _: Match) -> None:
    context.modes.pop()


@general.add("config", "version <release:line>")
def version(_: Context, __: Match) -> None:
    """Accept the first line of a saved configuration."""


@general.add("config", *(f"feature {name}" for name in FEATURES), *(f"no feature {name}" for name in FEATURES))
def feature(context: Context, match: Match) -> None:
    name = match.line.removeprefix("feature ")
    if not match.negated:
        context.config.features.add(name)
        return
    context.config.features.discard(name)
    for settings in (context.config.settings, *(item.settings for item in context.config.interfaces.values())):
        for key in [key for key in settings if key.startswith(f"{name} ")]:
            del settings[key]


@general.add("config", "vlan <vlans:*1-4094>")
def vlan(context: Context, match: Match) -> None:
    numbers = match.numbers("vlans")
    for number in numbers:
        context.config.vlans.setdefault(number, {})
    if len(numbers) == 1:
        context.enter(Mode("vlan", "config-vlan", (str(numbers[0]),)))


@general.add("config", "no vlan <vlans:*1-4094>")
def no_vlan(context: Context, match: Match) -> None:
    if 1 in match.numbers("vlans"):
        raise Rejected("ERROR: Default VLAN 1 may not be deleted.\n")
    for number in match.numbers("vlans"):
        context.config.vlans.pop(number, None)


@general.add("vlan", "name <name:long>", "no name [<name:long>]", "shutdown", "no shutdown", "state (active|suspend)")
def vlan_setting(context: Context, match: Match) -> None:
    settings = context.config.vlans.setdefault(int(context.mode.keys[0]), {})
    key = match.words[1] if match.negated else match.words[0]
    if match.negated or match.line == "state active":
        settings.pop(key, None)
    else:
        settings[key] = match.line


@general.add("config", "interface <interfaces>")
def interface(context: Context, match: Match) -> None:
    names = match.names("interfaces")
    for name in names:
        if name not in context.config.interfaces:
            _create(context, name)
    prompt = "config-if" if len(names) == 1 else "config-if-range"
    context.enter(Mode("interface", prompt, tuple(names)))


def _create(context: Context, name: str) -> None:
    kind = Interface(name).kind
    number = Interface(name).number
    allowed = {"vlan": range(1, 4095), "port-channel": range(1, 4097), "loopback": range(1024)}
    if kind not in allowed or "/" in name or number not in allowed[kind]:
        raise Rejected(f"ERROR: Invalid interface {name}\n" if kind != "ethernet" else "Invalid range\n")
    if kind == "vlan" and "interface-vlan" not in context.config.features:
        raise Rejected("ERROR: feature interface-vlan is not enabled\n")
    context.config.interfaces[name] = Interface(name)


@general.add("config", "no interface <interface>")
def no_interface(context: Context, match: Match) -> None:
    (name,) = match.names("interface")
    if Interface(name).kind in ("ethernet", "mgmt"):
        raise Rejected("ERROR: Cannot delete a physical interface\n")
    context.config.interfaces.pop(name, None)


@general.add("config", "default interface <interfaces>")
def default_interface(context: Context, match: Match) -> str:
    for name in match.names("interfaces"):
        if name in context.config.interfaces:
            context.config.interfaces[name] = Interface(name)
    context.modes[:] = [CONFIG]
    return ""

"""`vsish`: the tree of the VMkernel's own values, as far as it is about cards and virtual functions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from switchlab.esxi.commands.functions import vf_counters
from switchlab.esxi.commands.outcome import CommandOutput
from switchlab.esxi.model.cards import GENERAL_COUNTERS, Nic
from switchlab.esxi.model.dcb import pause_counters
from switchlab.esxi.model.functions import FunctionTable
from switchlab.esxi.model.host import Host

DEPRECATED = "main():Python mode is deprecated and will be removed in future releases. You can use pyvsilib instead."
CARD = re.compile(r"/net/pNics/([^/]+)/stats")
FUNCTION = re.compile(r"/net/sriov/([^/]+)/vfs/(\d{1,5})/stats", re.ASCII)


def vsish(host: Host, arguments: Sequence[str]) -> CommandOutput:
    """Run `vsish -e cat|get|ls PATH` and `vsish -pe get PATH`."""
    match list(arguments):
        case ["-e", "ls", path]:
            return _list(host, path.rstrip("/"))
        case ["-e", "cat" | "get", path]:
            return _read(host, path.rstrip("/"), python=False)
        case ["-pe" | "-ep", "cat" | "get", path]:
            return _read(host, path.rstrip("/"), python=True)
    return CommandOutput("Usage: vsish [-r] [-p] -e <command>\n", 1)


def _list(host: Host, path: str) -> CommandOutput:
    if path == "/net/pNics":
        names = [nic.name for nic in host.own_nics]
    elif path == "/net/sriov":
        names = [nic.name for nic in host.own_nics if FunctionTable(host).count(nic)]
    else:
        return _refuse_path(path)
    return CommandOutput("".join(f"{name}/\n" for name in names))


def _read(host: Host, path: str, *, python: bool) -> CommandOutput:
    if match := CARD.fullmatch(path):
        nic = host.own_nic(match[1])
        if nic is None:
            return _refuse_path(match[1])
        return CommandOutput(_python_card(nic) if python else _card(host, nic))
    if match := FUNCTION.fullmatch(path):
        if not FunctionTable(host).has(match[1], int(match[2])):
            return _refuse_path(match[1])
        values = vf_counters(host.nics[match[1]], int(match[2]))
        return CommandOutput(_almost_json(values) if python else _plain("VF stats", values))
    return _refuse_path(path)


def _refuse_path(path: str) -> CommandOutput:
    word = path.rpartition("/")[2]
    return CommandOutput("", 1, f"VSISHPath_Form():Extraneous '{word}' in path.\nVSISHCmdGetInt():mal-formed path\n")


def _card(host: Host, nic: Nic) -> str:
    general = {name: nic.counters.get(name) for name in GENERAL_COUNTERS}
    private = {**pause_counters(nic, host.dcb_of(nic), host.pause_of(nic)), **_others(nic)}
    lines = ["device {", "   -- General Statistics:", *(f"   {name}: {value}" for name, value in general.items())]
    lines += ["   -- Driver Specific Statistics:", *(f"{name}: {value}" for name, value in private.items()), "}"]
    return "".join(f"{line}\n" for line in lines)


def _others(nic: Nic) -> dict[str, int]:
    """Return what a test counts beside pauses and the general counters."""
    hidden = re.compile(r"vf\d+\.|pfc_(sent|received)_|[rt]x_(global|prio\d)_pause|[rt]xPauseCtrlPhy")
    names = [name for name in nic.counters.names() if name not in GENERAL_COUNTERS and not hidden.match(name)]
    return {name: nic.counters.get(name) for name in names}


def _plain(title: str, values: Mapping[str, int]) -> str:
    lines = [f"{title} {{", *(f"   {name}:{value}" for name, value in values.items()), "}"]
    return "".join(f"{line}\n" for line in lines)


def _almost_json(values: Mapping[str, int]) -> str:
    """Return an object with a comma before its end, as the Python mode prints it."""
    return "".join(["{\n", *(f'"{name}" : {value},\n' for name, value in values.items()), "}\n"])


def _python_card(nic: Nic) -> str:
    lines = [DEPRECATED, "{", '   "dumsw" : "",']
    lines += [f'   "{name}" : {nic.counters.get(name)},' for name in GENERAL_COUNTERS]
    lines += [f'   "hw" : "{nic.hardware_text}",', "}"]
    return "".join(f"{line}\n" for line in lines)

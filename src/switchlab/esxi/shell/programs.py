"""The programs of the host: those that know it, and the small ones that every system has."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from switchlab.esxi.commands.esxcfg import esxcfg_module, esxcfg_nics, esxcfg_vswitch
from switchlab.esxi.commands.esxcli import READ_ONLY, esxcli
from switchlab.esxi.commands.outcome import CommandOutput, fail
from switchlab.esxi.commands.pci import lspci
from switchlab.esxi.commands.vimcmd import vim_cmd
from switchlab.esxi.commands.vsish import vsish
from switchlab.esxi.model.host import Host

VMKERNEL_LOG = "/var/log/vmkernel.log"
DAY = 86_400


def _uptime(host: Host, _arguments: Sequence[str]) -> CommandOutput:
    now, up = host.clock(), int(host.clock() - host.booted)
    days, rest = divmod(max(up, 0), DAY)
    hours = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    plural = "s" if days != 1 else ""
    age = f"{days} day{plural}, {hours}" if days else hours
    clock = time.strftime("%H:%M:%S", time.gmtime(now))
    return CommandOutput(f" {clock} up {age}, load average: 0.02, 0.02, 0.03\n")


def _vmware(host: Host, arguments: Sequence[str]) -> CommandOutput:
    release = host.release
    lines = [f"VMware ESXi {release.version} build-{release.build}"]
    if "-l" in arguments:
        lines = [
            f"VMware ESXi {release.version} Update {release.update}" if release.update else lines[0].split(" b")[0]
        ]
    if "-vl" in arguments or ("-v" in arguments and "-l" in arguments):
        lines = [f"VMware ESXi {release.version} build-{release.build}", *lines]
    return CommandOutput("".join(f"{line}\n" for line in lines))


def _uname(host: Host, arguments: Sequence[str]) -> CommandOutput:
    release = host.release
    if "-a" not in arguments:
        return CommandOutput("VMkernel\n")
    name = host.hostname.partition(".")[0]
    return CommandOutput(
        f"VMkernel {name} {release.version} #1 SMP Release build-{release.build} x86_64 x86_64 x86_64 ESXi\n"
    )


def _hostname(host: Host, arguments: Sequence[str]) -> CommandOutput:
    if arguments:
        return CommandOutput("", 1, f"hostname: invalid option -- '{arguments[0].lstrip('-')}'\n")
    return CommandOutput(f"{host.hostname}\n")


def _date(host: Host, _arguments: Sequence[str]) -> CommandOutput:
    return CommandOutput(time.strftime("%a %b %e %H:%M:%S UTC %Y\n", time.gmtime(host.clock())))


def _back_up(host: Host, _arguments: Sequence[str]) -> CommandOutput:
    if host.lockdown == "read-only":
        return fail(READ_ONLY)
    host.back_up()
    return CommandOutput("Saving current state in /bootbank\nClock updated.\n")


def _reboot(host: Host, _arguments: Sequence[str]) -> CommandOutput:
    if host.lockdown == "read-only":
        return fail(READ_ONLY)
    host.reboot()
    return CommandOutput()


PROGRAMS: dict[str, Callable[[Host, Sequence[str]], CommandOutput]] = {
    "esxcli": esxcli,
    "localcli": esxcli,
    "esxcfg-nics": esxcfg_nics,
    "esxcfg-module": esxcfg_module,
    "esxcfg-vswitch": esxcfg_vswitch,
    "vsish": vsish,
    "lspci": lspci,
    "vim-cmd": vim_cmd,
    "uptime": _uptime,
    "vmware": _vmware,
    "uname": _uname,
    "hostname": _hostname,
    "date": _date,
    "auto-backup.sh": _back_up,
    "reboot": _reboot,
}
"""By name; they may be called with their folder, such as /sbin/auto-backup.sh."""


def read_file(host: Host, path: str) -> str | None:
    """Return the content of a file: the VMkernel's log, or that of a VM."""
    if path == VMKERNEL_LOG:
        return "".join(f"{line}\n" for line in host.log)
    return next((vm.describe() for vm in host.vms if vm.path == path), None)

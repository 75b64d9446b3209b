"""`vim-cmd`: which switch port a card is connected to."""

from __future__ import annotations

from collections.abc import Sequence

from switchlab.esxi.commands.outcome import CommandOutput
from switchlab.esxi.model.cards import Nic
from switchlab.esxi.model.host import Host

HINT = "hostsvc/net/query_networkhint"
SSH = ("hostsvc/enable_ssh", "hostsvc/start_ssh")


def vim_cmd(host: Host, arguments: Sequence[str]) -> CommandOutput:
    """Run `vim-cmd hostsvc/…`."""
    name, *rest = arguments or [""]
    if name in SSH and not rest:
        return CommandOutput()
    if name != HINT:
        return CommandOutput("Invalid command '" + name + "'.\n", 1)
    nics = host.own_nics
    for word in rest:
        option, _, wanted = word.partition("=")
        if option not in ("--pnic-name", "--pnic-names"):
            return CommandOutput(f"Invalid option '{word}'.\n", 1)
        nics = [nic for nic in nics if nic.name in wanted.split(",")]
    lines = ["(vim.host.PhysicalNic.NetworkHint) [", *(line for nic in nics for line in _hint(nic)), "]"]
    return CommandOutput("".join(f"{line}\n" for line in lines))


def _hint(nic: Nic) -> list[str]:
    """Return what a card has heard by CDP; a standard switch listens to nothing else."""
    lines = ["   (vim.host.PhysicalNic.NetworkHint) {", f'      device = "{nic.name}",', "      subnet = <unset>,"]
    lines.append("      network = <unset>,")
    if nic.up and nic.peer.switch:
        lines += [
            "      connectedSwitchPort = (vim.host.PhysicalNic.CdpInfo) {",
            "         cdpVersion = 0,",
            "         timeout = 0,",
            "         ttl = 169,",
            "         samples = 2982,",
            f'         devId = "{nic.peer.switch}",',
            f'         portId = "{nic.peer.port}",',
            "      },",
        ]
    else:
        lines.append("      connectedSwitchPort = (vim.host.PhysicalNic.CdpInfo) null,")
    return [*lines, "      lldpInfo = (vim.host.PhysicalNic.LldpInfo) null", "   },"]

"""Constants and helpers for the tests of the emulated ESXi host."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from switchlab.esxi.model.description import read_description
from switchlab.esxi.model.host import Host
from switchlab.esxi.model.release import RELEASES
from switchlab.esxi.shell.shell import Left, Shell

FIXTURES = Path(__file__).parents[4] / "shared" / "fixtures" / "esxi"
PASSWORD = "emulated-only"  # noqa: S105 - of a host that exists for one test
OFFERS_PFC = {"switch": "nexus", "port": "Ethernet1/2/1", "dcbx": "ieee", "pfc": 8}
SITE = {
    "nics": [
        {"name": "vmnic0", "pci": "0000:01:00.0", "driver": "igbn", "mac": "ac:1f:6b:00:00:01", "mbps": 1000},
        {"name": "vmnic3", "pci": "0000:18:00.0", "mac": "0c:42:a1:00:00:03", "mbps": 10000, "peer": OFFERS_PFC},
        {"name": "vmnic4", "pci": "0000:18:00.1", "mac": "0c:42:a1:00:00:04", "mbps": 10000},
    ],
    "modules": {"nmlx5_core": "max_vfs=4,4"},
    "vswitches": [{"name": "vSwitch1", "mtu": 1500, "uplinks": ["vmnic3", "vmnic4"]}],
    "vms": [
        {"name": "vm1", "vfs": [{"nic": "vmnic3", "number": 0}]},
        {"name": "vm2", "vfs": [{"nic": "vmnic4", "number": 1}]},
    ],
}
"""A host with two ports in use: vmnic3 follows its switch, vmnic4 has nothing that speaks DCBX."""


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def host(description: Mapping[str, object] = SITE, release: str = "7.0", state: Path | None = None) -> Host:
    """Return a host as it is after a boot, on a clock that stands still."""
    return Host(
        RELEASES[release], read_description(json.dumps(description)), hostname="esx1", state=state, clock=Clock()
    )


def type_in(host: Host, line: str) -> tuple[str, str, int]:
    """Run a line; return what it printed on standard output and standard error, and its exit status."""
    out: list[str] = []
    errors: list[str] = []
    shell = Shell(host, out.append, errors.append)
    with suppress(Left):
        asyncio.run(shell.run(line))
    return "".join(out), "".join(errors), shell.status


def run(host: Host, line: str) -> str:
    """Run a line that must succeed."""
    out, errors, status = type_in(host, line)
    assert (status, errors) == (0, ""), f"{line}: {out}{errors}"
    return out


def refuse(host: Host, line: str) -> str:
    """Run a line that must fail; return all that it printed."""
    out, errors, status = type_in(host, line)
    assert status != 0, f"{line} was accepted: {out}"
    return out + errors

"""Real and emulated BMCs on this machine: Debian's ipmi_sim, and a Redfish server with resources that a test writes."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

IPMI_TOOLS = ("ipmi_sim", "ipmitool")
USER, PASSWORD = "railbed", "Sw0rdfish-BMC"
TEMPERATURE, SUPPLY = 1, 2

LAN = """
name "bmc"
set_working_mc 0x20
  startlan 1
    addr 127.0.0.1 {port}
    priv_limit admin
    allowed_auths_callback none md2 md5 straight
    allowed_auths_user none md2 md5 straight
    allowed_auths_operator none md2 md5 straight
    allowed_auths_admin none md2 md5 straight
    guid a123456789abcdefa123456789abcdef
  endlan
  chassis_control "{folder}/chassis 0x20"
  user 2 true "{user}" "{password}" operator 10 none md2 md5 straight
"""
CHASSIS = """#!/bin/sh
shift; action=$1; shift
while [ $# -gt 0 ]; do
  case "$action $1" in
    "get power") echo "power:$(cat {folder}/power)"; shift;;
    get*) echo "$1:0"; shift;;
    *) echo "$1 $2" >>{folder}/requests; [ "$1" != power ] || echo "$2" >{folder}/power; shift 2;;
  esac
done
"""
MACHINE = """
mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02
sel_enable 0x20 1000 0x0a
sensor_add 0x20 0 1 0x01 0x01
sensor_set_value 0x20 0 1 {celsius} 0
sensor_set_threshold 0x20 0 1 settable 111000 100 90 80 0 0 0
sensor_set_event_support 0x20 0 1 enable scanning per-state {bits} {bits} {bits} {bits}
main_sdr_add 0x20 {temperature}
sensor_add 0x20 0 2 0x08 0x6f
sensor_set_event_support 0x20 0 2 enable scanning per-state {all} {all} {all} {all}
sensor_set_bit 0x20 0 2 0 1 0
main_sdr_add 0x20 {supply}
mc_enable 0x20
{more}
"""


def _record(kind: int, body: list[int], name: str) -> str:
    """Return a sensor data record (IPMI 2.0, 43.1 and 43.2) as bytes for `main_sdr_add`."""
    content = [*body, 0xC0 | len(name), *name.encode()]
    return " ".join(f"{byte:#04x}" for byte in [0, 0, 0x51, kind, len(content), *content])


FULL = _record(
    1,
    [0x20, 0, TEMPERATURE, 3, 1, 0x7F, 0x68, 0x01, 0x01, 0xC0, 0x0F, 0xC0, 0x0F, 0x38, 0x38, 0, 1, 0, 0]
    + [1, 0, 0, 0, 0, 0, 0, 40, 60, 20, 0xFF, 0, 100, 90, 80, 0, 0, 0, 0, 0, 0, 0, 0],
    "CPU1 Temp",
)
COMPACT = _record(
    2,
    [0x20, 0, SUPPLY, 10, 1, 0x7F, 0x40, 0x08, 0x6F, 0x0F, 0, 0x0F, 0, 0x0F, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
    "PS1 Status",
)


@dataclass(frozen=True, kw_only=True)
class RunningBmc:
    """A BMC that listens on the loopback."""

    port: int
    folder: Path

    @property
    def power(self) -> str:
        return "on" if (self.folder / "power").read_text().strip() == "1" else "off"

    def set_power(self, state: str) -> None:
        (self.folder / "power").write_text("1" if state == "on" else "0")

    @property
    def requests(self) -> list[str]:
        """What the machine was told to do."""
        file = self.folder / "requests"
        return file.read_text().splitlines() if file.exists() else []


def missing_ipmi_tools() -> str:
    """Return which programs an IPMI BMC on this machine lacks."""
    return ", ".join(tool for tool in IPMI_TOOLS if shutil.which(tool) is None)


@contextmanager
def ipmi_bmc(folder: Path, *, celsius: int = 45, more: str = "") -> Iterator[RunningBmc]:
    """Run Debian's ipmi_sim, with a temperature, a power supply and further commands of its own."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "state").mkdir()
    (folder / "power").write_text("1\n")
    script = folder / "chassis"
    script.write_text(CHASSIS.replace("{folder}", str(folder)))
    script.chmod(0o755)
    (folder / "lan.conf").write_text(LAN.format(port=port, folder=folder, user=USER, password=PASSWORD))
    machine = MACHINE.format(
        celsius=f"{celsius:#04x}",
        bits="000111111000000",
        all="000000000001111",
        temperature=FULL,
        supply=COMPACT,
        more=more,
    )
    (folder / "machine").write_text(machine)
    words = ["ipmi_sim", "-n", "-c", f"{folder}/lan.conf", "-f", f"{folder}/machine", "-s", f"{folder}/state"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield RunningBmc(port=port, folder=folder)
    finally:
        process.kill()
        process.wait()

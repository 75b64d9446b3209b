"""BMCs on this machine: Debian's ipmi_sim, read by the real ipmitool, and a Redfish server with resources by hand."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from switchlab.nexus.servers.certificate import ensure_certificate, server_context

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
    [
        *(0x20, 0, TEMPERATURE, 3, 1, 0x7F, 0x68, 0x01, 0x01),
        *(0xC0, 0x0F, 0xC0, 0x0F, 0x38, 0x38, 0, 1, 0, 0),
        *(1, 0, 0, 0, 0, 0, 0, 40, 60, 20, 0xFF, 0, 100, 90, 80, 0, 0, 0, 0, 0, 0, 0, 0),
    ],
    "CPU1 Temp",
)
"""Degrees Celsius, without conversion, with upper limits of 80, 90 and 100."""
COMPACT = _record(
    2,
    [
        *(0x20, 0, SUPPLY, 10, 1, 0x7F, 0x40, 0x08, 0x6F),
        *(0x0F, 0, 0x0F, 0, 0x0F, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0),
    ],
    "PS1 Status",
)
"""A power supply: entity 10.1, sensor type 08h."""


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

    def until_ready(self) -> None:
        """Wait for the first answer: a BMC that starts answers nothing."""
        words = ["ipmitool", "-I", "lanplus", "-C", "3", "-H", "127.0.0.1", "-p", str(self.port), "-U", USER]
        for _ in range(60):
            environment = {**os.environ, "IPMI_PASSWORD": PASSWORD}
            query = [*words, "-E", "-N", "1", "-R", "1", "-L", "USER", "chassis", "status"]
            if subprocess.run(query, env=environment, capture_output=True, check=False).returncode == 0:
                return
        raise AssertionError((self.folder / "log").read_text())

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
        bmc = RunningBmc(port=port, folder=folder)
        bmc.until_ready()
        yield bmc
    finally:
        process.kill()
        process.wait()


Answer = tuple[int, dict[str, str], bytes]
"""Status, headers and body."""


class RedfishBmc:
    """An HTTPS server with resources in the form of the DMTF's schemas, and answers of a test's own."""

    def __init__(self, folder: Path) -> None:
        certificate, key = ensure_certificate(folder, name="bmc", host="127.0.0.1")
        self.resources: dict[str, Any] = {}
        self.answers: dict[str, Answer | Callable[[BaseHTTPRequestHandler], None]] = {}
        self.requests: list[tuple[str, str]] = []
        """Method and path of each request that was let in."""
        self.posted: list[tuple[str, Any]] = []
        self.refused = 0
        self.password = PASSWORD
        bmc = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                bmc.answer(self, "GET")

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                bmc.posted.append((self.path, json.loads(body)))
                bmc.answer(self, "POST")

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.socket = server_context(certificate, key).wrap_socket(self.server.socket, server_side=True)
        self.server.daemon_threads = True
        der = ssl.PEM_cert_to_DER_cert(certificate.read_text())
        self.fingerprint = hashlib.sha256(der).digest().hex(":").upper()
        self.port = int(self.server.server_address[1])

    def answer(self, request: BaseHTTPRequestHandler, method: str) -> None:
        own = self.answers.get(request.path)
        wanted = base64.b64encode(f"{USER}:{self.password}".encode()).decode()
        if request.path != "/redfish/v1/" and request.headers.get("Authorization") != f"Basic {wanted}":
            self.refused += 1
            return self.send(request, (401, {}, b"{}"))
        self.requests.append((method, request.path))
        if callable(own):
            return own(request)
        if own is not None:
            return self.send(request, own)
        if method == "POST":
            return self.send(request, (204, {}, b""))
        resource = self.resources.get(request.path)
        if resource is None:
            return self.send(request, (404, {}, b'{"error": {}}'))
        return self.send(request, (200, {}, json.dumps(resource).encode()))

    @staticmethod
    def send(request: BaseHTTPRequestHandler, answer: Answer) -> None:
        status, headers, body = answer
        request.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)


@contextmanager
def redfish_bmc(folder: Path, resources: Mapping[str, Any] | None = None) -> Iterator[RedfishBmc]:
    bmc = RedfishBmc(folder)
    bmc.resources = dict(machine() if resources is None else resources)
    thread = threading.Thread(target=bmc.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield bmc
    finally:
        bmc.server.shutdown()
        bmc.server.server_close()
        thread.join()


def link(path: str) -> dict[str, str]:
    return {"@odata.id": path}


def members(*paths: str) -> dict[str, Any]:
    return {"Members@odata.count": len(paths), "Members": [link(path) for path in paths]}


V1 = "/redfish/v1"
RESET = f"{V1}/Systems/1/Actions/ComputerSystem.Reset"


def machine(power: str = "On") -> dict[str, Any]:
    """Return the resources of a machine with two power supplies, of which one has failed, and a log of two entries."""
    healthy, failed = {"State": "Enabled", "Health": "OK"}, {"State": "Enabled", "Health": "Critical"}
    return {
        f"{V1}/": {name: link(f"{V1}/{name}") for name in ("Systems", "Chassis", "Managers")},
        f"{V1}/Systems": members(f"{V1}/Systems/1"),
        f"{V1}/Systems/1": {
            **link(f"{V1}/Systems/1"),
            "@odata.type": "#ComputerSystem.v1_20_0.ComputerSystem",
            "Id": "1",
            "Model": "Example 2U",
            "SerialNumber": "EX0001",
            "PowerState": power,
            "Status": {"State": "Enabled", "Health": "OK", "HealthRollup": "OK"},
            "LogServices": link(f"{V1}/Systems/1/LogServices"),
            "Actions": {
                "#ComputerSystem.Reset": {
                    "target": RESET,
                    "ResetType@Redfish.AllowableValues": ["On", "ForceOff", "ForceRestart", "PowerCycle"],
                }
            },
        },
        f"{V1}/Chassis": members(f"{V1}/Chassis/1"),
        f"{V1}/Chassis/1": {"Thermal": link(f"{V1}/Chassis/1/Thermal"), "Power": link(f"{V1}/Chassis/1/Power")},
        f"{V1}/Chassis/1/Thermal": {
            **link(f"{V1}/Chassis/1/Thermal"),
            "@odata.type": "#Thermal.v1_7_1.Thermal",
            "Temperatures": [{"Name": "CPU1 Temp", "ReadingCelsius": 45, "Status": healthy}],
            "Fans": [{"Name": "Fan 1", "Reading": 8200, "ReadingUnits": "RPM", "Status": healthy}],
        },
        f"{V1}/Chassis/1/Power": {
            **link(f"{V1}/Chassis/1/Power"),
            "@odata.type": "#Power.v1_7_1.Power",
            "PowerSupplies": [
                {"Name": "PSU 1", "LastPowerOutputWatts": 410, "Status": healthy},
                {"Name": "PSU 2", "LineInputStatus": "LossOfInput", "Status": failed},
            ],
        },
        f"{V1}/Systems/1/LogServices": members(f"{V1}/Systems/1/LogServices/Log"),
        f"{V1}/Systems/1/LogServices/Log": {"Entries": link(f"{V1}/Systems/1/LogServices/Log/Entries")},
        f"{V1}/Systems/1/LogServices/Log/Entries": {
            **link(f"{V1}/Systems/1/LogServices/Log/Entries"),
            "Members": [
                {
                    **link(f"{V1}/Systems/1/LogServices/Log/Entries/{number}"),
                    "Id": str(number),
                    "Created": created,
                    "Severity": severity,
                    "SensorType": sensor,
                    "Message": text,
                }
                for number, created, severity, sensor, text in (
                    (1, "2026-11-18T07:00:00Z", "Critical", "Power Supply / Converter", "PSU 2 lost its input"),
                    (2, "2026-11-18T08:00:00+00:00", "Warning", "Memory", "Correctable ECC at DIMM_A1"),
                )
            ],
        },
    }

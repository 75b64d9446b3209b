"""The emulated switch of a lab: started with it, cabled to the rails of its nodes, and ended with it.

It is a separate process, `python -m railbed.lab.nexus`, driven through its control socket; nothing from there is
imported here. It forwards no packets: the rails of the lab do, and the switch shows their cabling.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from railbed.errors import UsageError
from railbed.lab.host import HostFault, end, send
from railbed.lab.kind import KINDS
from railbed.lab.model import SWITCH, Lab, LabNode, PlatformName, Spec, rail_name
from railbed.lab.patience import Patience, ProcessSigns
from railbed.lab.processes import detach, find_processes, forget, is_stopped
from railbed.model.cluster import Login, Switch, SwitchPort
from railbed.model.text.amount import plural

USER = "admin"
FOLDER, CONTROL, READY, CONFIG, LOG = "nexus", "control", "ready", "initial.cfg", "nexus.log"
INITIAL = "feature lldp\n"
"""Everything else is in factory state. Without LLDP, only the MAC table would show the cabling."""
QUIET_SECONDS, MOST_SECONDS, ANSWER_SECONDS = 60.0, 600.0, 30.0
PAUSE_SECONDS = 0.02
REFUSAL = "% Permission denied for the role"


@dataclass(frozen=True, slots=True)
class Model:
    """What a model of the switch offers to the nodes."""

    ports: int
    """Ports of one kind, from Ethernet1/1."""
    speeds: frozenset[int]
    """Mbit/s that these ports can run at."""


MODELS: Mapping[PlatformName, Model] = {
    "n9k": Model(48, frozenset({100, 1_000, 10_000, 25_000})),
    "n9k-400g": Model(32, frozenset({400_000})),
    "n9k-9.2": Model(48, frozenset({100, 1_000, 10_000, 25_000})),
    "n9k-ale": Model(32, frozenset({1_000, 10_000, 40_000})),
    "n5k": Model(32, frozenset({1_000, 10_000})),
}


def admit(spec: Spec) -> None:
    """Refuse more nodes than the switch has ports."""
    wanted = spec.nodes * spec.rails
    if spec.switch and wanted > MODELS[spec.switch].ports:
        raise UsageError(
            f"{plural(spec.nodes, 'node')} on {plural(spec.rails, 'rail')} need {wanted} switch ports, and "
            f"{spec.switch} has {MODELS[spec.switch].ports}",
            hint="choose fewer nodes or rails, or another --switch",
        )


def port_of(lab: Lab, node: LabNode, rail: int) -> str:
    """Return the port that a node's rail is cabled to."""
    return f"Ethernet1/{(node.number - 1) * lab.spec.rails + rail + 1}"


def describe(lab: Lab) -> dict[str, Switch]:
    """Return the switch for the cluster file; its key and known_hosts are those of the cluster."""
    if not lab.spec.switch:
        return {}
    door = KINDS[lab.spec.kind].switch_door(lab)
    ports = (
        SwitchPort(name=port_of(lab, node, rail), node=node.name, netdev=rail_name(rail)) for node, rail in lab.ports()
    )
    port = door.ssh_port if door.ssh_port != 22 else None
    return {SWITCH: Switch(host=door.host, login=Login(user=USER, port=port), ports=tuple(ports))}


def start(lab: Lab) -> None:
    """Start the switch, which outlives railbed; `settle` waits until it answers."""
    folder, door = lab.folder / FOLDER, KINDS[lab.spec.kind].switch_door(lab)
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / CONFIG).write_text(INITIAL, encoding="ascii")
    (folder / READY).unlink(missing_ok=True)
    options = {
        "--state": _tag(lab),
        "--platform": str(lab.spec.switch),
        "--host": door.host,
        "--port": str(door.ssh_port),
        "--nxapi-port": str(door.nxapi_port),
        "--hostname": SWITCH,
        "--user": USER,
        "--authorized-keys": str(lab.key.with_suffix(".pub")),
        "--host-key": str(lab.host_key(SWITCH)),
        "--config": f"{FOLDER}/{CONFIG}",
        "--control": f"{FOLDER}/{CONTROL}",
        "--ready-file": f"{FOLDER}/{READY}",
    }
    arguments = [text for option in options.items() for text in option]
    command = [*door.enter, sys.executable, "-P", "-m", "railbed.lab.nexus", *arguments]
    forget(detach(lab, command, lab.folder / LOG))


async def settle(lab: Lab) -> None:
    """Bring the switch in line with the lab: power, cables, and the declared faults."""
    if not lab.spec.switch:
        return
    if lab.of("kill", SWITCH):
        await end(processes(lab))
        return
    if not processes(lab):
        start(lab)
    send(processes(lab), signal.SIGCONT)
    await _until_ready(lab)
    await drive(lab, *_cables(lab, await KINDS[lab.spec.kind].rail_macs(lab)), *_faults(lab))
    if lab.of("freeze", SWITCH):
        send(processes(lab), signal.SIGSTOP)


async def stop(lab: Lab) -> None:
    """End the switch."""
    await end(processes(lab))


def state(lab: Lab) -> str:
    """Return `up`, `frozen` or `off`."""
    pids = processes(lab)
    if not pids:
        return "off"
    return "frozen" if all(is_stopped(pid) for pid in pids) else "up"


def processes(lab: Lab) -> list[int]:
    """Return the processes of the switch."""
    return find_processes(lab, _tag(lab))


async def drive(lab: Lab, *requests: Mapping[str, object]) -> list[object]:
    """Send requests to the control socket and return their results; raise HostFault for the first that is refused."""
    results = []
    with ExitStack() as opened:
        folder = os.open(lab.folder / FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        opened.callback(os.close, folder)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                # The path of a socket is limited to 107 bytes, and that of a lab may be longer.
                reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{folder}/{CONTROL}")
                opened.callback(writer.close)
                for request in requests:
                    writer.write(json.dumps(request).encode() + b"\n")
                    results.append(_result(await reader.readline(), request))
        except (OSError, TimeoutError) as error:
            raise HostFault(
                f"{SWITCH} does not answer on its control socket", hint=f"see {lab.folder / LOG}"
            ) from error
    return results


def _result(line: bytes, request: Mapping[str, object]) -> object:
    answer = json.loads(line) if line else {"ok": False, "error": "it ended"}
    if not answer["ok"]:
        raise HostFault(f"{SWITCH} refused {request['do']}: {answer['error']}")
    return answer["result"]


def _cables(lab: Lab, macs: Mapping[tuple[LabNode, int], str]) -> Iterator[dict[str, object]]:
    """Yield the requests that plug in each node's rails, or unplug those that are cut or have no power."""
    assert lab.spec.switch
    mbps = KINDS[lab.spec.kind].link_mbps(lab)
    speed = {"mbps": mbps} if mbps in MODELS[lab.spec.switch].speeds else {}
    for node, rail in lab.ports():
        port = {"port": port_of(lab, node, rail)}
        if lab.is_cut(node, rail) or lab.of("kill", node.name):
            yield {"do": "disconnect", **port}
            continue
        digits = macs[node, rail].replace(":", "")
        address = ".".join(digits[index : index + 4] for index in (0, 4, 8))
        name = rail_name(rail)
        identity = {"chassis_id": address, "port_id": name, "system_name": node.name, "port_description": name}
        yield {"do": "link", **port, "up": True, **speed}
        yield {"do": "neighbour", **port, **identity}
        yield {"do": "mac", **port, "vlan": 1, "address": address}


def _faults(lab: Lab) -> Iterator[dict[str, object]]:
    yield {"do": "link", "port": "mgmt0", "up": not lab.of("cut", SWITCH)}
    yield {"do": "accept"}
    if fault := lab.of("refuse", SWITCH):
        yield {"do": "refuse", "command": fault.text, "error": REFUSAL}


async def _until_ready(lab: Lab) -> None:
    """Wait until the switch has written the file that says it answers."""
    log, pids = lab.folder / LOG, processes(lab)
    patience = Patience(ProcessSigns(pids[0] if pids else 0, log), quiet=QUIET_SECONDS, most=MOST_SECONDS)
    while not _is_written(lab.folder / FOLDER / READY):
        why = "it ended" if not processes(lab) else patience.at_end()
        if why:
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
            raise HostFault(f"{SWITCH} did not start: {why}", hint=lines[-1] if lines else "")
        await asyncio.sleep(PAUSE_SECONDS)


def _is_written(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _tag(lab: Lab) -> str:
    """Return the argument by which the process is found."""
    return str(lab.folder / FOLDER)

"""The emulated switch of a lab: started with it, cabled to the rails of its nodes, and ended with it.

It is a separate process, `python -m switchlab.nexus`, driven through its control socket by switchlab's own client.
It forwards no packets: the rails of the lab do, and the switch shows their cabling.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from railbed.errors import UsageError
from railbed.lab.host import HostFault, detach, end, find_processes, forget, is_stopped, send
from railbed.lab.kind import KINDS
from railbed.lab.model import SWITCH, LabNode, PlatformName, Spec, StoredLab, rail_name
from railbed.lab.steps import Patience, ProcessSigns
from railbed.model.cluster import Login, Switch, SwitchPort
from railbed.model.text import plural
from switchlab import Control, ControlError

USER = "admin"
FOLDER, CONTROL, READY, CONFIG, LOG = "nexus", "control", "ready", "initial.cfg", "nexus.log"
INITIAL = "feature lldp\n"
"""Everything else is in factory state. Without LLDP, only the MAC table would show the cabling."""
QUIET_SECONDS, MOST_SECONDS = 60.0, 600.0
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


def port_of(lab: StoredLab, node: LabNode, rail: int) -> str:
    """Return the port that a node's rail is cabled to."""
    return f"Ethernet1/{(node.number - 1) * lab.spec.rails + rail + 1}"


def describe(lab: StoredLab) -> dict[str, Switch]:
    """Return the switch for the cluster file; its key and known_hosts are those of the cluster."""
    if not lab.spec.switch:
        return {}
    door = KINDS[lab.spec.kind].switch_door(lab)
    ports = (
        SwitchPort(name=port_of(lab, node, rail), node=node.name, netdev=rail_name(rail)) for node, rail in lab.ports()
    )
    port = door.ssh_port if door.ssh_port != 22 else None
    return {SWITCH: Switch(host=door.host, login=Login(user=USER, port=port), ports=tuple(ports))}


def start(lab: StoredLab) -> None:
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
    command = [*door.enter, sys.executable, "-P", "-m", "switchlab.nexus", *arguments]
    forget(detach(lab, command, lab.folder / LOG))


async def settle(lab: StoredLab) -> None:
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
    await _drive(lab, await KINDS[lab.spec.kind].rail_macs(lab))
    if lab.of("freeze", SWITCH):
        send(processes(lab), signal.SIGSTOP)


async def stop(lab: StoredLab) -> None:
    """End the switch."""
    await end(processes(lab))


def state(lab: StoredLab) -> str:
    """Return `up`, `frozen` or `off`."""
    pids = processes(lab)
    if not pids:
        return "off"
    return "frozen" if all(is_stopped(pid) for pid in pids) else "up"


def processes(lab: StoredLab) -> list[int]:
    """Return the processes of the switch."""
    return find_processes(lab, _tag(lab))


async def _drive(lab: StoredLab, macs: Mapping[tuple[LabNode, int], str]) -> None:
    """Plug in the cables, and let the switch fail as declared."""
    control = Control(lab.folder / FOLDER / CONTROL)

    def arrange() -> None:
        _plug_in(control, lab, macs)
        _let_fail(control, lab)

    try:
        await asyncio.to_thread(arrange)
    except ControlError as error:
        raise HostFault(f"{SWITCH}: {error}", hint=f"see {lab.folder / LOG}") from error


def _plug_in(control: Control, lab: StoredLab, macs: Mapping[tuple[LabNode, int], str]) -> None:
    """Plug in each node's rails, or unplug those that are cut or have no power."""
    assert lab.spec.switch
    mbps = KINDS[lab.spec.kind].link_mbps(lab)
    speed = mbps if mbps in MODELS[lab.spec.switch].speeds else None
    for node, rail in lab.ports():
        port = port_of(lab, node, rail)
        if lab.is_cut(node, rail) or lab.of("kill", node.name):
            control.uncable(port)
        else:
            control.cable(port, mac=macs[node, rail], peer=node.name, peer_port=rail_name(rail), mbps=speed)


def _let_fail(control: Control, lab: StoredLab) -> None:
    control.link("mgmt0", up=not lab.of("cut", SWITCH))
    control.accept_all()
    if fault := lab.of("refuse", SWITCH):
        control.refuse(fault.text, REFUSAL)


async def _until_ready(lab: StoredLab) -> None:
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


def _tag(lab: StoredLab) -> str:
    """Return the argument by which the process is found."""
    return str(lab.folder / FOLDER)

"""The scheduler of a lab: waits until it has all nodes and can run jobs on them."""

from __future__ import annotations

import asyncio

from railbed.errors import DeviceError
from railbed.fleet import Fleet
from railbed.lab.host import HostFault
from railbed.lab.model import StoredLab
from railbed.lab.netns.slurm import log_file
from railbed.lab.patience import Patience
from railbed.transport.base import Command, Target
from railbed.transport.connect import live_connector

STATES = Command(key="states", script="sinfo --noheader --Node --format '%N %T'", timeout=30.0)
READY = "idle"
QUIET_SECONDS, MOST_SECONDS = 60.0, 600.0
PAUSE_SECONDS = 0.05


async def until_ready(lab: StoredLab, controller: Target) -> None:
    """Wait until every node is idle, which is when Slurm can run jobs there."""
    states: dict[str, str] = {}
    patience = Patience(lambda: tuple(states.items()), quiet=QUIET_SECONDS, most=MOST_SECONDS)
    async with live_connector() as connect, Fleet([controller], connect, timeout=STATES.timeout) as fleet:
        while True:
            trouble = await _read_states(fleet, controller.name, states)
            missing = [node.name for node in lab.nodes if states.get(node.name) != READY]
            if not missing:
                return
            if why := patience.at_end():
                reason = trouble or f"{missing[0]} is {states.get(missing[0], 'unknown to it')}"
                log = log_file(lab, controller.name if trouble else missing[0])
                raise HostFault(f"Slurm did not start: {reason}, and {why}", hint=f"see {log}")
            await asyncio.sleep(PAUSE_SECONDS)


async def _read_states(fleet: Fleet, controller: str, states: dict[str, str]) -> str:
    """Read the state of every node as Slurm has it, or return why that fails."""
    try:
        output = await fleet.ask(controller, STATES)
    except DeviceError as error:
        return error.message
    if output.exit != 0:
        return output.trouble
    states |= dict(line.split(maxsplit=1) for line in output.text.splitlines() if " " in line)
    return ""

"""Finds the step that a resumed run continues from: the newest intact checkpoint on its nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from railbed.errors import CheckpointDamaged, DeviceError, RailbedError, UsageError
from railbed.fleet import Fleet
from railbed.launch.messages import decode
from railbed.model import events
from railbed.model.record import Event
from railbed.train.ranks import KnownCheckpoints
from railbed.train.state.checkpoints import survey
from railbed.transport.base import Command

LOOK_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierState:
    """What a run to be continued had saved, by its own records."""

    run: str
    """Its name here."""
    step: int = 0
    nodes: Sequence[str] = ()
    """Which nodes had its newest state."""
    may_start_over: bool = False
    """Without any state it starts again at step 1: a job that Slurm starts again has nobody to ask."""


async def resume_point(
    fleet: Fleet,
    looks: Mapping[str, str],
    saved: KnownCheckpoints,
    earlier: EarlierState,
    *,
    steps: int,
    copies: str = "",
) -> AsyncGenerator[Event, None]:
    """Add the intact checkpoints to `saved`; yield an event for each damaged one, and the step to continue from.

    `looks` has, for each node, the command that lists its checkpoints; `copies` is a folder here that may have some.
    Raises if there is no intact one, unless the run may start over.
    """
    run = earlier.run
    damaged: list[str] = []
    if copies:
        listed = await asyncio.to_thread(survey, Path(copies))
        saved.copied = listed.good[0].step if listed.good else None
        for sentence in listed.damaged:
            damaged.append(sentence)
            yield events.CheckpointFailed(message=sentence)
    silent: list[str] = []
    commands = {node: (Command(key="look", script=look, timeout=LOOK_SECONDS),) for node, look in looks.items()}
    async for answer in fleet.run(commands):
        reply = decode(answer.outputs[0].stdout) if answer.outputs else None
        if reply is None:
            silent.append(answer.device)
            continue
        for state in reply["good"]:
            saved.note(answer.device, state["step"], state["hash"])
        for sentence in reply["damaged"]:
            damaged.append(f"{answer.device}: {sentence}")
            yield events.CheckpointFailed(subject=answer.device, message=sentence)
    newest = saved.newest(list(looks))
    known = [step for step in (newest[0] if newest else None, saved.copied) if step is not None]
    if lost := _describe_loss(earlier, max(known, default=0)):
        yield events.Notice(message=lost)
    if not known:
        if not earlier.may_start_over:
            raise _nothing(run, damaged, silent)
        yield events.Notice(message=f"there is no usable state of {run}: it starts again at step 1")
        return
    step = max(known)
    nodes = [node for node in looks if step in saved.steps.get(node, {})]
    left = f"continues after step {step} of {steps}" if step < steps else f"all {steps} steps are done"
    message = f"{left}; the state is {'on ' + ', '.join(nodes) if nodes else 'in ' + copies}"
    yield events.Resuming(subject=run, message=message, step=step, nodes=nodes)


def _describe_loss(earlier: EarlierState, step: int) -> str:
    """Return a sentence about newer state that only nodes had that are gone; empty if there is none."""
    if earlier.step <= step:
        return ""
    return f"the state of step {earlier.step} is lost: only {', '.join(earlier.nodes)} had it"


def _nothing(run: str, damaged: Sequence[str], silent: Sequence[str]) -> RailbedError:
    hint = f"`railbed train --resume {run} --from-start` starts it again at step 1"
    if damaged:
        more = f" ({len(damaged) - 1} more are unusable)" if len(damaged) > 1 else ""
        return CheckpointDamaged(f"no checkpoint of {run} can be used: {damaged[0]}{more}", hint=hint)
    if silent:
        return DeviceError(f"no checkpoint of {run} was found, and {', '.join(silent)} did not answer", hint=hint)
    return UsageError(f"there is nothing to resume: no node has a checkpoint of {run}", hint=hint)

"""Finds the step that a resumed run continues from: the newest intact checkpoint on its nodes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence

from railbed.errors import CheckpointDamaged, DeviceError, RailbedError, UsageError
from railbed.fleet import Fleet
from railbed.launch.protocol import decode
from railbed.model import events
from railbed.model.record import Event
from railbed.train.ranks import KnownCheckpoints
from railbed.transport.base import Command

LOOK_SECONDS = 60.0


async def resume_point(
    fleet: Fleet, looks: Mapping[str, str], saved: KnownCheckpoints, run: str, steps: int
) -> AsyncGenerator[Event, None]:
    """Add the intact checkpoints to `saved`; yield an event for each damaged one, and the step to continue from.

    `looks` has, for each node, the command that lists its checkpoints. Raises if no node has an intact one.
    """
    damaged: list[str] = []
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
    if newest is None:
        raise _nothing(run, damaged, silent)
    step = newest[0]
    nodes = [node for node in looks if step in saved.steps.get(node, {})]
    left = f"continues after step {step} of {steps}" if step < steps else f"all {steps} steps are done"
    message = f"{left}; the state is on {', '.join(nodes)}"
    yield events.Resuming(subject=run, message=message, step=step, nodes=nodes)


def _nothing(run: str, damaged: Sequence[str], silent: Sequence[str]) -> RailbedError:
    hint = f"`railbed train --resume {run} --from-start` starts it again at step 1"
    if damaged:
        more = f" ({len(damaged) - 1} more are unusable)" if len(damaged) > 1 else ""
        return CheckpointDamaged(f"no checkpoint of {run} can be used: {damaged[0]}{more}", hint=hint)
    if silent:
        return DeviceError(f"no checkpoint of {run} was found, and {', '.join(silent)} did not answer", hint=hint)
    return UsageError(f"there is nothing to resume: no node has a checkpoint of {run}", hint=hint)

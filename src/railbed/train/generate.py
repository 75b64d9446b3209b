"""Generates text from the weights of a run, on one of its nodes, or from a folder, on a node or this machine."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from typing import Any

from railbed.errors import UsageError
from railbed.fleet import Fleet
from railbed.launch.messages import Message
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.record import Record
from railbed.train.results.program import Place, messages_of, prepare
from railbed.train.results.sources import WeightsSource, no_weights, ready_weights, weights_sources

PROGRAM = "generate"
FOREVER = 1e9
"""More seconds than a program can have run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateRequest:
    """What to generate, and from what."""

    run: str | None = None
    """Name of a run on its nodes; or else:"""
    folder: str = ""
    """A folder on the node."""
    node: str = ""
    """The node that generates; for a run, empty means the one with the newest weights."""
    prompts: Sequence[str]
    sampling: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `worker.results.sampling.Sampling`."""
    chat: bool | None = None
    """Whether prompts are put into the chat template; None: if there is one."""
    before: bool | None = None
    """Whether the model before fine-tuning answers, too; None: if the model is an adapter."""


async def generate(cluster: Cluster, fleet: Fleet, request: GenerateRequest) -> AsyncGenerator[Record, None]:
    """Answer the prompts of a request."""
    async with AsyncExitStack() as stack:
        if request.run is None:
            yield events.Progress(subject=request.node, message="starting Python")
            place, folder = await prepare(cluster, fleet, request.node), request.folder
        else:
            yield events.Progress(message="searching for the weights", waiting=list(cluster.nodes))
            source = await _source(cluster, fleet, request.run, request.node)
            yield events.Progress(subject=source.node, message="starting Python")
            place = await prepare(cluster, fleet, source.node)
            below = await stack.enter_async_context(ready_weights(cluster, fleet, request.run, source))
            folder = f"{place.base}/{below}"
        async with aclosing(_answers(fleet, place, folder, request)) as records:
            async for record in records:
                yield record


async def _answers(fleet: Fleet, place: Place, folder: str, request: GenerateRequest) -> AsyncGenerator[Record, None]:
    wanted = {
        "folder": folder,
        "prompts": list(request.prompts),
        "sampling": dict(request.sampling),
        "chat": request.chat,
        "before": request.before,
    }
    async with aclosing(messages_of(fleet, place, PROGRAM, wanted)) as messages:
        async for message in messages:
            if record := record_of(place.node, message, request.prompts):
                yield record


def record_of(node: str, message: Message, prompts: Sequence[str]) -> Record | None:
    """Return the record of a message from the program; None for one without content."""
    match message:
        case {"kind": "progress", "message": str(text)}:
            return events.Progress(subject=node, message=text)
        case {"kind": "model", "architecture": str(architecture), "parameters": int(parameters)}:
            folder, device, precision = (str(message.get(key)) for key in ("folder", "device", "precision"))
            return events.ModelLoaded(
                subject=node,
                message=f"{architecture}, {parameters:,} parameters, {precision} on {device}",
                folder=folder,
                architecture=architecture,
                parameters=parameters,
                base=_text(message.get("base")),
                device=device,
                precision=precision,
                chat=message.get("chat") is True,
            )
        case {"kind": "piece", "prompt": int(number), "text": str(text)}:
            return events.TextPiece(subject=node, prompt=number, when=_text(message.get("when")), text=text)
        case {"kind": "generated", "prompt": int(number), "text": str(text)} if 0 <= number < len(prompts):
            return _report_text(node, message, prompts[number], text)
    return None


def _report_text(node: str, message: Message, prompt: str, text: str) -> events.TextGenerated:
    tokens, seconds, length = message.get("tokens"), message.get("seconds"), message.get("prompt_tokens")
    return events.TextGenerated(
        subject=node,
        prompt=message["prompt"],
        when=_text(message.get("when")),
        input=prompt,
        text=text,
        tokens=[token for token in tokens if isinstance(token, int)] if isinstance(tokens, list) else [],
        prompt_tokens=length if isinstance(length, int) else None,
        stop=str(message.get("stop")),
        seconds=float(seconds) if isinstance(seconds, int | float) and 0 <= seconds < FOREVER else None,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


async def _source(cluster: Cluster, fleet: Fleet, run: str, node: str) -> WeightsSource:
    """Return the newest weights of a run, or those of one node."""
    sources, silent = await weights_sources(cluster, fleet, run)
    if node in silent:
        raise silent[node]
    source = next((source for source in sources if node in ("", source.node)), None)
    if source is None and sources:
        others = sorted({source.node for source in sources})
        raise UsageError(f"{node} has no weights of {run}", hint=f"these nodes have: {', '.join(others)}")
    if source is None:
        raise no_weights(cluster, run, silent, [])
    return source

"""Generates text from a model on this node.

    python -m railbed.train.worker.results.generate

The request has `folder`, `prompts`, `sampling`, `chat` (true, false, or null for models with a template), `before`, and
`models` (where models from other machines are stored).
Sends `model` once it is loaded, `piece` several times a second, and `generated` for each prompt.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from railbed.errors import UsageError
from railbed.launch.messages import Messages
from railbed.model.text.paths import expand_home
from railbed.train.base.folder import ModelFolder
from railbed.train.results.adapter import AdapterFolder, is_adapter, require_unchanged
from railbed.train.structure import structure
from railbed.train.worker.results.own import OwnSpeaker, is_own
from railbed.train.worker.results.sampling import Continuation, Sampling
from railbed.train.worker.results.serve import serve
from railbed.train.worker.results.speaker import Speaker, When
from railbed.train.worker.results.text import TextStream

PIECE_SECONDS = 0.05
"""Text is sent this often at most."""


def open_speaker(path: Path, device: torch.device, models: Path | None = None) -> Speaker:
    """Load the model, or the model and the adapter, of a folder."""
    if not is_adapter(path):
        folder = ModelFolder.open(path)
        if is_own(folder):
            return OwnSpeaker(folder, device)
    # Imported here because nodes that train railbed's own models have torch and no more.
    from railbed.train.worker.results.pretrained import PretrainedSpeaker

    if is_adapter(path):
        adapter = AdapterFolder.open(path)
        base = adapter.base_folder(models)
        require_unchanged(adapter, base)
        return PretrainedSpeaker(base, device, adapter)
    return PretrainedSpeaker(folder, device)


def run(request: Mapping[str, Any], messages: Messages) -> Mapping[str, object]:
    """Answer all prompts."""
    path = expand_home(request["folder"])
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    messages.send("progress", message="loading the model")
    speaker = open_speaker(path, device, Path(request["models"]))
    chat = speaker.is_chat if request["chat"] is None else bool(request["chat"])
    if chat and not speaker.is_chat:
        raise UsageError("the tokenizer of this model has no chat template", hint="leave --chat out")
    times: tuple[When | None, ...] = _times(request, speaker)
    messages.send(
        "model",
        folder=str(path),
        architecture=speaker.architecture,
        parameters=speaker.parameters,
        device=speaker.device,
        precision=speaker.precision,
        base=speaker.base,
        chat=chat,
    )
    sampling = structure(Sampling, request["sampling"])
    for number, prompt in enumerate(request["prompts"]):
        tokens = speaker.encode(prompt, chat=chat)
        for when in times:
            with speaker.as_of(when or "after"):
                _answer(
                    speaker,
                    Continuation(speaker.scorer, tokens, sampling, speaker.ends),
                    messages,
                    {"prompt": number, "when": when, "prompt_tokens": len(tokens)},
                )
    return {}


def _times(request: Mapping[str, Any], speaker: Speaker) -> tuple[When | None, ...]:
    if request["before"] is False or (request["before"] is None and speaker.base is None):
        return (None,)
    if speaker.base is None:
        raise UsageError("--before needs a fine-tuned model: this one has no adapter")
    return ("before", "after")


def _answer(speaker: Speaker, answer: Continuation, messages: Messages, about: dict[str, object]) -> None:
    stream, parts, pending = TextStream(speaker.decode), list[str](), ""
    labels = {"prompt": about["prompt"], "when": about["when"]}
    began = sent = time.monotonic()
    first = None
    for token in answer:
        first = first or time.monotonic()
        pending += stream.add(token)
        if pending and time.monotonic() - sent > PIECE_SECONDS:
            messages.send("piece", **labels, text=pending)
            parts.append(pending)
            pending, sent = "", time.monotonic()
    pending += stream.end()
    if pending:
        messages.send("piece", **labels, text=pending)
        parts.append(pending)
    seconds = time.monotonic() - (first or began)
    messages.send("generated", **about, text="".join(parts), tokens=answer.tokens, stop=answer.stop, seconds=seconds)


if __name__ == "__main__":
    serve(run)

"""Events of generate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from railbed.model.record import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLoaded(Event):
    """A node loaded a model, which now generates."""

    name: ClassVar = "model"
    folder: str
    architecture: str
    parameters: int
    device: str
    precision: str
    base: str | None = None
    """The folder of the model below an adapter."""
    chat: bool = False
    """Prompts are put into the model's chat template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPiece(Event):
    """Text that was just generated for a prompt, counted from 0; `when` is `before` or `after` fine-tuning."""

    name: ClassVar = "piece"
    prompt: int
    when: str | None = None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextGenerated(Event):
    """The answer to a prompt; `stop` says why it ends.

    `end`: the model ended it; `tokens`: as many tokens as were requested; `context`: the model's context is full;
    `interrupted`: railbed was.
    """

    name: ClassVar = "generated"
    prompt: int
    when: str | None = None
    input: str
    text: str
    tokens: Sequence[int] = ()
    prompt_tokens: int | None = None
    stop: str
    seconds: float | None = None
    """Time after the prompt was processed."""

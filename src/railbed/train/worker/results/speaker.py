"""A model that is ready to generate: its tokens, its scores, and whether it was fine-tuned."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

from railbed.train.worker.models.base import Scorer

When = Literal["before", "after"]


class Speaker(ABC):
    """A model with its tokenizer."""

    scorer: Scorer
    ends: frozenset[int]
    """The tokens that end a text."""
    architecture: str
    parameters: int
    device: str
    precision: str
    base: str | None = None
    """The folder of the model below an adapter."""
    is_chat: bool = False
    """The tokenizer has a chat template."""

    @abstractmethod
    def encode(self, prompt: str, *, chat: bool) -> list[int]:
        """Return the tokens of a prompt; with `chat`, as a user's message in the chat template."""

    @abstractmethod
    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, without special ones."""

    def as_of(self, when: When) -> AbstractContextManager[object]:  # noqa: ARG002 -- for models with an adapter
        """Generate as before or after fine-tuning, within the context."""
        return nullcontext()

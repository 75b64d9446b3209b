"""The interface of the tokens to train on, whichever layout they have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import torch


class Corpus(Protocol):
    """Sequences of tokens, by number: those to train on, and those to validate with."""

    @property
    def train(self) -> int:
        """Tokens, or rows, to train on."""
        ...

    @property
    def vocabulary(self) -> int:
        """Tokens in the vocabulary."""
        ...

    @property
    def end_of_text(self) -> int:
        """The token between two texts."""
        ...

    def windows(self, context: int) -> int:
        """Return how many sequences there are to train on."""
        ...

    def validation_windows(self, context: int) -> int:
        """Return how many sequences there are to validate with."""
        ...

    def batch(self, windows: Iterable[int], context: int, *, validation: bool = False) -> tuple[torch.Tensor, ...]:
        """Return what the model is called with: inputs, targets, and positions if sequences consist of documents."""
        ...

    def sizes(self, windows: Sequence[int], *, validation: bool = False) -> list[int] | None:
        """Return the tokens of each sequence; None if all have as many."""
        ...

    def trained(self, windows: Sequence[int], context: int, *, validation: bool = False) -> int:
        """Return how many tokens of these sequences are trained: the loss is divided by that number."""
        ...

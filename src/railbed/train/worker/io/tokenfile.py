"""The memory-mapped tokens, as batches of windows."""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from railbed.errors import DataError
from railbed.train.data.sampling import window_count

DTYPES = {"uint16": torch.uint16, "uint32": torch.uint32}


@dataclass(frozen=True, slots=True)
class Tokens:
    """A text as tokens: the first part to train on, the rest to validate with."""

    tokens: torch.Tensor
    train: int
    vocabulary: int
    end_of_text: int

    @classmethod
    def open(cls, folder: Path) -> Tokens:
        """Map the tokens of a folder; raise DataError if they are incomplete."""
        try:
            about = json.loads((folder / "tokens.json").read_text())
            with (folder / "tokens.bin").open("rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            tokens = torch.frombuffer(mapped, dtype=DTYPES[about["dtype"]])
            read = cls(tokens, about["train"], about["vocabulary"], about["end_of_text"])
            expected = about["tokens"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise DataError(f"the tokens in {folder} cannot be read: {error}") from None
        if len(tokens) != expected:
            raise DataError(f"the tokens in {folder} are incomplete: {len(tokens)} of {expected}")
        return read

    def windows(self, context: int) -> int:
        """Return how many windows there are to train on."""
        return window_count(self.train, context)

    def validation_windows(self, context: int) -> int:
        """Return how many windows there are to validate with."""
        return window_count(len(self.tokens) - self.train, context)

    def batch(self, windows: Iterable[int], context: int, *, validation: bool = False) -> tuple[torch.Tensor, ...]:
        """Return the inputs and the targets of windows, both [windows, context] of int64."""
        base = self.train if validation else 0
        starts = [base + window * context for window in windows]
        rows = torch.stack([self.tokens[start : start + context + 1] for start in starts]).to(torch.int64)
        return rows[:, :-1], rows[:, 1:]

    def sizes(self, windows: Sequence[int], *, validation: bool = False) -> None:
        """Return None: all windows have the same number of tokens."""

    def trained(self, windows: Sequence[int], context: int, *, validation: bool = False) -> int:  # noqa: ARG002
        """Return how many tokens of these windows are trained: all."""
        return len(windows) * context

"""The tokens to train on, memory-mapped, behind one interface: windows of a text, or rows of documents.

`data/rows.py` describes the files.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from railbed.errors import DataError
from railbed.train.data.marks import TRAINED
from railbed.train.data.sampling import window_count


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

    def count_trained(self, windows: Sequence[int], context: int, *, validation: bool = False) -> int:
        """Return how many tokens of these sequences are trained: the loss is divided by that number."""
        ...


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

    def count_trained(self, windows: Sequence[int], context: int, *, validation: bool = False) -> int:  # noqa: ARG002
        """Return how many tokens of these windows are trained: all."""
        return len(windows) * context


IGNORED = -100
"""The target of a token that is not trained, as torch's cross-entropy ignores it."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of documents: the first to train on, the rest to validate with."""

    tokens: torch.Tensor
    """[rows, context + 1]."""
    marks: torch.Tensor
    """For each token, the number of its document in the row, and the top bit if it is trained."""
    counts: torch.Tensor
    """[rows, 2]: tokens without padding, and trained tokens."""
    train: int
    vocabulary: int
    end_of_text: int

    @classmethod
    def open(cls, folder: Path, about: dict[str, Any]) -> Rows:
        """Map the rows of a folder, described by its tokens.json; raise DataError if they are incomplete."""
        try:
            rows, length = int(about["rows"]), int(about["context"]) + 1
            tokens = _map_file(folder / "tokens.bin", DTYPES[about["dtype"]], (rows, length))
            marks = _map_file(folder / "marks.bin", torch.uint16, (rows, length))
            counts = _map_file(folder / "counts.bin", torch.uint32, (rows, 2))
            return cls(tokens, marks, counts, about["train"], about["vocabulary"], about["end_of_text"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"the tokens in {folder} cannot be read: {error}") from None

    def windows(self, context: int) -> int:  # noqa: ARG002 -- rows are made for one context
        """Return how many rows there are to train on."""
        return self.train

    def validation_windows(self, context: int) -> int:  # noqa: ARG002
        """Return how many rows there are to validate with."""
        return len(self.tokens) - self.train

    def batch(self, windows: Iterable[int], context: int, *, validation: bool = False) -> tuple[torch.Tensor, ...]:  # noqa: ARG002
        """Return inputs, targets and positions, all [rows, length] of int64; without the padding that all rows have.

        The positions of each document begin at 0: that is how the model separates documents.
        """
        chosen = self._numbers(list(windows), validation=validation)
        length = max(2, int(self.counts[chosen, 0].to(torch.int64).max()))
        tokens = self.tokens[chosen].to(torch.int64)[:, :length]
        marks = self.marks[chosen].to(torch.int64)[:, :length]
        documents = marks % TRAINED
        targets = torch.where(marks[:, 1:] >= TRAINED, tokens[:, 1:], IGNORED)
        return tokens[:, :-1], targets, _positions(documents[:, :-1])

    def sizes(self, windows: Sequence[int], *, validation: bool = False) -> list[int]:
        """Return the tokens of each row, without padding."""
        return [int(size) for size in self.counts[self._numbers(windows, validation=validation), 0].to(torch.int64)]

    def count_trained(self, windows: Sequence[int], context: int, *, validation: bool = False) -> int:  # noqa: ARG002
        """Return how many tokens of these rows are trained."""
        return int(self.counts[self._numbers(windows, validation=validation), 1].to(torch.int64).sum())

    def _numbers(self, rows: Sequence[int], *, validation: bool) -> torch.Tensor:
        return torch.tensor(rows, dtype=torch.int64) + (self.train if validation else 0)


def open_tokens(folder: Path) -> Tokens | Rows:
    """Map the tokens of a folder, whichever layout they have; raise DataError if they are incomplete."""
    try:
        about = json.loads((folder / "tokens.json").read_text())
        is_rows = about.get("layout") == "rows"
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise DataError(f"the tokens in {folder} cannot be read: {error}") from None
    return Rows.open(folder, about) if is_rows else Tokens.open(folder)


def _map_file(path: Path, dtype: torch.dtype, shape: tuple[int, int]) -> torch.Tensor:
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    expected = shape[0] * shape[1] * dtype.itemsize
    if len(mapped) != expected or expected <= 0:
        raise ValueError(f"{path.name} has {len(mapped)} bytes of {expected}")
    return torch.frombuffer(mapped, dtype=dtype).view(shape)


def _positions(documents: torch.Tensor) -> torch.Tensor:
    """Return the position of each token in its document, [rows, length]."""
    places = torch.arange(documents.shape[1]).expand_as(documents)
    begins = torch.ones_like(documents, dtype=torch.bool)
    begins[:, 1:] = documents[:, 1:] != documents[:, :-1]
    return places - torch.where(begins, places, 0).cummax(dim=1).values

"""What the model will get, as text: sequences of prepared data, with the parts that are trained."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from railbed.train.data import tokenizer as bpe
from railbed.train.data.marks import TRAINED
from railbed.train.data.prepare import PreparedData
from railbed.train.data.rows import MARKS, TOKENS
from railbed.train.data.sampling import window_count


@dataclass(frozen=True, slots=True)
class Passage:
    """Tokens in a row that are all trained, or all not."""

    text: str
    document: int
    """Its document in the sequence, from 1."""
    trained: bool


@dataclass(frozen=True, slots=True)
class Sequence:
    """A sequence that the model is trained on."""

    number: int
    tokens: int
    trained: int
    passages: list[Passage]


def sequences(prepared: PreparedData, context: int, count: int) -> Iterator[Sequence]:
    """Yield the first sequences of prepared data, in its own order; training takes them in another."""
    tokenizer = bpe.open_tokenizer(prepared.folder)
    tokens = np.memmap(prepared.folder / TOKENS, dtype=prepared.dtype, mode="r")
    is_rows, length = prepared.layout == "rows", context + 1
    marks = np.memmap(prepared.folder / MARKS, dtype=np.uint16, mode="r") if is_rows else None
    available, stride = (prepared.train, length) if is_rows else (window_count(prepared.train, context), context)
    for number in range(min(count, available)):
        part = slice(number * stride, number * stride + length)
        own = marks[part] if marks is not None else np.full(length, 1 + TRAINED, dtype=np.uint16)
        real = own % TRAINED > 0
        pairs = list(zip(tokens[part][real].tolist(), own[real].tolist(), strict=True))
        passages = []
        for mark, group in groupby(pairs, key=lambda pair: int(pair[1])):
            text = tokenizer.decode([token for token, _ in group], skip_special_tokens=False)
            passages.append(Passage(text, mark % TRAINED, mark >= TRAINED))
        yield Sequence(number, len(pairs), sum(mark >= TRAINED for _, mark in pairs), passages)

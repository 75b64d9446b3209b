"""Writes text as one long sequence of tokens, which training cuts into windows of equal length."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from railbed.errors import DataError
from railbed.train.data import tokenizer as bpe
from railbed.train.data.report import Report
from railbed.train.recipe import Data

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PIECE_CHARACTERS = 1 << 20
PIECES_AT_ONCE = 8


def write_windows(
    folder: Path, texts: Collection[Path], data: Data, vocabulary: int, report: Report
) -> tuple[Tokenizer, dict[str, object]]:
    """Write the tokens; return their tokenizer, and what is known about them."""
    if data.tokenizer is not None:
        tokenizer = bpe.opened(Path(data.tokenizer))
    else:
        report("training a tokenizer on the text", 0, 0)
        tokenizer = bpe.trained((piece for path in texts for piece in pieces_of(path)), vocabulary)
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    dtype = "uint16" if size <= 1 << 16 else "uint32"
    count = _write(folder / "tokens.bin", counted(texts, report), tokenizer, dtype)
    return tokenizer, {
        "tokens": count,
        "train": count - int(count * data.validation),
        "vocabulary": size,
        "end_of_text": bpe.end_of_text(tokenizer),
        "dtype": dtype,
        "texts": len(texts),
    }


def _write(path: Path, texts: Iterable[Path], tokenizer: Tokenizer, dtype: str) -> int:
    import numpy as np

    end, count = bpe.end_of_text(tokenizer), 0
    with path.open("wb") as file:
        for text in texts:
            for group in _groups(pieces_of(text)):
                for encoding in tokenizer.encode_batch(group, add_special_tokens=False):
                    file.write(np.asarray(encoding.ids, dtype=dtype).tobytes())
                    count += len(encoding.ids)
            file.write(np.asarray([end], dtype=dtype).tobytes())
            count += 1
        file.flush()
        os.fsync(file.fileno())
    return count


def counted(texts: Collection[Path], report: Report) -> Iterator[Path]:
    """Yield the texts, and report how many are done; progress within a single text is unknown."""
    for number, text in enumerate(texts):
        report("turning the text into tokens", number, len(texts))
        yield text


def pieces_of(path: Path) -> Iterator[str]:
    """Yield a text in pieces of about a megabyte that end with a line."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            while lines := file.readlines(PIECE_CHARACTERS):
                yield "".join(lines)
    except UnicodeDecodeError:
        raise DataError(f"{path} is not text to its end: it has bytes that are not UTF-8") from None


def _groups(pieces: Iterable[str]) -> Iterator[list[str]]:
    group: list[str] = []
    for piece in pieces:
        group.append(piece)
        if len(group) == PIECES_AT_ONCE:
            yield group
            group = []
    if group:
        yield group

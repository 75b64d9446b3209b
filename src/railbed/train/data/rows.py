"""Documents packed into rows of equal length, with the tokens that are trained marked; or text as one long row.

    tokens.bin   the tokens, row after row; each row has a token more than the context
    marks.bin    for each token, the number of its document in the row (from 1; 0 is padding), and the top bit if
                 it is trained: if predicting it from those before it counts
    counts.bin   for each row, its tokens without padding, and how many of them are trained

No token attends to another document, so how documents are packed changes nothing but the time that a step takes. One
long sequence of tokens is cut into windows of equal length by the training.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

import numpy as np
import numpy.typing as npt

from railbed.errors import DataError
from railbed.train.data import tokenizer as bpe
from railbed.train.data.marks import TRAINED
from railbed.train.data.tokenizer import Report
from railbed.train.recipe import Data

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOKENS, MARKS, COUNTS = "tokens.bin", "marks.bin", "counts.bin"
MOST_DOCUMENTS = TRAINED - 1
OPEN_ROWS = 64
"""Rows that the next document may still go to: the first that has room."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Document:
    """Tokens of one document, or of one part of it, and which of them are trained."""

    tokens: Ints
    trained: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, tokens: Sequence[int] | Ints, trained: Sequence[bool] | npt.NDArray[np.bool_]) -> Document:
        """Return a document; its first token is never trained, since nothing comes before it."""
        marks = np.array(trained, dtype=np.bool_)
        marks[:1] = False
        return cls(np.asarray(tokens, dtype=np.int64), marks)


class DocumentStore:
    """Documents on disk, in a temporary file, so that their number is not limited by memory."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._starts: list[int] = [0]
        self._hashes: list[bytes] = []

    def __len__(self) -> int:
        return len(self._hashes)

    def add(self, document: Document) -> None:
        """Store a document."""
        packed = (document.tokens * 2 + document.trained).astype(np.int64).tobytes()
        self._file.write(packed)
        self._starts.append(self._starts[-1] + len(document.tokens))
        self._hashes.append(hashlib.sha256(packed).digest()[:8])

    def shuffle(self) -> list[int]:
        """Return the numbers of all documents in the order of their hashes: as good as random, the same everywhere."""
        return sorted(range(len(self)), key=lambda number: (self._hashes[number], number))

    def read(self, number: int) -> Document:
        """Return a document."""
        start, end = self._starts[number], self._starts[number + 1]
        self._file.seek(8 * start)
        packed = np.frombuffer(self._file.read(8 * (end - start)), dtype=np.int64)
        return Document(packed // 2, packed % 2 == 1)


@dataclass(slots=True, eq=False)
class _Row:
    documents: list[Document] = field(default_factory=list)
    length: int = 0


def pack(documents: Iterable[Document], length: int) -> Iterator[list[Document]]:
    """Yield the documents of each row: each goes to the first of the open rows that has room."""
    open_rows: list[_Row] = []
    for document in documents:
        row = next((row for row in open_rows if row.length + len(document.tokens) <= length), None)
        if row is None:
            row = _Row()
            open_rows.append(row)
        row.documents.append(document)
        row.length += len(document.tokens)
        if row.length < length and len(row.documents) < MOST_DOCUMENTS:
            if len(open_rows) <= OPEN_ROWS:
                continue
            row = open_rows[0]
        open_rows.remove(row)
        yield row.documents
    yield from (row.documents for row in open_rows)


class RowWriter:
    """Writes rows, and counts what they contain."""

    def __init__(self, folder: Path, length: int, dtype: str) -> None:
        self.length, self._dtype = length, dtype
        self._files = [(folder / name).open("xb") for name in (TOKENS, MARKS, COUNTS)]
        self.rows = self.tokens = self.trained = 0

    def add(self, documents: Sequence[Document]) -> None:
        """Write a row."""
        tokens = np.zeros(self.length, dtype=self._dtype)
        marks = np.zeros(self.length, dtype=np.uint16)
        start = 0
        for number, document in enumerate(documents, 1):
            end = start + len(document.tokens)
            tokens[start:end] = document.tokens
            marks[start:end] = number + TRAINED * document.trained
            start = end
        trained = int((marks >= TRAINED).sum())
        counts = np.array([start, trained], dtype=np.uint32)
        for file, content in zip(self._files, (tokens.tobytes(), marks.tobytes(), counts.tobytes()), strict=True):
            file.write(content)
        self.rows, self.tokens, self.trained = self.rows + 1, self.tokens + start, self.trained + trained

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()


PIECE_CHARACTERS = 1 << 20
PIECES_AT_ONCE = 8


def write_windows(
    folder: Path, texts: Collection[Path], data: Data, vocabulary: int, report: Report
) -> tuple[Tokenizer, dict[str, object]]:
    """Write the tokens; return their tokenizer, and what is known about them."""
    if data.tokenizer is not None:
        tokenizer = bpe.open_tokenizer(Path(data.tokenizer))
    else:
        report("training a tokenizer on the text", 0, 0)
        tokenizer = bpe.train_tokenizer((piece for path in texts for piece in pieces_of(path)), vocabulary)
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    dtype = "uint16" if size <= 1 << 16 else "uint32"
    count = _write(folder / "tokens.bin", count_texts(texts, report), tokenizer, dtype)
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


def count_texts(texts: Collection[Path], report: Report) -> Iterator[Path]:
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

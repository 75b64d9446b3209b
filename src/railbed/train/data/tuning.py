"""Writes documents and examples as rows of tokens (`rows.py`), with a model folder's tokenizer and chat template."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from railbed.errors import DataError
from railbed.train.base.files import tokenizer_settings
from railbed.train.base.folder import ModelFolder, read_folder
from railbed.train.data import tokenizer as bpe
from railbed.train.data.chat import ChatTemplate, special_tokens
from railbed.train.data.examples import SUFFIX, Example, ExampleReader
from railbed.train.data.rows import Document, DocumentStore, RowWriter, count_texts, pack, pieces_of
from railbed.train.data.tokenizer import Report
from railbed.train.recipe import Recipe

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FORMAT = 1


def rows_key(texts: Iterable[str], recipe: Recipe, base: Path) -> str:
    """Return the hash of everything that the rows depend on."""
    _require_context(read_folder(base), recipe.model.context)
    template = ChatTemplate.of(base)
    tokenizer = hashlib.sha256(bpe.open_tokenizer(base).to_str().encode()).hexdigest()
    chat = [template.source, dict(template.tokens)] if template else None
    data = recipe.data
    form = [recipe.model.context, data.packed, data.too_long, data.validation]
    content = json.dumps(["rows", FORMAT, list(texts), tokenizer, chat, form])
    return hashlib.sha256(content.encode()).hexdigest()


def _require_context(folder: ModelFolder, context: int) -> None:
    if obstacle := folder.obstacle_to(context):
        raise DataError(f"model.context: {obstacle}")


@dataclass(slots=True)
class _Reader:
    """Turns files into documents of at most `length` tokens."""

    tokenizer: Tokenizer
    examples: ExampleReader
    length: int
    cuts: bool
    first: list[int]
    """The token that every text starts with, if this model has one."""
    last: int
    """The token that ends a text."""
    cut: int = 0
    unused: int = 0

    def documents(self, path: Path) -> Iterator[Document]:
        if path.suffix.lower() != SUFFIX:
            yield from self._text(path)
            return
        for example in self.examples.read(path):
            document = self._example(example)
            if document.trained.any():
                yield document
            else:
                self.unused += 1

    def _text(self, path: Path) -> Iterator[Document]:
        """Yield a text in parts; each begins with the last token of the one before, so that every token is learned."""
        waiting = list(self.first)
        parts = (self.tokenizer.encode(piece, add_special_tokens=False).ids for piece in pieces_of(path))
        for tokens in chain(parts, [[self.last]]):
            waiting += tokens
            while len(waiting) > self.length:
                yield Document.of(waiting[: self.length], [True] * self.length)
                waiting = waiting[self.length - 1 :]
        if len(waiting) > 1:
            yield Document.of(waiting, [True] * len(waiting))

    def _example(self, example: Example) -> Document:
        encoding = self.tokenizer.encode(example.text, add_special_tokens=False)
        trained = [any(start <= begin < end for start, end in example.answers) for begin, _ in encoding.offsets]
        tokens = list(encoding.ids)
        if example.ends:
            tokens = [*self.first, *tokens, self.last]
            trained = [*[False] * len(self.first), *trained, True]
        if len(tokens) > self.length:
            if not self.cuts:
                raise DataError(
                    f"{example.place}: the example has {len(tokens):,} tokens, and a sequence has room for "
                    f"{self.length:,}",
                    hint="raise model.context, or use the beginning of such examples: --set data.too_long=cut",
                )
            self.cut += 1
        return Document.of(tokens[: self.length], trained[: self.length])


def write_rows(
    folder: Path, texts: Sequence[Path], recipe: Recipe, base: Path, report: Report
) -> tuple[Tokenizer, dict[str, object]]:
    """Write the rows; return their tokenizer, and what is known about them."""
    model, tokenizer = read_folder(base), bpe.open_tokenizer(base)
    context, data = recipe.model.context, recipe.data
    reader = _reader(tokenizer, base, context + 1, cuts=data.too_long == "cut")
    dtype = "uint16" if model.vocabulary <= 1 << 16 else "uint32"
    with RowWriter(folder, context + 1, dtype) as writer, tempfile.TemporaryFile(dir=folder) as file:
        store = DocumentStore(file)
        for path in count_texts(texts, report):
            for document in reader.documents(path):
                _require_known(document, model, base)
                store.add(document)
        report("packing the sequences", 0, 0)
        order = store.shuffle()
        held_out = int(len(order) * data.validation)
        train = _write_part(writer, store, order[: len(order) - held_out], packed=data.packed)
        _write_part(writer, store, order[len(order) - held_out :], packed=data.packed)
    if not train:
        raise DataError("there is nothing to train on: no example has an answer within the length of a sequence")
    return tokenizer, {
        "layout": "rows",
        "tokens": writer.tokens,
        "trained": writer.trained,
        "rows": writer.rows,
        "train": train,
        "context": context,
        "vocabulary": model.vocabulary,
        "end_of_text": reader.last,
        "dtype": dtype,
        "texts": len(texts),
        "cut": reader.cut,
        "unused": reader.unused,
    }


def _reader(tokenizer: Tokenizer, base: Path, length: int, *, cuts: bool) -> _Reader:
    special = special_tokens(tokenizer_settings(base))
    end = tokenizer.token_to_id(special.get("eos_token", ""))
    begin = tokenizer.token_to_id(special.get("bos_token", ""))
    return _Reader(
        tokenizer,
        ExampleReader(ChatTemplate.of(base), base),
        length,
        cuts,
        first=[begin] if begin is not None and tokenizer.encode("").ids[:1] == [begin] else [],
        last=end if end is not None else bpe.end_of_text(tokenizer),
    )


def _write_part(writer: RowWriter, store: DocumentStore, numbers: Sequence[int], *, packed: bool) -> int:
    """Write documents as rows; return how many rows there are."""
    before = writer.rows
    documents = (store.read(number) for number in numbers)
    for row in pack(documents, writer.length) if packed else ([document] for document in documents):
        writer.add(row)
    return writer.rows - before


def _require_known(document: Document, model: ModelFolder, base: Path) -> None:
    highest = int(np.max(document.tokens))
    if highest >= model.vocabulary:
        raise DataError(f"the tokenizer in {base} has a token {highest}, the model only {model.vocabulary} rows")

"""Text to tokens: cached by content, and one clear sentence for files that are not text."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from railbed.errors import DataError
from railbed.train.data import tokenizer as tokens
from railbed.train.data.prepare import prepare, standard_library
from railbed.train.models.gpt import GptSettings
from railbed.train.recipe import Data, Recipe
from railbed.train.worker.io.corpus import Tokens

TEXT = "the quick brown fox jumps over the lazy dog; naïve café\n" * 40


def recipe(*files: Path, **data: Any) -> Recipe:
    model = GptSettings(layers=1, heads=1, width=8, context=16, vocabulary=300)
    return Recipe(model=model, data=Data(files=tuple(str(file) for file in files), **data))


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text(TEXT)
    (folder / "sub" / "b.md").write_text(TEXT.upper())
    (folder / "picture.png").write_bytes(b"\x89PNG\x00\xff")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("not to be learned")
    return folder


def test_tokens_are_the_text(texts: Path, tmp_path: Path) -> None:
    made = prepare(recipe(texts, validation=0.25), tmp_path / "cache")
    assert (made.texts, made.skipped, made.dtype, made.end_of_text) == (2, 1, "uint16", 0)
    read = Tokens.open(made.folder)
    assert (len(read.tokens), read.train) == (made.tokens, made.tokens - made.tokens // 4)
    text = tokens.decode_tokens(made.folder, read.tokens.tolist())
    assert text in {TEXT + TEXT.upper(), TEXT.upper() + TEXT}
    inputs, targets = read.batch([0, 2], 16)
    assert inputs.shape == targets.shape == (2, 16)
    assert inputs[0, 1:].tolist() == targets[0, :-1].tolist() == read.tokens[1:16].tolist()
    assert targets[1, -1].item() == read.tokens[48].item()
    assert read.batch([0], 16, validation=True)[0][0, 0].item() == read.tokens[read.train].item()


def test_the_same_text_is_tokenised_once(texts: Path, tmp_path: Path) -> None:
    first = prepare(recipe(texts), tmp_path / "cache")
    made = (first.folder / "tokens.bin").stat().st_mtime_ns
    (texts / "a.txt").rename(texts / "renamed.txt")
    again = prepare(recipe(texts), tmp_path / "cache")
    assert (again.folder, (again.folder / "tokens.bin").stat().st_mtime_ns) == (first.folder, made)
    (texts / "renamed.txt").write_text(TEXT + "more")
    assert prepare(recipe(texts), tmp_path / "cache").folder != first.folder


def test_a_cut_cache_is_made_again(texts: Path, tmp_path: Path) -> None:
    first = prepare(recipe(texts), tmp_path / "cache")
    (first.folder / "tokens.bin").write_bytes(b"xy")
    assert prepare(recipe(texts), tmp_path / "cache") == first
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [first.folder.name]


def test_the_users_tokenizer(texts: Path, tmp_path: Path) -> None:
    first = prepare(recipe(texts), tmp_path / "cache")
    other = tmp_path / "other.txt"
    other.write_text(TEXT.title())
    made = prepare(recipe(other, tokenizer=str(first.folder)), tmp_path / "cache")
    assert json.loads((made.folder / "tokenizer.json").read_text()) == json.loads(
        (first.folder / "tokenizer.json").read_text()
    )
    with pytest.raises(DataError, match="there is no tokenizer at"):
        prepare(recipe(other, tokenizer=str(tmp_path)), tmp_path / "cache")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(DataError, match=r"tokenizer\.json is not a tokenizer"):
        prepare(recipe(other, tokenizer=str(tmp_path)), tmp_path / "cache")
    small = Recipe(model=GptSettings(vocabulary=280), data=Data(files=(str(other),), tokenizer=str(first.folder)))
    with pytest.raises(DataError, match="tokens, the model only 280"):
        prepare(small, tmp_path / "cache")


def test_text_that_is_useless(tmp_path: Path) -> None:
    empty, binary, short = tmp_path / "empty", tmp_path / "binary", tmp_path / "short.txt"
    empty.mkdir()
    binary.mkdir()
    (binary / "a.bin").write_bytes(b"\0\1\2")
    (binary / "b.txt").write_bytes(b"")
    (tmp_path / "late.txt").write_bytes(b"a\n" * 80_000 + b"\xff")
    (tmp_path / "none.txt").write_bytes(b"")
    short.write_text("hi")
    for path, sentence in [
        (tmp_path / "missing", f"there is no file or folder {tmp_path / 'missing'}"),
        (empty, f"the folder {empty} is empty"),
        (binary, f"the folder {binary} has no text: 2 files, all binary or empty"),
        (binary / "a.bin", f"{binary / 'a.bin'} is not text: it has bytes that are not UTF-8"),
        (tmp_path / "none.txt", f"{tmp_path / 'none.txt'} is empty"),
        (tmp_path / "late.txt", f"{tmp_path / 'late.txt'} is not text to its end: it has bytes that are not UTF-8"),
        (short, "the text is too short: it has 2 tokens to train on, and a sequence needs 17"),
    ]:
        with pytest.raises(DataError) as caught:
            prepare(recipe(path), tmp_path / "cache")
        assert caught.value.message == sentence


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    file = tmp_path / "secret.txt"
    file.write_text("x")
    file.chmod(0)
    with pytest.raises(DataError, match="cannot be read: Permission denied"):
        prepare(recipe(file), tmp_path / "cache")


def test_the_standard_library_is_there() -> None:
    names = {path.name for path in standard_library()}
    assert "argparse.py" in names
    assert len(names) > 100

"""What a tokenizer.json has: a vocabulary, merges, added tokens, and the tokens around a text. All of it is foreign.

All tokens of a tokenizer in the order of the model's rows, with their types in GGUF.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from railbed.errors import ModelError
from railbed.train.base.files import TOKENIZER, read_json

TOKENIZER_BYTES = 256 << 20
TOKENS = 4_000_000
"""The most tokens of a vocabulary."""
OWN_CONVERTER = "llama.cpp's own convert_hf_to_gguf.py may accept it; export without --gguf, and use it on that folder"
Pair = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedToken:
    """A token that is searched for in a text before the rest is split and merged."""

    text: str
    special: bool
    normalized: bool
    """Whether it is searched for in the text as it is after normalisation."""
    lstrip: bool
    rstrip: bool
    """Whether it takes the spaces before or after it with it."""
    single_word: bool


@dataclass(frozen=True, slots=True)
class TokenizerFile:
    """The content of a tokenizer.json with a BPE."""

    path: Path
    content: Mapping[str, Any]
    model: Mapping[str, Any]
    vocabulary: Mapping[str, int]
    added: Mapping[int, AddedToken]

    @classmethod
    def open(cls, folder: Path) -> TokenizerFile:
        """Read the file in a folder; raise ModelError if it is damaged, or is not a BPE."""
        path = folder / TOKENIZER
        content = read_json(path, TOKENIZER_BYTES)
        model = content.get("model")
        if not isinstance(model, dict) or model.get("type", "BPE") != "BPE":
            message = f"{path} is not a BPE, the only kind of tokenizer that railbed writes as GGUF"
            raise ModelError(message, hint=OWN_CONVERTER)
        vocabulary = model.get("vocab")
        if not isinstance(vocabulary, dict) or not all(type(number) is int for number in vocabulary.values()):
            raise damage_error(path, "it has no vocabulary")
        return cls(path, content, model, vocabulary, _read_added(path, content))

    @property
    def folder(self) -> Path:
        """Return the folder of the file."""
        return self.path.parent

    @property
    def has_byte_fallback(self) -> bool:
        """Return whether characters without a token become tokens of their bytes, as in SentencePiece."""
        return bool(self.model.get("byte_fallback"))

    def merges(self) -> Iterator[Pair]:
        """Yield the pairs that are merged, by rank; older files have them as `left right`."""
        merges = self.model.get("merges")
        if not isinstance(merges, list):
            raise damage_error(self.path, "it has no merges")
        for merge in merges:
            match merge.split(" ") if isinstance(merge, str) else merge:
                case [str(left), str(right)]:
                    yield left, right
                case _:
                    raise damage_error(self.path, "a merge is not a pair of tokens")

    def frame(self) -> tuple[list[str], list[str]] | None:
        """Return the tokens before and after each text; None if the file leaves that to others."""
        pending: list[Any] = [self.content.get("post_processor")]
        while pending:
            match pending.pop():
                case {"type": "Sequence", "processors": list(inner)}:
                    pending += inner
                case {"type": "TemplateProcessing", "single": list(parts)}:
                    return _around_text(parts)
        return None


def damage_error(path: Path, reason: str) -> ModelError:
    """Return the error for a file that is not what it should be."""
    return ModelError(f"{path} is damaged: {reason}")


def parts_of(step: object, key: str) -> list[Mapping[str, Any]]:
    """Return the steps of a normalizer or pre-tokenizer, which may be a sequence of others."""
    if not isinstance(step, dict):
        return []
    inner = step.get(key) if step.get("type") == "Sequence" else [step]
    return [part for part in inner if isinstance(part, dict)] if isinstance(inner, list) else []


def _around_text(parts: list[Any]) -> tuple[list[str], list[str]]:
    before: list[str] = []
    after: list[str] = []
    side = before
    for part in parts:
        match part:
            case {"SpecialToken": {"id": str(text)}}:
                side.append(text)
            case {"Sequence": _}:
                side = after
    return before, after


def _read_added(path: Path, content: Mapping[str, Any]) -> dict[int, AddedToken]:
    added = {}
    entries = content.get("added_tokens") or []
    for entry in entries if isinstance(entries, list) else [entries]:
        match entry:
            case {"id": int(number), "content": str(text)} if 0 <= number < TOKENS:
                flags = ("special", "normalized", "lstrip", "rstrip", "single_word")
                added[number] = AddedToken(text=text, **{flag: entry.get(flag) is True for flag in flags})
            case _:
                raise damage_error(path, "an added token has no number or no text")
    return added


NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
"""Tokens of single bytes."""
NOT_STRIPPED = frozenset({"<unk>", "<s>", "<|endoftext|>"})
STRIPPED = "</s>"
"""Tokens of Phi-3: llama.cpp removes the spaces after all its added tokens except these three."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token, and its type in GGUF."""

    text: str
    kind: int


def listed_tokens(tokenizer: TokenizerFile, rows: int) -> list[Token]:
    """Return a token for each row of the model's embedding; rows without a token get a name of their own."""
    by_number = {number: Token(text, NORMAL) for text, number in tokenizer.vocabulary.items()}
    if not by_number or min(by_number) < 0 or max(by_number) >= rows or rows > TOKENS:
        raise ModelError(f"{tokenizer.path} has tokens beyond the {rows} rows of the model's embedding")
    if tokenizer.has_byte_fallback:
        by_number |= {
            number: Token(text, BYTE) for text in BYTES if (number := tokenizer.vocabulary.get(text)) is not None
        }
    unknown = tokenizer.model.get("unk_token")
    by_number |= {number: _added_token(token, unknown) for number, token in tokenizer.added.items()}
    tokens = [by_number.get(number, Token(f"[PAD{number}]", UNUSED)) for number in range(rows)]
    if len({token.text for token in tokens}) < rows:
        raise damage_error(tokenizer.path, "two of its tokens have the same text")
    return tokens


def strips_as_phi3(tokenizer: TokenizerFile) -> bool:
    """Return whether added tokens take the spaces after them with them, exactly as llama.cpp does it for Phi-3.

    Raise ModelError if some do so in another way, which llama.cpp cannot.
    """
    added = tokenizer.added.values()
    stripped = {token.text for token in added if token.rstrip}
    other = next((token for token in added if token.lstrip or token.single_word), None)
    if not stripped and other is None:
        return False
    texts = {token.text for token in added}
    if other is None and stripped == texts - NOT_STRIPPED and {STRIPPED, *NOT_STRIPPED} <= texts:
        return True
    name = other.text if other else min(stripped)
    raise ModelError(
        f"{tokenizer.path}: the added token {name[:40]!r} depends on the text around it, which llama.cpp ignores",
        hint="if the model does not need that, set lstrip, rstrip and single_word of its added tokens to false there",
    )


def _added_token(token: AddedToken, unknown: object) -> Token:
    if token.text == unknown:
        return Token(token.text, UNKNOWN)
    return Token(token.text, CONTROL if token.special else USER_DEFINED)

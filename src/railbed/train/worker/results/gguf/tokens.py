"""All tokens of a tokenizer in the order of the model's rows, with their types in GGUF."""

from __future__ import annotations

from dataclasses import dataclass

from railbed.errors import ModelError
from railbed.train.worker.results.gguf.tokenizerfile import TOKENS, AddedToken, TokenizerFile, damaged

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
        raise damaged(tokenizer.path, "two of its tokens have the same text")
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

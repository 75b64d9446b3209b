"""A tokenizer as settings of GGUF: tokens, their types, merges or scores, special tokens, and how texts are split.

llama.cpp has the rules that split a text before tokens are merged in its code, under names. A tokenizer whose rules
have no name there would silently give other tokens, so it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from railbed.errors import ModelError
from railbed.train.base.files import TOKENIZER_CONFIG, chat_template, tokenizer_settings
from railbed.train.worker.results.gguf.container import Setting, Signed, Unsigned
from railbed.train.worker.results.gguf.sentencepiece import (
    sentencepiece_differences,
    sentencepiece_settings,
    with_spaces,
)
from railbed.train.worker.results.gguf.tokenizerfile import OWN_CONVERTER, TokenizerFile, damaged, parts_of
from railbed.train.worker.results.gguf.tokens import Token, listed_tokens, strips_as_phi3

WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPLITS = {WORDS + r"\p{N}{1,3}" + REST: "llama-bpe", WORDS + r"\p{N}" + REST: "qwen2"}
"""Regular expressions by which tokenizers split a text, and their names in llama.cpp."""
BYTE_LEVEL = "gpt-2"
"""The name of the byte-level splitting of GPT-2, which railbed's own tokenizers have, too."""
AROUND = ("bos", "eos")
ROLES = {"bos_token": "bos", "eos_token": "eos", "pad_token": "padding", "unk_token": "unknown"}
PHI3 = re.compile(r"phi-?3", re.IGNORECASE)


def vocabulary_settings(tokenizer: TokenizerFile, rows: int, ends: Collection[int] = ()) -> dict[str, Setting]:
    """Return the settings of a tokenizer, for a model with so many rows, which ends texts with one of `ends`."""
    strips_as_phi3(tokenizer)
    tokens = listed_tokens(tokenizer, rows)
    if tokenizer.has_byte_fallback:
        tokens = with_spaces(tokenizer, tokens)
    template = chat_template(tokenizer.folder)
    return {
        **_kind_settings(tokenizer, tokens, chats=template is not None),
        "tokenizer.ggml.tokens": [token.text for token in tokens],
        "tokenizer.ggml.token_type": Signed([token.kind for token in tokens]),
        **_special_settings(tokenizer, tokens, ends),
        **({"tokenizer.chat_template": template} if template else {}),
    }


def vocabulary_differences(tokenizer: TokenizerFile) -> list[str]:
    """Return sentences about texts that llama.cpp gives other tokens."""
    if not tokenizer.has_byte_fallback:
        return []
    return sentencepiece_differences(tokenizer, chats=chat_template(tokenizer.folder) is not None)


def name_in_file(tokenizer: TokenizerFile, name: str) -> str:
    """Return the name of a model as the file has it: by it, llama.cpp decides whether to treat spaces as Phi-3 does."""
    if not strips_as_phi3(tokenizer):
        return PHI3.sub("Phi 3", name)
    return name if PHI3.search(name) else f"{name} (Phi-3)"


def pre_tokenizer(tokenizer: TokenizerFile) -> str:
    """Return llama.cpp's name for the rules that split a text; raise ModelError if it has none."""
    normalizer = tokenizer.content.get("normalizer")
    plain = normalizer is None or (isinstance(normalizer, dict) and normalizer.get("type") == "NFC")
    match parts_of(tokenizer.content.get("pre_tokenizer"), "pretokenizers"):
        case [{"type": "ByteLevel"} as only] if plain and _is_plain(only) and only.get("use_regex", True):
            return BYTE_LEVEL
        case [
            {"type": "Split", "pattern": {"Regex": str(regex)}, "behavior": "Isolated"},
            {"type": "ByteLevel"} as last,
        ]:
            if plain and _is_plain(last) and not last.get("use_regex", True) and regex in SPLITS:
                return SPLITS[regex]
    raise ModelError(f"{tokenizer.path} splits texts by rules that have no known name in llama.cpp", hint=OWN_CONVERTER)


def _is_plain(byte_level: Mapping[str, Any]) -> bool:
    return byte_level.get("add_prefix_space", True) is False


def _kind_settings(tokenizer: TokenizerFile, tokens: list[Token], *, chats: bool) -> dict[str, Setting]:
    """Return the settings that depend on the kind of BPE."""
    if tokenizer.has_byte_fallback:
        return sentencepiece_settings(tokenizer, tokens, chats=chats)
    merges = []
    for left, right in tokenizer.merges():
        if " " in left + right:
            raise damaged(tokenizer.path, "a merge is not a pair of tokens")
        merges.append(f"{left} {right}")
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre_tokenizer(tokenizer),
        "tokenizer.ggml.merges": merges,
    }


def _special_settings(tokenizer: TokenizerFile, tokens: list[Token], ends: Collection[int]) -> dict[str, Setting]:
    """Return the numbers of the special tokens, and which of them are put around each text."""
    about = tokenizer_settings(tokenizer.folder)
    numbers = {token.text: number for number, token in enumerate(tokens)}
    named = {role: _text_of(about.get(key)) or _text_of(tokenizer.model.get(key)) for key, role in ROLES.items()}
    ids = {role: numbers[text] for role, text in named.items() if text in numbers}
    frame = tokenizer.frame()
    for role, side in zip(AROUND, frame or ([], []), strict=True):
        ids |= _token_around(tokenizer, side, role, numbers, ids)
    ends_here = [end for end in ends if 0 <= end < len(tokens)]
    if "eos" not in ids and not ends_here:
        hint = f"add eos_token to its {TOKENIZER_CONFIG}"
        raise ModelError(f"{tokenizer.folder} does not say which token ends a text", hint=hint)
    ids.setdefault("eos", min(ends_here, default=0))
    configured = {role: about.get(f"add_{role}_token") is True and role in ids for role in AROUND}
    adds = {role: bool(side) for role, side in zip(AROUND, frame, strict=True)} if frame else configured
    return {
        **{f"tokenizer.ggml.{role}_token_id": Unsigned(number) for role, number in ids.items()},
        **{f"tokenizer.ggml.add_{role}_token": added for role, added in adds.items()},
    }


def _token_around(
    tokenizer: TokenizerFile, side: list[str], role: str, numbers: Mapping[str, int], ids: Mapping[str, int]
) -> dict[str, int]:
    """Return the number of the token before or after texts; raise ModelError if llama.cpp puts another there."""
    if not side:
        return {}
    number = numbers.get(side[0])
    if len(side) > 1 or number is None or ids.get(role, number) != number:
        names = " ".join(side)[:80]
        raise ModelError(
            f"{tokenizer.path} puts {names} around each text, where llama.cpp can only have its {role} token"
        )
    return {role: number}


def _text_of(token: object) -> str | None:
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) else None

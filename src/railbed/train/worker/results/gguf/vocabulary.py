"""A tokenizer.json as settings of GGUF: tokens, their types, merges, special tokens, and the pre-tokenizer's name.

llama.cpp has the rules that split a text before tokens are merged in its code, under names. A tokenizer whose rules
have no name there would silently give other tokens, so it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from railbed.errors import ModelError
from railbed.train.base.files import TOKENIZER, chat_template, read_json, tokenizer_settings
from railbed.train.worker.results.gguf.container import Setting, Signed, Unsigned

TOKENIZER_BYTES = 256 << 20
TOKENS = 4_000_000
"""The most tokens of a vocabulary."""
NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPLITS = {WORDS + r"\p{N}{1,3}" + REST: "llama-bpe", WORDS + r"\p{N}" + REST: "qwen2"}
"""Regular expressions by which tokenizers split a text, and their names in llama.cpp."""
BYTE_LEVEL = "gpt-2"
"""The name of the byte-level splitting of GPT-2, which railbed's own tokenizers have, too."""


def vocabulary_settings(path: Path, rows: int) -> dict[str, Setting]:
    """Return the settings of the tokenizer in a folder, for a model with so many rows in its embedding."""
    content = read_json(path / TOKENIZER, TOKENIZER_BYTES)
    model = content.get("model")
    if not isinstance(model, dict) or model.get("type", "BPE") != "BPE" or model.get("byte_fallback"):
        raise ModelError(f"{path / TOKENIZER} is not a byte-level BPE, the only kind that railbed writes as GGUF")
    special = _added(path, content)
    tokens, types = _tokens(path, model, special, rows)
    about = tokenizer_settings(path)
    settings: dict[str, Setting] = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre_tokenizer(path, content),
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": Signed(types),
        "tokenizer.ggml.merges": _merges(path, model),
    }
    for key, name in (("bos_token", "bos"), ("eos_token", "eos"), ("pad_token", "padding"), ("unk_token", "unknown")):
        token = about.get(key)
        text = token.get("content") if isinstance(token, dict) else token
        if isinstance(text, str) and text in tokens:
            settings[f"tokenizer.ggml.{name}_token_id"] = Unsigned(tokens.index(text))
    settings["tokenizer.ggml.add_bos_token"] = _adds_start(content, about)
    template = chat_template(path)
    return settings | ({"tokenizer.chat_template": template} if template else {})


def pre_tokenizer(path: Path, content: Mapping[str, Any]) -> str:
    """Return llama.cpp's name for the rules that split a text; raise ModelError if it has none."""
    outer = content.get("pre_tokenizer")
    parts = outer.get("pretokenizers") if isinstance(outer, dict) and outer.get("type") == "Sequence" else [outer]
    splits = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    normalizer = content.get("normalizer")
    plain = normalizer is None or (isinstance(normalizer, dict) and normalizer.get("type") == "NFC")
    match splits:
        case [{"type": "ByteLevel"} as only] if plain and _is_plain(only) and only.get("use_regex", True):
            return BYTE_LEVEL
        case [
            {"type": "Split", "pattern": {"Regex": str(regex)}, "behavior": "Isolated"},
            {"type": "ByteLevel"} as last,
        ]:
            if plain and _is_plain(last) and not last.get("use_regex", True) and regex in SPLITS:
                return SPLITS[regex]
    raise ModelError(
        f"{path / TOKENIZER} splits texts by rules that have no known name in llama.cpp",
        hint="llama.cpp's own convert_hf_to_gguf.py may know them; export without --gguf, and use it on that folder",
    )


def _is_plain(byte_level: Mapping[str, Any]) -> bool:
    return byte_level.get("add_prefix_space", True) is False


def _added(path: Path, content: Mapping[str, Any]) -> dict[int, tuple[str, bool]]:
    """Return the tokens that were added to the vocabulary by number, and whether they are special."""
    added = {}
    entries = content.get("added_tokens") or []
    for entry in entries if isinstance(entries, list) else [entries]:
        match entry:
            case {"id": int(number), "content": str(text)} if 0 <= number < TOKENS:
                added[number] = (text, entry.get("special") is True)
            case _:
                raise ModelError(f"{path / TOKENIZER} is damaged: an added token has no number or no text")
    return added


def _tokens(
    path: Path, model: Mapping[str, Any], added: Mapping[int, tuple[str, bool]], rows: int
) -> tuple[list[str], list[int]]:
    """Return all tokens in their order, and their types; rows without a token get a name of their own."""
    vocabulary = model.get("vocab")
    if not isinstance(vocabulary, dict) or not all(type(number) is int for number in vocabulary.values()):
        raise ModelError(f"{path / TOKENIZER} is damaged: it has no vocabulary")
    by_number = {number: (text, NORMAL) for text, number in vocabulary.items()}
    by_number |= {number: (text, CONTROL if special else USER_DEFINED) for number, (text, special) in added.items()}
    if not by_number or min(by_number) < 0 or max(by_number) >= rows or rows > TOKENS:
        raise ModelError(f"{path / TOKENIZER} has tokens beyond the {rows} rows of the model's embedding")
    listed = [by_number.get(number, (f"[PAD{number}]", UNUSED)) for number in range(rows)]
    return [text for text, _ in listed], [kind for _, kind in listed]


def _merges(path: Path, model: Mapping[str, Any]) -> list[str]:
    """Return the merges as `left right`; newer files have them as pairs."""
    merges = model.get("merges")
    if not isinstance(merges, list):
        raise ModelError(f"{path / TOKENIZER} is damaged: it has no merges")
    joined = []
    for merge in merges:
        match merge:
            case str(text):
                joined.append(text)
            case [str(left), str(right)] if " " not in left + right:
                joined.append(f"{left} {right}")
            case _:
                raise ModelError(f"{path / TOKENIZER} is damaged: a merge is not a pair of tokens")
    return joined


def _adds_start(content: Mapping[str, Any], about: Mapping[str, Any]) -> bool:
    """Whether a text begins with the token for it: by the configuration, or else by the post-processor."""
    if isinstance(about.get("add_bos_token"), bool):
        return bool(about["add_bos_token"])
    pending: list[Any] = [content.get("post_processor")]
    while pending:
        match pending.pop():
            case {"type": "Sequence", "processors": list(inner)}:
                pending += inner
            case {"type": "TemplateProcessing", "single": [{"SpecialToken": _}, *_]}:
                return True
    return False

"""Small tokenizers in the manner of SentencePiece, as the folders of Llama 2, Mistral, Gemma and Phi-3 have them."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, normalizers, trainers

CHAT = "{{ bos_token }}{% for message in messages %}[INST] {{ message['content'] }} [/INST]{% endfor %}"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
PREFIX_ALL = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, REPLACE]}
NO_SPACES = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
STYLES = ("llama2", "mistral", "gemma", "phi3")
EXTRA = {
    "llama2": [],
    "mistral": ["[INST]", "[/INST]"],
    "gemma": ["<start_of_turn>", "<end_of_turn>"],
    "phi3": ["<|endoftext|>", "<|user|>", "<|end|>", "<|assistant|>"],
}


def text() -> str:
    """Return a text to train on: words in several scripts, runs of spaces, lines and tabs."""
    lines = [
        f"{n} grüne Flaschen hang on wall {n * n % 97}, isn't it?  日本語の文 {'-' * (n % 9)}\n"
        f"{' ' * (n % 17)}if x[{n}] == y:\n{' ' * (n % 17)}\treturn aaaa{'a' * (n % 7)}\n\n"
        for n in range(200)
    ]
    return "".join(lines)


def metaspace(scheme: str, *, split: bool = False) -> dict[str, Any]:
    """Return a pre-tokenizer that marks words."""
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}


@cache
def trained_pieces(size: int = 420) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the pieces of a BPE, in the order they were formed, and its merges."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, max_token_length=12)
    tokenizer.train_from_iterator(text().split("it?"), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return sorted(model["vocab"], key=model["vocab"].get), [(left, right) for left, right in model["merges"]]


def all_merges(pieces: Sequence[str]) -> list[tuple[str, str]]:
    """Return every pair that forms a piece, as converters from SentencePiece list them: the longest left part first."""
    known = set(pieces)
    return [
        (piece[:at], piece[at:])
        for piece in pieces
        for at in range(len(piece) - 1, 0, -1)
        if piece[:at] in known and piece[at:] in known
    ]


def tokenizer_json(style: str, *, every_merge: bool = True) -> dict[str, Any]:
    """Return the content of a tokenizer.json of this style."""
    pieces, merges = trained_pieces()
    gemma = style == "gemma"
    special = ["<pad>", "<eos>", "<bos>", "<unk>"] if gemma else ["<unk>", "<s>", "</s>"]
    extra = EXTRA[style]
    names = [*special, *(extra if gemma or style == "mistral" else []), *BYTES, *pieces]
    if gemma:  # its folders have the tab itself in place of its byte
        names = [name for name in names if name != "<0x09>"]
    if style == "phi3":
        names += extra
    vocabulary = {name: number for number, name in enumerate(dict.fromkeys(names))}
    added = [added_token(vocabulary[name], name, special=True) for name in (*special, *extra)]
    if gemma:
        added += [
            added_token(vocabulary[name], name, special=False) for name in ("\n\n", "▁▁", "▁▁▁") if name in pieces
        ]
    if style == "phi3":
        for token in added:
            token["rstrip"] = token["content"] not in ("<unk>", "<s>", "<|endoftext|>")
    first = {"phi3": "", "gemma": "<bos>"}.get(style, "<s>")
    start = [{"SpecialToken": {"id": first, "type_id": 0}}] if first else []
    return {
        "version": "1.0",
        "added_tokens": sorted(added, key=lambda token: int(token["id"])),
        "normalizer": {"llama2": PREFIX_ALL, "phi3": PREFIX_ALL, "gemma": REPLACE, "mistral": None}[style],
        "pre_tokenizer": {"mistral": metaspace("first"), "gemma": NO_SPACES}.get(style),
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [*start, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {first: {"id": first, "ids": [vocabulary[first]], "tokens": [first]}} if first else {},
        },
        "decoder": None,
        "model": {
            "type": "BPE",
            "unk_token": "<unk>",
            "fuse_unk": True,
            "byte_fallback": True,
            "ignore_merges": False,
            "vocab": {name: number for name, number in vocabulary.items() if name not in extra or style != "phi3"},
            "merges": [list(pair) for pair in (all_merges(pieces) if every_merge else merges)],
        },
    }


def added_token(number: int, content: str, *, special: bool) -> dict[str, Any]:
    """Return an entry of `added_tokens`."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": number, "content": content, **flags, "special": special}


def write_spm(folder: Path, style: str, *, chat: bool = False, content: dict[str, Any] | None = None) -> int:
    """Write a tokenizer of this style; return the size of its vocabulary."""
    content = content or tokenizer_json(style)
    (folder / "tokenizer.json").write_text(json.dumps(content, ensure_ascii=False))
    about = {"bos_token": "<s>", "eos_token": "<|endoftext|>" if style == "phi3" else "</s>", "unk_token": "<unk>"}
    if style == "gemma":
        about = {"bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>", "pad_token": "<pad>"}
    if chat:
        about["chat_template"] = CHAT
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    numbers = [*content["model"]["vocab"].values(), *(token["id"] for token in content["added_tokens"])]
    return int(max(numbers)) + 1


def texts_of(style: str, count: int = 200) -> list[str]:
    """Return texts that are hard to split: spaces, lines, scripts, added tokens, and random pieces of all of it."""
    chooser = random.Random(5)  # noqa: S311
    added = [*EXTRA[style], *(("<bos>", "<eos>", "\n\n") if style == "gemma" else ("<s>", "</s>"))]
    parts = [*PARTS, *added]
    mixed = ["".join(chooser.choice(parts) for _ in range(chooser.randrange(1, 12))) for _ in range(count)]
    excerpt = text()
    starts = [chooser.randrange(len(excerpt) - 90) for _ in range(count // 4)]
    return ["", *parts, *(f" {part}" for part in parts), *mixed, *(excerpt[at : at + 90] for at in starts)]


PARTS = [
    " ",
    "  ",
    "      ",
    "\n",
    "\n\n\n",
    "\t",
    "\t\t ",
    "\r\n",
    "a",
    "aaaaaaaaaaa",
    "Hello",
    "x[12] == y:\n        return",
    "grüne",
]
PARTS += [
    "Flaschen hang on",
    "isn't",
    "é",
    "e\u0301",
    "日本語",
    "漢字",
    "🚲",
    "👩‍👩‍👧",
    "ß",
    "\u00a0",
    "\u3000",
    "\u200b",
    "▁",
    "\x01",
    "----------",
    "1234567",
]


def is_equal(style: str, text: str) -> bool:
    """Whether llama.cpp and the library agree on a text; the documentation names the texts on which they do not."""
    if style == "phi3":  # llama.cpp removes spaces of ASCII only
        return not any(space in text for space in "\u00a0\u3000")
    if style == "gemma":  # it has a token of two ▁, which is searched for in the text, and formed of spaces
        return "▁▁" not in text
    if style == "mistral":  # only the first text gets a space, and only if it has none
        return not text.startswith((" ", "▁")) and not any(token in text for token in (*EXTRA[style], "<s>", "</s>"))
    return True


def llama_cpp_tokens(settings: dict[str, Any], text: str) -> list[int]:
    """Return the tokens of a text as llama.cpp computes them from the settings of a GGUF file, in a few slow lines."""
    tokens, kinds = settings["tokenizer.ggml.tokens"], settings["tokenizer.ggml.token_type"]
    numbers = {token: number for number, token in enumerate(tokens)}
    searched = sorted((n for n, kind in enumerate(kinds) if kind in {2, 3, 4}), key=lambda n: -len(tokens[n].encode()))
    strips = "phi-3" in settings["general.name"].lower()
    parts: list[str | int] = [text] if text else []
    for number in searched:
        rstrip = strips and tokens[number] not in {"<unk>", "<s>", "<|endoftext|>"}
        parts = [piece for part in parts for piece in _cut(part, tokens[number], number, rstrip=rstrip)]
    result = [settings["tokenizer.ggml.bos_token_id"]] if settings["tokenizer.ggml.add_bos_token"] else []
    for part in parts:
        if isinstance(part, int):
            result.append(part)
            continue
        prefix = "▁" if settings["tokenizer.ggml.add_space_prefix"] else ""
        for piece in _merge(prefix + part.replace(" ", "▁"), numbers, settings["tokenizer.ggml.scores"]):
            result += [numbers[piece]] if piece in numbers else [_byte(numbers, byte) for byte in piece.encode()]
    return result


def _byte(numbers: dict[str, int], byte: int) -> int:
    return numbers[BYTES[byte]] if BYTES[byte] in numbers else numbers[chr(byte)]


def _cut(part: str | int, token: str, number: int, *, rstrip: bool) -> list[str | int]:
    if isinstance(part, int):
        return [part]
    texts = part.split(token)
    cut: list[str | int] = [texts[0]]
    for rest in texts[1:]:
        cut += [number, rest.lstrip(" \t\n\v\f\r") if rstrip else rest]
    return [piece for piece in cut if piece != ""]


def _merge(text: str, numbers: dict[str, int], scores: list[float]) -> list[str]:
    pieces = list(text)
    while True:
        pairs = [
            (scores[number], -at)
            for at in range(len(pieces) - 1)
            if (number := numbers.get(pieces[at] + pieces[at + 1])) is not None
        ]
        if not pairs:
            return pieces
        at = -max(pairs)[1]
        pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]

"""A tokenizer as settings of GGUF: tokens, their types, merges or scores, special tokens, and how texts are split.

llama.cpp has the rules that split a text before tokens are merged in its code, under names. A tokenizer whose rules
have no name there would silently give other tokens, so it is refused.

In tokenizers in the manner of SentencePiece, spaces are ▁, and characters without a token become bytes.

llama.cpp merges whichever neighbours form the token with the highest score; Hugging Face's BPE merges the pair with the
lowest rank. Both give the same tokens if a token's score is the negative rank of the merge that forms it when the BPE
is applied to its own text. For then, while a text is merged, the pieces in the span of a token are always those that
come up when its text is merged alone, so no other pair ever forms it. The exception is a token whose text the BPE
leaves in two pieces: llama.cpp would merge them, so such a tokenizer is refused. Tokens whose text is left in three
pieces or more never come up, here or there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Any, Literal

from railbed.errors import ModelError
from railbed.train.base.files import TOKENIZER_CONFIG, chat_template, tokenizer_settings
from railbed.train.worker.results.gguf.container import Reals, Setting, Signed, Unsigned
from railbed.train.worker.results.gguf.tokenizerfile import (
    BYTES,
    NORMAL,
    OWN_CONVERTER,
    USER_DEFINED,
    AddedToken,
    Pair,
    Token,
    TokenizerFile,
    damage_error,
    listed_tokens,
    parts_of,
    strips_as_phi3,
)

SPACE = "▁"
FIRST = (
    "this tokenizer puts a space before a prompt, but not before text after a special token; llama.cpp can only do "
    "both or neither, and does "
)
FOR_CHAT = ", as the chat template needs: begin prompts that do not use it with a space"
DOUBLED = "llama.cpp puts a space even before text that begins with one: begin no prompt with a space"
BYTE_TOKENS = frozenset(BYTES)
Prefix = Literal["each", "first", "none"]
SCHEMES: Mapping[str, Prefix] = {"always": "each", "first": "first", "never": "none"}
Ranks = Mapping[Pair, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceRule:
    """How a tokenizer marks words."""

    prefix: Prefix
    """Which texts between added tokens get a ▁ before them."""
    doubles: bool = True
    """Whether those that begin with a space do, too."""
    splits: bool = False
    """Whether words are split before they are merged."""
    swallows: bool = False
    """Whether `▁<s>` is searched for in place of a normalised `<s>`, so that text after it gets no ▁."""
    normalizes: bool = True
    """Whether spaces are ▁ already when normalised tokens are searched for."""

    def searches(self, token: AddedToken) -> bool:
        """Return whether an added token with a ▁ is searched for where the text has a space."""
        return self.normalizes and token.normalized and not token.special and SPACE in token.text


def sentencepiece_settings(tokenizer: TokenizerFile, tokens: Sequence[Token], *, chats: bool) -> dict[str, Setting]:
    """Return the settings that this kind of tokenizer has; `chats` if there is a chat template."""
    rule = space_rule(tokenizer)
    _require_bytes(tokenizer)
    order = sorted(_ranks_of_tokens(tokenizer, rule).items(), key=lambda item: item[1])
    scores = {text: -float(position) for position, (text, _) in enumerate(order)}
    lowest = -float(len(order))
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.scores": Reals([scores.get(token.text, lowest) for token in tokens]),
        "tokenizer.ggml.add_space_prefix": _adds_space(rule, chats=chats),
    }


def with_spaces(tokenizer: TokenizerFile, tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens, with added tokens that stand for spaces as llama.cpp can read and print them.

    It searches for added tokens before spaces become ▁, and prints them as they are. If the tokenizer searches for them
    among ▁, they get spaces here; otherwise it forms them by merges, like other tokens.
    """
    rule = space_rule(tokenizer)
    searched = {token.text for token in tokenizer.added.values() if rule.searches(token)}

    def readable(token: Token) -> Token:
        if token.kind != USER_DEFINED or SPACE not in token.text:
            return token
        return (
            Token(token.text.replace(SPACE, " "), token.kind) if token.text in searched else Token(token.text, NORMAL)
        )

    return list(map(readable, tokens))


def sentencepiece_differences(tokenizer: TokenizerFile, *, chats: bool) -> list[str]:
    """Return sentences about texts that llama.cpp gives other tokens."""
    rule = space_rule(tokenizer)
    sentences = []
    if rule.prefix == "first":
        sentences.append(FIRST + ("neither" + FOR_CHAT if chats else "both"))
    if not rule.doubles and _adds_space(rule, chats=chats):
        sentences.append(DOUBLED)
    searched = [token.text for token in tokenizer.added.values() if token.normalized] if rule.swallows else []
    if searched:
        sentences.append(
            f"this tokenizer recognises added tokens such as {searched[0][:40]!r}, which are `normalized`, only at the "
            "start and after a space; llama.cpp recognises them everywhere"
        )
    return sentences


def space_rule(tokenizer: TokenizerFile) -> SpaceRule:
    """Return how the tokenizer marks words; raise ModelError if llama.cpp cannot."""
    normalizer = parts_of(tokenizer.content.get("normalizer"), "normalizers")
    splitter = parts_of(tokenizer.content.get("pre_tokenizer"), "pretokenizers")
    if splitter and splitter[0].get("type") == "Split" and splitter[0].get("pattern") == {"String": " "} and normalizer:
        splitter = splitter[1:]  # no text has a space any more
    match normalizer, splitter:
        case [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        ], []:
            swallows = any(token.special and token.normalized for token in tokenizer.added.values())
            return SpaceRule(prefix="first" if swallows else "each", swallows=True)
        case [{"type": "Replace", "pattern": {"String": " "}, "content": "▁"}], []:
            return SpaceRule(prefix="none")
        case [], [{"type": "Metaspace", "replacement": "▁"} as metaspace]:
            scheme = (
                "never" if metaspace.get("add_prefix_space") is False else metaspace.get("prepend_scheme", "always")
            )
            if prefix := SCHEMES.get(str(scheme)):
                splits = metaspace.get("split", True) is True
                return SpaceRule(prefix=prefix, doubles=False, splits=splits, normalizes=False)
    raise ModelError(f"{tokenizer.path} marks spaces by rules that llama.cpp does not have", hint=OWN_CONVERTER)


def _adds_space(rule: SpaceRule, *, chats: bool) -> bool:
    """Return whether llama.cpp should put a ▁ before each text between added tokens: all or none."""
    return rule.prefix == "each" or (rule.prefix == "first" and not chats)


def _require_bytes(tokenizer: TokenizerFile) -> None:
    """Raise ModelError unless every character has a token or becomes bytes; llama.cpp would crash."""
    missing = [
        text
        for byte, text in enumerate(BYTES)
        if text not in tokenizer.vocabulary and not (byte < 128 and chr(byte) in tokenizer.vocabulary)
    ]
    if missing:
        raise ModelError(f"{tokenizer.path} has no token for the byte {missing[0]}, which llama.cpp needs")


def _ranks_of_tokens(tokenizer: TokenizerFile, rule: SpaceRule) -> dict[str, int]:
    """Return the rank of the merge that forms each token, by its text; tokens that never come up have none."""
    ranks = _ranks(tokenizer, rule)
    searched = {token.text for token in tokenizer.added.values() if SPACE not in token.text or rule.searches(token)}
    formed = {}
    for text in tokenizer.vocabulary:
        if len(text) < 2 or text in searched:  # no text has these when it is merged
            continue
        pieces, rank = count_merges(text, ranks)
        if pieces == 1:
            formed[text] = rank
        elif pieces == 2:
            raise ModelError(
                f"{tokenizer.path}: llama.cpp would form the token {text[:40]!r}, and this tokenizer never does",
                hint="llama.cpp cannot have exactly these tokens; use the exported folder with vLLM or transformers",
            )
    return formed


def _ranks(tokenizer: TokenizerFile, rule: SpaceRule) -> Ranks:
    model = tokenizer.model
    if any(model.get(key) for key in ("ignore_merges", "dropout", "continuing_subword_prefix", "end_of_word_suffix")):
        raise ModelError(f"{tokenizer.path} merges tokens by rules that llama.cpp does not have", hint=OWN_CONVERTER)
    ranks = {}
    for rank, (left, right) in enumerate(tokenizer.merges()):
        if not {left, right, left + right} <= tokenizer.vocabulary.keys():
            raise damage_error(tokenizer.path, f"the merge of {left[:40]!r} and {right[:40]!r} has no token")
        if left in BYTE_TOKENS or right in BYTE_TOKENS:
            raise ModelError(f"{tokenizer.path} merges bytes, which llama.cpp does not", hint=OWN_CONVERTER)
        if not (rule.splits and SPACE in (left + right)[1:]):
            ranks[left, right] = rank
    return ranks


def count_merges(text: str, ranks: Ranks) -> tuple[int, int]:
    """Return how many pieces all merges leave of a text, and the rank of the last merge; lower ranks come first."""
    pieces = list(text)
    end = len(pieces)
    after, before = list(range(1, end + 1)), list(range(-1, end - 1))
    queue = [(ranks[pair], at) for at, pair in enumerate(pairwise(pieces)) if pair in ranks]
    heapify(queue)
    left, last = end, -1
    while queue:
        rank, at = heappop(queue)
        neighbour = after[at]
        if not pieces[at] or neighbour == end or ranks.get((pieces[at], pieces[neighbour])) != rank:
            continue  # one of the two was merged with another meanwhile
        pieces[at], pieces[neighbour] = pieces[at] + pieces[neighbour], ""
        after[at] = after[neighbour]
        if after[at] < end:
            before[after[at]] = at
        left, last = left - 1, rank
        for start in (before[at], at):
            if start >= 0 and after[start] < end and (pair := (pieces[start], pieces[after[start]])) in ranks:
                heappush(queue, (ranks[pair], start))
    return left, last


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
            raise damage_error(tokenizer.path, "a merge is not a pair of tokens")
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

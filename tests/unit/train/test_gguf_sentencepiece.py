"""Tokenizers in the manner of SentencePiece as GGUF: the same tokens as Hugging Face's library gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.spm import (
    BYTES,
    PREFIX_ALL,
    STYLES,
    added_token,
    is_equal,
    llama_cpp_tokens,
    metaspace,
    texts_of,
    tokenizer_json,
    write_spm,
)
from tokenizers import Tokenizer

from railbed.errors import ModelError
from railbed.train.worker.results.gguf.container import Reals, Setting, Signed, Unsigned
from railbed.train.worker.results.gguf.tokenizerfile import TokenizerFile
from railbed.train.worker.results.gguf.vocabulary import (
    count_merges,
    name_in_file,
    vocabulary_differences,
    vocabulary_settings,
)

Change = Callable[[dict[str, Any]], object]


def opened(folder: Path, content: dict[str, Any], style: str = "llama2", *, chat: bool = False) -> TokenizerFile:
    write_spm(folder, style, content=content, chat=chat)
    return TokenizerFile.open(folder)


def settings_of(tokenizer: TokenizerFile, rows: int = 900) -> dict[str, Any]:
    def plain(value: Setting) -> object:
        match value:
            case Unsigned(number):
                return number
            case Signed(numbers) | Reals(numbers):
                return list(numbers)
        return value

    settings = {key: plain(value) for key, value in vocabulary_settings(tokenizer, rows).items()}
    return {**settings, "general.name": name_in_file(tokenizer, "tiny")}


def test_pieces_of_a_text_are_merged_as_the_library_does() -> None:
    """Ranks first, then from the left; stale pairs are skipped."""
    ranks = {("a", "a"): 0, ("b", "c"): 1, ("a", "b"): 2, ("aa", "aa"): 3, ("ab", "c"): 4}
    assert count_merges("aaaaa", ranks) == (2, 3)
    assert count_merges("abc", ranks) == (2, 1)
    assert count_merges("ab", ranks) == (1, 2)
    assert count_merges("xyz", ranks) == (3, -1)
    assert count_merges("a" * 20_000, {("a", "a"): 0}) == (10_000, 0)


@pytest.mark.parametrize("every_merge", [True, False])
@pytest.mark.parametrize("style", STYLES)
def test_texts_have_the_same_tokens(style: str, every_merge: bool, tmp_path: Path) -> None:
    """Whether the file has every pair that forms a token, as converted folders do, or the trained ones only."""
    content = tokenizer_json(style, every_merge=every_merge)
    settings = settings_of(opened(tmp_path, content, style))
    library = Tokenizer.from_str(json.dumps(content))
    texts = [text for text in texts_of(style) if is_equal(style, text)]
    assert len(texts) > 100
    for text in texts:
        assert llama_cpp_tokens(settings, text) == library.encode(text).ids, text


def test_prompts_of_a_chat_template_have_the_same_tokens_if_only_the_first_text_gets_a_space(tmp_path: Path) -> None:
    content = tokenizer_json("mistral")
    tokenizer = opened(tmp_path, content, "mistral", chat=True)
    settings, library = settings_of(tokenizer), Tokenizer.from_str(json.dumps(content))
    assert settings["tokenizer.ggml.add_space_prefix"] is False
    for text in texts_of("mistral"):
        prompt = f"[INST]{text}[/INST]"
        assert llama_cpp_tokens(settings, prompt) == library.encode(prompt).ids, prompt
    assert llama_cpp_tokens(settings, " Hello") == library.encode("Hello").ids
    assert vocabulary_differences(tokenizer) == [
        "this tokenizer puts a space before a prompt, but not before text after a special token; llama.cpp can only do "
        "both or neither, and does neither, as the chat template needs: begin prompts that do not use it with a space"
    ]


def test_differences_are_as_documented(tmp_path: Path) -> None:
    """Text after a special token, or that begins with a space, gets one more."""
    content = tokenizer_json("mistral")
    tokenizer = opened(tmp_path, content, "mistral")
    settings, library = settings_of(tokenizer), Tokenizer.from_str(json.dumps(content))
    assert llama_cpp_tokens(settings, "a[INST]b") == library.encode("a[INST] b").ids
    assert llama_cpp_tokens(settings, " a") == library.encode("  a").ids
    first, doubled = vocabulary_differences(tokenizer)
    assert first.endswith("and does both")
    assert doubled == "llama.cpp puts a space even before text that begins with one: begin no prompt with a space"
    phi3 = tokenizer_json("phi3")
    settings, library = settings_of(opened(tmp_path, phi3, "phi3")), Tokenizer.from_str(json.dumps(phi3))
    assert library.encode("<|user|>\u3000a").ids == library.encode("<|user|>a").ids
    assert llama_cpp_tokens(settings, "<|user|>\u3000a") != library.encode("<|user|>a").ids
    assert not vocabulary_differences(opened(tmp_path, tokenizer_json("llama2")))
    assert not vocabulary_differences(opened(tmp_path, tokenizer_json("gemma"), "gemma"))


def test_special_tokens_that_are_normalised(tmp_path: Path) -> None:
    """Early folders of Llama 2: `▁<s>` is a token in the library, and the text after it gets no ▁."""
    content = tokenizer_json("llama2")
    for token in content["added_tokens"]:
        token["normalized"] = True
    tokenizer = opened(tmp_path, content, chat=True)
    settings, library = settings_of(tokenizer), Tokenizer.from_str(json.dumps(content))
    assert llama_cpp_tokens(settings, "<s>Hello") == library.encode("<s>Hello").ids
    assert "such as '<unk>', which are `normalized`, only at the start" in vocabulary_differences(tokenizer)[1]


def test_added_tokens_that_are_normalised_have_spaces(tmp_path: Path) -> None:
    """The library searches for `▁▁` after spaces have become ▁, llama.cpp before."""
    content = tokenizer_json("gemma")
    for token in content["added_tokens"]:
        token["normalized"] = not token["special"]
    settings, library = settings_of(opened(tmp_path, content, "gemma")), Tokenizer.from_str(json.dumps(content))
    assert "  " in settings["tokenizer.ggml.tokens"]
    for text in texts_of("gemma"):
        if "▁" not in text:
            assert llama_cpp_tokens(settings, text) == library.encode(text).ids, text


def test_words_that_are_split_before(tmp_path: Path) -> None:
    content = tokenizer_json("mistral") | {"pre_tokenizer": metaspace("always", split=True)}
    words = [token for token in content["model"]["vocab"] if "▁" not in token[1:]]
    content["model"]["vocab"] = {token: number for number, token in enumerate(words)}
    content["model"]["merges"] = [pair for pair in content["model"]["merges"] if "▁" not in "".join(pair)[1:]]
    content["added_tokens"] = [added_token(words.index("<s>"), "<s>", special=True)]
    settings, library = settings_of(opened(tmp_path, content, "mistral")), Tokenizer.from_str(json.dumps(content))
    for text in texts_of("llama2"):
        if not text.startswith((" ", "▁")) and "<s> " not in text and "<s>▁" not in text:
            assert llama_cpp_tokens(settings, text) == library.encode(text).ids, text


def test_types_and_scores(tmp_path: Path) -> None:
    content = tokenizer_json("gemma")
    vocabulary = content["model"]["vocab"]
    rows = len(vocabulary) + 3
    settings = settings_of(opened(tmp_path, content, "gemma"), rows)
    tokens, kinds = settings["tokenizer.ggml.tokens"], settings["tokenizer.ggml.token_type"]
    by_kind = {kind: [token for token, own in zip(tokens, kinds, strict=True) if own == kind] for kind in range(1, 7)}
    assert by_kind[2] == ["<unk>"]
    assert by_kind[3] == ["<pad>", "<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>"]
    assert by_kind[4] == ["\n\n"]
    assert "▁▁" in by_kind[1], "llama.cpp would print it as it is"
    assert by_kind[5] == [f"[PAD{number}]" for number in range(len(vocabulary), rows)]
    assert by_kind[6] == [byte for byte in BYTES if byte != "<0x09>"]
    assert tokens[: len(vocabulary)] == list(vocabulary)
    scores = dict(zip(tokens, settings["tokenizer.ggml.scores"], strict=True))
    pieces = [token for token in by_kind[1] if len(token) > 1]
    assert [scores[piece] for piece in pieces] == sorted((scores[piece] for piece in pieces), reverse=True)
    assert max(scores.values()) == 0
    assert scores["<bos>"] == min(scores.values()) == scores["<0x00>"]
    assert settings["tokenizer.ggml.model"] == "llama"
    roles = ("bos", "eos", "padding", "unknown")
    assert [settings[f"tokenizer.ggml.{role}_token_id"] for role in roles] == [2, 1, 0, 3]
    assert settings["tokenizer.ggml.add_bos_token"] is True
    assert settings["tokenizer.ggml.add_eos_token"] is False


@pytest.mark.parametrize(
    ("before", "after", "flags", "expected"),
    [
        (["<s>"], ["</s>"], {}, (True, True)),
        ([], [], {"add_bos_token": True}, (False, False)),
        (None, None, {"add_bos_token": True}, (True, False)),
        (None, None, {}, (False, False)),
    ],
)
def test_tokens_around_texts(
    before: list[str] | None,
    after: list[str] | None,
    flags: dict[str, bool],
    expected: tuple[bool, bool],
    tmp_path: Path,
) -> None:
    """As the tokenizer does it; its configuration decides only if the tokenizer leaves it open."""
    content = tokenizer_json("llama2")
    content["post_processor"] = None if before is None or after is None else around(before, after)
    tokenizer = opened(tmp_path, content)
    about = json.loads((tmp_path / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({**about, **flags}))
    settings = settings_of(tokenizer)
    assert (settings["tokenizer.ggml.add_bos_token"], settings["tokenizer.ggml.add_eos_token"]) == expected


def around(before: list[str], after: list[str]) -> dict[str, Any]:
    def special(texts: list[str]) -> list[dict[str, Any]]:
        return [{"SpecialToken": {"id": text, "type_id": 0}} for text in texts]

    single = [*special(before), {"Sequence": {"id": "A", "type_id": 0}}, *special(after)]
    return {"type": "Sequence", "processors": [{"type": "TemplateProcessing", "single": single}]}


def test_the_end_of_texts_may_be_known_from_the_model_only(tmp_path: Path) -> None:
    tokenizer = opened(tmp_path, tokenizer_json("llama2"))
    (tmp_path / "tokenizer_config.json").unlink()
    assert vocabulary_settings(tokenizer, 900, {5, 7, 2000})["tokenizer.ggml.eos_token_id"] == Unsigned(5)
    with pytest.raises(ModelError, match="does not say which token ends a text"):
        vocabulary_settings(tokenizer, 900)


def test_the_name_tells_llama_cpp_how_phi_3_treats_spaces(tmp_path: Path) -> None:
    """By the name alone, and without the tokens of Phi-3 it does not even load such a file."""
    phi3 = opened(tmp_path, tokenizer_json("phi3"), "phi3")
    assert name_in_file(phi3, "my-phi3-mini") == "my-phi3-mini"
    assert name_in_file(phi3, "house") == "house (Phi-3)"
    llama = opened(tmp_path, tokenizer_json("llama2"))
    assert name_in_file(llama, "better-than-PHI-3") == "better-than-Phi 3"


def test_added_tokens_beyond_the_rows_are_left_out(tmp_path: Path) -> None:
    """Gemma 3 has one for images."""
    content = tokenizer_json("gemma")
    rows = len(content["model"]["vocab"])
    content["added_tokens"].append(added_token(rows, "<image_soft_token>", special=True))
    settings = settings_of(opened(tmp_path, content, "gemma"), rows)
    assert "<image_soft_token>" not in settings["tokenizer.ggml.tokens"]


def test_the_chat_template_is_the_default_of_several(tmp_path: Path) -> None:
    """Entries of other forms are skipped."""
    several = [{"name": ["x"]}, {"name": "tools", "template": "a"}, 7, {"name": "default", "template": "b"}]
    tokenizer = opened(tmp_path, tokenizer_json("llama2"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>", "chat_template": several}))
    assert settings_of(tokenizer)["tokenizer.chat_template"] == "b"


def put(**changes: Any) -> Change:
    return lambda content: content.update(changes)


def put_model(**changes: Any) -> Change:
    return lambda content: content["model"].update(changes)


def set_flag(flag: str) -> Change:
    return lambda content: content["added_tokens"][-1].update({flag: True})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (put(normalizer={"type": "NFKC"}), "marks spaces by rules that llama.cpp does not have"),
        (put(normalizer=None), "marks spaces by rules that llama.cpp does not have"),
        (put(pre_tokenizer={"type": "Digits"}), "marks spaces by rules that llama.cpp does not have"),
        (put(normalizer=PREFIX_ALL, pre_tokenizer=metaspace("always")), "marks spaces by rules"),
        (put(normalizer=None, pre_tokenizer=metaspace("always", split=True)), "would form the token '▁▁'"),
        (put(normalizer=None, pre_tokenizer=metaspace("often")), "marks spaces by rules"),
        (put_model(ignore_merges=True), "merges tokens by rules that llama.cpp does not have"),
        (put_model(end_of_word_suffix="</w>"), "merges tokens by rules that llama.cpp does not have"),
        (put_model(merges=[["a", "missing"]]), "the merge of 'a' and 'missing' has no token"),
        (put_model(merges=["a b c"]), "a merge is not a pair of tokens"),
        (put_model(merges=None), "it has no merges"),
        (lambda content: content["model"]["vocab"].pop("<0xC3>"), "has no token for the byte <0xC3>"),
        (lambda content: content["model"]["vocab"].update({"<0xC3>a": 880}), "merges bytes"),
        (lambda content: content["model"]["vocab"].update({"aZ": 880}), "would form the token 'aZ'"),
        (lambda content: content["model"]["vocab"].update({"[PAD899]": 880}), "two of its tokens have the same text"),
        (set_flag("lstrip"), "the added token '</s>' depends on the text around it"),
        (set_flag("rstrip"), "the added token '</s>' depends on the text around it"),
        (set_flag("single_word"), "the added token '</s>' depends on the text around it"),
        (put(post_processor=around(["<s>", "<s>"], [])), "puts <s> <s> around each text"),
        (put(post_processor=around([], ["<s>"])), "where llama.cpp can only have its eos token"),
    ],
)
def test_what_llama_cpp_cannot_do_is_one_sentence(change: Change, sentence: str, tmp_path: Path) -> None:
    content = tokenizer_json("llama2")
    if "bytes" in sentence:
        content["model"]["merges"].append(["<0xC3>", "a"])
    change(content)
    tokenizer = opened(tmp_path, content)
    with pytest.raises(ModelError, match=sentence):
        vocabulary_settings(tokenizer, 900)

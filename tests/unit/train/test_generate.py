"""Generating: the tokens of transformers' own generate, sampling, streaming, refusals; nothing leaves the machine."""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch
from tests.support.tinymodels import TEMPLATE, own_folder, text, transformers, write_model, write_tokenizer

from railbed.errors import ModelError, UsageError
from railbed.launch.messages import Messages
from railbed.train.data.chatprocess import TemplateProcess
from railbed.train.models.gpt import FAMILY, GptSettings
from railbed.train.worker.models.base import BuildOptions, LanguageModel, Scorer
from railbed.train.worker.models.gpt import Gpt
from railbed.train.worker.results import generate
from railbed.train.worker.results.generate import Continuation, TextStream, TokenChoice, choose, open_speaker

pytestmark = pytest.mark.xdist_group("models")
CPU = torch.device("cpu")
PROMPT = "12 grüne Flaschen"


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything loads from local folders: a connection fails the test."""

    def refuse(*_: object) -> NoReturn:
        raise AssertionError("something opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def greedy(folder: Path, count: int = 40) -> list[int]:
    speaker = open_speaker(folder, CPU)
    answer = Continuation(
        speaker.scorer, speaker.encode(PROMPT, chat=False), TokenChoice(tokens=count, greedy=True), speaker.ends
    )
    return list(answer)


def by_transformers(folder: Path, count: int = 40) -> list[int]:
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    prompt = tokenizer(PROMPT, return_tensors="pt")
    made = model.generate(**prompt, max_new_tokens=count, do_sample=False, pad_token_id=0)[0].tolist()
    new: list[int] = made[prompt["input_ids"].shape[1] :]
    return new[:-1] if new[-1] == 0 else new


@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen3", "gpt2"])
def test_greedy_tokens_equal_those_of_transformers(kind: str, tmp_path: Path) -> None:
    """Also past the sliding window of Mistral."""
    folder = write_model(tmp_path / kind, kind)
    tokens = greedy(folder)
    assert len(set(tokens)) > 3, "the model repeats itself, so that equal tokens prove nothing"
    assert tokens == by_transformers(folder)


def test_own_models_equal_transformers_and_need_only_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = own_folder(tmp_path)
    expected = by_transformers(folder)

    def refuse(name: str) -> NoReturn:
        raise AssertionError(f"{name} was loaded")

    monkeypatch.setattr("railbed.train.worker.results.pretrained.library", refuse)
    tokens = greedy(folder)
    assert len(set(tokens)) > 3
    assert tokens == expected
    assert json.loads((folder / "config.json").read_text())["n_ctx"] == 96


def test_a_model_without_a_cache_scores_the_same() -> None:
    settings = GptSettings(layers=1, heads=2, width=16, context=24, vocabulary=50)
    model = Gpt.build(settings, BuildOptions(device=CPU))
    model.initialise(1)
    plain, cached = LanguageModel.scorer(model), model.scorer()
    for scorer in (plain, cached):
        scorer.restart()
    for tokens in ([3, 4, 5], [9], [1]):
        torch.testing.assert_close(plain.scores(tokens), cached.scores(tokens))
    assert FAMILY.name == "gpt"


def test_the_context_ends_an_answer(tmp_path: Path) -> None:
    speaker = open_speaker(own_folder(tmp_path), CPU)
    prompt = speaker.encode("a" * 60, chat=False)
    answer = Continuation(speaker.scorer, prompt, TokenChoice(tokens=500, greedy=True), ())
    assert len(list(answer)) == 96 - len(prompt) + 1
    assert answer.stop == "context"
    with pytest.raises(UsageError, match=r"the prompt has .* tokens, and the context of the model has 96"):
        list(Continuation(speaker.scorer, [1] * 97, TokenChoice(), ()))


class Fixed(Scorer):
    """Scores that do not depend on the text."""

    context = None

    def __init__(self, scores: Sequence[float]) -> None:
        self._scores = torch.tensor(scores)

    def restart(self) -> None:
        pass

    def scores(self, tokens: Sequence[int]) -> torch.Tensor:  # noqa: ARG002
        return self._scores


SCORES = [2.0, 1.0, 0.0, -1.0]


def chosen(sampling: TokenChoice, count: int = 4000) -> Counter[int]:
    generator = torch.Generator().manual_seed(sampling.seed)
    return Counter(choose(torch.tensor(SCORES), sampling, generator) for _ in range(count))


def test_samples_have_the_probabilities_of_the_model() -> None:
    shares = torch.softmax(torch.tensor(SCORES) / 0.7, 0)
    counts = chosen(TokenChoice(temperature=0.7, top_k=0))
    for token, share in enumerate(shares.tolist()):
        assert abs(counts[token] / 4000 - share) < 0.03


@pytest.mark.parametrize(
    ("sampling", "tokens"),
    [
        (TokenChoice(top_k=2), {0, 1}),
        (TokenChoice(top_k=1), {0}),
        (TokenChoice(top_k=0, temperature=1.0, top_p=0.6), {0}),
        (TokenChoice(top_k=0, temperature=1.0, top_p=0.65), {0, 1}),
        (TokenChoice(top_k=0, temperature=1.0, top_p=0.0), {0}),
        (TokenChoice(greedy=True), {0}),
        (TokenChoice(top_k=100, temperature=3.0), {0, 1, 2, 3}),
    ],
)
def test_unlikely_tokens_are_left_out(sampling: TokenChoice, tokens: set[int]) -> None:
    assert set(chosen(sampling, 1000)) == tokens


def test_a_seed_repeats_a_text_and_another_does_not() -> None:
    def tokens(seed: int) -> list[int]:
        return list(Continuation(Fixed(SCORES), [1], TokenChoice(tokens=50, seed=seed), ()))

    assert tokens(1) == tokens(1)
    assert tokens(1) != tokens(2)


def test_the_end_of_a_text_ends_the_answer() -> None:
    answer = Continuation(Fixed(SCORES), [1], TokenChoice(tokens=5, greedy=True), {0})
    assert (list(answer), answer.stop) == ([], "end")


def test_scores_that_are_not_numbers_are_refused() -> None:
    with pytest.raises(ModelError, match="the scores of the model are not numbers"):
        list(Continuation(Fixed([float("nan"), 1.0]), [1], TokenChoice(), ()))


def test_streamed_text_is_the_text(tmp_path: Path) -> None:
    """Also if a character takes several tokens, and if the last one is incomplete."""
    from railbed.train.data.tokenizer import open_tokenizer

    write_tokenizer(tmp_path)
    tokenizer = open_tokenizer(tmp_path)

    def decode(tokens: Sequence[int]) -> str:
        return str(tokenizer.decode(list(tokens)))

    for written in ("grüne 🚲 Flaschen → 漢字", text()[:300], ""):
        tokens = tokenizer.encode(written).ids
        stream = TextStream(decode)
        pieces = [stream.add(token) for token in tokens]
        assert "".join(pieces) + stream.end() == written
        assert not any("\ufffd" in piece for piece in pieces)
    stream = TextStream(decode)
    half = tokenizer.encode("🚲").ids[:2]
    assert "".join(stream.add(token) for token in half) == ""
    assert stream.end() == "\ufffd"


class Sent(Messages):
    """Messages that stay here."""

    def __init__(self) -> None:
        super().__init__(-1, 0)
        self.messages: list[dict[str, Any]] = []

    def send(self, kind: str, **fields: object) -> None:
        self.messages.append({"kind": kind, **fields})

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.messages if message["kind"] == kind]


def request(folder: Path, **changes: object) -> dict[str, Any]:
    sampling = {"tokens": 6, "greedy": True}
    plain = {"folder": str(folder), "models": str(folder / "none"), "prompts": ["x"], "chat": None, "before": None}
    return {**plain, "sampling": sampling, **changes}


@pytest.mark.parametrize("source", ["{{ 'x' * 2000000000 }}", "{{ 9 ** (9 ** (9 ** 9)) }}"])
def test_a_chat_template_has_limits_here_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    monkeypatch.setattr(TemplateProcess.__init__, "__kwdefaults__", {"prompts": False, "cpu_seconds": 1})
    folder = write_model(tmp_path / "chat", "llama", chat=True)
    (folder / "chat_template.jinja").write_text(source)
    speaker = open_speaker(folder, CPU)
    with pytest.raises(ModelError, match=r"^this model cannot be given a prompt: the chat template "):
        speaker.encode(PROMPT, chat=True)


def test_a_chat_template_is_used_unless_it_is_switched_off(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "chat", "llama", chat=True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    in_template = tokenizer(TEMPLATE and f"<|user|>{PROMPT}<|endoftext|><|assistant|>", add_special_tokens=False)[
        "input_ids"
    ]
    speaker = open_speaker(folder, CPU)
    assert speaker.encode(PROMPT, chat=True) == in_template
    lengths = {}
    for chat in (None, True, False):
        sent = Sent()
        generate.run(request(folder, chat=chat, prompts=[PROMPT]), sent)
        lengths[chat] = sent.of("generated")[0]["prompt_tokens"]
    assert lengths[None] == lengths[True] == len(in_template)
    assert lengths[False] == len(tokenizer(PROMPT)["input_ids"])


def test_pieces_make_up_the_answer(tmp_path: Path) -> None:
    sent = Sent()
    generate.run(request(own_folder(tmp_path), prompts=["a", "b"]), sent)
    answers = sent.of("generated")
    assert [answer["prompt"] for answer in answers] == [0, 1]
    for answer in answers:
        pieces = [piece["text"] for piece in sent.of("piece") if piece["prompt"] == answer["prompt"]]
        assert "".join(pieces) == answer["text"] != ""
        assert (len(answer["tokens"]), answer["stop"]) == (6, "tokens")


def test_what_cannot_be_is_one_sentence(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "llama", "llama")
    own = own_folder(tmp_path / "own")
    for wanted, sentence in (
        (request(folder, chat=True), "has no chat template"),
        (request(folder, before=True), "--before needs a fine-tuned model"),
        (request(tmp_path / "missing"), "there is no model folder"),
        (request(tmp_path), r"it has no config\.json"),
    ):
        with pytest.raises((UsageError, ModelError), match=sentence):
            generate.run(wanted, Sent())
    damaged = bytearray((folder / "model.safetensors").read_bytes())
    damaged[7] = 0x7F
    (folder / "model.safetensors").write_bytes(damaged)
    with pytest.raises(ModelError, match=r"model.safetensors cannot be read: its header is longer"):
        generate.run(request(folder), Sent())
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="has no weights"):
        generate.run(request(folder), Sent())
    (folder / "config.json").write_text('{"model_type": "unheard_of"}')
    (folder / "pytorch_model.bin").rename(folder / "model.safetensors")
    damaged[7] = 0
    (folder / "model.safetensors").write_bytes(damaged)
    with pytest.raises(ModelError, match="a model of type 'unheard_of'"):
        generate.run(request(folder), Sent())
    config = json.loads((own / "config.json").read_text())
    (own / "config.json").write_text(json.dumps({**config, "n_embd": 1 << 29}))
    with pytest.raises(ModelError, match=r"do not match its config\.json"):
        generate.run(request(own), Sent())

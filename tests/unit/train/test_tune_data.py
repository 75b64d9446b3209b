"""Documents, instructions and conversations as rows of tokens: what is trained, and what is refused."""

from __future__ import annotations

import json
import random
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.support.basemodels import TEMPLATE, conversation, tuning, write_conversations, write_tokenizer

from railbed.errors import DataError
from railbed.train.data import chatprocess
from railbed.train.data.chat import ChatTemplate, TemplateRefused
from railbed.train.data.chatprocess import TemplateProcess
from railbed.train.data.examples import ExampleReader
from railbed.train.data.prepare import PreparedData, prepare
from railbed.train.data.rows import Document, pack
from railbed.train.data.sampling import deal_by_size
from railbed.train.data.show import sequences
from railbed.train.recipe import Recipe
from railbed.train.worker.io.corpus import IGNORED, Rows, open_tokens

CONFIG = {"architectures": ["LlamaForCausalLM"], "vocab_size": 320, "max_position_embeddings": 128}
THINKING = (
    "{%- set ns = namespace(last=0) %}{%- for m in messages %}{%- if m.role == 'user' %}"
    "{%- set ns.last = loop.index0 %}{%- endif %}{%- endfor %}"
    "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\n' }}"
    "{%- if m.role == 'assistant' and loop.index0 > ns.last %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}"
    "{{- m.content + '<|im_end|>\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"
)
"""As Qwen3's: only the last answer gets a thought."""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A model folder as far as data needs it: weights with a header and no values."""
    folder = tmp_path / "base"
    write_tokenizer(folder)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    header = json.dumps({"w": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    return folder


def prepared(base: Path, *files: Path, **changes: Any) -> PreparedData:
    return prepare(Recipe.read(tuning(base, list(files), **changes)), base.parent / "cache")


def rows_of(data: PreparedData) -> Rows:
    rows = open_tokens(data.folder)
    assert isinstance(rows, Rows)
    return rows


def lines(path: Path, *examples: object) -> Path:
    path.write_text("".join(json.dumps(example) + "\n" for example in examples))
    return path


def trained_text(data: PreparedData, count: int = 1) -> list[list[str]]:
    return [[part.text for part in row.passages if part.trained] for row in sequences(data, data.context, count)]


@pytest.mark.parametrize(
    ("example", "trained"),
    [
        (conversation(1), []),
        ({"instruction": "Count.", "input": "1 2", "output": "two"}, ["two<|im_end|>"]),
        ({"instruction": "Count.", "output": "none"}, ["none<|im_end|>"]),
        ({"prompt": "2 + 2 = ", "completion": "4"}, ["4<|im_end|>"]),
    ],
)
def test_only_answers_are_trained(base: Path, tmp_path: Path, example: dict[str, Any], trained: list[str]) -> None:
    data = prepared(base, lines(tmp_path / "a.jsonl", example, example), data={"validation": 0.0})
    parts = [part for row in trained_text(data, 2) for part in row]
    if "messages" in example:
        answers = [turn["content"] for turn in example["messages"] if turn["role"] == "assistant"]
        assert parts == [f"{answer}<|im_end|>" for answer in answers] * 2
    else:
        assert parts == trained * 2


def test_all_of_a_text_is_trained_in_parts_that_overlap_by_a_token(base: Path, tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text(" ".join(str(number) for number in range(100)))
    data = prepared(base, text, data={"validation": 0.0})
    tokens = len(data_tokens(base, text.read_text())) + 1  # and the one that ends the text
    assert data.trained == tokens - 1  # nothing comes before the first
    assert data.rows == -(-tokens // 96)
    assert trained_text(data, data.rows)


def data_tokens(base: Path, text: str) -> list[int]:
    from tokenizers import Tokenizer

    return list(Tokenizer.from_file(str(base / "tokenizer.json")).encode(text).ids)


def test_a_batch_has_targets_for_trained_tokens_and_positions_by_document(base: Path, tmp_path: Path) -> None:
    data = prepared(base, write_conversations(tmp_path / "a.jsonl", 40), data={"validation": 0.2})
    rows = rows_of(data)
    assert rows.train + rows.validation_windows(48) == data.rows
    for number in range(rows.train):
        inputs, targets, positions = rows.batch([number], 96)
        marks = rows.marks[number].to(torch.int64)
        length = int((marks > 0).sum())
        expected, place = [], 0
        for index in range(length - 1):
            place = place + 1 if index and marks[index] % 0x8000 == marks[index - 1] % 0x8000 else 0
            expected.append(place)
            wanted = rows.tokens[number][index + 1].item() if marks[index + 1] >= 0x8000 else IGNORED
            assert targets[0, index] == wanted
        assert positions[0].tolist() == expected
        assert inputs.shape == (1, length - 1)
        assert rows.count_trained([number], 96) == int((targets != IGNORED).sum()) > 0
    two = rows.batch([0, 1], 96)[0]
    assert two.shape[1] == max(rows.sizes([0, 1])) - 1


def test_packed_and_padded_have_the_same_documents(base: Path, tmp_path: Path) -> None:
    file = write_conversations(tmp_path / "a.jsonl", 30)
    packed, padded = (prepared(base, file, data={"packed": flag, "validation": 0.0}) for flag in (True, False))
    assert padded.rows == 30
    assert packed.rows < 20
    assert (packed.tokens, packed.trained) == (padded.tokens, padded.trained)


def test_packing_loses_and_cuts_nothing() -> None:
    chance = random.Random(2)  # noqa: S311
    documents = [Document.of([number] * chance.randint(2, 20), [True] * 20) for number in range(300)]
    documents = [Document(document.tokens, document.trained[: len(document.tokens)]) for document in documents]
    packed = list(pack(iter(documents), 24))
    assert sorted(int(document.tokens[0]) for row in packed for document in row) == list(range(300))
    lengths = [sum(len(document.tokens) for document in row) for row in packed]
    assert max(lengths) <= 24
    assert np.mean(lengths) > 22


def test_the_template_may_write_the_last_answer_differently() -> None:
    template = ChatTemplate(THINKING, {})
    text, spans = template.with_answers(conversation(2)["messages"])
    assert text.count("<think>") == 1
    assert [text[start:end] for start, end in spans][-1].startswith("<think>\n\n</think>\n\n")
    assert all(text[start:end].endswith("so<|im_end|>") for start, end in spans)


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{% for m in messages %}{{ raise_exception('roles must alternate') }}{% endfor %}",
        "{{ messages[0].content.upper() }}",
        "{% if messages|length > 2 %}x{% endif %}{{ messages[0].content }}",
        "{{ 1 // 0 }}",
        "{% nonsense %}",
    ],
)
def test_a_template_that_cannot_be_used_is_refused(source: str) -> None:
    with pytest.raises(TemplateRefused):
        ChatTemplate(source, {}).with_answers(conversation(1)["messages"])


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("", ":2: the line is empty"),
        ("{", ":2: the line is not JSON"),
        ("[1]", ":2: the line is not a JSON object"),
        ('{"question": "?"}', ":2: the line has none of the known forms; its keys are question"),
        ('{"messages": [{"content": "hi"}]}', ":2: a message has no role"),
        ('{"messages": [{"role": "wizard", "content": "hi"}]}', ":2: a message has the role 'wizard'"),
        ('{"messages": [{"role": "user"}]}', ":2: a message has no content"),
        ('{"messages": [{"role": "user", "content": "hi"}]}', ":2: the conversation has no answer"),
        ('{"prompt": "' + "word " * 12_000 + '", "completion": "x"}', ":2: the example has "),
    ],
)
def test_a_bad_line_is_named(base: Path, tmp_path: Path, line: str, sentence: str) -> None:
    file = tmp_path / "chats.jsonl"
    file.write_text(f"{json.dumps(conversation(0))}\n{line}\n")
    with pytest.raises(DataError) as caught:
        prepared(base, file)
    assert caught.value.message.startswith(f"{file}{sentence}")
    assert "\n" not in caught.value.message


def test_long_examples_are_cut_only_on_request(base: Path, tmp_path: Path) -> None:
    long = {"prompt": "Say: ", "completion": "word " * 100}
    unused = {"prompt": "word " * 100, "completion": "never reached"}
    file = lines(tmp_path / "a.jsonl", conversation(0), long, unused)
    data = prepared(base, file, data={"too_long": "cut", "validation": 0.0})
    assert (data.cut, data.unused) == (2, 1)


def test_a_tokenizer_without_chat_template(base: Path, tmp_path: Path) -> None:
    write_tokenizer(base, template=None)
    file = lines(tmp_path / "a.jsonl", conversation(0))
    with pytest.raises(DataError, match=r"a.jsonl:1: a conversation, and the tokenizer in .* has no chat template"):
        prepared(base, file)
    (base / "chat_template.jinja").write_text(TEMPLATE)
    assert prepared(base, lines(file, conversation(0), conversation(1)), data={"validation": 0.0}).trained > 0


def test_sequences_longer_than_the_model_was_made_for(base: Path, tmp_path: Path) -> None:
    file = lines(tmp_path / "a.jsonl", conversation(0))
    limit = r"^model.context: 256 tokens, but .* is made for at most 128 \(max_position_embeddings in its config.json\)"
    with pytest.raises(DataError, match=limit):
        prepared(base, file, model={"context": 256})


@pytest.mark.parametrize("shares", [(1,), (1, 1), (3, 1), (1, 0), (0, 1), (2, 1, 1), (1, 5, 0.5)])
def test_shares_count_tokens(shares: tuple[float, ...]) -> None:
    chance = random.Random(4)  # noqa: S311
    sizes = [chance.randint(1, 100) for _ in range(64)]
    parts = deal_by_size(sizes, shares)
    assert [number for part in parts for number in part] == list(range(64))
    for part, share in zip(parts, shares, strict=True):
        wanted = sum(sizes) * share / sum(shares)
        assert abs(sum(sizes[part.start : part.stop]) - wanted) <= 100
        assert share or not part


def test_a_line_alone_is_enough_to_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps(conversation(0)))
    (example,) = ExampleReader(ChatTemplate(TEMPLATE, {}), Path("base")).read(tmp_path / "a.jsonl")
    assert [example.text[start:end] for start, end in example.answers] == ["rail the so<|im_end|>"]


NEVER_ENDS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
GROWS = "{% set n = namespace(t=START) %}{% for a in range(99) %}{% set n.t = n.t + n.t %}{% endfor %}{{ n.t[:9] }}"
HOSTILE = {
    "a loop without end": NEVER_ENDS,
    "a power while it is compiled": "{{ 9 ** (9 ** (9 ** 9)) }}",
    "a text that doubles": GROWS.replace("START", "'x'"),
    "a list that doubles": GROWS.replace("START", "[1]"),
    "a macro that calls itself": "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
    "deep brackets": "{{ " + "(" * 20000 + ")" * 20000 + " }}",
    "a long answer": "{% for m in messages %}{{ m.content * 9999999 }}{% endfor %}",
}


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE)
def test_a_template_cannot_take_more_time_or_memory_than_it_may(source: str) -> None:
    """It runs in a process with limits, and the refusal is a sentence."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    refused = pytest.raises(TemplateRefused, match=r"^the chat template ")
    with TemplateProcess(ChatTemplate(source, {}), cpu_seconds=1) as process, refused:
        list(process.render([conversation(1)["messages"]]))
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert after.ru_utime - before.ru_utime < 2, "the work is done elsewhere"


def test_a_template_that_does_not_answer_is_refused_with_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one whose process was stopped: processor time alone would never end it."""
    monkeypatch.setattr(chatprocess, "SILENCE_SECONDS", 0.2)
    (tmp_path / "a.jsonl").write_text(f"{json.dumps({'text': 'x'})}\n{json.dumps(conversation(0))}\n")
    reader = ExampleReader(ChatTemplate(NEVER_ENDS, {}), tmp_path)
    examples = reader.read(tmp_path / "a.jsonl")
    assert next(examples).text == "x"
    with pytest.raises(DataError, match=r"a\.jsonl:2: the chat template did not end within 0\.2 s"):
        next(examples)


def test_examples_keep_their_order_over_many_batches(tmp_path: Path) -> None:
    """Lines with and without a conversation, and one of several batches that cannot be used."""
    forms: list[dict[str, Any]] = [
        conversation(number % 3) if number % 4 else {"text": f"text {number}"} for number in range(300)
    ]
    lines = [json.dumps(form) for form in forms]
    (tmp_path / "a.jsonl").write_text("\n".join([*lines, "{"]))
    template = ChatTemplate(TEMPLATE, {})
    examples = iter(ExampleReader(template, tmp_path).read(tmp_path / "a.jsonl"))
    texts = [next(examples).text for _ in forms]
    assert texts == [
        str(form["text"]) if "text" in form else template.with_answers(form["messages"])[0] for form in forms
    ]
    with pytest.raises(DataError, match=r"a\.jsonl:301: the line is not JSON"):
        next(examples)

"""Fine-tuning measures the perplexity of held-out text before and after, and the report of its run shows it."""

from __future__ import annotations

import gc
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tests.support.basemodels import tuning, write_base, write_conversations
from tests.support.runs import plain_run

from railbed.collective.group import SingleRank
from railbed.launch.messages import Messages
from railbed.model.record import Measurement
from railbed.report import describe, read
from railbed.train.data.prepare import prepare
from railbed.train.progress.records import records_of
from railbed.train.recipe import Recipe
from railbed.train.spec import ResumeSource, TrainSpec
from railbed.train.state.checkpoints import survey
from railbed.train.worker.io.convert import convert
from railbed.train.worker.io.corpus import IGNORED, Rows, open_tokens
from railbed.train.worker.loop import TrainingLoop


@pytest.fixture(autouse=True)
def _process_as_before() -> Iterator[None]:
    """A rank uses its process for itself: one thread, and no garbage collection."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
    gc.enable()
    gc.unfreeze()


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return write_base(tmp_path / "base", "llama")


def trained(base: Path, **fields: Any) -> list[dict[str, Any]]:
    """Train on this machine; return the messages of the rank."""
    folder = base.parent
    changes = {"data": {"packed": False}, "evaluation": {"every": 6, "sequences": 64}, "checkpoint": {"steps": 6}}
    plain = tuning(base, [write_conversations(folder / "chats.jsonl")], **changes)
    tokens = prepare(Recipe.read(plain), folder / "cache").folder
    job = TrainSpec(
        run="r", recipe=plain, threads=1, tokens=str(tokens), checkpoints=str(folder / "checkpoints"), **fields
    )
    log = folder / "messages"
    log.unlink(missing_ok=True)
    messages = Messages(os.open(log, os.O_WRONLY | os.O_CREAT), 0)
    corpus = open_tokens(tokens)
    settings = job.settings.for_vocabulary(corpus.vocabulary)
    TrainingLoop(job, settings, corpus, messages, collective=SingleRank(), device=torch.device("cpu")).run()
    return [json.loads(line) for line in log.read_text().splitlines()]


def perplexities(messages: list[dict[str, Any]]) -> dict[str, float]:
    return {message["when"]: message["perplexity"] for message in messages if message["kind"] == "perplexity"}


def expected_before(base: Path) -> float:
    """Return the perplexity of the held-out conversations, each alone, as transformers computes it."""
    rows = open_tokens(next((base.parent / "cache").glob("*/tokens.json")).parent)
    assert isinstance(rows, Rows)
    model = transformers.AutoModelForCausalLM.from_pretrained(base)
    total, count = 0.0, 0
    for row in range(rows.validation_windows(96)):
        tokens, targets, _ = rows.batch([row], 96, validation=True)
        scores = model(input_ids=tokens).logits.detach()[0]
        total += float(torch.nn.functional.cross_entropy(scores, targets[0], ignore_index=IGNORED, reduction="sum"))
        count += int((targets != IGNORED).sum())
    return math.exp(total / count)


@pytest.mark.usefixtures("runs_here")
def test_a_run_measures_before_and_after_and_the_report_shows_it(base: Path) -> None:
    messages = trained(base, owes_perplexity=True)
    measured = perplexities(messages)
    assert measured["before"] == pytest.approx(expected_before(base), rel=1e-5)
    last = [message["validation_loss"] for message in messages if message["kind"] == "evaluation"][-1]
    assert measured["after"] == pytest.approx(math.exp(last))
    assert measured["after"] < 0.7 * measured["before"]
    records = [record for message in messages for record in records_of("node1", 0, message)]
    assert [record.labels for record in records if isinstance(record, Measurement) and record.name == "perplexity"] == [
        {"split": "held_out", "when": "before"},
        {"split": "held_out", "when": "after"},
    ]
    assert "the perplexity of held-out text fell from" in describe(read(plain_run(records, verb="train"))).sentence


def test_an_adapter_from_a_checkpoint_names_the_type_of_its_base(base: Path) -> None:
    """A quantised base was rounded from that type, so a merge depends on it."""
    messages = trained(base)
    counts = [(message["tokens"], message["trained_tokens"]) for message in messages if message["kind"] == "progress"]
    assert all(0 < learned < tokens < 12 * 96 for tokens, learned in counts)
    (newest, *_) = survey(base.parent / "checkpoints").good
    state = newest.path / "state.json"
    content = json.loads(state.read_text())
    assert content["compute_dtype"] == "float32"
    state.write_text(json.dumps({**content, "compute_dtype": "bfloat16"}))
    (base.parent / "rank0.json").write_text(TrainSpec(run="r", recipe=content["recipe"]).to_json())
    convert(newest, base.parent, base.parent / "weights")
    notes = json.loads((base.parent / "weights" / "railbed.json").read_text())
    assert notes["base"]["compute_dtype"] == "bfloat16"


def test_a_resumed_run_measures_the_model_without_its_adapters(base: Path) -> None:
    before = perplexities(trained(base, owes_perplexity=True))["before"]
    resumed = trained(base, owes_perplexity=True, resume=ResumeSource(step=6, rank=0))
    assert perplexities(resumed)["before"] == pytest.approx(before, rel=1e-6)
    assert [message["step"] for message in resumed if message["kind"] == "progress"] == list(range(7, 13))
    assert "before" not in perplexities(trained(base, resume=ResumeSource(step=12, rank=0), owes_evaluation=True))

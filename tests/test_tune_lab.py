"""Tuning models on the nodes of a netns lab: one rank and three take the same steps, and the results can be used.

`make test` has one model, with unequal shares and a node that is killed; `make soak` has all combinations.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.support.basemodels import write_base, write_conversations
from tests.support.labs import RunningLab, call
from tests.support.tinymodels import compute_in_fp32, transformers
from tests.support.training import Records, events, losses, trained, training, training_site

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("nettrain")]
NODES = ["node1", "node2", "node3"]
CLOSE = 2e-4
"""How far adapters may be apart after all steps, on any number of ranks."""
AS_TRAINED = 1e-4
"""How far the scores of a merged model may be from those of the model as trained."""
STEPS = 12
SETTINGS = {
    "steps": STEPS,
    "threads": 1,
    "model.context": 96,
    "model.lora.rank": 4,
    "batch.sequences": 10,
    "optimiser.learning_rate": 5e-3,
    "optimiser.warmup_steps": 1,
    "evaluation.every": 0,
    "checkpoint.steps": 2,
    "shares": "equal",
}
UNEQUAL = {"shares": "{node1: 3, node2: 1, node3: 1}"}
SLOW = ("slow", "rail0", "500K")
"""Makes steps of a tiny model long enough for a node to be lost in the middle."""
QUESTION = "a switch counts every"
WIDTHS = {"hidden_size": 64, "intermediate_size": 128}
"""Rows of at least one block of 4-bit values."""


@dataclass(frozen=True)
class Tuned:
    """A run that was completed, and its adapter."""

    records: Records
    run: Path
    adapter: Path

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        return load_file(self.adapter / "adapter_model.safetensors")

    def distance_to(self, other: Tuned) -> float:
        """Return how far the adapters are apart, at most."""
        own, theirs = self.tensors, other.tensors
        assert own.keys() == theirs.keys()
        return max(float((own[name] - theirs[name]).abs().max()) for name in own)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data; models are made in it when they are needed."""
    folder = tmp_path_factory.mktemp("models")
    write_conversations(folder / "chats.jsonl")
    (folder / "notes.txt").write_text(
        "".join(f"rail {n} carries {n * n % 97} frames, and pauses\n" for n in range(200))
    )
    return folder


@pytest.fixture(scope="module")
def site(netns_lab: RunningLab, warm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> RunningLab:
    return training_site(netns_lab, tmp_path_factory.mktemp("tune"), nodes=len(NODES), python=warm_python)


@pytest.fixture(scope="module")
def single(netns_lab: RunningLab, warm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> RunningLab:
    """One of the nodes."""
    return training_site(netns_lab, tmp_path_factory.mktemp("single"), nodes=1, python=warm_python)


def options(recipe: str, base: Path, data: Path, **changes: Any) -> list[str]:
    """Return the arguments of `railbed train`."""
    settings = {**SETTINGS, "model.path": base, "data.files": f"[{data}]", **changes}
    return [recipe, *(word for key, value in settings.items() for word in ("--set", f"{key}={value}"))]


def base_of(folder: Path, kind: str) -> Path:
    path = folder / kind
    return path if path.exists() else write_base(path, kind, **WIDTHS)


def finished(lab: RunningLab, records: Records) -> Tuned:
    (written,) = events(records, "exported")
    return Tuned(records, max((lab.folder / "runs").glob("*-train*")), Path(written["data"]["folder"]))


def tuned(lab: RunningLab, *arguments: str) -> Tuned:
    return finished(lab, trained(lab, *arguments))


def assert_same_steps(tried: Tuned, alone: Tuned) -> None:
    reported, expected = losses(tried.records), losses(alone.records)
    assert reported == pytest.approx({step: expected[step] for step in reported}, abs=CLOSE)
    assert expected[STEPS] < expected[1] - 0.1
    assert tried.distance_to(alone) < CLOSE


MATRIX = list(product(("llama", "qwen3"), ("lora", "qlora"), ("chats.jsonl", "notes.txt")))


@pytest.mark.soak
@pytest.mark.parametrize("case", MATRIX, ids="-".join)
def test_three_ranks_take_the_steps_of_one(
    single: RunningLab, site: RunningLab, folder: Path, case: tuple[str, str, str]
) -> None:
    kind, recipe, data = case
    base = base_of(folder, kind)
    alone = tuned(single, *options(recipe, base, folder / data), "-c", "cluster.yaml")
    unequal = tuned(site, *options(recipe, base, folder / data, **UNEQUAL), "-c", "cluster.yaml")
    (generation,) = events(unequal.records, "generation")
    assert generation["data"]["nodes"] == NODES
    assert_same_steps(unequal, alone)


@pytest.mark.soak  # unequal shares are the harder case
@pytest.mark.parametrize("recipe", ["lora", "qlora"])
def test_equal_shares_take_the_steps_of_one(single: RunningLab, site: RunningLab, folder: Path, recipe: str) -> None:
    arguments = [*options(recipe, base_of(folder, "llama"), folder / "chats.jsonl"), "-c", "cluster.yaml"]
    assert_same_steps(tuned(site, *arguments), tuned(single, *arguments))


@pytest.fixture
def slow_site(site: RunningLab) -> Iterator[RunningLab]:
    """Three nodes with a slow rail; every node is up afterwards."""
    assert site.fault(*SLOW).code == 0
    yield site
    site.heal()


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")  # used by peft itself
@pytest.mark.parametrize(
    "case",
    [
        ("llama", "qlora", "node2"),
        pytest.param(("llama", "lora", "node1"), marks=pytest.mark.soak),
        pytest.param(("qwen3", "qlora", "node1"), marks=pytest.mark.soak),
        pytest.param(("qwen3", "lora", "node3"), marks=pytest.mark.soak),
    ],
    ids="-".join,
)
def test_a_killed_node_changes_nothing_and_the_result_can_be_used(
    single: RunningLab, slow_site: RunningLab, folder: Path, tmp_path: Path, case: tuple[str, str, str]
) -> None:
    kind, recipe, killed = case
    base = base_of(folder, kind)
    arguments = options(recipe, base, folder / "chats.jsonl", **UNEQUAL)
    alone = tuned(single, *options(recipe, base, folder / "chats.jsonl"), "-c", "cluster.yaml")
    with training(slow_site, *arguments, "-c", "cluster.yaml", "--min-nodes", "2") as run:
        run.until(lambda record: record.get("labels", {}).get("step", 0) >= 4)
        assert slow_site.fault("kill", killed).code == 0
        assert run.end() == 1
    left = [node for node in NODES if node != killed]
    assert [event["data"]["nodes"] for event in events(run.records, "generation")] == [NODES, left]
    (resumed, *_) = events(run.records, "resumed")
    assert 2 <= resumed["data"]["step"] < STEPS
    disturbed = finished(slow_site, run.records)
    assert_same_steps(disturbed, alone)
    assert_usable(slow_site, disturbed, base, tmp_path)


def as_trained(base: Path, adapter: Path) -> Any:
    """Return the model as it was trained, by plain transformers and peft."""
    about = json.loads((adapter / "railbed.json").read_text())["base"]
    assert about["compute_dtype"] == "float32"
    quantised = {
        "quantization_config": transformers.BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=about["double"],
            bnb_4bit_compute_dtype=torch.float32,
        ),
        "device_map": {"": "cpu"},
    }
    model = transformers.AutoModelForCausalLM.from_pretrained(
        base, dtype=torch.float32, **(quantised if about["quantisation"] == "nf4" else {})
    )
    compute_in_fp32(model)
    peft: Any = import_module("peft")
    return peft.PeftModel.from_pretrained(model, str(adapter)).eval()


@torch.inference_mode()
def assert_usable(lab: RunningLab, result: Tuned, base: Path, folder: Path) -> None:
    """Merge the adapter of a run, write it as GGUF, and generate from it, with the commands that users have."""
    merged = call(lab.folder, "export", result.run.name, folder / "merged", "--merge", "--dtype", "float32")
    assert merged.code == 0, merged
    model = as_trained(base, result.adapter)
    plain = transformers.AutoModelForCausalLM.from_pretrained(folder / "merged", dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "merged")
    question = tokenizer.apply_chat_template(
        [{"role": "user", "content": QUESTION}], add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    expected, scores = model(**question).logits, plain(**question).logits
    assert float((scores - expected).abs().max()) < AS_TRAINED
    with model.disable_adapter():
        assert float((model(**question).logits - expected).abs().max()) > 100 * AS_TRAINED, "the adapter has no effect"
    written = call(lab.folder, "export", result.run.name, folder / "gguf", "--gguf", "--type", "f32")
    assert written.code == 0, written
    reader = pytest.importorskip("gguf").GGUFReader(folder / "gguf" / "model.gguf")
    assert reader.fields["general.architecture"].contents() == plain.config.model_type
    generated = call(
        lab.folder, "generate", result.run.name, "--prompt", QUESTION, "--greedy", "--tokens", "8", "--json"
    )
    assert generated.code == 0, generated
    answers = {event["data"]["when"]: event["data"]["tokens"] for event in events(generated.records, "generated")}
    reply = model.generate(**question, max_new_tokens=8, do_sample=False)[0, question["input_ids"].shape[1] :].tolist()
    assert answers.keys() == {"before", "after"}
    assert answers["after"] == reply[: len(answers["after"])]
    assert set(reply[len(answers["after"]) :]) <= {model.config.eos_token_id}

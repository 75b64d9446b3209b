"""Merged models give the scores of the model as trained: adapter on the quantised base, live, in plain peft."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support.adapters import Trained, write_adapter
from tests.support.nf4 import nf4_round_trip
from tests.support.tinymodels import transformers, write_model
from tests.unit.train.test_generate import Sent

from railbed.errors import ModelError, UsageError
from railbed.launch.files.ship import parcel
from railbed.train.base.folder import INDEX, ModelFolder
from railbed.train.results.adapter import AdapterFolder, Base
from railbed.train.worker.io.tensorfile import Weights
from railbed.train.worker.results import publish
from railbed.train.worker.results.merge import as_trained

pytestmark = [
    pytest.mark.xdist_group("models"),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning"),
]
"""What peft and bitsandbytes do that the newest transformers and torch no longer like."""
CPU = torch.device("cpu")
TOKENS = torch.arange(5, 37)[None]


def request(folder: Path, into: Path, **changes: object) -> dict[str, Any]:
    return {
        "folder": str(folder),
        "into": str(into),
        "merge": True,
        "gguf": None,
        "dtype": None,
        "name": "x",
        "models": str(folder / "none"),
        **changes,
    }


def merged_scores(trained: Trained, into: Path) -> torch.Tensor:
    publish.run(request(trained.adapter, into), Sent())
    model = transformers.AutoModelForCausalLM.from_pretrained(into)
    with torch.inference_mode():
        scores: torch.Tensor = model(TOKENS).logits
    return scores


@pytest.mark.parametrize(
    ("kind", "quantisation", "double", "options"),
    [
        ("llama", "nf4", True, {}),
        ("llama", "nf4", False, {"use_rslora": True}),
        ("llama", "none", False, {"use_dora": True}),
        ("qwen3", "nf4", True, {"use_dora": True}),
        ("gpt2", "nf4", True, {}),
        ("gpt2", "none", False, {"use_dora": True}),
        ("qwen3", "none", False, {"alpha_pattern": {"q_proj": 3}, "modules_to_save": ["lm_head"]}),
    ],
)
def test_merged_scores_are_those_of_the_model_as_trained(
    kind: str, quantisation: str, double: bool, options: dict[str, Any], tmp_path: Path
) -> None:
    base = write_model(tmp_path / "base", kind, tie_word_embeddings=kind == "gpt2")
    trained = write_adapter(base, tmp_path / "adapter", quantisation, double=double, **options)
    expected, before = trained.scores(TOKENS), trained.scores_before(TOKENS)
    difference = (merged_scores(trained, tmp_path / "merged") - expected).abs().max()
    assert (expected - before).abs().max() > 0.5, "the adapter changes too little for this to prove anything"
    assert difference < 1e-4, difference


def test_eight_bits_agree_as_far_as_rounded_inputs_allow(tmp_path: Path) -> None:
    """The library rounds the inputs of 8-bit layers, too, which no merged model does."""
    base = write_model(tmp_path / "base", "llama", scale=0.1)
    trained = write_adapter(base, tmp_path / "adapter", "int8")
    expected, before = trained.scores(TOKENS), trained.scores_before(TOKENS)
    difference = (merged_scores(trained, tmp_path / "merged") - expected).abs().mean()
    assert difference < 0.1 * (expected - before).abs().mean()


@pytest.mark.parametrize("double", [True, False])
def test_four_bits_equal_an_independent_implementation(double: bool) -> None:
    weight = torch.randn(48, 128, generator=torch.Generator().manual_seed(1)) * 0.1
    base = Base(path=Path(), quantisation="nf4", double=double)
    torch.testing.assert_close(as_trained(weight, base, CPU), nf4_round_trip(weight, double=double), rtol=0, atol=1e-6)


def test_large_models_are_written_in_several_files(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base", "llama")
    trained = write_adapter(base, tmp_path / "adapter", "none")
    source = publish.open_source(trained.adapter, CPU)
    (tmp_path / "one").mkdir()
    (tmp_path / "several").mkdir()
    publish.write_as_safetensors(source, tmp_path / "one", lambda _done, _all: None)
    files = publish.write_as_safetensors(source, tmp_path / "several", lambda _done, _all: None, shard_bytes=60_000)
    assert sum(name.endswith(".safetensors") for name in files) > 3
    index = json.loads((tmp_path / "several" / INDEX).read_text())
    assert index["metadata"]["total_size"] == sum(layout.size for layout in source.layouts.values())
    single, several = Weights(tmp_path / "one"), Weights(tmp_path / "several")
    assert single.keys() == several.keys()
    assert all(torch.equal(single[name], several[name]) for name in single)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "several")
    with torch.inference_mode():
        assert (model(TOKENS).logits - trained.scores(TOKENS)).abs().max() < 1e-4


def test_merged_weights_can_have_another_type(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base", "llama")
    trained = write_adapter(base, tmp_path / "adapter", "none")
    publish.run(request(trained.adapter, tmp_path / "merged", dtype="bfloat16"), Sent())
    assert {tensor.dtype for tensor in Weights(tmp_path / "merged").values()} == {torch.bfloat16}
    assert json.loads((tmp_path / "merged" / "config.json").read_text())["dtype"] == "bfloat16"


def test_what_cannot_be_merged_is_one_sentence(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base", "llama")
    trained = write_adapter(base, tmp_path / "adapter", "none")
    into = tmp_path / "merged"
    with pytest.raises(UsageError, match="there is no adapter to merge"):
        publish.run(request(base, into), Sent())
    config = trained.adapter / "adapter_config.json"
    text = config.read_text()
    config.write_text(json.dumps({**json.loads(text), "peft_type": "IA3"}))
    with pytest.raises(ModelError, match="is an adapter of type IA3; only LORA"):
        AdapterFolder.open(trained.adapter)
    config.write_text(text)
    notes = trained.adapter / "railbed.json"
    about = json.loads(notes.read_text())
    assert about["base"]["digest"] == ModelFolder.open(base).digest()
    (base / "generation_config.json").write_text("{}")
    with pytest.raises(ModelError, match="is not the one that the adapter was trained against: its files have changed"):
        publish.run(request(trained.adapter, into), Sent())
    about["base"]["path"] = str(tmp_path / "gone")
    notes.write_text(json.dumps(about))
    with pytest.raises(ModelError, match=r"the model below the adapter is not there: .*gone"):
        publish.run(request(trained.adapter, into), Sent())
    other = write_model(tmp_path / "other", "gpt2")
    notes.write_text(json.dumps({"base": {"path": str(other)}}))
    with pytest.raises(ModelError, match=r"the adapter changes model\.layers\.\S+, which the model in .* does not"):
        publish.run(request(trained.adapter, into), Sent())
    notes.write_text(json.dumps({"base": {"path": str(other), "quantisation": "nf2"}}))
    with pytest.raises(ModelError, match=r"base\.quantisation is 'nf2'; expected none, nf4, int8"):
        publish.run(request(trained.adapter, into), Sent())


def test_a_model_that_was_copied_to_the_node_is_used(tmp_path: Path) -> None:
    """Under the name that nodes store it by; the path in the notes is that of another machine."""
    base = write_model(tmp_path / "base", "llama")
    trained = write_adapter(base, tmp_path / "adapter", "none")
    sent = parcel("models", {path.name: path for path in base.iterdir()})
    notes = json.loads((trained.adapter / "railbed.json").read_text())
    assert notes["base"]["digest"] == sent.digest
    (tmp_path / "models").mkdir()
    base.rename(tmp_path / sent.name)
    publish.run(request(trained.adapter, tmp_path / "merged", models=str(tmp_path / "models")), Sent())
    assert len(Weights(tmp_path / "merged")) == len(Weights(tmp_path / sent.name))


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    from railbed.errors import DeviceError

    with pytest.raises(DeviceError, match=r"cannot be written: the disk is full: .* are needed, .* are free"):
        publish.need_room(tmp_path, 1 << 60)

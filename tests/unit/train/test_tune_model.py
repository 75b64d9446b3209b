"""Tuning a model from a folder: the same step on any ranks, adapters that peft loads, and nothing from a hub."""

from __future__ import annotations

import socket
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tests.support.basemodels import KINDS, tuning, write_base, write_conversations
from tests.support.threads import Trainer, together

from railbed.errors import ModelError, RankFailed
from railbed.train.base.folder import read_folder
from railbed.train.data.prepare import prepare
from railbed.train.models.pretrained import PretrainedSettings
from railbed.train.recipe import Recipe
from railbed.train.worker.io.corpus import Rows, open_tokens
from railbed.train.worker.models.base import BuildOptions, build_model
from railbed.train.worker.models.pretrained import Pretrained

pytestmark = pytest.mark.usefixtures("single_thread")
CLOSE = 2e-4
"""How far adapters may be apart after twelve steps on different ranks."""


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("bases")
    return {kind: write_base(folder / kind, kind) for kind in KINDS}


@pytest.fixture(scope="module")
def chats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_conversations(tmp_path_factory.mktemp("chats") / "chats.jsonl")


def prepared(base: Path, chats: Path, **changes: Any) -> tuple[Recipe, Path]:
    recipe = Recipe.read(tuning(base, [chats], **changes))
    return recipe, prepare(recipe, chats.parent / "cache").folder


def adapters(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in trainer.model.saved_tensors().items()}


def farthest(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> float:
    assert first.keys() == second.keys()
    return max(float((first[name] - second[name]).abs().max()) for name in first)


@pytest.mark.parametrize("kind", KINDS)
def test_every_architecture_is_loaded_adapted_and_counted(bases: dict[str, Path], chats: Path, kind: str) -> None:
    recipe, tokens = prepared(bases[kind], chats, model={"lora": {"dora": kind in {"llama", "gpt2"}}})
    trainer = Trainer.of(recipe, tokens)
    assert isinstance(trainer.model, Pretrained)
    assert trainer.model.separates
    assert trainer.model._plain_head
    trained = [parameter for parameter in trainer.model.parameters() if parameter.requires_grad]
    frozen = [parameter for parameter in trainer.model.parameters() if not parameter.requires_grad]
    assert sum(parameter.numel() for parameter in trained) == recipe.family.trained_count(recipe.model)
    assert sum(parameter.numel() for parameter in frozen) == recipe.family.parameter_count(recipe.model)
    before = adapters(trainer)
    trainer.losses(range(2))  # the second matrices are zero at first, and so are the first gradients of the others
    assert all(not torch.equal(tensor, before[name]) for name, tensor in adapters(trainer).items())


SPLITS = [
    ("llama", True, (3.0, 1.0, 1.0)),
    ("qwen3", False, (3.0, 1.0, 1.0)),
    pytest.param("llama", False, (1.0, 1.0, 1.0), marks=pytest.mark.soak),
    pytest.param("llama", True, (3.0, 1.0), marks=pytest.mark.soak),
    pytest.param("qwen3", True, (1.0, 1.0, 1.0), marks=pytest.mark.soak),
]


@pytest.mark.parametrize(("kind", "packed", "shares"), SPLITS)
def test_the_same_step_on_any_ranks_with_masks(
    bases: dict[str, Path], chats: Path, kind: str, packed: bool, shares: tuple[float, ...]
) -> None:
    recipe, tokens = prepared(bases[kind], chats, data={"packed": packed})
    alone = Trainer.of(recipe, tokens)
    expected = alone.losses(range(12))
    assert expected[-1] < expected[0] - 0.1
    for trainer, losses in together(recipe, tokens, shares, lambda trainer: trainer.losses(range(12))):
        assert losses == pytest.approx(expected, abs=CLOSE)
        assert farthest(adapters(trainer), adapters(alone)) < CLOSE


def test_the_loss_is_that_of_transformers_over_the_trained_tokens(bases: dict[str, Path], chats: Path) -> None:
    """Each document alone, as transformers itself computes it, gives the same mean as packed sequences."""
    recipe, tokens = prepared(bases["qwen3"], chats)
    rows = open_tokens(tokens)
    assert isinstance(rows, Rows)
    model = transformers.AutoModelForCausalLM.from_pretrained(bases["qwen3"])
    trainer = Trainer.of(recipe, tokens)
    part = trainer.stepper.part(0)
    total, count = 0.0, 0
    for row in part.windows:
        for document in range(1, int((rows.marks[row].to(torch.int64) % 0x8000).max()) + 1):
            marks = rows.marks[row].to(torch.int64)
            own = marks % 0x8000 == document
            ids = rows.tokens[row].to(torch.int64)[own]
            labels = torch.where(marks[own] >= 0x8000, ids, -100)
            answered = int((labels != -100).sum())
            total += float(model(input_ids=ids[None], labels=labels[None]).loss.detach()) * answered
            count += answered
    assert count == part.trained
    assert trainer.losses(range(1)) == pytest.approx([total / count], rel=1e-5)


def test_full_tuning_trains_everything_and_takes_the_same_step(bases: dict[str, Path], chats: Path) -> None:
    recipe, tokens = prepared(bases["qwen3"], chats, model={"tuning": "full"}, optimiser={"learning_rate": 1e-3})
    alone = Trainer.of(recipe, tokens)
    expected = alone.losses(range(4))
    assert all(parameter.requires_grad for parameter in alone.model.parameters())
    for trainer, losses in together(recipe, tokens, (2.0, 1.0), lambda trainer: trainer.losses(range(4))):
        assert losses == pytest.approx(expected, abs=CLOSE)
        assert farthest(adapters(trainer), adapters(alone)) < CLOSE


def test_gradient_checkpointing_has_the_same_loss_and_few_activations(tmp_path: Path, chats: Path) -> None:
    """Counts what the forward pass of the layers leaves for the backward pass."""
    base = write_base(tmp_path / "deep", "llama", num_hidden_layers=12)
    results = []
    for recompute in (False, True):
        recipe, tokens = prepared(base, chats, gradient_checkpointing=recompute)
        trainer = Trainer.of(recipe, tokens)
        model = trainer.model
        assert isinstance(model, Pretrained)
        batch = trainer.stepper.tokens.batch([0, 1, 2], 96)
        own = {parameter.data_ptr() for parameter in model.parameters()}
        held: dict[int, int] = {}

        def note(tensor: torch.Tensor, held: dict[int, int] = held, own: set[int] = own) -> torch.Tensor:
            if tensor.untyped_storage().data_ptr() not in own:
                held[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            hidden = model.hidden(batch[0], batch[2])
        results.append((float(model(*batch).detach()), sum(held.values()), hidden.shape))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-6)
    assert results[1][1] < results[0][1] / 5


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    """It would be sent to the nodes, whatever this user can read; Hugging Face's cache has links of its own."""
    entry = tmp_path / "models--owner--name"
    snapshot, blobs = entry / "snapshots" / "abc", entry / "blobs"
    write_base(snapshot, "llama")
    blobs.mkdir()
    for file in list(snapshot.iterdir()):
        file.rename(blobs / file.name)
        file.symlink_to(f"../../blobs/{file.name}")
    assert read_folder(snapshot).parameters > 0
    (tmp_path / "mine").symlink_to(snapshot)
    assert read_folder(tmp_path / "mine").files().keys() == read_folder(snapshot).files().keys()
    (tmp_path / "secret").write_text("{}")
    for name, target in (("more.json", tmp_path / "secret"), ("config.json", "../../../secret")):
        (snapshot / name).unlink(missing_ok=True)
        (snapshot / name).symlink_to(target)
        with pytest.raises(ModelError, match=rf"{name} is a link to {tmp_path}/secret, outside the model's folder"):
            read_folder(snapshot)
        (snapshot / name).unlink()
    plain = write_base(tmp_path / "plain", "llama")
    (plain / "more.json").symlink_to(plain / "config.json")
    read_folder(plain)
    (plain / "other.json").symlink_to(blobs / "config.json")
    with pytest.raises(ModelError, match="is not followed"):
        read_folder(plain)


def test_a_new_adapter_changes_nothing(bases: dict[str, Path], chats: Path) -> None:
    recipe, tokens = prepared(bases["llama"], chats)
    model = Trainer.of(recipe, tokens).model
    plain = transformers.AutoModelForCausalLM.from_pretrained(bases["llama"])
    ids = torch.arange(20)[None]
    assert torch.equal(model.next_scores(ids), plain(input_ids=ids).logits[0, -1])


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")  # used by peft itself
@pytest.mark.parametrize(
    ("kind", "lora"),
    [("llama", {"dora": True}), ("qwen3", {"rslora": True, "targets": ["q_proj", "down_proj"]}), ("gpt2", {})],
)
def test_exported_adapters_are_the_same_in_plain_peft(
    bases: dict[str, Path], chats: Path, tmp_path: Path, kind: str, lora: dict[str, Any]
) -> None:
    from railbed.train.spec import TrainSpec
    from railbed.train.worker.io.export import export_adapter, origin_of

    recipe, tokens = prepared(bases[kind], chats, model={"lora": lora})
    trainer = Trainer.of(recipe, tokens)
    trainer.losses(range(3))
    origin = origin_of(TrainSpec(run="r", recipe=recipe.to_plain()), torch.float32, 3)
    assert origin
    export_adapter(trainer.model.saved_tensors(), tmp_path / "out", tokens=tokens, origin=origin)
    plain = import_module("peft").PeftModel.from_pretrained(
        transformers.AutoModelForCausalLM.from_pretrained(bases[kind]), str(tmp_path / "out")
    )
    ids = torch.arange(3, 40)[None]
    trainer.model.eval()
    assert torch.equal(plain(input_ids=ids).logits[0, -1], trainer.model.next_scores(ids))
    card = (tmp_path / "out/README.md").read_text()
    assert "chats.jsonl" in card
    assert "rank 4, alpha 8" in card


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"model": {"path": "/nowhere"}}, "there is no model folder /nowhere"),
        ({"model": {"lora": {"targets": ["nonsense"]}}}, "model.lora.targets names nonsense, which is not a matrix"),
    ],
)
def test_what_cannot_be_tuned_is_refused(bases: dict[str, Path], chats: Path, change: Any, sentence: str) -> None:
    recipe = Recipe.read(tuning(bases["llama"], [chats], **change))
    with pytest.raises(ModelError) as caught:
        recipe.family.trained_count(recipe.model)
    assert caught.value.message.startswith(sentence)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ('{"architectures": ["BertModel"]}', "is not a decoder that continues text: its architecture is BertModel"),
        ('{"architectures": ["XForCausalLM"], "auto_map": {}}', "needs code of its own"),
        ('{"architectures": ["LlamaForCausalLM"], "quantization_config": {}}', "is quantised already"),
        ("[1]", "is not a JSON object"),
        ("{", "is not JSON"),
    ],
)
def test_a_folder_that_is_no_decoder(tmp_path: Path, config: str, sentence: str) -> None:
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(ModelError) as caught:
        read_folder(tmp_path)
    assert sentence in caught.value.message


def test_pickled_weights_are_not_loaded(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    (tmp_path / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(ModelError, match=r"has only pytorch_model.bin, which railbed does not load"):
        read_folder(tmp_path)


def test_an_architecture_that_transformers_lacks(tmp_path: Path, bases: dict[str, Path]) -> None:
    for file in bases["llama"].iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    text = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(text.replace('"model_type": "llama"', '"model_type": "lama"'))
    settings = PretrainedSettings(path=str(tmp_path), context=64)
    with pytest.raises(RankFailed, match="transformers cannot load the model in") as refused:
        build_model(Recipe(model=settings), BuildOptions(device=torch.device("cpu")))
    assert "`lama`" in refused.value.message
    assert ". " not in refused.value.message


def test_nothing_contacts_a_hub(bases: dict[str, Path], chats: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With every connection and every look-up refused, a model is still loaded, adapted and trained."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a connection was attempted")

    for owner, name in ((socket.socket, "connect"), (socket, "create_connection"), (socket, "getaddrinfo")):
        monkeypatch.setattr(owner, name, refuse)
    recipe, tokens = prepared(bases["qwen3"], chats)
    assert Trainer.of(recipe, tokens).losses(range(1))

"""A quantised base: the same step on any ranks, and 4-bit codes as an independent implementation computes them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.support.basemodels import tuning, write_base, write_conversations
from tests.support.threads import Trainer, together

from railbed.train.data.prepare import prepare
from railbed.train.recipe import Recipe
from railbed.train.worker.models.pretrained import Pretrained

pytestmark = pytest.mark.usefixtures("single_thread")
BLOCK = 64
CLOSE = 2e-4


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_base(tmp_path_factory.mktemp("bases") / "llama", "llama", hidden_size=64, intermediate_size=128)


def prepared(base: Path, **model: object) -> tuple[Recipe, Path]:
    chats = base.parent / "chats.jsonl"
    recipe = Recipe.read(tuning(base, [write_conversations(chats)], model=model))
    return recipe, prepare(recipe, base.parent / "cache").folder


def nf4_values() -> torch.Tensor:
    """Return the sixteen values of nf4, from its definition: quantiles of the normal distribution, scaled to 1.

    Eight steps up to the largest value and seven down to the smallest, with zero in between.
    """
    offset = 0.5 * ((1 - 1 / 32) + (1 - 1 / 30))
    up = torch.special.ndtri(torch.linspace(offset, 0.5, 9, dtype=torch.float64)[:-1])
    down = -torch.special.ndtri(torch.linspace(offset, 0.5, 8, dtype=torch.float64)[:-1])
    values = torch.cat([up, torch.zeros(1, dtype=torch.float64), down]).sort().values
    return values / values.max()


def test_nf4_codes_are_those_of_an_independent_implementation(base: Path) -> None:
    recipe, tokens = prepared(base, quantisation="nf4", double_quantisation=False)
    model = Trainer.of(recipe, tokens).model
    assert isinstance(model, Pretrained)
    name = "model.layers.0.mlp.up_proj"
    original = load_file(base / "model.safetensors")[f"{name}.weight"]
    stored: Any = model._base.get_submodule(name).base_layer
    blocks = original.flatten().view(-1, BLOCK).double()
    scales = blocks.abs().amax(dim=1, keepdim=True)
    codes = ((blocks / scales)[..., None] - nf4_values()).abs().argmin(-1).flatten()
    packed = stored.weight.data.flatten().to(torch.int64)
    theirs = torch.stack([packed >> 4, packed & 15], dim=1).flatten()
    assert torch.equal(theirs, codes)
    assert torch.allclose(stored.weight.quant_state.absmax.double(), scales.flatten())


@pytest.mark.parametrize(
    "form", [{"quantisation": "nf4"}, pytest.param({"quantisation": "int8"}, marks=pytest.mark.soak)], ids=str
)
def test_the_same_step_on_any_ranks_with_a_quantised_base(base: Path, form: dict[str, object]) -> None:
    recipe, tokens = prepared(base, **form)
    alone = Trainer.of(recipe, tokens)
    expected = alone.losses(range(12))
    assert expected[-1] < expected[0] - 0.1
    own = alone.model.saved_tensors()
    for trainer, losses in together(recipe, tokens, (3.0, 1.0, 1.0), lambda trainer: trainer.losses(range(12))):
        assert losses == pytest.approx(expected, abs=CLOSE)
        theirs = trainer.model.saved_tensors()
        assert max(float((own[name] - theirs[name]).abs().max()) for name in own) < CLOSE


def test_passes_without_gradients_leave_the_weights_as_they_were_stored(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a processor with AVX512-BF16, whose arrangement of weights has no gradients."""
    modules: Any = import_module("bitsandbytes.nn.modules")
    monkeypatch.setattr(modules, "has_avx512bf16", lambda: True)
    recipe, tokens = prepared(base, quantisation="nf4")
    trainer = Trainer.of(recipe, tokens)
    assert isinstance(trainer.model, Pretrained)
    layer: Any = trainer.model._base.get_submodule("model.layers.0.mlp.up_proj").base_layer
    stored = layer.weight.data.clone()
    trainer.model.eval()
    with torch.inference_mode():
        trainer.model.causal(torch.arange(16)[None])
    assert torch.equal(layer.weight.data, stored)
    trainer.model.train()
    trainer.losses(range(1))
    first = next(name for name in trainer.model.saved_tensors() if "layers.0.self_attn.q_proj.lora_B" in name)
    assert float(trainer.model.saved_tensors()[first].abs().max()) > 0, "the first layer has learned nothing"

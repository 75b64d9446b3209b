"""The worker's parts: the model as published, the loss, the files, the schedule."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from tests.support.smallmodel import write_tokens
from torch.nn import functional as F  # noqa: N812

from railbed.errors import CheckpointDamaged, DataError
from railbed.train import recipes
from railbed.train.models.find import family_of
from railbed.train.models.gpt import GptSettings
from railbed.train.recipe import Optimiser
from railbed.train.state.checkpoints import read_sealed
from railbed.train.worker.io.corpus import Tokens
from railbed.train.worker.io.export import export
from railbed.train.worker.io.tensorfile import read_tensors, write_tensors
from railbed.train.worker.models.base import BuildOptions
from railbed.train.worker.models.gpt import Gpt
from railbed.train.worker.models.loss import next_token_loss
from railbed.train.worker.models.sample import generate
from railbed.train.worker.optimiser import learning_rate

SMALL = GptSettings(layers=2, heads=2, width=32, context=16, vocabulary=61)
CPU = torch.device("cpu")


def model_of(**options: Any) -> Gpt:
    model = Gpt.build(SMALL, BuildOptions(device=CPU, **options))
    model.initialise(3)
    return model


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.randint(0, 61, (3, 17), generator=torch.Generator().manual_seed(1))
    return tokens[:, :-1], tokens[:, 1:]


def gradients(model: Gpt) -> dict[str, torch.Tensor]:
    model(*batch()).backward()
    return {name: p.grad[:61] for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("padded", [False, True])
def test_gpt2_has_the_published_number_of_parameters(padded: bool) -> None:
    settings = recipes.load("gpt2").model
    assert isinstance(settings, GptSettings)
    model = Gpt.build(settings, BuildOptions(device=torch.device("meta"), padded=padded))
    gpt = family_of("gpt")
    counted = sum(tensor.numel() for tensor in model.saved_tensors().values())
    assert counted == gpt.parameter_count(settings) == 124_439_808
    assert gpt.flops_per_token(settings) == pytest.approx(855e6, rel=0.002)


def test_padding_changes_nothing() -> None:
    plain, padded = model_of(), model_of(padded=True)
    assert padded.wte.weight.shape == (128, 32)
    ours, theirs = gradients(plain), gradients(padded)
    for name, gradient in ours.items():
        torch.testing.assert_close(theirs[name], gradient, rtol=1e-5, atol=1e-6)
    assert padded.wte.weight.grad is not None
    assert padded.wte.weight.grad[61:].abs().max() == 0


def test_the_chunked_loss_is_the_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("railbed.train.worker.models.loss.CHUNK_BYTES", 4 * 61 * 7)
    hidden, embedding = torch.randn(48, 32, requires_grad=True), torch.randn(128, 32, requires_grad=True)
    targets = torch.randint(0, 61, (48,))
    plain = F.cross_entropy(hidden @ embedding[:61].T, targets, reduction="sum") * 0.3
    wanted = torch.autograd.grad(plain, (hidden, embedding))
    loss = next_token_loss(hidden, embedding, targets, 61) * 0.3
    torch.testing.assert_close(loss, plain)
    for ours, theirs in zip(torch.autograd.grad(loss, (hidden, embedding)), wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(next_token_loss(hidden, embedding, targets, 61) * 0.3, plain)


def test_gradient_checkpointing_and_bf16_give_about_the_same() -> None:
    wanted = gradients(model_of())
    for name, gradient in gradients(model_of(gradient_checkpointing=True)).items():
        torch.testing.assert_close(gradient, wanted[name])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="mkldnn_matmul failed")  # a processor without bf16 is slower
        in_bf16 = gradients(model_of(compute=torch.bfloat16))
    for name, gradient in in_bf16.items():
        assert gradient.dtype == torch.float32
        assert F.cosine_similarity(gradient.flatten(), wanted[name].flatten(), dim=0) > 0.98


def test_transformers_loads_what_is_exported(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    model = model_of(padded=True)
    export(model, tmp_path / "out", tokens=write_tokens(tmp_path / "tokens"), end_of_text=0, step=7)
    assert read_sealed(tmp_path / "out").step == 7
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "out").eval()
    tokens, _ = batch()
    with torch.no_grad():
        torch.testing.assert_close(model.logits(model.hidden(tokens)), theirs(tokens).logits, rtol=1e-4, atol=1e-5)
    assert sum(p.numel() for p in theirs.parameters()) == family_of("gpt").parameter_count(SMALL)


def test_tensors_are_in_the_format_of_safetensors(tmp_path: Path) -> None:
    tensors = {
        "a": torch.randn(3, 4),
        "b": torch.arange(5),
        "none": torch.empty(0, 2),
        "c": torch.randn(2, 2).to(torch.bfloat16),
    }
    written = write_tensors(tmp_path / "ours", tensors, {"format": "pt"})
    assert written.size == (tmp_path / "ours").stat().st_size
    safetensors.torch.save_file(tensors, tmp_path / "theirs")
    for read in (safetensors.torch.load_file(tmp_path / "ours"), read_tensors(tmp_path / "theirs")[0]):
        assert set(read) == set(tensors)
        assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())


def tensor_file(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(dtype: object = "F32", shape: object = (), offsets: object = (0, 4)) -> dict[str, object]:
    return {"a": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


HEADERS: list[object] = ["text", None, 7, 1.5, True, [], b"[" * 3000, b"NaN", {"a": None}]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"1234",
        b"\xff" * 64,
        *(tensor_file(header) for header in HEADERS),
        tensor_file(entry(shape=[1 << 40], offsets=[0, 0])),
        tensor_file(entry(shape=[-1], offsets=[0, 4]), b"1234"),
        tensor_file(entry(shape=[2], offsets=[0, 4]), b"1234"),
        tensor_file(entry(shape=["1"], offsets=[0, 4]), b"1234"),
        tensor_file(entry(shape=[1], offsets=[-4, 0]), b"1234"),
        tensor_file(entry(shape=[1], offsets=[0.0, 4.0]), b"1234"),
        tensor_file(entry(dtype=[], shape=[1]), b"1234"),
        tensor_file(entry(shape=7), b"1234"),
        tensor_file(entry(shape=[1], offsets=[10**30, 10**30 + 4]), b"1234"),
    ],
)
def test_what_is_not_a_tensor_file_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(CheckpointDamaged, match="cannot be read"):
        read_tensors(tmp_path / "file")


def test_tokens_that_are_not_whole_are_refused(tmp_path: Path) -> None:
    folder = write_tokens(tmp_path / "tokens")
    about = json.loads((folder / "tokens.json").read_text())
    (folder / "tokens.json").write_text(json.dumps({**about, "tokens": 7}))
    with pytest.raises(DataError, match="are incomplete: 6000 of 7"):
        Tokens.open(folder)
    with pytest.raises(DataError, match="cannot be read"):
        Tokens.open(tmp_path)


def test_the_learning_rate_rises_and_falls() -> None:
    settings = Optimiser(
        learning_rate=1.0, warmup_steps=4, final_fraction=0.1, beta1=0.9, beta2=0.95, weight_decay=0.1, clip=1.0
    )
    rates = [learning_rate(settings, step, 20) for step in range(20)]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert rates[4] == 1.0
    assert rates[4:] == sorted(rates[4:], reverse=True)
    assert learning_rate(settings, 20, 20) == pytest.approx(0.1)


def test_text_is_made_from_a_prompt() -> None:
    model = model_of()
    first, again = (generate(model, [5, 6], 30, seed=1) for _ in range(2))
    assert first == again
    assert (first[:2], len(first)) == ([5, 6], 32)
    assert model.training


def test_a_node_needs_nothing_but_torch() -> None:
    """Neither to be a rank, nor for the benchmark of a GPU."""
    modules = "railbed.launch.rank, railbed.train.worker.loop, railbed.train.state.checkpoints, tools.bench_gpu"
    script = (
        "import sys\n"
        "for name in ('pydantic', 'ruamel', 'ruamel.yaml', 'tokenizers', 'safetensors', 'asyncssh', 'rich', 'typer'):\n"
        "    sys.modules[name] = None\n"
        f"import {modules}\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parent.parent.parent.parent, check=True)

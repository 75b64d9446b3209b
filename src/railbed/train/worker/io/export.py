"""Writes what a run has trained: weights as `transformers` loads them, or an adapter as `peft` does.

An adapter names what it was trained on.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from railbed.train.base.adapter import WEIGHTS as ADAPTER_WEIGHTS
from railbed.train.base.adapter import Origin, adapter_files, exported_name
from railbed.train.base.files import CHAT_TEMPLATE, CONFIG, TOKENIZER, TOKENIZER_CONFIG
from railbed.train.models.find import family_of
from railbed.train.models.pretrained import PretrainedSettings
from railbed.train.recipe import Recipe
from railbed.train.spec import TrainSpec
from railbed.train.state.checkpoints import Written, seal, sync_folder, write_synced
from railbed.train.worker.hardware import type_name
from railbed.train.worker.io.tensorfile import write_tensors
from railbed.train.worker.models.base import LanguageModel

WEIGHTS = "model.safetensors"
TOKENIZER_FILES = (TOKENIZER, TOKENIZER_CONFIG, CHAT_TEMPLATE)


def export(model: LanguageModel, folder: Path, *, tokens: Path, end_of_text: int, step: int) -> None:
    """Write the folder of a model; see `_publish`."""

    def fill(beside: Path) -> dict[str, Written]:
        configuration = family_of(model.settings.family).configuration(model.settings, end_of_text)
        text = json.dumps(configuration, indent=2) + "\n"
        return {
            WEIGHTS: write_tensors(beside / WEIGHTS, model.export_tensors(), {"format": "pt"}),
            CONFIG: write_synced(beside / CONFIG, text.encode()),
        }

    _publish(folder, tokens, step, fill)


def export_adapter(tensors: Mapping[str, torch.Tensor], folder: Path, *, tokens: Path, origin: Origin) -> None:
    """Write the folder of an adapter, from the trained parameters by name; see `_publish`."""

    def fill(beside: Path) -> dict[str, Written]:
        exported = {exported_name(name): tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        files = {ADAPTER_WEIGHTS: write_tensors(beside / ADAPTER_WEIGHTS, exported, {"format": "pt"})}
        texts = adapter_files(origin).items()
        return files | {name: write_synced(beside / name, text.encode()) for name, text in texts}

    _publish(folder, tokens, origin.step, fill)


def _publish(folder: Path, tokens: Path, step: int, fill: Callable[[Path], dict[str, Written]]) -> None:
    """Write the folder under a temporary name, with checksums of its files, and rename it into place.

    Raise OSError (for a full disk, say), leaving what was there before.
    """
    beside = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    try:
        beside.mkdir()
        files = fill(beside)
        for name in TOKENIZER_FILES:
            if (tokens / name).exists():
                files[name] = write_synced(beside / name, (tokens / name).read_bytes())
        seal(beside, step, files)
        shutil.rmtree(folder, ignore_errors=True)
        beside.rename(folder)
        sync_folder(folder.parent)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def origin_of(job: TrainSpec, compute: torch.dtype, step: int) -> Origin | None:
    """Return the origin of a job's adapter after a step; None if the job does not train an adapter."""
    recipe = Recipe.read(job.recipe)
    if not isinstance(recipe.model, PretrainedSettings) or recipe.model.tuning != "lora":
        return None
    return Origin(
        recipe=recipe,
        folder=Path(job.base) if job.base else recipe.model.base_folder,
        digest=job.base_digest,
        compute_dtype=type_name(compute),
        step=step,
    )

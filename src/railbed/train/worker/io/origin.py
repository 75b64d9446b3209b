"""What the adapter of a job was trained on."""

from __future__ import annotations

from pathlib import Path

import torch

from railbed.train.base.adapter import Origin
from railbed.train.models.pretrained import PretrainedSettings
from railbed.train.recipe import Recipe
from railbed.train.spec import TrainSpec
from railbed.train.worker.precision import type_name


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

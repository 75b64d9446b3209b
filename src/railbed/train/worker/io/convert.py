"""Converts the newest intact checkpoint of a run on this node to exported weights.

    python -m railbed.train.worker.io.convert FOLDER INTO

FOLDER is the run's folder on this node. The weights appear in INTO, complete or not at all. Prints {"step"}, or
{"sentence"} with the reason if there are none.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch

from railbed.errors import CheckpointDamaged, os_reason
from railbed.train.recipe import Recipe
from railbed.train.spec import TrainSpec
from railbed.train.state.checkpoints import Checkpoint, survey
from railbed.train.worker.hardware import type_named
from railbed.train.worker.io.export import export, export_adapter, origin_of
from railbed.train.worker.io.saver import MODEL, STATE
from railbed.train.worker.io.tensorfile import read_tensors
from railbed.train.worker.models.base import BuildOptions, LanguageModel, build_model


def model_of(checkpoint: Checkpoint, base: str = "") -> LanguageModel:
    """Return the model of a checkpoint; raise CheckpointDamaged if it does not match the recipe saved with it.

    `base` is the folder of the model that was tuned, on this machine.
    """
    saved = json.loads((checkpoint.path / STATE).read_bytes())
    recipe = Recipe.read(saved["recipe"]).for_vocabulary(saved["vocabulary"])
    recipe = recipe.with_base(base) if base else recipe
    model = build_model(recipe, BuildOptions(device=torch.device("cpu")))
    try:
        model.load(read_tensors(checkpoint.path / MODEL)[0])
    except CheckpointDamaged as error:
        raise CheckpointDamaged(f"checkpoint {checkpoint.path}: {error.message}") from None
    return model


def job_of(folder: Path) -> TrainSpec | None:
    """Return the newest job of a run's folder."""
    jobs = sorted(folder.glob("rank*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    return TrainSpec.read(jobs[0]) if jobs else None


def convert(checkpoint: Checkpoint, folder: Path, into: Path) -> None:
    """Write the weights of a checkpoint, or its adapter, which needs no model."""
    job = job_of(folder)
    tokens = Path(job.tokens) if job else folder
    if job and (origin := origin_of(job, _compute_type(checkpoint), checkpoint.step)):
        export_adapter(read_tensors(checkpoint.path / MODEL)[0], into, tokens=tokens, origin=origin)
        return
    about = tokens / "tokens.json"
    end_of_text = int(json.loads(about.read_text())["end_of_text"]) if about.exists() else 0
    model = model_of(checkpoint, job.base if job else "")
    export(model, into, tokens=tokens, end_of_text=end_of_text, step=checkpoint.step)


def _compute_type(checkpoint: Checkpoint) -> torch.dtype:
    """Return the type that training computed in; fp32 for a checkpoint that does not name it."""
    return type_named(json.loads((checkpoint.path / STATE).read_bytes()).get("compute_dtype"))


def main() -> None:
    """Write the weights and print their step."""
    os.umask(0o077)
    folder, into = map(Path, sys.argv[1:3])
    outcome: dict[str, object]
    try:
        good = survey(folder / "checkpoints").good
        if good:
            convert(good[0], folder, into)
            outcome = {"step": good[0].step}
        else:
            outcome = {"sentence": "there is no intact checkpoint"}
    except CheckpointDamaged as error:
        outcome = {"sentence": error.message}
    except OSError as error:
        outcome = {"sentence": f"the weights were not written to {into}: {os_reason(error)}"}
    sys.stdout.write(json.dumps(outcome) + "\n")


if __name__ == "__main__":
    main()

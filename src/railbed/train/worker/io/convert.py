"""Converts the newest intact checkpoint of a run on this node to exported weights.

    python -m railbed.train.worker.io.convert FOLDER

FOLDER is the run's folder on this node. The weights appear in FOLDER/saved, complete or not at all. Prints {"step"}, or
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
from railbed.train.state.checkpoints import Checkpoint, survey
from railbed.train.worker.io.export import export
from railbed.train.worker.io.state import MODEL, STATE
from railbed.train.worker.io.tensorfile import read_tensors
from railbed.train.worker.models.base import BuildOptions, LanguageModel, build_model

SAVED = "saved"


def model_of(checkpoint: Checkpoint) -> LanguageModel:
    """Return the model of a checkpoint; raise CheckpointDamaged if it does not match the recipe saved with it."""
    saved = json.loads((checkpoint.path / STATE).read_bytes())
    recipe = Recipe.read(saved["recipe"]).for_vocabulary(saved["vocabulary"])
    model = build_model(recipe, BuildOptions(device=torch.device("cpu")))
    try:
        model.load(read_tensors(checkpoint.path / MODEL)[0])
    except CheckpointDamaged as error:
        raise CheckpointDamaged(f"checkpoint {checkpoint.path}: {error.message}") from None
    return model


def tokens_of(folder: Path) -> tuple[Path, int]:
    """Return the folder with the tokens of a run, and the token that separates texts."""
    jobs = sorted(folder.glob("rank*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    tokens = Path(json.loads(jobs[0].read_text())["tokens"]) if jobs else folder
    about = tokens / "tokens.json"
    return tokens, int(json.loads(about.read_text())["end_of_text"]) if about.exists() else 0


def main() -> None:
    """Write the weights and print their step."""
    os.umask(0o077)
    folder = Path(sys.argv[1])
    outcome: dict[str, object]
    try:
        good = survey(folder / "checkpoints").good
        if good:
            tokens, end_of_text = tokens_of(folder)
            model = model_of(good[0])
            export(model, folder / SAVED, tokens=tokens, end_of_text=end_of_text, step=good[0].step)
            outcome = {"step": good[0].step}
        else:
            outcome = {"sentence": "there is no intact checkpoint"}
    except CheckpointDamaged as error:
        outcome = {"sentence": error.message}
    except OSError as error:
        outcome = {"sentence": f"the weights were not written to {folder / SAVED}: {os_reason(error)}"}
    sys.stdout.write(json.dumps(outcome) + "\n")


if __name__ == "__main__":
    main()

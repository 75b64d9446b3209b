"""The weights of a run that has not written them itself, made from its newest good checkpoint, on the node that has it.

    python -m railbed.train.worker.io.convert FOLDER

FOLDER is the run's own on this node. The weights are written to FOLDER/saved, whole or not at all; {"step"} is printed,
or {"sentence"} that says why there are none.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch

from railbed.errors import CheckpointDamaged, os_reason
from railbed.train.settings import Settings
from railbed.train.state.checkpoints import Checkpoint, survey
from railbed.train.worker.io.checkpoint import MODEL, STATE
from railbed.train.worker.io.export import export
from railbed.train.worker.io.tensorfile import read_tensors
from railbed.train.worker.models.gpt import Gpt, Shape

SAVED = "saved"


def model_of(state: Checkpoint) -> Gpt:
    """Return the model of a checkpoint; raise CheckpointDamaged where it is of another model than it says."""
    settings = Settings.read(json.loads((state.path / STATE).read_bytes())["recipe"]).model
    tensors, _ = read_tensors(state.path / MODEL)
    shape = Shape(
        layers=settings.layers,
        heads=settings.heads,
        width=settings.width,
        context=settings.context,
        vocabulary=len(tensors["wte.weight"]),
        dropout=settings.dropout,
    )
    model = Gpt.empty(shape, torch.device("cpu"))
    parameters = dict(model.named_parameters())
    if {name: p.shape for name, p in parameters.items()} != {name: t.shape for name, t in tensors.items()}:
        raise CheckpointDamaged(f"checkpoint {state.path} is of another model than its recipe")
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[name])
    return model


def tokens_of(folder: Path) -> tuple[Path, int]:
    """Return the folder with the tokens of a run, as its ranks have it, and the token between two texts."""
    jobs = sorted(folder.glob("rank*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    tokens = Path(json.loads(jobs[0].read_text())["tokens"]) if jobs else folder
    about = tokens / "tokens.json"
    return tokens, int(json.loads(about.read_text())["end_of_text"]) if about.exists() else 0


def main() -> None:
    """Write the weights and say of which step they are."""
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
            outcome = {"sentence": "there is no good checkpoint"}
    except CheckpointDamaged as error:
        outcome = {"sentence": error.message}
    except OSError as error:
        outcome = {"sentence": f"the weights were not written to {folder / SAVED}: {os_reason(error)}"}
    sys.stdout.write(json.dumps(outcome) + "\n")


if __name__ == "__main__":
    main()

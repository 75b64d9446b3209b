"""Writes weights as `transformers` loads them, with their configuration and the tokenizer."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from railbed.train.models.find import family_of
from railbed.train.state.checkpoints import seal, sync_folder, write_synced
from railbed.train.worker.io.tensorfile import write_tensors
from railbed.train.worker.models.base import LanguageModel

WEIGHTS = "model.safetensors"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")


def export(model: LanguageModel, folder: Path, *, tokens: Path, end_of_text: int, step: int) -> None:
    """Write the folder under a temporary name, with checksums of its files, and rename it into place.

    Raise OSError (for a full disk, say), leaving what was there before.
    """
    beside = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    try:
        beside.mkdir(parents=True)
        configuration = family_of(model.settings.family).configuration(model.settings, end_of_text)
        text = json.dumps(configuration, indent=2) + "\n"
        files = {
            WEIGHTS: write_tensors(beside / WEIGHTS, model.export_tensors(), {"format": "pt"}),
            "config.json": write_synced(beside / "config.json", text.encode()),
        }
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

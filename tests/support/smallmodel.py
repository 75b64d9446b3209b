"""A model for tests that trains in seconds: its recipe, and tokens that it can learn. Standard library only."""

from __future__ import annotations

import array
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SMALL: dict[str, Any] = {
    "description": "a model for tests: 50 thousand parameters",
    "steps": 20,
    "seed": 7,
    "model": {
        "layers": 2,
        "heads": 2,
        "width": 32,
        "context": 16,
        "vocabulary": 64,
        "dropout": 0.0,
        "pad_vocabulary": False,
    },
    "data": {"files": [], "tokenizer": None, "validation": 0.1, "prompt": ""},
    "batch": {"sequences": 12, "micro": 3},
    "shares": "equal",
    "optimiser": {
        "learning_rate": 3e-3,
        "warmup_steps": 4,
        "final_fraction": 0.1,
        "beta1": 0.9,
        "beta2": 0.95,
        "weight_decay": 0.1,
        "clip": 1.0,
    },
    "evaluation": {"every": 0, "sequences": 8},
    "checkpoint": {"steps": None, "seconds": None},
    "precision": "fp32",
    "compile": False,
    "threads": 1,
    "gradient_checkpointing": False,
    "wire": "fp32",
    "traffic": None,
}


def recipe(**changes: Any) -> dict[str, Any]:
    """Return the small recipe with changes; maps are merged."""
    merged: dict[str, Any] = json.loads(json.dumps(SMALL))
    for key, value in changes.items():
        merged[key] = {**merged[key], **value} if isinstance(value, Mapping) and merged[key] else value
    return merged


def write_tokens(folder: Path, *, count: int = 6000, vocabulary: int = 64) -> Path:
    """Write tokens that can be learned: mostly the one before, and a step."""
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(5)  # noqa: S311 -- data, not a secret
    tokens = array.array("H", [0])
    while len(tokens) < count:
        step = 3 if chance.random() < 0.8 else chance.randrange(vocabulary)
        tokens.append((tokens[-1] + step) % vocabulary)
    (folder / "tokens.bin").write_bytes(tokens.tobytes())
    about = {"dtype": "uint16", "tokens": count, "train": count * 9 // 10, "vocabulary": vocabulary, "end_of_text": 0}
    (folder / "tokens.json").write_text(json.dumps(about))
    return folder

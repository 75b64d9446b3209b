"""Libraries that only nodes with models from elsewhere have."""

from __future__ import annotations

import importlib
import os
import warnings
from types import ModuleType
from typing import Any

from railbed.errors import ToolMissing
from railbed.model.requirements import install_extra
from railbed.train.worker.models.quantised import silence_warnings

OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "TOKENIZERS_PARALLELISM": "false",
}
"""Everything loads from local folders; nothing contacts a hub."""


def library(name: str) -> Any:  # noqa: ANN401 -- a module, and one that may not be there
    """Return a library; raise ToolMissing if it is not installed."""
    os.environ.update(OFFLINE)
    silence_warnings()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # their authors' business
            module: ModuleType = importlib.import_module(name)
    except ImportError as error:
        hint = f"`{install_extra('tune')}` there"
        raise ToolMissing(f"the Python library {error.name or name} is not installed", hint=hint) from None
    return module

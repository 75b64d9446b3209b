"""An adapter's folder in PEFT's layout, and what railbed notes beside it about the model below it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from railbed.errors import ModelError
from railbed.model.text import is_file
from railbed.train.base.adapter import CONFIG as ADAPTER
from railbed.train.base.adapter import NOTES
from railbed.train.base.adapter import WEIGHTS as ADAPTER_WEIGHTS
from railbed.train.base.files import is_folder, read_json
from railbed.train.base.folder import ModelFolder

STORED_NAME = 16
"""Characters of a digest that are the name of a stored model (`launch.files.ship.parcel`)."""
DIGEST = re.compile(r"[0-9a-f]{64}")
Quantisation = Literal["none", "nf4", "int8"]
ComputeType = Literal["float32", "bfloat16", "float16"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The model below an adapter, as it was loaded for training."""

    path: Path
    digest: str = ""
    """Digest of its files; empty if it was not noted."""
    quantisation: Quantisation = "none"
    double: bool = False
    """The scales of 4-bit blocks are quantised, too."""
    compute_dtype: ComputeType = "float32"


@dataclass(frozen=True, slots=True)
class AdapterFolder:
    """The folder of an adapter."""

    path: Path
    config: Mapping[str, Any]
    base: Base

    @classmethod
    def open(cls, path: Path) -> AdapterFolder:
        """Read the configuration and the notes; raise ModelError if they are missing or damaged."""
        config = read_json(path / ADAPTER)
        if not (path / ADAPTER_WEIGHTS).is_file():
            raise ModelError(f"{path} has no {ADAPTER_WEIGHTS}")
        if config.get("peft_type") != "LORA":
            kind = str(config.get("peft_type"))[:40]
            raise ModelError(f"{path} is an adapter of type {kind}; only LORA (also as DoRA and rsLoRA) is supported")
        return cls(path, config, _base(path, config))

    def base_folder(self, models: Path | None = None) -> ModelFolder:
        """Return the folder of the model below; raise ModelError if it is not there.

        `models` is where railbed stores models on a node, under the beginning of their digest.
        """
        if models and self.base.digest and is_folder(models / self.base.digest[:STORED_NAME]):
            return ModelFolder.open(models / self.base.digest[:STORED_NAME])
        if not is_folder(self.base.path):
            raise ModelError(
                f"the model below the adapter is not there: {self.base.path}",
                hint=f"copy it there, or change base.path in {self.path / NOTES}",
            )
        return ModelFolder.open(self.base.path)


def is_adapter(path: Path) -> bool:
    """Whether a folder has an adapter rather than a model."""
    return is_file(path / ADAPTER)


def require_unchanged(adapter: AdapterFolder, folder: ModelFolder) -> None:
    """Raise ModelError if a model is not the one that an adapter was trained against."""
    if adapter.base.digest and folder.digest() != adapter.base.digest:
        raise ModelError(
            f"the model in {folder.path} is not the one that the adapter was trained against: its files have changed",
            hint=f"restore it, or set base.path in {adapter.path / NOTES} to a folder that has it",
        )


def _base(path: Path, config: Mapping[str, Any]) -> Base:
    if not (path / NOTES).is_file():
        name = config.get("base_model_name_or_path")
        if not isinstance(name, str) or not is_folder(Path(name)):
            raise ModelError(
                f"{path} does not name a local folder of the model below it: {str(name)[:100]}",
                hint=f"set base_model_name_or_path in {path / ADAPTER} to that folder",
            )
        return Base(path=Path(name))
    notes = read_json(path / NOTES).get("base")
    if not isinstance(notes, dict) or not isinstance(notes.get("path"), str):
        raise ModelError(f"{path / NOTES} is damaged: it has no base.path")
    quantisation = _choice(path, notes, "quantisation", get_args(Quantisation), "none")
    compute = _choice(path, notes, "compute_dtype", get_args(ComputeType), "float32")
    return Base(
        path=Path(notes["path"]),
        digest=_digest(path, notes.get("digest") or ""),
        quantisation=quantisation,
        double=notes.get("double") is True,
        compute_dtype=compute,
    )


def _digest(path: Path, digest: object) -> str:
    if digest == "" or (isinstance(digest, str) and DIGEST.fullmatch(digest)):
        return digest
    raise ModelError(f"{path / NOTES}: base.digest is not a SHA-256")


def _choice(path: Path, notes: Mapping[str, Any], key: str, choices: tuple[Any, ...], default: str) -> Any:  # noqa: ANN401 -- one of the choices
    value = notes.get(key, default)
    if value not in choices:
        raise ModelError(f"{path / NOTES}: base.{key} is {str(value)[:40]!r}; expected {', '.join(choices)}")
    return value

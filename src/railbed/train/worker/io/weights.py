"""The weights of a model's folder: one file of tensors, or several with an index. Files of pickles are not opened."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch

from railbed.errors import CheckpointDamaged, ModelError
from railbed.train.base.files import read_json
from railbed.train.base.folder import INDEX, INDEX_BYTES
from railbed.train.worker.io.tensorfile import TensorFile, TensorLayout

SINGLE = "model.safetensors"
FILE_NAME = re.compile(r"[\w-][\w.-]{0,200}\.safetensors", re.ASCII)


class Weights(Mapping[str, torch.Tensor]):
    """The tensors of a folder by name, each read from the disk when it is used."""

    def __init__(self, folder: Path) -> None:
        """Open the files and read their headers; raise ModelError if something is missing or damaged."""
        self._homes: dict[str, TensorFile] = {}
        for file, names in _files(folder).items():
            opened = open_tensors(folder / file)
            missing = next((name for name in names or () if name not in opened.layouts), None)
            if missing:
                raise ModelError(f"{folder / file} does not have {missing[:100]}, which {INDEX} lists")
            self._homes |= dict.fromkeys(names or opened.layouts, opened)

    @property
    def layouts(self) -> dict[str, TensorLayout]:
        """Return types and shapes, without reading tensors."""
        return {name: home.layouts[name] for name, home in self._homes.items()}

    def __getitem__(self, name: str) -> torch.Tensor:
        return self._homes[name][name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)


def _files(folder: Path) -> Mapping[str, list[str] | None]:
    """Return the files, and the tensors that are used of each; None means all."""
    if (folder / SINGLE).is_file():
        return {SINGLE: None}
    if not (folder / INDEX).is_file():
        raise ModelError(
            f"{folder} has no weights: neither {SINGLE} nor {INDEX}",
            hint="files of pickles (pytorch_model.bin) are not opened, since they can run any code: convert them first",
        )
    homes = read_json(folder / INDEX, INDEX_BYTES).get("weight_map")
    files: dict[str, list[str]] = {}
    for name, file in homes.items() if isinstance(homes, dict) else ():
        if not isinstance(file, str) or not FILE_NAME.fullmatch(file):
            raise ModelError(f"{folder / INDEX} names a file outside of its folder, or of another kind")
        files.setdefault(file, []).append(name)
    if not files:
        raise ModelError(f"{folder / INDEX} is damaged: it has no weight_map")
    return files


def open_tensors(path: Path) -> TensorFile:
    """Open a file of tensors; raise ModelError if it is missing or damaged."""
    if not path.is_file():
        raise ModelError(f"there is no {path}")
    try:
        return TensorFile(path)
    except CheckpointDamaged as error:
        raise ModelError(error.message, hint="copy it again") from None

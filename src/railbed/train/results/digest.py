"""The digest of a model's folder: the same for the same files, wherever they are."""

from __future__ import annotations

import hashlib

from railbed.errors import ModelError, os_reason
from railbed.launch.files.guard import content_hash
from railbed.train.results.adapter import NOTES, AdapterFolder
from railbed.train.results.folder import ModelFolder

SUFFIXES = (".safetensors", ".json", ".jinja", ".txt", ".model")
"""Endings of the files that make up a model: weights, configuration and tokenizer."""


def folder_digest(folder: ModelFolder) -> str:
    """Return the digest of a model's files, as that of the parcel in which nodes receive them."""
    sums = {}
    try:
        for file in sorted(folder.path.iterdir()):
            if file.is_file() and file.name.endswith(SUFFIXES) and not file.name.startswith("."):
                with file.open("rb") as opened:
                    sums[file.name] = hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"{folder.path} cannot be read: {os_reason(error)}") from None
    return content_hash(sums)


def require_unchanged(adapter: AdapterFolder, folder: ModelFolder) -> None:
    """Raise ModelError if a model is not the one that an adapter was trained against."""
    if adapter.base.digest and folder_digest(folder) != adapter.base.digest:
        raise ModelError(
            f"the model in {folder.path} is not the one that the adapter was trained against: its files have changed",
            hint=f"restore it, or set base.path in {adapter.path / NOTES} to a folder that has it",
        )

"""The digest of a model's folder: the same for the same files, wherever they are."""

from __future__ import annotations

import hashlib
from pathlib import Path

from railbed.errors import ModelError, os_reason
from railbed.launch.files.guard import content_hash

SUFFIXES = (".safetensors", ".json", ".jinja", ".txt", ".model")
"""Endings of the files that make up a model: weights, configuration and tokenizer."""


def folder_digest(path: Path) -> str:
    """Return the digest of a model's folder."""
    sums = {}
    try:
        for file in sorted(path.iterdir()):
            if file.is_file() and file.name.endswith(SUFFIXES) and not file.name.startswith("."):
                with file.open("rb") as opened:
                    sums[file.name] = hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {os_reason(error)}") from None
    return content_hash(sums)

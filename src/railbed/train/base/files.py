"""The text files in a model's folder. Everything in them is foreign: bounded and checked.

Reads the headers of safetensors files: names, types and shapes of tensors, without their values.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from railbed.errors import ModelError, os_reason

CONFIG, GENERATION = "config.json", "generation_config.json"
TOKENIZER, TOKENIZER_CONFIG, CHAT_TEMPLATE = "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"
SETTINGS_BYTES, TOKENIZER_CONFIG_BYTES = 4 << 20, 32 << 20
"""The most that a file of settings may have; that of a tokenizer may list thousands of tokens."""


def is_folder(path: Path) -> bool:
    """Whether a path, which may be nonsense, is a folder."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def read_json(path: Path, limit: int = SETTINGS_BYTES) -> dict[str, Any]:
    """Return a JSON object from a file; raise ModelError if it is something else, or too big."""
    data = _read(path, limit)
    try:
        content = json.loads(data)
        json.dumps(content, ensure_ascii=False).encode()  # half a character could not be stored or sent
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not JSON: {str(error)[:100]}") from None
    if not isinstance(content, dict):
        raise ModelError(f"{path} is damaged: it is not a JSON object")
    return content


def tokenizer_settings(folder: Path) -> dict[str, Any]:
    """Return the settings of the tokenizer in a folder; empty if there are none."""
    path = folder / TOKENIZER_CONFIG
    return read_json(path, TOKENIZER_CONFIG_BYTES) if path.is_file() else {}


def chat_template(folder: Path) -> str | None:
    """Return the chat template in a folder: a file of its own, or a setting of the tokenizer; None if there is none."""
    if (folder / CHAT_TEMPLATE).is_file():
        return _read(folder / CHAT_TEMPLATE, SETTINGS_BYTES).decode("utf-8", "replace")
    template = tokenizer_settings(folder).get("chat_template")
    if isinstance(template, list):  # several, by name
        named = [entry for entry in template if isinstance(entry, dict) and entry.get("name") == "default"]
        template = named[-1].get("template") if named else None
    return template if isinstance(template, str) else None


def _read(path: Path, limit: int) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except FileNotFoundError:
        raise ModelError(f"there is no {path}") from None
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {os_reason(error)}") from None
    if len(data) > limit:
        raise ModelError(f"{path} is larger than {limit >> 20} MiB: it is not what its name says")
    return data


HEADER_BYTES = 100_000_000
"""The largest header that the format allows."""
BITS = {
    "F64": 64,
    "I64": 64,
    "U64": 64,
    "F32": 32,
    "I32": 32,
    "U32": 32,
    "F16": 16,
    "BF16": 16,
    "I16": 16,
    "U16": 16,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "I8": 8,
    "U8": 8,
    "BOOL": 8,
}
"""Types of values, and their size in bits."""


@dataclass(frozen=True, slots=True)
class TensorShape:
    """Type and shape of a tensor in a file."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def values(self) -> int:
        """Return the number of values."""
        return math.prod(self.shape)


def read_header(path: Path) -> dict[str, TensorShape]:
    """Return the tensors of a safetensors file by name; raise ModelError if its header is invalid."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > min(HEADER_BYTES, size - 8):
                raise ValueError("its header is longer than the file")
            header = json.loads(file.read(length))
        if not isinstance(header, dict):
            raise TypeError("its header is not a JSON object")
        header.pop("__metadata__", None)
        return {name: _tensor(entry, size - 8 - length) for name, entry in header.items()}
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {os_reason(error)}") from None
    except (ValueError, KeyError, TypeError, RecursionError, struct.error) as error:
        raise ModelError(f"{path} is not a safetensors file: {error}", hint="was it copied completely?") from None


def _tensor(entry: dict[str, object], data_bytes: int) -> TensorShape:
    """Return a tensor's entry; its values must lie in the file."""
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or not isinstance(shape, list) or not isinstance(offsets, list):
        raise TypeError("an entry of its header has the wrong type")
    if len(offsets) != 2 or not all(type(number) is int and number >= 0 for number in (*shape, *offsets)):
        raise ValueError("the offsets of a tensor are not whole numbers")
    start, end = offsets
    tensor = TensorShape(dtype, tuple(shape))
    if start > end or end > data_bytes or tensor.values * BITS[dtype] != 8 * (end - start):
        raise ValueError("the offsets of a tensor do not match its size")
    return tensor

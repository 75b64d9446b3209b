"""The text files in a model's folder. Everything in them is foreign: bounded and checked."""

from __future__ import annotations

import json
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

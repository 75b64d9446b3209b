"""A model's folder in Hugging Face's layout, as far as it is JSON. Everything in it is foreign: bounded and checked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from railbed.errors import ModelError

CONFIG, GENERATION = "config.json", "generation_config.json"
TOKENIZER, TOKENIZER_CONFIG, CHAT_TEMPLATE = "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"
MOST = (1 << 30) - 1
"""The largest number of heads, layers, rows, … that is plausible."""
CARD_BYTES = 4 << 20
"""The most that a file of settings may have."""


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """The folder of a model."""

    path: Path
    config: Mapping[str, Any]

    @classmethod
    def open(cls, path: Path) -> ModelFolder:
        """Read the configuration; raise ModelError if this is not the folder of a model."""
        if not is_folder(path):
            raise ModelError(f"there is no folder {path}", hint="name the folder of a model, or a run")
        if not (path / CONFIG).is_file():
            raise ModelError(f"{path} is not the folder of a model: it has no {CONFIG}")
        return cls(path, read_json(path / CONFIG))

    @property
    def kind(self) -> str:
        """Return the type of the model, such as `llama`."""
        return str(self.config.get("model_type", ""))

    @property
    def ends(self) -> frozenset[int]:
        """Return the tokens that end a text."""
        generation = self.path / GENERATION
        settings = read_json(generation) if generation.is_file() else {}
        ends = settings.get("eos_token_id", self.config.get("eos_token_id"))
        return frozenset(end for end in (ends if isinstance(ends, list) else [ends]) if type(end) is int)

    @property
    def context(self) -> int | None:
        """Return the number of tokens that the model was made for."""
        for key in ("max_position_embeddings", "n_positions"):
            value = self.config.get(key)
            if type(value) is int and value > 0:
                return value
        return None

    def count(self, *keys: str) -> int:
        """Return a positive whole number of the configuration, by the first of these keys that it has."""
        value = next((self.config[key] for key in keys if self.config.get(key) is not None), None)
        if type(value) is not int or not 0 < value <= MOST:
            raise ModelError(f"{self.path / CONFIG}: {keys[0]} is not a positive whole number: {str(value)[:40]}")
        return value

    def number(self, key: str, default: float) -> float:
        """Return a number of the configuration."""
        value = self.config.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < MOST:
            raise ModelError(f"{self.path / CONFIG}: {key} is not a number: {str(value)[:40]}")
        return float(value)


def is_folder(path: Path) -> bool:
    """Whether a path, which may be nonsense, is a folder."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def read_json(path: Path, limit: int = CARD_BYTES) -> dict[str, Any]:
    """Return a JSON object from a file; raise ModelError if it is something else, or too big."""
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
        if len(data) > limit:
            raise ModelError(f"{path} is larger than {limit >> 20} MiB: it is not what its name says")
        content = json.loads(data)
        json.dumps(content, ensure_ascii=False).encode()  # half a character could not be stored or sent
    except FileNotFoundError:
        raise ModelError(f"there is no {path}") from None
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is damaged: {str(error)[:100]}") from None
    if not isinstance(content, dict):
        raise ModelError(f"{path} is damaged: it is not a JSON object")
    return content


def chat_template(path: Path) -> str | None:
    """Return the chat template of a model's folder, or None."""
    file = path / CHAT_TEMPLATE
    if file.is_file():
        return _bounded_text(file)
    settings = read_json(path / TOKENIZER_CONFIG) if (path / TOKENIZER_CONFIG).is_file() else {}
    return next(_templates(settings.get("chat_template")), None)


def _templates(value: object) -> Iterator[str]:
    """Yield the templates of a tokenizer's configuration, the default one first."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        named = [entry for entry in value if isinstance(entry, dict) and isinstance(entry.get("template"), str)]
        for entry in sorted(named, key=lambda entry: entry.get("name") != "default"):
            yield entry["template"]


def _bounded_text(file: Path) -> str:
    with file.open("rb") as opened:
        data = opened.read(CARD_BYTES + 1)
    if len(data) > CARD_BYTES:
        raise ModelError(f"{file} is larger than {CARD_BYTES >> 20} MiB: it is not a chat template")
    return data.decode("utf-8", "replace")

"""Reads a model folder: its configuration and the shapes of its weights. Everything in it is untrusted.

Weights must be safetensors: other formats are pickles, which run code when they are loaded. Code in the folder is never
run, so an architecture that transformers itself does not have cannot be used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from railbed.errors import DataError, os_reason
from railbed.train.base.headers import TensorShape, read_header

CONFIG = "config.json"
CONFIG_BYTES = 1 << 20
SUFFIXES = (".safetensors", ".json", ".jinja", ".txt", ".model")
"""Endings of the files that are copied to nodes: weights, configuration and tokenizer."""
DECODER = "ForCausalLM"
OTHER_DECODERS = ("LMHeadModel",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFolder:
    """A model in a folder."""

    path: Path
    config: Mapping[str, Any]
    tensors: Mapping[str, TensorShape]

    @property
    def architecture(self) -> str:
        """Return the name of the model's class, such as LlamaForCausalLM."""
        return str(self.config["architectures"][0])

    @property
    def parameters(self) -> int:
        """Return the number of parameters; tensors of four dimensions are masks that old models store."""
        return sum(tensor.values for name, tensor in self.tensors.items() if _is_parameter(name, tensor))

    @property
    def vocabulary(self) -> int:
        """Return the number of tokens that the model has rows for."""
        return self.number("vocab_size")

    @property
    def longest(self) -> int | None:
        """Return the longest sequence that the model was made for, if it is known."""
        return self._first("max_position_embeddings", "n_positions", "n_ctx")

    @property
    def width(self) -> int:
        """Return the width of the residual stream."""
        return self.number("hidden_size", "n_embd", "d_model")

    @property
    def layers(self) -> int:
        """Return the number of layers."""
        return self.number("num_hidden_layers", "n_layer", "num_layers")

    @property
    def inner_width(self) -> int:
        """Return the width inside the MLP; four times the width if it is not configured, as in GPT-2."""
        return self._first("intermediate_size", "n_inner", "ffn_dim") or 4 * self.width

    @property
    def is_transposed(self) -> bool:
        """Return whether matrices are stored as [in, out], as GPT-2 does."""
        return self.config.get("model_type") == "gpt2"

    def number(self, *keys: str) -> int:
        """Return the first of these keys that the configuration has; raise DataError if it has none."""
        value = self._first(*keys)
        if value is None:
            raise DataError(f"{self.path / CONFIG} has no {keys[0]}: is this a language model?")
        return value

    def _first(self, *keys: str) -> int | None:
        for key in keys:
            value = self.config.get(key)
            if type(value) is int and value > 0:
                return value
        return None

    def files(self) -> dict[str, Path]:
        """Return the files that a node needs, by name."""
        return {path.name: path for path in _listed(self.path) if path.name.endswith(SUFFIXES)}


def _is_parameter(name: str, tensor: TensorShape) -> bool:
    return len(tensor.shape) < 4 and not name.endswith(("inv_freq", "masked_bias"))


def read_folder(path: Path) -> ModelFolder:
    """Return the model in a folder; raise DataError if it is missing, damaged, or not a decoder in safetensors."""
    try:
        stamp = tuple((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in _listed(path))
    except OSError as error:
        raise DataError(f"the model folder {path} cannot be read: {os_reason(error)}") from None
    return _read(path, stamp)


@lru_cache(maxsize=8)
def _read(path: Path, _stamp: tuple[tuple[str, int, int], ...]) -> ModelFolder:
    config = read_json(path / CONFIG, CONFIG_BYTES)
    if "auto_map" in config:
        raise DataError(
            f"the model in {path} needs code of its own (`auto_map` in {CONFIG}), and railbed runs no code of a model",
            hint="use a model whose architecture is part of transformers",
        )
    names = config.get("architectures")
    name = names[0] if isinstance(names, list) and names else None
    if not isinstance(name, str) or not (name.endswith(DECODER) or name.endswith(OTHER_DECODERS)):
        raise DataError(f"the model in {path} is not a decoder that continues text: its architecture is {name}")
    if "quantization_config" in config:
        raise DataError(
            f"the model in {path} is quantised already; railbed quantises a model itself",
            hint="use the folder with its original 16-bit weights, and model.quantisation",
        )
    weights = [file for file in _listed(path) if file.suffix == ".safetensors"]
    if not weights:
        others = [file.name for file in _listed(path) if file.suffix in {".bin", ".pt", ".pth", ".gguf"}]
        why = f"only {others[0]}, which railbed does not load" if others else "no weights"
        raise DataError(f"the model folder {path} has {why}", hint="the weights must be safetensors files")
    tensors = {name: tensor for file in weights for name, tensor in read_header(file).items()}
    _require_all_parts(path, {file.name for file in weights})
    return ModelFolder(path=path, config=config, tensors=tensors)


def _require_all_parts(path: Path, present: set[str]) -> None:
    """Refuse a folder that lacks one of the files that the index of the weights lists."""
    index = path / "model.safetensors.index.json"
    if not index.exists():
        return
    files = read_json(index, 64 << 20).get("weight_map")
    wanted = {str(name) for name in files.values()} if isinstance(files, dict) else set()
    if missing := sorted(wanted - present):
        raise DataError(f"the model folder {path} is incomplete: it has no {missing[0]}")


def read_json(path: Path, limit: int) -> dict[str, Any]:
    """Return the object in a JSON file of at most `limit` bytes; raise DataError if there is none."""
    try:
        if path.stat().st_size > limit:
            raise DataError(f"{path} is too large: more than {limit >> 20} MB")
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path} cannot be read: {os_reason(error)}", hint="is this a model folder?") from None
    except (ValueError, RecursionError):
        raise DataError(f"{path} is not JSON") from None
    if not isinstance(content, dict):
        raise DataError(f"{path} is not a JSON object")
    return content


def _listed(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        raise DataError(
            f"there is no model folder {path}",
            hint="--set model.path=DIR names a folder with config.json, safetensors and a tokenizer",
        )
    return (file for file in sorted(path.iterdir()) if file.is_file() and not file.name.startswith("."))

"""A model's folder in the layout of Hugging Face: its configuration, and the shapes of its weights, without torch.

Everything in it is untrusted. Links out of it are not followed: nodes would get any file that this user can read.
Weights must be safetensors: other formats are pickles, which run code when they are
loaded. Code in the folder is never run, so an architecture that transformers itself does not have cannot be used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from railbed.errors import ModelError, os_reason
from railbed.launch.files.guard import PIECE, content_hash
from railbed.train.base.files import CONFIG, GENERATION, TensorShape, is_folder, read_header, read_json

INDEX, INDEX_BYTES = "model.safetensors.index.json", 64 << 20
SUFFIXES = (".safetensors", ".json", ".jinja", ".txt", ".model")
"""Endings of the files that make up a model, and are copied to nodes: weights, configuration and tokenizer."""
CACHE_ENTRY, SNAPSHOTS = "models--", "snapshots"
"""A model in Hugging Face's cache is `models--OWNER--NAME/snapshots/REVISION`."""
MOST = (1 << 30) - 1
"""The largest number of heads, layers, rows, … that is plausible."""
DECODERS = ("ForCausalLM", "LMHeadModel")
"""How names of architectures end that continue a text."""
CONTEXT = ("max_position_embeddings", "n_positions", "n_ctx")
INNER_WIDTH = ("intermediate_size", "n_inner", "ffn_dim")


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """The folder of a model."""

    path: Path
    config: Mapping[str, Any]

    @classmethod
    def open(cls, path: Path) -> ModelFolder:
        """Read the configuration; raise ModelError if this is not the folder of a model."""
        if not is_folder(path):
            hint = f"name a folder with {CONFIG}, safetensors files and a tokenizer"
            raise ModelError(f"there is no model folder {path}", hint=hint)
        if not (path / CONFIG).is_file():
            raise ModelError(f"{path} is not the folder of a model: it has no {CONFIG}")
        cls(path, {}).files()  # refuses links out of the folder before anything is read
        return cls(path, read_json(path / CONFIG))

    @property
    def kind(self) -> str:
        """Return the type of the model, such as `llama`."""
        return str(self.config.get("model_type", ""))

    @property
    def architecture(self) -> str:
        """Return the name of the model's class, such as LlamaForCausalLM; its type if it is not configured."""
        names = self.config.get("architectures")
        return str(names[0]) if isinstance(names, list) and names else self.kind

    @property
    def is_transposed(self) -> bool:
        """Return whether matrices are stored as [in, out], as GPT-2 does."""
        return self.kind == "gpt2"

    @property
    def tensors(self) -> Mapping[str, TensorShape]:
        """Return the shapes of the weights by name; raise ModelError if they are not complete, in safetensors."""
        files = self._files()
        try:
            stamp = tuple((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files.values())
        except OSError as error:
            raise _unreadable(self.path, error) from None
        return _tensors(self.path, stamp)

    @property
    def parameters(self) -> int:
        """Return the number of parameters; tensors of four dimensions are masks that old models store."""
        return sum(tensor.values for name, tensor in self.tensors.items() if _is_parameter(name, tensor))

    @property
    def vocabulary(self) -> int:
        """Return the number of tokens that the model has rows for."""
        return self.count("vocab_size")

    @property
    def width(self) -> int:
        """Return the width of the residual stream."""
        return self.count("hidden_size", "n_embd", "d_model")

    @property
    def layers(self) -> int:
        """Return the number of layers."""
        return self.count("num_hidden_layers", "n_layer", "num_layers")

    @property
    def inner_width(self) -> int:
        """Return the width inside the MLP; four times the width if it is not configured, as in GPT-2."""
        is_configured = any(self.config.get(key) is not None for key in INNER_WIDTH)
        return self.count(*INNER_WIDTH) if is_configured else 4 * self.width

    @property
    def context(self) -> int | None:
        """Return the longest sequence that the model was made for, if it is known."""
        return self.config[key] if (key := self._context_key) else None

    @property
    def _context_key(self) -> str:
        values = ((key, self.config.get(key)) for key in CONTEXT)
        return next((key for key, value in values if type(value) is int and value > 0), "")

    def obstacle_to(self, context: int) -> str:
        """Return why the model cannot be tuned with sequences of so many tokens, as a phrase; empty if it can."""
        if self.context is None or context <= self.context:
            return ""
        return (
            f"{context} tokens, but the model in {self.path} is made for at most {self.context} "
            f"({self._context_key} in its {CONFIG})"
        )

    @property
    def ends(self) -> frozenset[int]:
        """Return the tokens that end a text."""
        generation = self.path / GENERATION
        settings = read_json(generation) if generation.is_file() else {}
        ends = settings.get("eos_token_id", self.config.get("eos_token_id"))
        return frozenset(end for end in (ends if isinstance(ends, list) else [ends]) if type(end) is int)

    def count(self, *keys: str) -> int:
        """Return a positive whole number of the configuration, by the first of these keys that it has."""
        value = next((self.config[key] for key in keys if self.config.get(key) is not None), None)
        if value is None:
            raise ModelError(f"{self.path / CONFIG} has no {keys[0]}: is this a language model?")
        if type(value) is not int or not 0 < value <= MOST:
            raise ModelError(f"{self.path / CONFIG}: {keys[0]} is not a positive whole number: {str(value)[:40]}")
        return value

    def number(self, key: str, default: float) -> float:
        """Return a number of the configuration."""
        value = self.config.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < MOST:
            raise ModelError(f"{self.path / CONFIG}: {key} is not a number: {str(value)[:40]}")
        return float(value)

    def files(self) -> dict[str, Path]:
        """Return the files that make up the model, by name."""
        return {name: file for name, file in self._files().items() if name.endswith(SUFFIXES)}

    def digest(self) -> str:
        """Return the hash of these files: the same wherever they are, and that of the parcel that nodes receive."""
        try:
            sums = {name: _hash_file(path) for name, path in self.files().items()}
        except OSError as error:
            raise _unreadable(self.path, error) from None
        return content_hash(sums)

    def _files(self) -> dict[str, Path]:
        try:
            paths = sorted(self.path.iterdir())
        except OSError as error:
            raise _unreadable(self.path, error) from None
        files = {path.name: path for path in paths if path.is_file() and not path.name.startswith(".")}
        own = _own_folder(self.path)
        for path in files.values():
            if path.is_symlink() and not path.resolve().is_relative_to(own):
                raise ModelError(
                    f"{path} is a link to {path.resolve()}, outside the model's folder, and is not followed",
                    hint="copy the file itself into the folder; only links within Hugging Face's cache are followed",
                )
        return files


def read_folder(path: Path) -> ModelFolder:
    """Return the model in a folder; raise ModelError if it is missing, damaged, or cannot be tuned."""
    folder = ModelFolder.open(path)
    if "auto_map" in folder.config:
        raise ModelError(
            f"the model in {path} needs code of its own (`auto_map` in {CONFIG}), and railbed runs no code of a model",
            hint="use a model whose architecture is part of transformers",
        )
    if not folder.architecture.endswith(DECODERS):
        name = folder.architecture or "not named"
        raise ModelError(f"the model in {path} is not a decoder that continues text: its architecture is {name[:100]}")
    if "quantization_config" in folder.config:
        raise ModelError(
            f"the model in {path} is quantised already; railbed quantises a model itself",
            hint="use the folder with its original 16-bit weights, and model.quantisation",
        )
    if not folder.tensors:
        raise ModelError(f"the safetensors files in {path} have no tensors")
    return folder


def _hash_file(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _own_folder(path: Path) -> Path:
    """Return the folder that all files of a model are in: snapshots in Hugging Face's cache have links to `blobs`."""
    folder = path.resolve()
    entry = folder.parent.parent
    return entry if folder.parent.name == SNAPSHOTS and entry.name.startswith(CACHE_ENTRY) else folder


def _is_parameter(name: str, tensor: TensorShape) -> bool:
    return len(tensor.shape) < 4 and not name.endswith(("inv_freq", "masked_bias"))


@lru_cache(maxsize=8)
def _tensors(path: Path, stamp: tuple[tuple[str, int, int], ...]) -> Mapping[str, TensorShape]:
    """Return the tensors of the files whose names, times and sizes are the stamp."""
    names = [name for name, _, _ in stamp]
    weights = [name for name in names if name.endswith(".safetensors")]
    if not weights:
        others = [name for name in names if name.endswith((".bin", ".pt", ".pth", ".gguf"))]
        why = f"only {others[0]}, which railbed does not load" if others else "no weights"
        raise ModelError(f"the model folder {path} has {why}", hint="the weights must be safetensors files")
    tensors = {name: tensor for file in weights for name, tensor in read_header(path / file).items()}
    if INDEX in names:
        files = read_json(path / INDEX, INDEX_BYTES).get("weight_map")
        wanted = {str(name) for name in files.values()} if isinstance(files, dict) else set()
        if missing := sorted(wanted - set(weights)):
            raise ModelError(f"the model folder {path} is incomplete: it has no {missing[0][:100]}")
    return tensors


def _unreadable(path: Path, error: OSError) -> ModelError:
    return ModelError(f"the model folder {path} cannot be read: {os_reason(error)}")

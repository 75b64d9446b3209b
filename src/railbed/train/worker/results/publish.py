"""Writes a model in the form that others use: with its adapter merged, as a GGUF file, or both.

    python -m railbed.train.worker.results.publish

The request has `folder` (a model or an adapter), `into` (a folder that is new or empty), `merge` (the folder must have
an adapter), `gguf` (a number type, `auto`, or null for safetensors), `dtype` (a type for merged weights, or null for
that of the model), `name`, and `models` (where models from other machines are stored). Sends `progress`, and a `notice`
for whatever llama.cpp does differently with the model; the folder is sealed with a manifest at the end, and without one
it is incomplete.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from railbed.errors import DeviceError, ModelError, UsageError
from railbed.launch.messages import Messages
from railbed.model.text import expand_home, size
from railbed.train.base.files import CHAT_TEMPLATE, CONFIG, GENERATION, TOKENIZER, TOKENIZER_CONFIG, read_json
from railbed.train.base.folder import INDEX, ModelFolder
from railbed.train.results.adapter import AdapterFolder, is_adapter, require_unchanged
from railbed.train.state.checkpoints import MANIFEST, Written, seal, write_synced
from railbed.train.worker.io.tensorfile import SINGLE, TensorLayout, Weights, write_each
from railbed.train.worker.results.gguf.convert import convert, differences
from railbed.train.worker.results.merge import MergedWeights
from railbed.train.worker.results.serve import serve

SHARD_BYTES = 4 << 30
TOKENIZER_FILES = (
    TOKENIZER,
    TOKENIZER_CONFIG,
    "special_tokens_map.json",
    "added_tokens.json",
    CHAT_TEMPLATE,
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
)
FILE_BYTES = 256 << 20
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
GGUF = "model.gguf"
Report = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class WeightSource:
    """A model to write: its settings, its tensors, and where its tokenizer is."""

    folder: ModelFolder
    tokenizer: Path
    tensors: Weights | MergedWeights
    layouts: Mapping[str, TensorLayout]
    step: int
    merged: bool

    @property
    def dtype(self) -> torch.dtype:
        """Return the type that most numbers have."""
        sizes: dict[torch.dtype, int] = {}
        for layout in self.layouts.values():
            sizes[layout.dtype] = sizes.get(layout.dtype, 0) + layout.size
        return max(sizes, key=lambda dtype: sizes[dtype], default=torch.float32)


def open_source(
    path: Path, device: torch.device, dtype: torch.dtype | None = None, models: Path | None = None
) -> WeightSource:
    """Open a model, or an adapter together with the model below it; raise ModelError if that has changed since."""
    if not is_adapter(path):
        folder, weights = ModelFolder.open(path), Weights(path)
        return WeightSource(folder, path, weights, weights.layouts, _step(path), merged=False)
    adapter = AdapterFolder.open(path)
    folder = adapter.base_folder(models)
    require_unchanged(adapter, folder)
    merged = MergedWeights(adapter, folder, device, dtype)
    tokenizer = path if (path / TOKENIZER).is_file() else folder.path
    return WeightSource(folder, tokenizer, merged, merged.layouts, _step(path), merged=True)


def run(request: Mapping[str, Any], messages: Messages) -> Mapping[str, object]:
    """Write the folder and seal it."""
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    dtype = DTYPES[request["dtype"]] if request["dtype"] else None
    messages.send("progress", message="reading the model")
    source = open_source(expand_home(request["folder"]), device, dtype, Path(request["models"]))
    if request["merge"] and not source.merged:
        raise UsageError("there is no adapter to merge: all weights were trained", hint="leave --merge out")
    into = expand_home(request["into"])
    into.mkdir(exist_ok=True)
    need_room(into, sum(layout.size for layout in source.layouts.values()))

    def report(done: int, total: int) -> None:
        messages.send("progress", message="writing the model", done=done, total=total)

    if request["gguf"]:
        files = write_as_gguf(source, into, request["gguf"], str(request["name"]), report)
        for sentence in differences(source.folder, source.tokenizer):
            messages.send("notice", message=sentence)
    else:
        files = write_as_safetensors(source, into, report)
    seal(into, source.step, files)
    return {"bytes": sum(file.size for file in files.values()), "step": source.step, "merged": source.merged}


def write_as_gguf(source: WeightSource, into: Path, number_type: str, name: str, report: Report) -> dict[str, Written]:
    """Write one GGUF file, and a Modelfile for Ollama."""
    written = convert(
        source.folder,
        source.tokenizer,
        source.tensors,
        source.layouts,
        into / GGUF,
        number_type=number_type,
        name=name,
        report=report,
    )
    return {GGUF: written, "Modelfile": write_synced(into / "Modelfile", f"FROM ./{GGUF}\n".encode())}


def write_as_safetensors(
    source: WeightSource, into: Path, report: Report, shard_bytes: int = SHARD_BYTES
) -> dict[str, Written]:
    """Write the weights, in several files if they are large, the configuration and the tokenizer."""
    shards = _shards(source.layouts, shard_bytes)
    names = [f"model-{number:05d}-of-{len(shards):05d}.safetensors" for number in range(1, len(shards) + 1)]
    names = names if len(shards) > 1 else [SINGLE]
    files, done = {}, 0

    def tensor_of(name: str) -> torch.Tensor:
        nonlocal done
        report(done, len(source.layouts))
        done += 1
        return source.tensors[name].contiguous()

    for name, shard in zip(names, shards, strict=True):
        files[name] = write_each(into / name, shard, tensor_of, {"format": "pt"})
    if len(shards) > 1:
        homes = {tensor: name for name, shard in zip(names, shards, strict=True) for tensor in shard}
        total = sum(layout.size for layout in source.layouts.values())
        index = {"metadata": {"total_size": total}, "weight_map": homes}
        files[INDEX] = write_synced(into / INDEX, json.dumps(index, indent=1).encode())
    return files | _write_settings(source, into)


def need_room(folder: Path, needed: int) -> None:
    """Raise DeviceError if the disk does not have enough free space."""
    about = os.statvfs(folder)
    free = about.f_bavail * about.f_frsize
    if free < needed:
        raise DeviceError(
            f"{folder} cannot be written: the disk is full: {size(needed)} are needed, {size(free)} are free",
            hint="free some disk space",
        )


def _shards(layouts: Mapping[str, TensorLayout], limit: int) -> list[dict[str, TensorLayout]]:
    shards: list[dict[str, TensorLayout]] = [{}]
    filled = 0
    for name, layout in layouts.items():
        if shards[-1] and filled + layout.size > limit:
            shards.append({})
            filled = 0
        shards[-1][name] = layout
        filled += layout.size
    return shards


def _write_settings(source: WeightSource, into: Path) -> dict[str, Written]:
    config = {key: value for key, value in source.folder.config.items() if key not in {"torch_dtype", "dtype"}}
    config["dtype"] = str(source.dtype).removeprefix("torch.")
    files = {CONFIG: write_synced(into / CONFIG, (json.dumps(config, indent=2) + "\n").encode())}
    copied = {name: source.tokenizer / name for name in TOKENIZER_FILES} | {GENERATION: source.folder.path / GENERATION}
    for name, path in copied.items():
        if path.is_file():
            files[name] = write_synced(into / name, _read_bounded(path))
    return files


def _read_bounded(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(FILE_BYTES + 1)
    if len(data) > FILE_BYTES:
        raise ModelError(f"{path} is larger than {FILE_BYTES >> 20} MiB: it is not what its name says")
    return data


def _step(path: Path) -> int:
    """Return the step that the weights of a folder are from; 0 if railbed did not write it."""
    step = read_json(path / MANIFEST).get("step") if (path / MANIFEST).is_file() else 0
    return step if type(step) is int and step >= 0 else 0


if __name__ == "__main__":
    serve(run)

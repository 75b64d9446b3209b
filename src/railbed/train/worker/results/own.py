"""railbed's own models, from an exported folder: they need torch and tokenizers only."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from railbed.errors import CheckpointDamaged, ModelError
from railbed.train.base.files import CONFIG
from railbed.train.base.folder import ModelFolder
from railbed.train.data.tokenizer import end_of_text, open_tokenizer
from railbed.train.models.gpt import FAMILY, GptSettings
from railbed.train.state.checkpoints import MANIFEST
from railbed.train.worker.io.tensorfile import Weights
from railbed.train.worker.models.base import BuildOptions
from railbed.train.worker.models.gpt import Gpt
from railbed.train.worker.results.speaker import Speaker


def is_own(folder: ModelFolder) -> bool:
    """Whether railbed trained this model from the beginning."""
    is_from_elsewhere = "transformers_version" in folder.config
    return folder.kind == "gpt2" and (folder.path / MANIFEST).is_file() and not is_from_elsewhere


class OwnSpeaker(Speaker):
    """A model that railbed trained."""

    def __init__(self, folder: ModelFolder, device: torch.device) -> None:
        model = own_model(folder, device)
        self.scorer = model.scorer()
        self._tokenizer = open_tokenizer(folder.path)
        self._start = end_of_text(self._tokenizer)
        self.ends = folder.ends or frozenset({self._start})
        self.architecture = "GPT-2"
        self.parameters = sum(parameter.numel() for parameter in model.saved_tensors().values())
        self.device, self.precision = str(device), "float32"

    def encode(self, prompt: str, *, chat: bool) -> list[int]:  # noqa: ARG002 -- it has no chat template
        """Return the tokens of a prompt; without one, the token that begins a text."""
        return list(self._tokenizer.encode(prompt, add_special_tokens=False).ids) or [self._start]

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens."""
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=True))


def own_model(folder: ModelFolder, device: torch.device) -> Gpt:
    """Return the model of an exported folder; raise ModelError if its files do not match each other."""
    try:
        settings = GptSettings(
            layers=folder.count("n_layer"),
            heads=folder.count("n_head"),
            width=folder.count("n_embd"),
            context=folder.count("n_positions"),
            vocabulary=folder.count("vocab_size"),
        )
    except ValueError as error:
        raise ModelError(f"{folder.path / CONFIG}: {error}") from None
    weights = Weights(folder.path)
    announced = sum(layout.size for layout in weights.layouts.values())
    model = _within(settings, announced, folder, device)
    try:
        model.load_exported(weights)
    except CheckpointDamaged:
        raise ModelError(f"the weights in {folder.path} do not match its {CONFIG}") from None
    return model


def _within(settings: GptSettings, size: int, folder: ModelFolder, device: torch.device) -> Gpt:
    """Build the model if its size matches that of the weights: a damaged number must not fill the memory."""
    if 4 * FAMILY.parameter_count(settings) != size:
        raise ModelError(f"the weights in {folder.path} do not match its {CONFIG}")
    return Gpt.build(settings, BuildOptions(device=device))

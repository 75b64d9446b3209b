"""Any decoder that transformers loads from a folder: with adapters on a base that may be quantised, or in full."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal

from railbed.errors import RecipeError
from railbed.train.base.files import CONFIG
from railbed.train.base.folder import ModelFolder, read_folder
from railbed.train.base.lora import adapter_parameters, layer_matrices, target_names
from railbed.train.keys import AboveZero, BelowOne, CountOrAuto, NamesOrAuto, Positive, Text
from railbed.train.models.family import Compute, Family, ModelSettings

Quantisation = Literal["none", "int8", "nf4"]
LAYER_WIDTHS, LAYER_INNER_WIDTHS = 14, 5
"""Values that a layer keeps for the backward pass, per token: in units of its width and of that inside its MLP."""
SCORE_BYTES, SCORE_COPIES = 128 << 20, 3
"""Bytes of scores that exist at a time, and in how many copies (`worker/models/loss.py`)."""
QUANTISED_BITS = {"nf4": 4.5, "int8": 8.1}
"""Bits of a quantised value, with its part of the scales: one of 32 bits for every 64 values, or for every row."""
DOUBLE_BITS = 4.127
"""The same for nf4 whose scales are quantised to 8 bits in turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lora:
    """Low-rank adapters: small matrices beside the frozen ones, which are trained in their place."""

    rank: Positive = 16
    """Rank of the adapters."""
    alpha: AboveZero = 32.0
    """Their output is multiplied by alpha / rank (with `rslora`: by alpha / √rank)."""
    dropout: BelowOne = 0.0
    """Dropout rate of their input. With dropout, the random zeros depend on the split among ranks."""
    targets: NamesOrAuto = "auto"
    """Names of the modules that get adapters, such as [q_proj, v_proj]; `auto`: every matrix in the layers."""
    dora: bool = False
    """DoRA: also train the length of every row of the weights."""
    rslora: bool = False
    """rsLoRA: scale by the square root of the rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PretrainedSettings(ModelSettings):
    """A model from a folder in the layout of Hugging Face. Nothing is downloaded, and no code in the folder is run."""

    family: str = "pretrained"
    """Kind of model."""
    path: Text | None = None
    """The model's folder: config.json, safetensors files, and the tokenizer's files."""
    on_nodes: bool = False
    """Every node has the folder at the same path, and it is not copied there. This machine needs it too."""
    context: Positive = 1024
    """Tokens in a sequence."""
    vocabulary: CountOrAuto = "auto"
    """Leave this at `auto`: the vocabulary is the model's."""
    tuning: Literal["lora", "full"] = "lora"
    """What is trained: adapters, or all parameters."""
    lora: Lora = field(default_factory=Lora)
    quantisation: Quantisation = "none"
    """Number format of the frozen weights: 16 or 32 bits as computed with, 8 bits, or 4 bits (nf4)."""
    double_quantisation: bool = True
    """With nf4, also quantise the scales: saves 0.4 bits per parameter."""

    def __post_init__(self) -> None:
        """Raise ValueError if all parameters of a quantised model were to be trained."""
        if self.tuning == "full" and self.quantisation != "none":
            raise ValueError("quantised weights cannot be trained: use tuning: lora, or quantisation: none")

    @property
    def is_random(self) -> bool:
        """Return whether there is dropout."""
        return self.tuning == "lora" and self.lora.dropout > 0

    @property
    def base_folder(self) -> Path:
        """Return the model's folder; raise RecipeError if the recipe names none."""
        if self.path is None:
            raise RecipeError(
                "the recipe does not name the model to tune",
                hint="--set model.path=DIR names a folder with config.json, safetensors and a tokenizer",
            )
        return Path(self.path)

    def with_base(self, folder: str) -> PretrainedSettings:
        """Return the settings with the model in another folder."""
        return replace(self, path=folder)

    @property
    def is_on_nodes(self) -> bool:
        """Return whether the recipe declares the folder to be on the nodes."""
        return self.on_nodes

    @property
    def has_rows(self) -> bool:
        """Return True: sequences consist of documents, of which some tokens are trained."""
        return True

    @property
    def compiles(self) -> bool:
        """Return False: architectures differ too much for the compiler to be a safe default."""
        return False


class PretrainedFamily(Family):
    """A decoder from a folder."""

    name: ClassVar[str] = "pretrained"
    settings: ClassVar[type[ModelSettings]] = PretrainedSettings
    size_keys: ClassVar[tuple[str, ...]] = ("path", "context")

    def parameter_count(self, model: PretrainedSettings) -> int:
        """Return the number of parameters of the model, without adapters."""
        return read_folder(model.base_folder).parameters

    def trained_count(self, model: PretrainedSettings) -> int:
        """Return the number of parameters that are trained, exchanged and saved."""
        folder = read_folder(model.base_folder)
        if model.tuning == "full":
            return folder.parameters
        return adapter_parameters(folder, targets_of(folder, model), model.lora.rank, dora=model.lora.dora)

    def frozen_bytes(self, model: PretrainedSettings, compute: Compute) -> int:
        """Return the memory of the weights that are not trained."""
        if model.tuning == "full":
            return 0
        folder = read_folder(model.base_folder)
        values = folder.parameters
        if model.quantisation == "none":
            return values * compute.value_bytes
        bits = DOUBLE_BITS if model.quantisation == "nf4" and model.double_quantisation else None
        quantised = layer_matrices(folder)
        size = quantised * (bits or QUANTISED_BITS[model.quantisation]) / 8
        return int(size) + (values - quantised) * compute.value_bytes

    def flops_per_token(self, model: PretrainedSettings) -> float:
        """Return 6 N, with adapters 4 N (frozen weights need no gradients), and attention."""
        folder = read_folder(model.base_folder)
        weights = 6.0 if model.tuning == "full" else 4.0
        attention = 12.0 * folder.layers * folder.width * model.context
        trained = 6.0 * self.trained_count(model) if model.tuning == "lora" else 0.0
        return weights * folder.parameters + trained + attention

    def activation_bytes(self, model: PretrainedSettings, tokens: int, compute: Compute) -> int:
        """Return the memory of the layers' values and of the scores."""
        folder = read_folder(model.base_folder)
        inner = LAYER_WIDTHS * folder.width + LAYER_INNER_WIDTHS * folder.inner_width
        layer = inner * compute.value_bytes
        if model.tuning == "lora":
            layer += 4 * inner // 2  # adapters start from an fp32 copy of their input
        if compute.gradient_checkpointing:
            # Every layer keeps only its input, and one layer at a time has all its values.
            layers = layer + folder.layers * folder.width * compute.value_bytes
        else:
            layers = layer * folder.layers
        scores = SCORE_COPIES * min(SCORE_BYTES, 4 * tokens * folder.vocabulary)
        head = 4 * folder.vocabulary * folder.width if model.tuning == "full" else 0
        return tokens * layers + scores + head

    def savings(self, model: PretrainedSettings) -> tuple[str, ...]:
        """Return shorter sequences, adapters instead of everything, and a base in 4 bits."""
        changes = super().savings(model)
        if model.tuning == "full":
            return (*changes, "adapters (--set model.tuning=lora)")
        return changes if model.quantisation == "nf4" else (*changes, "4 bits (--set model.quantisation=nf4)")

    def configuration(self, model: PretrainedSettings, end_of_text: int) -> dict[str, object]:  # noqa: ARG002
        """Return the base model's configuration, with the type that the weights are written in."""
        content: dict[str, object] = json.loads((model.base_folder / CONFIG).read_text())
        content.pop("torch_dtype", None)
        return {**content, "dtype": "float32"}


def targets_of(folder: ModelFolder, model: PretrainedSettings) -> tuple[str, ...]:
    """Return the names of the modules that get adapters."""
    return target_names(folder, model.lora.targets)


FAMILY = PretrainedFamily()

"""A recipe as the worker sees it: the same keys as `recipe.py`, already checked, without pydantic.

Nodes may have torch and nothing else, so the worker cannot import the recipe's own classes. A test holds that the keys
are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from railbed.train.plainclass import build

Auto = Literal["auto"]
WireFormat = Literal["fp32", "bf16", "bf16-feedback"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """The shape of the model."""

    layers: int
    heads: int
    width: int
    context: int
    vocabulary: int | Auto
    dropout: float
    pad_vocabulary: bool | Auto


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSettings:
    """The text; read on the control side only."""

    files: tuple[str, ...]
    tokenizer: str | None
    validation: float
    prompt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSettings:
    """The global batch, and how much of it is in memory at once."""

    sequences: int
    micro: int | Auto


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimiserSettings:
    """AdamW and its schedule."""

    learning_rate: float
    warmup_steps: int
    final_fraction: float
    beta1: float
    beta2: float
    weight_decay: float
    clip: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSettings:
    """When the validation loss is measured, and on how much."""

    every: int
    sequences: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSettings:
    """When the state is saved."""

    steps: int | None
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficSettings:
    """A load for the network instead of a model."""

    gradient_bytes: int
    steps_per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A whole recipe."""

    description: str
    steps: int
    seed: int
    model: ModelSettings
    data: DataSettings
    batch: BatchSettings
    shares: Literal["speed", "equal"] | dict[str, float]
    optimiser: OptimiserSettings
    evaluation: EvaluationSettings
    checkpoint: CheckpointSettings
    precision: Literal["auto", "fp32", "bf16"]
    compile: bool | Auto
    threads: int | Auto
    gradient_checkpointing: bool
    wire: WireFormat
    traffic: TrafficSettings | None

    @classmethod
    def read(cls, recipe: Mapping[str, Any]) -> Settings:
        """Return the settings of a recipe that was dumped to plain values."""
        return build(cls, recipe)

"""What to train. These classes are the only declaration of a recipe's keys: types, limits, defaults and descriptions.

Recipe files and `--set` are validated against them (`recipes/validation.py`), the reference page is generated from
them, and ranks read them. They are plain dataclasses, because nodes may have torch and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, Literal

from railbed.train.keys import (
    AboveZero,
    BelowOne,
    Bounds,
    ChoiceOrAuto,
    CountOrAuto,
    Fraction,
    Natural,
    NotNegative,
    Positive,
    Shares,
    Text,
)
from railbed.train.models.family import Family, ModelSettings
from railbed.train.models.find import DEFAULT, family_of
from railbed.train.models.gpt import GptSettings
from railbed.train.precision import Precision
from railbed.train.structure import structure

WireFormat = Literal["fp32", "bf16", "bf16-feedback"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """The text to train on."""

    files: tuple[Text, ...] = ()
    """Text files and folders; without any, the source of Python's standard library on this machine. For family
    `pretrained`, files ending in .jsonl have an example in every line."""
    tokenizer: Text | None = None
    """Folder with a tokenizer.json; without one, a byte-level BPE is trained on the text."""
    validation: Annotated[float, Bounds(ge=0, le=0.5)] = 0.05
    """Fraction of the text held out for validation."""
    packed: bool = True
    """For family `pretrained`: put several documents into a sequence, without attention from one to another. Otherwise
    each has its own, and shorter ones are padded."""
    too_long: Literal["refuse", "cut"] = "refuse"
    """For family `pretrained`: what to do with an example in JSONL that has more tokens than a sequence."""
    prompt: str = ""
    """Start of the sample text that the trained model continues."""
    sample: Natural = 120
    """Tokens of that sample; 0 for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The global batch."""

    sequences: Positive = 32
    """Sequences in a step, across all ranks: the same for any number of ranks."""
    micro: CountOrAuto = "auto"
    """Sequences that a rank processes at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimiser:
    """AdamW with a linear warm-up followed by a cosine decay."""

    learning_rate: AboveZero = 1e-3
    """Peak learning rate."""
    warmup_steps: Natural = 20
    """Steps of warm-up."""
    final_fraction: Fraction = 0.1
    """Final learning rate, as a fraction of the peak."""
    beta1: BelowOne = 0.9
    """Decay of the first moment."""
    beta2: BelowOne = 0.95
    """Decay of the second moment."""
    weight_decay: NotNegative = 0.1
    """Weight decay of the matrices; biases and norms have none."""
    clip: NotNegative = 1.0
    """Maximum norm of the gradient; 0 disables clipping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The loss on the text held out for validation."""

    every: Natural = 50
    """Steps between two evaluations; 0 disables them."""
    sequences: Positive = 64
    """Sequences in an evaluation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointTimes:
    """When the state is saved; with both keys, whichever comes first. The last step is always saved."""

    steps: Positive | None = None
    """Steps between two checkpoints."""
    seconds: AboveZero | None = None
    """Seconds between two checkpoints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """A network load instead of a model."""

    gradient_bytes: Annotated[int, Bounds(ge=4)]
    """Bytes of gradients in each step."""
    steps_per_second: NotNegative = 0.0
    """Steps per second, if the network keeps up; 0 means as fast as possible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A recipe."""

    description: Text = "a recipe"
    """One line about the recipe."""
    steps: Positive = 100
    """Steps to train."""
    seed: Natural = 1
    """Seed of every random choice."""
    model: ModelSettings = field(default_factory=GptSettings)
    """The model; the other keys depend on its `family`."""
    data: Data = field(default_factory=Data)
    batch: Batch = field(default_factory=Batch)
    shares: Shares = "speed"
    """How the global batch is split among the ranks: by measured `speed`, `equal`, or by weights of nodes, which
    apply to each rank of the node (1 for nodes that are not listed). The split changes a step only by rounding; use
    `equal` or weights for runs that must agree to the last bit."""
    optimiser: Optimiser = field(default_factory=Optimiser)
    evaluation: Evaluation = field(default_factory=Evaluation)
    checkpoint: CheckpointTimes = field(default_factory=CheckpointTimes)
    precision: Precision = "auto"
    """Number format of the computation; parameters and sums are fp32. `auto` depends on the device: bf16 on GPUs since
    Ampere, fp16 with loss scaling on Volta and Turing, fp32 on older ones and on processors. Processors without
    instructions for a 16-bit format always compute in fp32."""
    compile: ChoiceOrAuto = "auto"
    """Whether torch compiles the model; `auto` compiles on GPUs."""
    threads: CountOrAuto = "auto"
    """CPU threads of a rank; `auto` divides a node's cores among its ranks."""
    gradient_checkpointing: bool = False
    """Recompute activations instead of storing them: a third slower, with far less memory."""
    wire: WireFormat = "fp32"
    """Number format of gradients on the network: `bf16` halves the bytes, `bf16-feedback` adds the rounding error to
    the next step's gradients."""
    traffic: Traffic | None = None
    """A network load instead of a model."""

    @property
    def family(self) -> Family:
        """Return the family of the model."""
        return family_of(self.model.family)

    def for_vocabulary(self, size: int) -> Recipe:
        """Return the recipe with `model.vocabulary: auto` replaced by the size of the tokenizer's vocabulary."""
        return self if self.model.vocabulary != "auto" else replace(self, model=replace(self.model, vocabulary=size))

    def with_base(self, folder: str) -> Recipe:
        """Return the recipe with the model to tune in another folder, as on a node."""
        return replace(self, model=self.model.with_base(folder))

    def to_plain(self) -> dict[str, Any]:
        """Return the recipe as plain values, as in JSON."""
        values: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return values

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Recipe:
        """Return the recipe of validated plain values; raise ValueError for unknown keys."""
        model = values.get("model", {})
        family = family_of(model.get("family", DEFAULT))
        return structure(cls, {**values, "model": structure(family.settings, model)})

"""What to train, as a file. These classes are the recipe file; their texts become its reference.

The worker reads the same keys through `settings.py`, which needs no pydantic.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from railbed.model.cluster import Number, Part, Text, Whole
from railbed.train.settings import WireFormat

Auto = Literal["auto"]


def _count_or_auto(value: object) -> object:
    if value == "auto" or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return value
    raise ValueError("expected auto or a whole number, 1 or more")


def _choice_or_auto(value: object) -> object:
    if value == "auto" or isinstance(value, bool):
        return value
    raise ValueError("expected auto, true or false")


def _shares(value: object) -> object:
    weights = value.values() if isinstance(value, Mapping) else ()
    numbers = [weight for weight in weights if isinstance(weight, int | float) and not isinstance(weight, bool)]
    right = len(numbers) == len(weights) > 0 and all(0 < weight < inf for weight in numbers)
    if right or value in ("speed", "equal"):
        return value
    raise ValueError("expected speed, equal, or weights of nodes above 0 such as {node1: 3}")


CountOrAuto = Annotated[
    int | Auto,
    BeforeValidator(_count_or_auto),
    Field(json_schema_extra={"x-form": "auto or a whole number, 1 or more"}),
]
ChoiceOrAuto = Annotated[
    bool | Auto,
    BeforeValidator(_choice_or_auto),
    Field(json_schema_extra={"x-form": "auto, true or false"}),
]
Shares = Annotated[
    Literal["speed", "equal"] | dict[str, float],
    BeforeValidator(_shares),
    Field(json_schema_extra={"x-form": "speed, equal, or weights of nodes above 0 such as {node1: 3}"}),
]
Positive = Annotated[Whole, Field(ge=1)]
Natural = Annotated[Whole, Field(ge=0)]
Fraction = Annotated[Number, Field(ge=0, le=1)]


class Model(Part):
    """The shape of the model: GPT-2, in any size."""

    layers: Positive = 6
    """Layers."""
    heads: Positive = 6
    """Attention heads in each."""
    width: Positive = 192
    """Width of the residual stream; a multiple of `heads`."""
    context: Positive = 128
    """Tokens in a sequence."""
    vocabulary: CountOrAuto = 4096
    """Tokens in the vocabulary; `auto` takes that of the tokenizer."""
    dropout: Annotated[Number, Field(ge=0, lt=1)] = 0.0
    """Share of values left out while training."""
    pad_vocabulary: ChoiceOrAuto = "auto"
    """Fill the embedding up to a multiple of 128, which GPUs like. The added rows stand for nothing and never learn."""

    @model_validator(mode="after")
    def _heads_divide_width(self) -> Model:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        return self


class Data(Part):
    """The text to train on."""

    files: tuple[Text, ...] = ()
    """Text files and folders; without any, the source of Python's standard library on this machine."""
    tokenizer: Text | None = None
    """Folder with a tokenizer.json; without one, a byte-level BPE is trained on the text."""
    validation: Annotated[Number, Field(ge=0, le=0.5)] = 0.05
    """Share of the text that is kept for validation."""
    prompt: str = ""
    """What the sample of generated text begins with."""


class Batch(Part):
    """The global batch."""

    sequences: Positive = 32
    """Sequences in a step, over all ranks together: the same whatever their number."""
    micro: CountOrAuto = "auto"
    """Sequences that a rank has in memory at once."""


class Optimiser(Part):
    """AdamW: a linear rise, then half a cosine down."""

    learning_rate: Annotated[Number, Field(gt=0)] = 1e-3
    """The highest learning rate."""
    warmup_steps: Natural = 20
    """Steps of the rise."""
    final_fraction: Fraction = 0.1
    """The last learning rate, as a share of the highest."""
    beta1: Annotated[Number, Field(ge=0, lt=1)] = 0.9
    """Decay of the first moment."""
    beta2: Annotated[Number, Field(ge=0, lt=1)] = 0.95
    """Decay of the second moment."""
    weight_decay: Annotated[Number, Field(ge=0)] = 0.1
    """Decay of the matrices."""
    clip: Annotated[Number, Field(ge=0)] = 1.0
    """Largest norm of the gradient; 0 sets no limit."""


class Evaluation(Part):
    """The loss on text that is kept for validation."""

    every: Natural = 50
    """Steps between two evaluations; 0 for none."""
    sequences: Positive = 64
    """Sequences that are looked at."""


class CheckpointTimes(Part):
    """When the state is saved; with both keys, whichever comes first. The last step is always saved."""

    steps: Positive | None = None
    """Steps between two."""
    seconds: Annotated[Number, Field(gt=0)] | None = None
    """Seconds between two."""


class Traffic(Part):
    """A load for the network in place of a model."""

    gradient_bytes: Annotated[Whole, Field(ge=4)]
    """Bytes of gradients in each step."""
    steps_per_second: Annotated[Number, Field(ge=0)] = 0.0
    """Steps in a second, where the network allows; 0 for as fast as it goes."""


class Recipe(Part):
    """A whole recipe."""

    description: Text = "a recipe"
    """One line about it."""
    steps: Positive = 100
    """Steps to train."""
    seed: Natural = 1
    """Where every random choice comes from."""
    model: Model = Model()
    data: Data = Data()
    batch: Batch = Batch()
    shares: Shares = "speed"
    """How the global batch is split over the ranks: by the `speed` that is measured, `equal`, or by weights of nodes,
    which each rank of the node has (1 where a node is not named). A step is the same up to rounding whatever the split;
    runs whose last bits must be the same need `equal` or weights."""
    optimiser: Optimiser = Optimiser()
    evaluation: Evaluation = Evaluation()
    checkpoint: CheckpointTimes = CheckpointTimes()
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """What is computed in; parameters and sums are fp32. `auto` is bf16 on GPUs that have it."""
    compile: ChoiceOrAuto = "auto"
    """Whether torch compiles the model; `auto` does on GPUs."""
    threads: CountOrAuto = "auto"
    """Processor threads of a rank; `auto` shares the cores of a node among its ranks."""
    gradient_checkpointing: bool = False
    """Compute activations twice in place of keeping them: a third slower, far less memory."""
    wire: WireFormat = "fp32"
    """How gradients travel: `bf16` halves the bytes, `bf16-feedback` sends what it rounded away with the next step."""
    traffic: Traffic | None = None
    """A load for the network in place of a model."""

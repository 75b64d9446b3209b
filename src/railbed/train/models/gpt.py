"""GPT-2, in any size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from railbed.train.keys import BelowOne, ChoiceOrAuto, Positive
from railbed.train.models.family import Compute, Family, ModelSettings

LAYER_VALUES = 17
"""Values that a layer keeps for the backward pass, per token and unit of width: norms, attention, MLP."""
EAGER_SCORE_BYTES = 12
"""Bytes per score of a token on a GPU without the compiler: as computed, in fp32, and as a gradient."""
CPU_SCORES, CPU_SCORE_COPIES = 128 << 20, 3
"""On a CPU, the bytes of scores that exist at a time, and in how many copies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GptSettings(ModelSettings):
    """GPT-2, in any size."""

    family: str = "gpt"
    """Kind of model."""
    layers: Positive = 6
    """Number of layers."""
    heads: Positive = 6
    """Attention heads per layer."""
    width: Positive = 192
    """Width of the residual stream; a multiple of `heads`."""
    dropout: BelowOne = 0.0
    """Dropout rate."""
    pad_vocabulary: ChoiceOrAuto = "auto"
    """Pad the embedding to a multiple of 128 rows, which is faster on GPUs; `auto` pads there. The extra rows are never
    used, trained or saved."""

    def __post_init__(self) -> None:
        """Raise ValueError if the heads cannot divide the width."""
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")

    @property
    def is_random(self) -> bool:
        """Return whether there is dropout."""
        return self.dropout > 0

    def is_padded(self, *, gpu: bool) -> bool:
        """Return whether the embedding is padded."""
        return gpu if self.pad_vocabulary == "auto" else self.pad_vocabulary


class GptFamily(Family):
    """GPT-2: learned positions, layer norm first, GELU by tanh, the head tied to the embedding."""

    name: ClassVar[str] = "gpt"
    settings: ClassVar[type[ModelSettings]] = GptSettings
    size_keys: ClassVar[tuple[str, ...]] = ("width", "layers", "context")

    def parameter_count(self, model: GptSettings) -> int:
        """Return the number of parameters: 124,439,808 for the smallest that was published."""
        layer = 12 * model.width * model.width + 13 * model.width
        embeddings = (model.vocabulary_size + model.context) * model.width
        return embeddings + model.layers * layer + 2 * model.width

    def flops_per_token(self, model: GptSettings) -> float:
        """Return 6 N + 12 · layers · width · context, with N the parameters other than positions."""
        matrix_parameters = self.parameter_count(model) - model.context * model.width
        return 6.0 * matrix_parameters + 12.0 * model.layers * model.width * model.context

    def activation_bytes(self, model: GptSettings, tokens: int, compute: Compute) -> int:
        """Return the memory of the layers' values and of the scores."""
        layer = LAYER_VALUES * model.width * compute.value_bytes
        if compute.gradient_checkpointing:
            # Every layer keeps only its input, and one layer at a time has all its values.
            layers = layer + model.layers * model.width * compute.value_bytes
        else:
            layers = layer * model.layers
        vocabulary = model.vocabulary_size
        if compute.gpu:
            score = compute.value_bytes if compute.compiled else EAGER_SCORE_BYTES
            return tokens * (layers + vocabulary * score)
        scores = CPU_SCORE_COPIES * min(CPU_SCORES, 4 * tokens * vocabulary) + 4 * vocabulary * model.width
        return tokens * layers + scores

    def configuration(self, model: GptSettings, end_of_text: int) -> dict[str, object]:
        """Return the configuration of GPT2LMHeadModel."""
        return {
            "architectures": ["GPT2LMHeadModel"],
            "model_type": "gpt2",
            "activation_function": "gelu_new",
            "n_embd": model.width,
            "n_head": model.heads,
            "n_layer": model.layers,
            "n_positions": model.context,
            "n_ctx": model.context,  # transformers no longer reads it, but converters to other formats do
            "vocab_size": model.vocabulary_size,
            "embd_pdrop": model.dropout,
            "attn_pdrop": model.dropout,
            "resid_pdrop": model.dropout,
            "layer_norm_epsilon": 1e-05,
            "bos_token_id": end_of_text,
            "eos_token_id": end_of_text,
            "tie_word_embeddings": True,
            "torch_dtype": "float32",
        }


FAMILY = GptFamily()

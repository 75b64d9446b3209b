"""How much memory a rank will need, before anything is started."""

from __future__ import annotations

from dataclasses import dataclass

STATE_BYTES = 16
"""For each parameter, in fp32: itself, its gradient, and AdamW's two moments."""
LAYER_VALUES = 34
"""Values that a layer keeps for the backward pass, for each token and unit of width: norms, attention, MLP."""
SCORE_COPIES = 3
"""How often the scores of a micro-batch exist on a GPU at the peak: as computed, in fp32, and as a gradient."""
CPU_SCORES = 384 << 20
RUNTIME = 600 << 20
"""torch itself, its threads and its caches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What a rank needs, in bytes."""

    parameters: int
    """How many; not bytes."""
    state: int
    activations: int
    runtime: int = RUNTIME

    @property
    def total(self) -> int:
        """Return the whole."""
        return self.state + self.activations + self.runtime


def parameter_count(*, layers: int, width: int, context: int, vocabulary: int) -> int:
    """Return the parameters of a GPT-2 of this shape: 124,439,808 for the smallest that was published."""
    layer = 12 * width * width + 13 * width
    return vocabulary * width + context * width + layers * layer + 2 * width


def activation_bytes_per_token(*, layers: int, width: int, vocabulary: int, value_bytes: int, gpu: bool) -> int:
    """Return what a token of the micro-batch keeps in memory until its gradient is there."""
    scores = SCORE_COPIES * vocabulary * value_bytes if gpu else 0
    return LAYER_VALUES // 2 * layers * width * value_bytes + scores


def memory(
    *, layers: int, width: int, context: int, vocabulary: int, micro: int, value_bytes: int = 4, gpu: bool = False
) -> Memory:
    """Return the estimate for one rank with a micro-batch of that many sequences."""
    parameters = parameter_count(layers=layers, width=width, context=context, vocabulary=vocabulary)
    per_token = activation_bytes_per_token(
        layers=layers, width=width, vocabulary=vocabulary, value_bytes=value_bytes, gpu=gpu
    )
    fixed = 0 if gpu else CPU_SCORES + 4 * vocabulary * width
    return Memory(
        parameters=parameters,
        state=STATE_BYTES * parameters,
        activations=micro * context * per_token + fixed,
    )

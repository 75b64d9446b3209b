"""How much memory a rank will need, before anything is started. What was measured beside it: docs/training.md."""

from __future__ import annotations

from dataclasses import dataclass

from railbed.train.settings import Settings

STATE_BYTES = 16
"""For each parameter, in fp32: itself, its gradient, and AdamW's two moments."""
COPY_BYTES = 12
"""For each parameter: the copy that a checkpoint is written from, which the first rank of a node keeps."""
LAYER_VALUES = 17
"""Values that a layer keeps for the backward pass, for each token and unit of width: norms, attention, MLP."""
EAGER_SCORE_BYTES = 12
"""On a GPU without the compiler, for each score of a token: as computed, in fp32, and as a gradient."""
CPU_SCORES, CPU_SCORE_COPIES = 128 << 20, 3
"""On a processor so many bytes of scores are made at a time, and exist so many times."""
CPU_RUNTIME, GPU_RUNTIME = 400 << 20, 800 << 20
"""torch itself, its threads and caches; on a GPU what the driver takes for a process."""
CPU_MICRO_TOKENS = 4096
GPU_MICRO_SEQUENCES = 64
GPU_MEMORY_USED = 0.85
"""How much of a GPU can be planned with: the rest goes to gaps between blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What a rank needs, in bytes."""

    parameters: int
    """How many; not bytes."""
    state: int
    activations: int
    runtime: int
    copy: int = 0
    """What only the first rank of a node needs, for checkpoints; main memory, so it is none of a GPU's."""

    @property
    def total(self) -> int:
        """Return what the first rank of a node needs."""
        return self.state + self.activations + self.runtime + self.copy

    def of_ranks(self, count: int) -> int:
        """Return what so many ranks on one node need together."""
        return count * (self.total - self.copy) + self.copy


def parameter_count(*, layers: int, width: int, context: int, vocabulary: int) -> int:
    """Return the parameters of a GPT-2 of this shape: 124,439,808 for the smallest that was published."""
    layer = 12 * width * width + 13 * width
    return vocabulary * width + context * width + layers * layer + 2 * width


def memory(settings: Settings, *, vocabulary: int, micro: int, value_bytes: int = 4, gpu: bool = False) -> Memory:
    """Return the estimate for one rank with a micro-batch of that many sequences."""
    runtime = GPU_RUNTIME if gpu else CPU_RUNTIME
    if settings.traffic:
        size = settings.traffic.gradient_bytes
        return Memory(parameters=size // 4, state=2 * size, activations=0, runtime=runtime)
    model, tokens = settings.model, micro * settings.model.context
    parameters = parameter_count(layers=model.layers, width=model.width, context=model.context, vocabulary=vocabulary)
    each = _bytes_per_token(settings, vocabulary=vocabulary, value_bytes=value_bytes, gpu=gpu)
    scores = 0
    if not gpu:
        scores = CPU_SCORE_COPIES * min(CPU_SCORES, 4 * tokens * vocabulary) + 4 * vocabulary * model.width
    return Memory(
        parameters=parameters,
        state=STATE_BYTES * parameters,
        activations=tokens * each + scores,
        runtime=runtime,
        copy=0 if gpu else COPY_BYTES * parameters,
    )


def micro_limit(settings: Settings, *, vocabulary: int, value_bytes: int = 4, gpu_bytes: int | None = None) -> int:
    """Return how many sequences a rank has in memory at once, at most; 0 where not one fits into its GPU."""
    if settings.batch.micro != "auto":
        return settings.batch.micro
    context = settings.model.context
    if gpu_bytes is None:
        return max(1, CPU_MICRO_TOKENS // context)
    fixed = memory(settings, vocabulary=vocabulary, micro=0, value_bytes=value_bytes, gpu=True).total
    each = context * _bytes_per_token(settings, vocabulary=vocabulary, value_bytes=value_bytes, gpu=True)
    fitting = int(gpu_bytes * GPU_MEMORY_USED - fixed) // each
    return 1 << (min(fitting, GPU_MICRO_SEQUENCES).bit_length() - 1) if fitting > 0 else 0


def _bytes_per_token(settings: Settings, *, vocabulary: int, value_bytes: int, gpu: bool) -> int:
    """Return what a token of the micro-batch keeps in memory until its gradient is there."""
    model = settings.model
    layer = LAYER_VALUES * model.width * value_bytes
    if settings.gradient_checkpointing:
        # Every layer keeps its input alone, and one at a time has all its values.
        layers = layer + model.layers * model.width * value_bytes
    else:
        layers = layer * model.layers
    compiled = gpu if settings.compile == "auto" else settings.compile
    score = value_bytes if compiled else EAGER_SCORE_BYTES
    return layers + (vocabulary * score if gpu else 0)

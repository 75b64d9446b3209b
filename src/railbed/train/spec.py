"""What a rank is given when it is started, as a JSON file: the interface between the control side and the worker.

The rank answers with JSON lines on a file descriptor, each with its kind, rank and time:

    alive               every second, from a thread: step, phase (starting, joining, loading, training, evaluating,
                        finishing), stepping: whether steps are to be expected
    chosen              what was chosen for this hardware: device, precision, compile, threads, micro_batch, …
    transport           from rank 0: engine, reason, falls_back, timings (by engine: size, seconds, repeats)
    resumed             step: where a resumed run continues
    shares              from rank 0: step, sentence, counts, paces and names by rank: how the global batch is split from
                        here on; cost: a sentence where a rank costs more than it contributes
    progress            after every step: step (1 is the first), loss, learning_rate, tokens_per_second, mfu,
                        step_seconds, {data,forward,backward,allreduce_exposed,optimiser}_seconds, bytes_sent, …;
                        peak_memory_bytes where it has grown
    counters            step, begin, transport, rdma, net, tcp_segments, connections: those of the node, from its first
                        rank
    evaluation          step, validation_loss
    memory              step, peak_memory_bytes: where it has grown after the last step
    checkpoint          step, hash, seconds, bytes, folder: saved, read back and verified
    checkpoint_failed   step, sentence: training goes on
    sample              step, tokens: text made by the model, still as tokens
    exported            folder, step: the weights in the layout of Hugging Face
    export_failed       sentence: they could not be written
    rank_done           step, loss, seconds
    intrusion           address, sentence: somebody without the secret of the job connected to this rank
    error               as `launch.rank` describes it

When nothing reads the messages any more, the rank ends itself: no orphan outlives its starter.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from railbed.launch.spec import RankSpec
from railbed.train.recipe import Recipe
from railbed.train.structure import structure


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeSource:
    """The state to go on from: the rank that has it gives it to all others."""

    step: int
    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSpec(RankSpec):
    """Everything one rank of a training needs."""

    recipe: dict[str, Any]
    """The recipe as plain values (`Recipe.to_plain`)."""
    shares: tuple[float, ...] = (1.0,)
    """One for each rank: how much of the global batch it gets, at first where the recipe has `shares: speed`. A rank
    with zero takes part and computes nothing."""
    names: tuple[str, ...] = ()
    """One for each rank: its name in messages and in checkpoints, where numbers change with the nodes."""
    transport: str = "auto"
    """nccl, mpi, gloo, or auto: the best of them that works."""
    device: str = "auto"
    """cpu, cuda:N, or auto: the GPU with the number of the local rank where there are GPUs."""
    threads: int = 0
    """Processor threads of this rank; 0 leaves it to the recipe, whose `auto` shares the cores."""
    tokens: str = ""
    """Folder with tokens.bin and tokens.json."""
    checkpoints: str = ""
    """Folder for checkpoints on this node; empty saves none. The first rank of each node saves."""
    export: str = ""
    """Folder for the final weights, written by rank 0; empty writes none."""
    resume: ResumeSource | None = None
    owes_evaluation: bool = False
    """The validation that was due at the step to continue from is not known: it is done before the first step."""
    prompt: tuple[int, ...] = ()
    """Tokens that the sample of generated text begins with."""
    sample_tokens: int = 120
    """Length of that sample; 0 makes none."""

    @property
    def settings(self) -> Recipe:
        """Return the recipe, typed."""
        return Recipe.read(self.recipe)

    @property
    def called(self) -> tuple[str, ...]:
        """Return the names of all ranks."""
        return self.names or tuple(f"rank {rank}" for rank in range(self.world))

    @classmethod
    def from_json(cls, text: str) -> TrainSpec:
        """Read the text of a job file; raise ValueError for what it is not."""
        values = json.loads(text)
        if not isinstance(values, dict):
            raise ValueError("a job is a map")  # noqa: TRY004 -- wrong text, not a wrong call
        return structure(cls, values)

    @classmethod
    def read(cls, path: Path) -> TrainSpec:
        """Read a job file."""
        return cls.from_json(path.read_text())

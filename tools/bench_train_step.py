"""Measure a training step on this processor against a plain loop with the same model in transformers.

    python -m tools.bench_train_step [--recipe gpt2] [--steps 3] [--sequences 1] [--context 1024] [--threads N]

Both train in this process, fp32, with the same shape, batch and threads, in turns: ours, theirs, ours, theirs. The
plain loop follows the documentation: `model(ids, labels=ids).loss.backward()`, clip, AdamW, zero_grad.
`tools.bench_overhead` measures what railbed adds to a step of several ranks.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tests.support.smallmodel import write_tokens

from railbed.collective.group import SingleRank
from railbed.train import recipes
from railbed.train.models.gpt import GptSettings
from railbed.train.recipe import Batch, Recipe
from railbed.train.worker import optimiser as adamw
from railbed.train.worker.io.corpus import Tokens
from railbed.train.worker.memory import MicroBatches
from railbed.train.worker.models.base import BuildOptions, build_model
from railbed.train.worker.parallel.replicate import Replicate
from railbed.train.worker.step import Stepper


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--recipe", default="gpt2")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--sequences", type=int, default=1)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    settings = settings_of(arguments.recipe, arguments.sequences, arguments.context, arguments.steps)
    with tempfile.TemporaryDirectory() as folder:
        tokens = Tokens.open(write_tokens(Path(folder), count=20_000, vocabulary=1000))
        ours, theirs = our_step(settings, tokens), their_step(settings, tokens)
        times: dict[str, list[tuple[float, float]]] = {"railbed": [], "transformers": []}
        for step in range(arguments.steps + 1):
            for name, take in (("railbed", ours), ("transformers", theirs)):
                start, used = time.perf_counter(), time.process_time()
                take(step)
                times[name].append((time.perf_counter() - start, time.process_time() - used))
    report(times, arguments.sequences * arguments.context, arguments.threads)


def settings_of(name: str, sequences: int, context: int, steps: int) -> Recipe:
    """Return a recipe's settings with a small batch."""
    settings = recipes.load(name)
    batch = Batch(sequences=sequences, micro=sequences)
    return replace(settings, batch=batch, steps=steps + 1, model=replace(settings.model, context=context))


def our_step(settings: Recipe, tokens: Tokens) -> Callable[[int], object]:
    """Return our step."""
    model = build_model(settings, BuildOptions(device=torch.device("cpu")))
    model.initialise(1)
    print(f"railbed: {settings.family.parameter_count(settings.model):,} parameters")
    stepper = Stepper(
        settings=settings,
        strategy=Replicate(model, SingleRank(), settings, compiled=False),
        tokens=tokens,
        optimiser=adamw.make(model, settings.optimiser),
        device=torch.device("cpu"),
        shares=[1.0],
        micro=MicroBatches(settings.batch.sequences),
    )
    return lambda step: stepper.take(step, wants_checkpoint=False).sums()


def their_step(settings: Recipe, tokens: Tokens) -> Callable[[int], object]:
    """Return a step of the plain loop."""
    import transformers

    shape = settings.model
    assert isinstance(shape, GptSettings)
    config = transformers.GPT2Config(
        n_layer=shape.layers,
        n_head=shape.heads,
        n_embd=shape.width,
        n_positions=shape.context,
        vocab_size=shape.vocabulary_size,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    made: Any = transformers.GPT2LMHeadModel
    model = made(config)
    print(f"transformers {transformers.__version__}: {sum(p.numel() for p in model.parameters()):,} parameters")
    optimiser = torch.optim.AdamW(model.parameters(), lr=settings.optimiser.learning_rate)

    def step(number: int) -> float:
        ids, _ = tokens.batch(range(number, number + settings.batch.sequences), shape.context)
        loss = model(ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        return float(loss.detach())

    return step


def report(times: dict[str, list[tuple[float, float]]], tokens: int, threads: int) -> None:
    """Print the results without the first step of each; on a busy machine processor time is more meaningful."""
    fastest = {name: [min(pair[kind] for pair in taken[1:]) for kind in (0, 1)] for name, taken in times.items()}
    for name, taken in times.items():
        spread = ", ".join(f"{clock:.2f} ({used:.2f})" for clock, used in taken[1:])
        print(f"{name:<14}{tokens / fastest[name][0]:9.1f} tokens/s   steps (processor time): {spread} s")
    print(f"torch {torch.__version__}, {threads} threads, fp32, {tokens} tokens per step, fastest of {len(taken) - 1}")
    for kind, clock in enumerate(("by wall time", "by processor time")):
        print(f"railbed / transformers {clock}: {fastest['transformers'][kind] / fastest['railbed'][kind]:.2f}")


if __name__ == "__main__":
    main()

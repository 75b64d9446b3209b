"""Measure what railbed adds to a training step on two ranks of this machine, against a bare loop with DDP.

    python -m tools.bench_overhead [--recipe tiny] [--rounds 40]

Both train in the same two processes, with the same model, batch, micro-batches and optimiser, over gloo, in turns: one
step of ours, one of theirs, and the other way round in the next round. Ours is the worker's own step with everything
around it: hook, clock, accounting, shares by speed, heartbeat and messages, which this process reads like an agent.
Theirs is DDP's own all-reduce, clip, AdamW and zero_grad, without messages.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import quantiles

import torch
from tests.support.ranks import Starter
from tests.support.smallmodel import write_tokens
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from railbed.collective.connect import connect
from railbed.collective.group import Collective
from railbed.collective.rendezvous import Rendezvous, alarm_to
from railbed.launch.messages import Messages
from railbed.train import recipes
from railbed.train.spec import TrainSpec
from railbed.train.worker import optimiser as adamw
from railbed.train.worker.io.corpus import Tokens
from railbed.train.worker.loop import TrainingLoop
from railbed.train.worker.models.base import BuildOptions, build_model
from railbed.train.worker.parallel.replicate import BUCKET_MEGABYTES

RANKS = 2
WARM_UP = 3
GOAL = 0.02
Step = Callable[[int], object]


def main() -> None:
    """Start the ranks and print their measurements, or be one of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("job", nargs="?", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--messages", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--recipe", default="tiny")
    parser.add_argument("--rounds", type=int, default=40)
    arguments = parser.parse_args()
    if arguments.job:
        be_a_rank(TrainSpec.read(arguments.job), arguments.messages)
        return
    recipe = recipes.load(arguments.recipe, [f"steps={arguments.rounds + WARM_UP}"]).to_plain()
    with tempfile.TemporaryDirectory() as folder:
        tokens = write_tokens(Path(folder, "tokens"), count=200_000, vocabulary=1000)
        starter = Starter(Path(folder), tokens, module="tools.bench_overhead")
        try:
            ranks = starter.run(RANKS, recipe, checkpoints="")
        finally:
            starter.close()
        for kind in ("clock", "processor"):
            report(f"{arguments.recipe}, by the {kind}", [rank.messages_of("measured")[0][kind] for rank in ranks])


def be_a_rank(job: TrainSpec, descriptor: int) -> None:
    """Take both steps in turns, and send their times."""
    messages = Messages(descriptor, job.rank)
    messages.start_heartbeat()
    collective, _ = connect("gloo", Rendezvous.of(job), torch.device("cpu"), [1 << 20], alarm_to(messages))
    tokens = Tokens.open(Path(job.tokens))
    training = TrainingLoop(job, job.settings, tokens, messages, collective=collective, device=torch.device("cpu"))
    training.strategy.restore(training.state, job, Path())
    training.strategy.warm_up()
    turns = {"railbed": our_step(training), "bare": their_step(training)}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in turns}
    for number in range(job.settings.steps):
        for name in sorted(turns, reverse=number % 2 == 0):
            meet_again(collective)
            start, used = time.perf_counter(), time.process_time()
            turns[name](number)
            times[name].append((time.perf_counter() - start, time.process_time() - used))
    clock, processor = (
        {name: [pair[kind] for pair in pairs[WARM_UP:]] for name, pairs in times.items()} for kind in (0, 1)
    )
    messages.send("measured", clock=clock, processor=processor)
    collective.close()
    os._exit(0)  # like any rank


def meet_again(collective: Collective) -> None:
    """Wait for all ranks."""
    collective.sum(torch.zeros(1))


def our_step(training: TrainingLoop) -> Step:
    """Return the worker's step."""

    def step(number: int) -> None:
        taken = training.stepper.take(number, wants_checkpoint=False, extra=training.rebalancer.contribution())
        training.progress.read(taken)
        training.rebalancer.read(taken)

    return step


def their_step(training: TrainingLoop) -> Step:
    """Return a step of the bare loop, with the same number of sequences and micro-batches of the same tokens."""
    settings, stepper, tokens = training.settings, training.stepper, training.tokens
    context, batch = settings.model.context, settings.batch.sequences
    model = build_model(settings, BuildOptions(device=torch.device("cpu")))
    model.initialise(settings.seed)
    optimiser = adamw.make(model, settings.optimiser)
    replica = DistributedDataParallel(model, bucket_cap_mb=BUCKET_MEGABYTES, gradient_as_bucket_view=True)
    micro_batches = stepper.micro.cut(stepper.part(0).mine)

    def learn(number: int, part: range) -> float:
        windows = [(number * batch + index) % tokens.windows(context) for index in part]
        inputs, targets = tokens.batch(windows, context)
        loss: torch.Tensor = replica(inputs, targets) * (RANKS / (batch * context))
        loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())

    def step(number: int) -> float:
        with replica.no_sync():
            loss = sum(learn(number, part) for part in micro_batches[:-1])
        loss += learn(number, micro_batches[-1])
        nn.utils.clip_grad_norm_(model.parameters(), settings.optimiser.clip)
        adamw.set_rate(optimiser, adamw.learning_rate(settings.optimiser, number, settings.steps))
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        return loss

    return step


def report(title: str, by_rank: Sequence[dict[str, list[float]]]) -> None:
    """Print the medians, and the median of the ratios; a step takes as long as its slower rank.

    On a busy machine steps vary by more than the overhead. The two steps of a round follow each other directly, so
    their ratio is judged.
    """
    ours, theirs = ([max(both) for both in zip(*(rank[name] for rank in by_rank), strict=True)] for name in by_rank[0])
    print(f"{title}, {RANKS} ranks, {len(ours)} rounds")
    for name, taken in zip(by_rank[0], (ours, theirs), strict=True):
        low, middle, high = (1000 * part for part in quantiles(taken, n=4))
        print(f"  {name:<9}{middle:8.1f} ms per step; half of them between {low:.1f} and {high:.1f} ms")
    low, middle, high = quantiles([our / their for our, their in zip(ours, theirs, strict=True)], n=4)
    print(f"  railbed / bare: {middle:.4f}, the median of the rounds; half of them between {low:.3f} and {high:.3f}")
    verdict = "met" if middle < 1 + GOAL else "missed"
    print(f"  the goal, under {GOAL:.0%} of the step: {verdict} ({middle - 1:+.2%})")


if __name__ == "__main__":
    main()

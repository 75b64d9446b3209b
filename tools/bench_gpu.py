"""GPT-2 124M on one GPU, bf16 and compiled, against transformers' GPT-2, compiled, in the same run.

    PYTHONPATH=src:. python3 -m tools.bench_gpu [--steps 20] [--micro 64] [--context 1024] [--only railbed|transformers]

Needs torch and, for the peer, transformers, but none of railbed's other requirements. The loop is the worker's own: the
step, the clock and the accounting of a real run, on random tokens. A step is one micro-batch; the first steps, in
which torch compiles, are not counted.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from tests.support.smallmodel import recipe, write_tokens

from railbed.collective.group import SingleRank
from railbed.train.recipe import Recipe
from railbed.train.spec import TrainSpec
from railbed.train.worker import optimiser as adamw
from railbed.train.worker.hardware import choose
from railbed.train.worker.io.corpus import Tokens
from railbed.train.worker.memory import MicroBatches
from railbed.train.worker.models.base import BuildOptions, build_model
from railbed.train.worker.parallel.replicate import Replicate
from railbed.train.worker.step import Stepper, StepResult

WARM = 4
VOCABULARY = 50257
SHAPE = {"layers": 12, "heads": 12, "width": 768, "vocabulary": VOCABULARY}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--micro", type=int, default=64)
    parser.add_argument("--pieces", type=int, default=1, help="micro-batches per step of railbed")
    parser.add_argument("--their-micro", type=int, default=32)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--only", choices=["railbed", "transformers"])
    arguments = parser.parse_args()
    device = torch.device("cuda")
    print(
        f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}, Python {sys.version.split()[0]}", flush=True
    )
    speeds = {}
    if arguments.only != "transformers":
        speeds["railbed"] = ours(device, arguments.micro, arguments.pieces, arguments.context, arguments.steps)
        torch.cuda.empty_cache()
    if arguments.only != "railbed":
        speeds["transformers"] = theirs(device, arguments.their_micro, arguments.context, arguments.steps)
    if len(speeds) == 2:
        print(f"railbed / transformers: {speeds['railbed'] / speeds['transformers']:.2f}")


def ours(device: torch.device, micro: int, pieces: int, context: int, steps: int) -> float:
    """Return our tokens per second."""
    values = recipe(
        steps=steps + WARM,
        model={**SHAPE, "context": context, "pad_vocabulary": "auto"},
        batch={"sequences": micro * pieces, "micro": micro},
        precision="auto",
        compile="auto",
        threads="auto",
    )
    settings = Recipe.read(values)
    chosen = choose(TrainSpec(recipe=values, run="bench"), settings, device)
    print(f"chosen: {chosen}", flush=True)
    model = build_model(settings, BuildOptions(device=device, padded=chosen.padded, compute=chosen.dtype))
    model.initialise(1)
    with tempfile.TemporaryDirectory() as folder:
        stepper = Stepper(
            settings=settings,
            strategy=Replicate(model, SingleRank(), settings, compiled=chosen.compile),
            tokens=Tokens.open(write_tokens(Path(folder), count=400_000, vocabulary=40_000)),
            optimiser=adamw.make(model, settings.optimiser),
            device=device,
            shares=[1.0],
            micro=MicroBatches(micro),
        )
        return _run_ours(stepper, steps, settings.family.flops_per_token(settings.model) / chosen.peak_flops)


def _run_ours(stepper: Stepper, steps: int, mfu_of_speed: float) -> float:
    tokens = stepper.settings.batch.sequences * stepper.settings.model.context
    seconds, taken = [], None
    waiting: list[StepResult] = []
    losses: list[float] = []
    for step in range(steps + WARM):
        start = time.perf_counter()
        taken = stepper.take(step, wants_checkpoint=False, start=taken.clock if taken else None)
        waiting.append(taken)
        if len(waiting) > 1:
            read = waiting.pop(0)
            losses.append(read.sums()[0])
            seconds.append((sum(read.clock.parts().values()), read.clock.total(), read.clock.parts()))
        if step == 0:
            torch.cuda.synchronize()
            print(f"railbed: first step, including compilation, {time.perf_counter() - start:.1f} s", flush=True)
    speed = tokens / statistics.median(total for _, total, _ in seconds[WARM:])
    parts = {name: round(1000 * value, 2) for name, value in seconds[-1][2].items()}
    count = stepper.settings.family.parameter_count(stepper.settings.model)
    print(f"railbed: {count:,} parameters, loss {losses[-1]:.3f}, parts of a step in ms: {parts}")
    print_result("railbed", speed, mfu_of_speed)
    return speed


def theirs(device: torch.device, micro: int, context: int, steps: int) -> float:
    """Return the tokens per second of transformers' model in a plain compiled loop with autocast and fused AdamW."""
    import transformers

    config = transformers.GPT2Config(n_positions=context, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    made: Any = transformers.GPT2LMHeadModel
    model: Any = torch.compile(made(config).to(device))
    optimiser = torch.optim.AdamW(model.parameters(), lr=6e-4, fused=True)
    ids = torch.randint(0, 40_000, (micro, context), device=device)
    torch.cuda.reset_peak_memory_stats()
    seconds = []
    for _ in range(steps + WARM):
        start = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    speed = micro * context / statistics.median(seconds[WARM:])
    print_result(f"transformers {transformers.__version__}", speed, 0.0)
    return speed


def print_result(name: str, speed: float, mfu_of_speed: float) -> None:
    """Print speed, MFU and peak memory."""
    memory = torch.cuda.max_memory_allocated() / 2**30
    mfu = f", MFU {100 * speed * mfu_of_speed:.1f} %" if mfu_of_speed else ""
    print(f"{name}: {speed:,.0f} tokens/s{mfu}, {memory:.1f} GiB peak", flush=True)


if __name__ == "__main__":
    main()

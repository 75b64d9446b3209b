"""What only a GPU shows: a real shortage of memory in a step, and fp16 with loss scaling beside bf16 and fp32.

    PYTHONPATH=src:. python3 -m tools.try_gpu [--steps 40] [--compile]

Needs torch, but none of railbed's other requirements. Prints what it did, and ends with 1 if a step with little memory
differs from one with plenty, or if a training in fp16 does not follow that in fp32.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import torch
from tests.support.smallmodel import recipe, write_tokens

from railbed.collective.group import SingleRank
from railbed.train.precision import Format
from railbed.train.recipe import Recipe
from railbed.train.worker import optimiser as adamw
from railbed.train.worker.hardware import TYPES
from railbed.train.worker.io.corpus import Tokens
from railbed.train.worker.memory import MicroBatches
from railbed.train.worker.models.base import BuildOptions, build_model
from railbed.train.worker.parallel.replicate import Replicate
from railbed.train.worker.step import Stepper

SHAPE = {"layers": 6, "heads": 8, "width": 512, "vocabulary": 4096, "context": 512, "pad_vocabulary": False}
SEQUENCES, STEPS = 64, 1000
SAME_STEP, FOLLOWS = 2e-3, 0.05
"""How far losses of the same steps in other micro-batches may be apart, and how far above fp32 those of other formats.

Their curves part early: rounding changes which way an untrained model takes."""
Shortages = list[tuple[int, int]]


def main() -> int:
    """Try both; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--compile", action="store_true", help="compile the model, as training does by default")
    arguments = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        tokens = write_tokens(Path(folder), count=400_000, vocabulary=4096)
        fine = [
            memory(tokens, compiled=arguments.compile),
            formats(tokens, arguments.steps, compiled=arguments.compile),
        ]
    return 0 if all(fine) else 1


def memory(tokens: Path, *, compiled: bool) -> bool:
    """Take steps with plenty of memory, and the same with a third of what they needed."""
    plenty, _ = stepper_of(tokens, "fp32", compiled=compiled)
    torch.cuda.reset_peak_memory_stats()
    expected = losses(plenty, range(3))
    peak, device = torch.cuda.max_memory_allocated(), torch.cuda.current_device()
    del plenty
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(device).total_memory
    torch.cuda.set_per_process_memory_fraction(peak / 3 / total)
    little, shortages = stepper_of(tokens, "fp32", compiled=compiled)
    torch.cuda.reset_peak_memory_stats()
    reached = losses(little, range(3))
    apart = max(abs(a - b) for a, b in zip(expected, reached, strict=True))
    print(f"memory: {peak >> 20} MiB for {SEQUENCES} sequences at a time; with a third of that, {shortages}")
    print(f"memory: peak {torch.cuda.max_memory_allocated() >> 20} MiB, losses at most {apart:.1e} apart", flush=True)
    torch.cuda.set_per_process_memory_fraction(1.0)
    return bool(shortages) and apart < SAME_STEP


def formats(tokens: Path, steps: int, *, compiled: bool) -> bool:
    """Train in every format; then take a step in fp16 with a loss scale so high that updates are skipped."""
    ends = {}
    for form in TYPES:
        stepper, _ = stepper_of(tokens, form, compiled=compiled)
        if form == "fp16":
            stepper.scale.use()
        taken = losses(stepper, range(steps))
        ends[form] = taken[-1]
        print(f"{form}: loss {taken[0]:.4f} to {taken[-1]:.4f}, {stepper.scale.skipped} updates skipped", flush=True)
        del stepper
        torch.cuda.empty_cache()
    stepper, _ = stepper_of(tokens, "fp16", compiled=compiled)
    stepper.scale.use()
    stepper.scale.factor = 2.0**32
    skipped = skipped_at_first(stepper)
    print(f"fp16 from a loss scale of 2**32: {skipped} updates skipped, then {stepper.scale.factor:g}")
    return skipped > 0 and all(end < ends["fp32"] * (1 + FOLLOWS) for end in ends.values())


def skipped_at_first(stepper: Stepper) -> int:
    """Take the first step until its update is made; return how often it was skipped."""
    skipped = -1
    while stepper.scale.skipped > skipped:
        skipped = stepper.scale.skipped
        losses(stepper, range(1))
    return skipped


def stepper_of(tokens: Path, form: Format, *, compiled: bool) -> tuple[Stepper, Shortages]:
    """Return what takes steps in a format, and the list of its shortages of memory."""
    settings = Recipe.read(recipe(steps=STEPS, model=SHAPE, batch={"sequences": SEQUENCES, "micro": SEQUENCES}))
    device, shortages = torch.device("cuda"), Shortages()
    model = build_model(settings, BuildOptions(device=device, compute=TYPES[form]))
    model.initialise(1)
    stepper = Stepper(
        settings=settings,
        strategy=Replicate(model, SingleRank(), settings, compiled=compiled),
        tokens=Tokens.open(tokens),
        optimiser=adamw.make(model, settings.optimiser),
        device=device,
        shares=[1.0],
        micro=MicroBatches(SEQUENCES, report=lambda *numbers: shortages.append(numbers)),
    )
    return stepper, shortages


def losses(stepper: Stepper, steps: range) -> list[float]:
    """Take steps; return their losses."""
    return [stepper.take(step, wants_checkpoint=False).sums()[0] for step in steps]


if __name__ == "__main__":
    sys.exit(main())

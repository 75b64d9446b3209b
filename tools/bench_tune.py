"""LoRA and QLoRA of a 7B-class model with random weights on one GPU, against a plain peft loop in the same run.

    PYTHONPATH=src:. python3 -m tools.bench_tune [--steps 8] [--micro 4] [--context 1024] [--layers 32]

Needs torch, transformers, peft and bitsandbytes, but none of railbed's other requirements. The model is made on the
card and saved once; both sides load that folder. railbed's side is the worker's own model and step; the plain loop
follows peft's documentation (bf16 or nf4 base, `get_peft_model`, gradient checkpointing, clip, fused AdamW), once as it
is and once under autocast, as trainers run it. All take the same sequences with adapters of the same shape, in turns.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.support.basemodels import tuning, write_tokenizer

from railbed.collective.group import SingleRank
from railbed.train.data.rows import Document, RowWriter
from railbed.train.recipe import Recipe
from railbed.train.worker import optimiser as adamw
from railbed.train.worker.io.corpus import Rows
from railbed.train.worker.memory import MicroBatches
from railbed.train.worker.models.base import BuildOptions, build_model
from railbed.train.worker.models.pretrained import library
from railbed.train.worker.parallel.choose import strategy_of
from railbed.train.worker.step import Stepper

WARM = 2
VOCABULARY = 32_000
SHAPE = {
    "hidden_size": 4096,
    "intermediate_size": 11_008,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "max_position_embeddings": 4096,
    "vocab_size": VOCABULARY,
}
RANK, ALPHA = 16, 32.0
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
RATE = 2e-4
Step = Callable[[int], float]
"""Takes the step with that number, and returns its loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What both sides train on."""

    base: Path
    rows: Rows
    context: int
    micro: int
    steps: int
    quantisation: str


@dataclass(frozen=True, slots=True)
class Speed:
    """What a side achieved."""

    tokens_per_second: float
    peak_gib: float
    losses: list[float]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--micro", type=int, default=4)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=2)
    arguments = parser.parse_args()
    versions = " ".join(f"{name} {library(name).__version__}" for name in ("transformers", "peft", "bitsandbytes"))
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {versions}, Python {sys.version.split()[0]}")
    with tempfile.TemporaryDirectory() as folder:
        base = save_base(Path(folder) / "base", arguments.layers)
        rows = random_rows(Path(folder), arguments.context, count=(arguments.steps + WARM) * arguments.micro)
        for quantisation in ("none", "nf4"):
            load = Load(
                base=base,
                rows=rows,
                context=arguments.context,
                micro=arguments.micro,
                steps=arguments.steps,
                quantisation=quantisation,
            )
            compare(load, arguments.repeats)


def save_base(folder: Path, layers: int) -> Path:
    """Make a model with random weights on the card, and save it."""
    transformers = library("transformers")
    write_tokenizer(folder)
    config = transformers.LlamaConfig(num_hidden_layers=layers, **SHAPE)
    start = time.perf_counter()
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder)
    count = sum(parameter.numel() for parameter in model.parameters())
    print(f"base: {count:,} parameters, made and saved in {time.perf_counter() - start:.0f} s", flush=True)
    return folder


def random_rows(folder: Path, context: int, count: int) -> Rows:
    """Write rows of random tokens, one document each, all of them trained."""
    chance = np.random.default_rng(1)
    with RowWriter(folder, context + 1, "uint16") as writer:
        for _ in range(count):
            writer.add([Document.of(chance.integers(VOCABULARY, size=context + 1), [True] * (context + 1))])
    about = {"rows": count, "context": context, "dtype": "uint16", "train": count}
    return Rows.open(folder, {**about, "vocabulary": VOCABULARY, "end_of_text": 0})


def compare(load: Load, repeats: int) -> None:
    """Measure both sides in turns, and print their medians."""
    sides: dict[str, Callable[[Load], Step]] = {
        "railbed": our_step,
        "peft": their_step,
        "peft, autocast": partial(their_step, autocast=True),
    }
    speeds: dict[str, list[Speed]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, make in sides.items():
            speeds[name].append(measure(load, make))
    name = "LoRA, base in bf16" if load.quantisation == "none" else "QLoRA, base in nf4"
    print(f"{name}, rank {RANK}, {load.micro} sequences of {load.context} tokens a step, gradient checkpointing")
    for side, measured in speeds.items():
        rates = ", ".join(f"{speed.tokens_per_second:,.0f}" for speed in measured)
        first, last = measured[-1].losses[0], measured[-1].losses[-1]
        peak = max(speed.peak_gib for speed in measured)
        print(f"  {side:<14} {rates} tokens/s, peak {peak:.1f} GiB, loss {first:.4f} to {last:.4f}")
    ours, *theirs = (statistics.median(speed.tokens_per_second for speed in measured) for measured in speeds.values())
    print(f"  railbed / the faster of the others: {ours / max(theirs):.3f}", flush=True)


def measure(load: Load, make: Callable[[Load], Step]) -> Speed:
    """Return the speed of one side, whose model is gone afterwards."""
    gc.collect()
    torch.cuda.empty_cache()
    step = make(load)
    losses = [step(number) for number in range(WARM)]
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    losses += [step(number) for number in range(WARM, WARM + load.steps)]
    torch.cuda.synchronize()
    tokens = load.steps * load.micro * load.context
    return Speed(tokens / (time.perf_counter() - start), torch.cuda.max_memory_allocated() / (1 << 30), losses)


def our_step(load: Load) -> Step:
    """Return the worker's step."""
    device = torch.device("cuda")
    values = tuning(
        load.base,
        [],
        steps=load.steps + WARM,
        model={
            "context": load.context,
            "quantisation": load.quantisation,
            "lora": {"rank": RANK, "alpha": ALPHA, "targets": TARGETS},
        },
        batch={"sequences": load.micro, "micro": load.micro},
        optimiser={"learning_rate": RATE, "warmup_steps": 0, "final_fraction": 1.0},
        gradient_checkpointing=True,
    )
    settings = Recipe.read(values).for_vocabulary(VOCABULARY)
    options = BuildOptions(device=device, compute=torch.bfloat16, gradient_checkpointing=True)
    model = build_model(settings, options)
    model.initialise(1)
    stepper = Stepper(
        settings=settings,
        strategy=strategy_of(settings)(model, SingleRank(), settings, compiled=False),
        tokens=load.rows,
        optimiser=adamw.make(model, settings.optimiser),
        device=device,
        shares=[1.0],
        micro=MicroBatches(load.micro),
    )
    return lambda number: stepper.take(number, wants_checkpoint=False).sums()[0]


def their_step(load: Load, *, autocast: bool = False) -> Step:
    """Return a step of the plain loop."""
    model = _their_model(load)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=RATE, fused=True)

    def step(number: int) -> float:
        numbers = range(number * load.micro, (number + 1) * load.micro)
        ids = load.rows.tokens[list(numbers)].to(torch.int64)[:, :-1].to("cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=autocast):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimiser.step()
        optimiser.zero_grad()
        return float(loss.detach())

    return step


def _their_model(load: Load) -> Any:  # noqa: ANN401 -- a model of peft
    transformers, peft = library("transformers"), library("peft")
    quantised = transformers.BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
    more = {"quantization_config": quantised} if load.quantisation == "nf4" else {}
    model = transformers.AutoModelForCausalLM.from_pretrained(
        load.base, dtype=torch.bfloat16, device_map={"": "cuda"}, attn_implementation="sdpa", **more
    )
    if load.quantisation == "nf4":
        model = peft.prepare_model_for_kbit_training(model, gradient_checkpointing_kwargs={"use_reentrant": False})
    else:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()
    model.config.use_cache = False
    config = peft.LoraConfig(task_type="CAUSAL_LM", r=RANK, lora_alpha=ALPHA, target_modules=TARGETS)
    adapted = peft.get_peft_model(model, config)
    adapted.train()
    return adapted


if __name__ == "__main__":
    main()

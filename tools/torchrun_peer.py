"""What a user would write for torchrun: DDP on the model of the failure benchmark, with a checkpoint to resume from.

    torchrun … tools/torchrun_peer.py FOLDER

It prints `begin` and `step N`, each with the time, for the benchmark to read.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from railbed.train.models.gpt import GptSettings
from railbed.train.worker.models.base import BuildOptions
from railbed.train.worker.models.gpt import Gpt

SHAPE = GptSettings(layers=2, heads=2, width=32, context=32, vocabulary=512)
BATCH = 12
SAVE_EVERY = 10


def main() -> None:
    """Train until killed."""
    file = Path(sys.argv[1]) / "state.pt"
    dist.init_process_group("gloo")
    print_line("begin")
    model = Gpt.build(SHAPE, BuildOptions(device=torch.device("cpu")))
    model.initialise(1)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    step = 0
    if file.exists():
        state = torch.load(file)
        model.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        step = state["step"]
    replica = DistributedDataParallel(model)
    mine = len(range(dist.get_rank(), BATCH, dist.get_world_size()))
    while True:
        tokens = torch.randint(SHAPE.vocabulary_size, (mine, SHAPE.context + 1))
        loss = replica(tokens[:, :-1], tokens[:, 1:]) / tokens[:, 1:].numel()
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        step += 1
        print_line(f"step {step}")
        if step % SAVE_EVERY == 0 and dist.get_rank() == 0:
            torch.save({"model": model.state_dict(), "optimiser": optimiser.state_dict(), "step": step}, f"{file}.new")
            Path(f"{file}.new").replace(file)


def print_line(text: str) -> None:
    """Print a line with the time."""
    print(f"{time.time():.3f} {text}", flush=True)


if __name__ == "__main__":
    main()

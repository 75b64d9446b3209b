"""What a user would write for `srun python`: DDP on the model of a recipe, without railbed around it.

    srun … python -m tools.srun_peer RECIPE SEQUENCES STEPS THREADS ADDRESS PORT

Rank 0 prints a line of JSON when a step has ended, with the time.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from railbed.train import recipes
from railbed.train.worker import optimiser as adamw
from railbed.train.worker.models.base import BuildOptions, build_model
from railbed.train.worker.parallel.replicate import BUCKET_MEGABYTES


def main() -> None:
    """Train, and print the times."""
    recipe, sequences, steps, threads, address, port = sys.argv[1:]
    rank, world = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
    Path("/proc/self/comm").write_text(f"rank{rank}")  # as railbed names its ranks: their processor time is measured
    torch.set_num_threads(int(threads))
    settings = recipes.load(recipe, [f"batch.sequences={sequences}"])
    dist.init_process_group("gloo", init_method=f"tcp://{address}:{port}", rank=rank, world_size=world)
    model = build_model(settings, BuildOptions(device=torch.device("cpu")))
    model.initialise(settings.seed)
    optimiser = adamw.make(model, settings.optimiser)
    replica = DistributedDataParallel(model, bucket_cap_mb=BUCKET_MEGABYTES, gradient_as_bucket_view=True)
    own, context = settings.batch.sequences // world, settings.model.context
    generator = torch.Generator().manual_seed(rank)
    for step in range(1, int(steps) + 1):
        tokens = torch.randint(settings.model.vocabulary_size, (own, context + 1), generator=generator)
        loss = replica(tokens[:, :-1], tokens[:, 1:]) * (world / (settings.batch.sequences * context))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), settings.optimiser.clip)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        if rank == 0:
            print(json.dumps({"step": step, "loss": float(loss.detach()), "time": time.time()}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

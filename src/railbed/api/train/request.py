"""What a training is asked to do: from a recipe, or from an earlier run."""

from __future__ import annotations

import secrets
import time
from dataclasses import replace
from pathlib import Path

from railbed.api.train.earlier import EarlierRun
from railbed.model.cluster import Cluster
from railbed.train.data import tokenizer
from railbed.train.data.prepare import PreparedData
from railbed.train.recipe import Recipe
from railbed.train.run import TrainRequest
from railbed.train.state.resume import EarlierState

LOCAL_RANKS = 2
"""Without GPUs; with GPUs there is one rank per GPU."""
NVIDIA_GPUS = Path("/proc/driver/nvidia/gpus")


def request_of(wanted: Recipe, prepared: PreparedData, run: str = "") -> TrainRequest:
    """Return the request for a recipe and its prepared tokens, with a new name unless one is set."""
    prompt = tuple(tokenizer.encode_text(prepared.folder, wanted.data.prompt)) if wanted.data.prompt else ()
    return TrainRequest(
        run=run or f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}",
        recipe=wanted.to_plain(),
        tokens=prepared.folder,
        base=None if wanted.model.is_on_nodes else wanted.model.base_folder,
        prompt=prompt,
    )


def continuing(earlier: EarlierRun, prepared: PreparedData, *, from_start: bool) -> TrainRequest:
    """Return the request to continue a run from its state, or to start it again."""
    resumes = None if from_start else EarlierState(run=earlier.wanted)
    return replace(request_of(earlier.recipe, prepared, earlier.job), resumes=resumes)


def with_placement(
    request: TrainRequest, site: Cluster, *, ranks: int | None, minimum: int, transport: str
) -> TrainRequest:
    """Return a request for a cluster, with the options of the training."""
    local = all(node.host == "local" for node in site.nodes.values())
    return replace(request, ranks=ranks or (_local_ranks() if local else None), minimum=minimum, transport=transport)


def _local_ranks() -> int:
    gpus = len(list(NVIDIA_GPUS.iterdir())) if NVIDIA_GPUS.is_dir() else 0
    return gpus or LOCAL_RANKS

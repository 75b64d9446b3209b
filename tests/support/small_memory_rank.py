"""A rank of training whose memory is too small for large micro-batches, as the recipe's description says.

The description is JSON: for each rank, the most sequences that fit in a forward pass and in a backward pass, and from
which forward pass on.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from unittest.mock import patch

import torch

from railbed.launch import rank
from railbed.train.ranks import FUNCTION
from railbed.train.worker.models.gpt import Gpt

PLENTY = 1 << 30


def shrink(limits: list[tuple[int, int, int]]) -> None:
    """Let the model run out of memory as a GPU does."""
    passes = [0]
    plain = Gpt.loss

    def loss(
        self: Gpt, tokens: torch.Tensor, targets: torch.Tensor, positions: torch.Tensor | None = None
    ) -> torch.Tensor:
        passes[0] += 1
        _, forward, backward = [limit for limit in limits if limit[0] <= passes[0]][-1]

        def fail(_: torch.Tensor) -> None:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

        if len(tokens) > forward:
            fail(tokens)
        result = plain(self, tokens, targets, positions)
        if len(tokens) > backward:
            result.register_hook(fail)  # type: ignore[no-untyped-call]
        return result

    patch.object(Gpt, "loss", loss).start()


if __name__ == "__main__":
    job = json.loads(Path(sys.argv[1]).read_text())
    limits = json.loads(job["recipe"]["description"])
    shrink([(0, PLENTY, PLENTY), *map(tuple, limits.get(str(job["rank"]), []))])
    sys.argv[1:1] = ["railbed.train.spec:TrainSpec", FUNCTION]
    code = rank.main()
    sys.stdout.flush()
    os._exit(code)

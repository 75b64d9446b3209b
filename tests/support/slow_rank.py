"""A rank of training that is really slow: each of its backward passes takes several times the processor time.

It does not sleep instead: on a busy machine, a process that sleeps gets the processor at once when it wakes, and can be
faster than the others.
"""

from __future__ import annotations

import os
import sys
import time
from unittest.mock import patch

import torch

from railbed.launch import rank
from railbed.train.ranks import FUNCTION

TIMES = 20
"""So many that it is clearly slower in a median of five steps on a busy machine, too, where all ranks wait."""


def compute_slowly(loss: torch.Tensor) -> None:
    """Compute gradients, and then keep the processor busy for several times as long."""
    before = time.thread_time()
    torch.autograd.backward(loss)
    end = before + TIMES * (time.thread_time() - before)
    while time.thread_time() < end:
        pass


if __name__ == "__main__":
    sys.argv[1:1] = ["railbed.train.spec:TrainSpec", FUNCTION]
    with patch.object(torch.Tensor, "backward", compute_slowly):
        code = rank.main()
    sys.stdout.flush()
    os._exit(code)

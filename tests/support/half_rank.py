"""A rank of training that computes in fp16 on any processor, and whose loss scale starts far too high."""

from __future__ import annotations

import os
import sys
from unittest.mock import patch

from railbed.launch import rank
from railbed.train.ranks import FUNCTION
from railbed.train.worker import hardware, memory

if __name__ == "__main__":
    for owner, name, value in (
        (memory, "FIRST", 2.0**34),
        (memory, "CALM_STEPS", 7),
        (hardware, "processor_has", lambda _: True),
    ):
        patch.object(owner, name, value).start()
    sys.argv[1:1] = ["railbed.train.spec:TrainSpec", FUNCTION]
    code = rank.main()
    sys.stdout.flush()
    os._exit(code)

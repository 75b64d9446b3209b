"""A rank of training that can write no file of more than 100 KiB, as on a disk that is full."""

from __future__ import annotations

import os
import resource
import sys

from railbed.launch import rank
from railbed.train.ranks import FUNCTION

MOST_BYTES = 100 << 10

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES, MOST_BYTES))
    sys.argv[1:1] = ["railbed.train.spec:TrainSpec", FUNCTION]
    code = rank.main()
    sys.stdout.flush()
    os._exit(code)

"""Servers of ranks, forked from a process that has loaded torch and what tuning needs: five to ten seconds, once.

This file is both sides: the tests import it, and `python -m tests.support.torch_process LISTENING TESTS` is the process
that forks. It loads nothing of railbed: ranks have the code that was shipped to their node.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import select
import signal
import socket
import sys
from functools import cache
from pathlib import Path

from tests.support import workers
from tests.support.workers import ForkingProcess

TUNING = (
    "torch._dynamo",
    "peft",
    "transformers.models.llama.modeling_llama",
    "transformers.models.qwen3.modeling_qwen3",
    "transformers.integrations.bitsandbytes",
)
"""Modules that programs load when they tune a model, or generate from a tuned one."""
LOADED = ("torch", "torch.distributed", "torch.nn.parallel", *TUNING)
VARIABLES = {
    "HF_HUB_OFFLINE": "1",
    "OPENBLAS_NUM_THREADS": "1",  # numpy starts threads otherwise, which a fork would lose
    "TRANSFORMERS_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
}


@cache
def process() -> ForkingProcess:
    """Return the process that loads torch, once it is needed; forks of this process share it."""
    started, mine = ForkingProcess("tests.support.torch_process", variables=VARIABLES), os.getpid()
    atexit.register(lambda: started.close() if os.getpid() == mine else None)
    return started


def command(program: str) -> list[str]:
    """Return the command that runs a program in a fork, which has the command's streams and ends with it."""
    return [sys.executable, "-IS", workers.__file__, process().door, program]


def main() -> None:
    """Wait until a program comes; then load, and fork for each."""
    listening, tests = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    # Ctrl-C goes to all processes of a terminal; this one is needed until the tests have taken down their labs.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if tests in select.select([listening, tests], [], [])[0]:
        return
    for name in LOADED:
        importlib.import_module(name)
    sys.path.remove(str(Path(__file__).parents[2]))
    assert "railbed" not in sys.modules
    threads = list(Path("/proc/self/task").iterdir())
    assert len(threads) == 1, f"loading started {len(threads) - 1} threads, which a fork would lose"
    gc.freeze()
    workers.serve(listening, tests)


if __name__ == "__main__":
    main()

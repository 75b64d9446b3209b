"""One rank: `python -m railbed.train.worker JOB.json --messages FD`.

torch is loaded late, when the heart already beats: on a slow machine that takes half a minute.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
from pathlib import Path

from railbed.errors import Interference, RailbedError, RankFailed
from railbed.launch.memlock import raise_memlock
from railbed.launch.messages import Messages, sentence_of
from railbed.train.spec import RankSpec


def main() -> int:
    """Run the rank and return its exit code: 0 done, 1 not."""
    parser = argparse.ArgumentParser(prog="python -m railbed.train.worker")
    parser.add_argument("job", type=Path)
    parser.add_argument("--messages", type=int, default=1, metavar="FD", help="where JSON lines are written")
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback; SIGTERM ends the process as it is
    job = RankSpec.read(arguments.job)
    os.environ.update(job.environment)
    raise_memlock()
    messages = Messages(arguments.messages, job.rank)
    messages.start_heart()
    try:
        _run(job, messages)
    except RailbedError as error:
        traceback.print_exc()
        peer, refused = (error.peer, error.refused) if isinstance(error, RankFailed) else (False, False)
        between = isinstance(error, Interference)
        messages.send(
            "error", sentence=error.message, peer=peer, refused=refused, interference=between, hint=error.hint
        )
        return 1
    except BaseException as error:
        traceback.print_exc()
        messages.send("error", sentence=sentence_of(error), peer=False)
        return 1
    return 0


def _run(job: RankSpec, messages: Messages) -> None:
    try:
        from railbed.train.worker.loop import run
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        hint = f"{sys.executable} -m pip install torch"
        raise RankFailed(f"torch is not installed for {sys.executable}", hint=hint) from None
    run(job, messages)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of a collective that waits for a lost peer would keep the process from ending.
    os._exit(code)

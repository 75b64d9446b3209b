"""One rank of the collective benchmark: `python -m railbed.bench.collective.worker JOB.json --messages FD`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
from pathlib import Path

from railbed.bench.collective.spec import CollectiveSpec
from railbed.errors import Interference, RailbedError, RankFailed
from railbed.launch.memlock import raise_memlock
from railbed.launch.messages import Messages, sentence_of


def main() -> int:
    """Run the rank and return its exit code: 0 done, 1 not."""
    parser = argparse.ArgumentParser(prog="python -m railbed.bench.collective.worker")
    parser.add_argument("job", type=Path)
    parser.add_argument("--messages", type=int, default=1, metavar="FD", help="where JSON lines are written")
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    job = CollectiveSpec.from_json(arguments.job.read_text())
    raise_memlock()
    messages = Messages(arguments.messages, job.rank)
    messages.start_heart()
    try:
        from railbed.bench.collective.worker.loop import run

        run(job, messages)
    except RailbedError as error:
        traceback.print_exc()
        peer, between = isinstance(error, RankFailed) and error.peer, isinstance(error, Interference)
        messages.send("error", sentence=error.message, peer=peer, interference=between)
        return 1
    except BaseException as error:
        traceback.print_exc()
        messages.send("error", sentence=sentence_of(error), peer=False)
        return 1
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of a collective that waits for a lost peer would keep the process from ending.
    os._exit(code)

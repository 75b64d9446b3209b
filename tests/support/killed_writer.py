"""A writer of series that is killed at every step: `python -m tests.support.killed_writer FOLDER`.

Prints for each step how many rows had been stored, and what a reader finds afterwards.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from railbed.model.meters import Sample, SeriesKey
from railbed.store.series import SeriesReader, SeriesWriter

ROWS = 12
CHUNK_SECONDS = 5.0
LAYOUT = (SeriesKey("node1", "net_rx_bytes", "eth1"), SeriesKey("node1", "memory_used_bytes"))
CALLS = ("open", "pwrite", "replace", "unlink", "close", "mkdir", "fsync")
Moment = Literal["before", "half", "after"]


def sample(index: int) -> Sample:
    """Return a row that can be recognised; an hour ends between them."""
    return Sample("node1", 3594.0 + index, LAYOUT, (index * 10**12, index))


def kill_at(step: int, moment: Moment) -> None:
    """Arrange that this process is killed at its n-th system call that changes a file."""
    counter = itertools.count(1)

    def patched(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **options: Any) -> Any:
            if next(counter) != step:
                return call(*args, **options)
            if moment == "after":
                call(*args, **options)
            elif moment == "half" and name == "pwrite":
                descriptor, data, offset = args
                call(descriptor, data[: len(data) // 2], offset)
            os.kill(os.getpid(), signal.SIGKILL)
            return None

        return wrapper

    for name in CALLS:
        setattr(os, name, patched(name, getattr(os, name)))


def write_until_killed(folder: Path, step: int, moment: Moment, stored: int) -> None:
    """Write all rows; a byte on `stored` for each one that is."""
    kill_at(step, moment)
    with SeriesWriter(folder, chunk_seconds=CHUNK_SECONDS) as writer:
        for index in range(ROWS):
            writer.append(sample(index))
            os.write(stored, b".")


def attempt(folder: Path, step: int, moment: Moment) -> bool:
    """Kill a writer at a step and print what can be read; return whether it was killed."""
    folder.mkdir()
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receiver)
        write_until_killed(folder, step, moment, sender)
        os._exit(0)
    os.close(sender)
    with os.fdopen(receiver, "rb") as pipe:
        stored = len(pipe.read())
    _, status = os.waitpid(child, 0)
    reader = SeriesReader(folder)
    rows = [
        list(zip(samples.times.tolist(), samples.values.tolist(), strict=True))
        for samples in map(reader.samples, LAYOUT)
    ]
    sys.stdout.write(
        f"{json.dumps({'step': step, 'moment': moment, 'stored': stored, 'status': status, 'rows': rows})}\n"
    )
    sys.stdout.flush()
    return os.WIFSIGNALED(status)


def main() -> None:
    """Kill writers until there are no more steps."""
    moments: tuple[Moment, ...] = ("before", "half", "after")
    for moment in moments:
        for step in itertools.count(1):
            if not attempt(Path(sys.argv[1], f"{moment}{step}"), step, moment):
                break


if __name__ == "__main__":
    main()

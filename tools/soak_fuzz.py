"""The fuzzing campaign: damaged inputs for everything that reads foreign data, counted by reader.

    python -m tools.soak_fuzz                       INPUTS=1000000 SECONDS=3600 SEED=1 by default, from the environment;
                                                    READERS="run's,supervisor" tries those with such names alone
    python -m tools.soak_fuzz READER SEED INDEX     print one input, and read it again

A reader must return or refuse: any other exception fails the campaign, and so does an input that takes more than a
second of processor time, or a process that needs more than a gigabyte of memory, as do the programs that it starts.
Inputs that fail are saved in a folder. Two processes share the work; a hung one is killed.
"""

from __future__ import annotations

import math
import os
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from tests.support.readers import Reader, all_readers

INPUTS = int(os.environ.get("INPUTS", "1000000"))
SECONDS = float(os.environ.get("SECONDS", "3600"))
SEED = int(os.environ.get("SEED", "1"))
READERS = tuple(filter(None, os.environ.get("READERS", "").split(",")))
PROCESSES = 2
SLOW_SECONDS = 1.0
HANG_SECONDS = 60.0
BATCH = 50
"""Inputs of one reader per message: enough to make messages cheap, few enough to notice one that hangs."""
KEPT_PER_READER = 20
MOST_MEMORY_MIB = 1024
"""Of a process, with torch, numba and all that the readers load."""
HARD_LIMIT_MIB = 4096
"""Of address space beyond what is mapped before the first input: more is a MemoryError, before the machine suffers."""


@dataclass
class Tally:
    """The results of one reader."""

    inputs: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    slowest_index: int = 0
    memory: int = 0
    """The most that the process needed, in MiB."""
    failures: list[tuple[int, str]] = field(default_factory=list)
    """The index of an input, and what happened."""

    def add(self, other: Tally) -> None:
        """Add the counts of another process."""
        self.inputs += other.inputs
        self.seconds += other.seconds
        self.failures += other.failures
        self.memory = max(self.memory, other.memory)
        if other.slowest > self.slowest:
            self.slowest, self.slowest_index = other.slowest, other.slowest_index


Batch = tuple[str, int]
"""Name of a reader, and index of the first input."""


def chosen_readers() -> list[Reader]:
    """Return the readers of this campaign."""
    return [reader for name, reader in all_readers().items() if not READERS or any(word in name for word in READERS)]


def batches(inputs: int) -> list[Batch]:
    """Return batches of at least `inputs`, in turns, so that an interrupted campaign has tried every reader."""
    readers = chosen_readers()
    shares = sum(reader.share for reader in readers)
    counts = {reader.name: max(1, math.ceil(inputs * reader.share / shares / BATCH)) for reader in readers}
    placed = [
        ((number + 0.5) / count, name, number * BATCH) for name, count in counts.items() for number in range(count)
    ]
    return [(name, first) for _, name, first in sorted(placed)]


def try_batch(reader: Reader, first: int) -> Tally:
    """Read some inputs and return the results."""
    tally = Tally()
    reader.prepare()
    before = _forget_peak()
    for index in range(first, first + BATCH):
        text = reader.input(SEED, index)
        begun = time.thread_time()
        try:
            reader.read(text)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(place.filename).name}:{place.lineno}"
            tally.failures.append((index, f"{type(error).__name__}: {str(error)[:160]} ({where})"))
        took = time.thread_time() - begun
        tally.inputs += 1
        tally.seconds += took
        if took > tally.slowest:
            tally.slowest, tally.slowest_index = took, index
        if took > SLOW_SECONDS:
            tally.failures.append((index, f"took {took:.1f} s"))
    tally.memory = _peak_memory(before)
    if tally.memory > MOST_MEMORY_MIB:
        tally.failures.append((first, f"one of {BATCH} inputs from here needed {tally.memory} MiB of memory"))
    return tally


def _forget_peak() -> int:
    """Let the kernel measure the peak from now on; return that of the programs started before, which stays."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss


def _peak_memory(before: int) -> int:
    """Return the most that this process, or a program that it started, needed since then, in MiB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    own = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    programs = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return max(own, programs if programs > before else 0) // 1024


def _limit_memory() -> None:
    """Limit the memory of this process, once everything is loaded."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + (HARD_LIMIT_MIB << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def work(control: Connection) -> None:
    """Process incoming batches until there are no more."""
    readers = all_readers()
    _limit_memory()
    while batch := control.recv():
        name, first = batch
        control.send(try_batch(readers[name], first))


class Helper:
    """One process, and its current batch."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self.control, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(theirs,), daemon=True)
        self._process.start()
        self.batch: Batch | None = None
        self._used = 0.0

    def give(self, batch: Batch) -> None:
        """Send it a batch."""
        self.batch, self._used = batch, self._processor_time()
        self.control.send(batch)

    @property
    def hangs(self) -> bool:
        """Whether it is taking too long, or is gone."""
        return self.batch is not None and (
            not self._process.is_alive() or self._processor_time() - self._used > HANG_SECONDS + BATCH * SLOW_SECONDS
        )

    def answer(self) -> Tally | None:
        """Return the results of its batch; None if it is still working, or gone."""
        try:
            answer: Tally | None = self.control.recv() if self.control.poll(0.05) else None
        except (EOFError, OSError):
            return None
        return answer

    def _processor_time(self) -> float:
        """Return its processor time: on a busy machine it may wait for minutes without hanging."""
        try:
            stat = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()


def campaign(inputs: int, seconds: float) -> dict[str, Tally]:
    """Return the results of every reader."""
    tallies = {reader.name: Tally() for reader in chosen_readers()}
    left: Iterator[Batch] = iter(batches(inputs))
    deadline = time.monotonic() + seconds
    helpers = [Helper() for _ in range(PROCESSES)]
    for helper in helpers:
        _next(helper, left, deadline)
    while busy := [helper for helper in helpers if helper.batch]:
        for helper in busy:
            if answer := helper.answer():
                assert helper.batch
                tallies[helper.batch[0]].add(answer)
                _next(helper, left, deadline)
            elif helper.hangs:
                assert helper.batch
                name, first = helper.batch
                tallies[name].failures.append((first, f"one of {BATCH} inputs from here hung, or crashed the process"))
                helper.end()
                helpers[helpers.index(helper)] = replacement = Helper()
                _next(replacement, left, deadline)
    for helper in helpers:
        helper.end()
    return tallies


def _next(helper: Helper, left: Iterator[Batch], deadline: float) -> None:
    batch = next(left, None) if time.monotonic() < deadline else None
    helper.batch = None
    if batch:
        helper.give(batch)


def show(tallies: dict[str, Tally], took: float) -> None:
    """Print a table, and where the failing inputs are saved."""
    print(f"{'reader':<28}{'inputs':>9}{'CPU':>9}{'slowest':>11}  at index{'memory':>11}   failed")
    for name, tally in sorted(tallies.items()):
        print(
            f"{name:<28}{tally.inputs:>9,}{tally.seconds:>7.1f} s{tally.slowest * 1e3:>8.1f} ms"
            f"{tally.slowest_index:>10}{tally.memory:>7} MiB{len(tally.failures):>9}"
        )
    inputs, failed = (
        sum(tally.inputs for tally in tallies.values()),
        sum(len(tally.failures) for tally in tallies.values()),
    )
    slowest, memory = max(tally.slowest for tally in tallies.values()), max(tally.memory for tally in tallies.values())
    print(
        f"{inputs:,} inputs for {len(tallies)} readers in {took:.0f} s, seed {SEED}: {failed} failed; "
        f"the slowest took {slowest * 1e3:.0f} ms, the largest {memory} MiB"
    )


def keep_failures(tallies: dict[str, Tally]) -> None:
    """Write the failing inputs to files, and print how to repeat each."""
    folder = Path(tempfile.mkdtemp(prefix="railbed-soak-"))
    for name, tally in tallies.items():
        for index, problem in tally.failures[:KEPT_PER_READER]:
            path = folder / f"{name.replace(' ', '_').replace(chr(39), '')}.{index}.txt"
            path.write_text(all_readers()[name].input(SEED, index), encoding="utf-8", errors="replace")
            print(f"{name} {index}: {problem}\n  {path}\n  python -m tools.soak_fuzz {name!r} {SEED} {index}")


def again(name: str, seed: int, index: int) -> None:
    """Print one input, and read it."""
    reader = all_readers()[name]
    text = reader.input(seed, index)
    print(ascii(text), flush=True)
    begun = time.thread_time()
    reader.read(text)
    print(f"{time.thread_time() - begun:.3f} s")


def main() -> int:
    """Run the campaign, or one input."""
    if len(sys.argv) == 4:
        again(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
        return 0
    begun = time.monotonic()
    tallies = campaign(INPUTS, SECONDS)
    show(tallies, time.monotonic() - begun)
    if any(tally.failures for tally in tallies.values()):
        keep_failures(tallies)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Whatever a file contains, its packets are analysed, judged and drawn without an error."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.captures.cases.case import CONTEXT, NO_CONTEXT

from railbed.capture.analysis.analyse import analyse
from railbed.capture.analysis.views import MOST_FLOWS, views_of
from railbed.capture.book import CAPTURE_BOOK
from railbed.capture.packets import COLUMNS, NO_ADDRESS, Kind, Packets, Pauses, Recording
from railbed.capture.read import in_thread_until_cancelled
from railbed.capture.records import records_of
from railbed.rules.engine import judge
from railbed.store import to_line

ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.0.0.3", "::ffff:10.0.0.1", "fe80::1")
FEW: dict[str, tuple[int, ...]] = {
    "opcode": (0, 1, 2, 4, 6, 7, 8, 10, 12, 13, 14, 15, 16, 17, 18, 0x64, 0x81, 0xA4, 0xFF),
    "qp": (0, 1, 2, 3, 0xFFFFFF),
    "psn": (0, 1, 2, 3, 4, 0x7FFFFF, 0x800000, 0xFFFFFE, 0xFFFFFF),
    "syndrome": (0, 31, 32, 63, 0x60, 0x61, 0x62, 0x63, 0x64, 0x7F, 0xFF),
    "kind": (1, 1, 1, 2, 3, 4, 5),
    "icrc": (0, 1, 2),
}
"""Values that meet: others are taken from the whole range."""


def foreign(chance: np.random.Generator, count: int, last: int) -> Recording:
    """Return a recording of any values."""
    columns: dict[str, Any] = {}
    for name in COLUMNS.names or ():
        kind = COLUMNS[name]
        limits = np.iinfo(kind)
        any_number = chance.integers(0, min(limits.max, 2**62), count, dtype=np.int64, endpoint=True).astype(kind)
        columns[name] = chance.choice(np.array(FEW[name], kind), count) if name in FEW else any_number
    columns["number"] = np.arange(1, count + 1, dtype="u4")
    columns["time"] = chance.integers(0, last, count, endpoint=True)
    is_pause = columns["kind"] >= Kind.PFC
    for name in ("source", "destination"):
        index = chance.integers(0, len(ADDRESSES), count).astype("u4")
        columns[name] = np.where(is_pause, NO_ADDRESS, index).astype("u4")
    pauses = Pauses(
        number=columns["number"][is_pause],
        time=columns["time"][is_pause],
        sender=chance.integers(0, 3, is_pause.sum()).astype("u8"),
        classes=chance.integers(0, 255, is_pause.sum(), endpoint=True).astype("u1"),
        quanta=chance.integers(0, 0xFFFF, (int(is_pause.sum()), 8), endpoint=True).astype("u2"),
    )
    own = ADDRESSES[int(chance.integers(0, 3))]
    return Recording(
        name=own,
        packets=Packets(columns, ADDRESSES, pauses),
        addresses=(own,) if chance.random() < 0.5 else (),
        total=count,
        dropped=[None, 0, 5][int(chance.integers(0, 3))],
    )


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    counts=st.lists(st.integers(0, 150), min_size=1, max_size=3),
    last=st.sampled_from([0, 3, 100_000, 10**9, 2**62]),
)
def test_any_packets(seed: int, counts: list[int], last: int) -> None:
    _try(seed, counts, last)


@pytest.mark.soak
def test_many_packets() -> None:
    for seed in range(2000):
        _try(seed, [seed % 400, 200], [0, 100_000, 10**9, 2**62][seed % 4])


def _try(seed: int, counts: list[int], last: int) -> None:
    chance = np.random.default_rng(seed)
    analysis = analyse([foreign(chance, count, last) for count in counts], [CONTEXT, NO_CONTEXT][seed % 2])
    assert list(judge(CAPTURE_BOOK, analysis))
    for record in records_of(analysis):
        assert b"NaN" not in to_line(record)


def seconds_for(addresses: int) -> float:
    """Return the processor time for a recording with so many addresses, each in one packet."""
    recording = foreign(np.random.default_rng(1), addresses, 2**40)
    packets = recording.packets
    packets.columns["kind"][:] = Kind.ROCE2
    for name in ("source", "destination"):
        packets.columns[name] = np.arange(addresses, dtype="u4")
    texts = tuple(str(IPv4Address(number)) for number in range(1 << 24, (1 << 24) + addresses))
    many = replace(recording, packets=Packets(packets.columns, texts, packets.pauses))
    before = time.process_time()
    assert len(views_of(many, NO_CONTEXT).views) == min(addresses, MOST_FLOWS)
    return time.process_time() - before


def test_time_grows_linearly_with_the_number_of_addresses() -> None:
    """Quadratic time is 64 times as long for eight times as many."""
    few = min(seconds_for(5_000) for _ in range(3))
    assert seconds_for(40_000) < 24 * few


def test_sigterm_ends_an_analysis_that_has_hardly_begun(tmp_path: Path) -> None:
    """asyncio would wait for its thread."""
    program = """
import sys, time
from railbed.capture.read import in_thread_until_cancelled
from railbed.cli.run.signals import run_until_ended

def work():
    print("begun", flush=True)
    time.sleep(3600)

run_until_ended(in_thread_until_cancelled(work))
"""
    with subprocess.Popen(
        [sys.executable, "-P", "-c", program], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == b"begun\n"
            process.terminate()
            assert process.wait(300) != 0
        finally:
            process.kill()


async def test_what_a_thread_raises_or_returns_arrives() -> None:
    assert await in_thread_until_cancelled(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await in_thread_until_cancelled(divmod, 7, 0)

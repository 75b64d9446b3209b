"""Series survive `kill -9` of their writer at any step, and can be read while they are written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from railbed.store.series import SeriesReader
from tests.support.killed_writer import LAYOUT, ROWS, sample

pytestmark = pytest.mark.whole

WRITE_FAST = """
import sys
from pathlib import Path
from tests.support.killed_writer import sample
from railbed.store.series import SeriesWriter
with SeriesWriter(Path(sys.argv[1]), chunk_seconds=5.0) as writer:
    for index in range(int(sys.argv[2])):
        writer.append(sample(index))
"""


def test_a_killed_writer_loses_at_most_the_row_it_was_writing(tmp_path: Path) -> None:
    output = subprocess.run(
        [sys.executable, "-m", "tests.support.killed_writer", tmp_path], check=True, capture_output=True, text=True
    )
    attempts = [json.loads(line) for line in output.stdout.splitlines()]
    assert len(attempts) > 6 * ROWS
    assert sum(attempt["status"] == 0 for attempt in attempts) == 3
    for attempt in attempts:
        for column, rows in enumerate(attempt["rows"]):
            complete = [[sample(index).time, sample(index).values[column]] for index in range(len(rows))]
            assert rows == complete, attempt
            assert attempt["stored"] <= len(rows) <= attempt["stored"] + 1, attempt


def test_a_reader_never_misses_or_repeats_a_minute_while_it_is_compressed(tmp_path: Path) -> None:
    count = 800
    with subprocess.Popen([sys.executable, "-c", WRITE_FAST, tmp_path, str(count)]) as process:
        following, last, rounds = SeriesReader(tmp_path), 0, 0
        while last < count:
            ended = process.poll() is not None
            following.refresh()
            for reader in (following, SeriesReader(tmp_path)):
                values = reader.samples(LAYOUT[1]).values.tolist()
                assert values == list(range(len(values)))
                assert len(values) >= last
                last, rounds = len(values), rounds + 1
            assert last == count or not ended
    assert process.returncode == 0
    assert rounds > 2

"""Tests of a group run one after another in one process: several labs or trainings at once would be too slow."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

GROUPED = """
import pytest

pytestmark = pytest.mark.xdist_group("one")


@pytest.mark.parametrize("number", range(6))
def test_it(number, worker_id):
    with open("workers", "a") as file:
        file.write(worker_id + "\\n")
"""


@pytest.mark.whole
def test_xdist_keeps_groups_together(tmp_path: Path) -> None:
    (tmp_path / "test_grouped.py").write_text(GROUPED)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider", "."]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    subprocess.run(command, cwd=tmp_path, env=env, check=True, stdout=subprocess.DEVNULL, timeout=120)
    workers = (tmp_path / "workers").read_text().split()
    assert (len(workers), len(set(workers))) == (6, 1)

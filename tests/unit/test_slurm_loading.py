"""Modules that are loaded while the nodes of a Slurm job are read."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from pathlib import Path

import pytest

from railbed.check.book import essential_checks, probes_needed, restart_checks
from railbed.cli.slurm.loading import load_between
from railbed.cli.verbs.train.command import PROBES
from railbed.discover import observation
from railbed.launch import fabric
from railbed.model.probe import PairTest
from railbed.train.capacity import memory as capacity
from tests.unit.test_pairs import cluster_of

MEANWHILE = """
import asyncio, sys
from railbed.cli.verbs.train import command
early = {name for name in sys.modules if name.startswith("railbed.")}
asyncio.run(command._load())
before = set(sys.modules)
from railbed.check.book import essential_checks
from railbed.cli.verbs.train.start import Start
essential_checks()
print(*sorted(early & {"railbed.check.book", "railbed.train.run", "railbed.launch.supervise"}))
print(*sorted(set(sys.modules) - before))
"""


async def test_modules_are_loaded_between_other_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"railbed_test_loading_{letter}" for letter in "abc"]
    for name in names:
        (tmp_path / f"{name}.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    loaded_after_each_turn = []
    loading = asyncio.create_task(load_between(names))
    while not loading.done():
        await asyncio.sleep(0)
        loaded_after_each_turn.append(sum(name in sys.modules for name in names))
    assert list(dict.fromkeys(loaded_after_each_turn)) == [0, 1, 2, 3]
    assert gc.isenabled()


def test_a_training_loads_its_modules_while_nodes_are_read_and_none_afterwards() -> None:
    """What would be loaded before delays the reading, and what is left for afterwards delays the ranks."""
    done = subprocess.run([sys.executable, "-c", MEANWHILE], stdout=subprocess.PIPE, text=True, check=True, timeout=120)
    assert done.stdout == "\n\n"


def test_a_training_reads_ahead_what_it_needs_from_nodes_and_nothing_else() -> None:
    rules = [*essential_checks(), *restart_checks()]
    needed = {*probes_needed(rules, cluster_of([[0], [0]])), *capacity.FACTS, *fabric.FACTS}
    of_nodes = {probe for probe in needed if probe.runs_on == "node" and not isinstance(probe.command, PairTest)}
    assert set(PROBES) == of_nodes - set(observation.PROBES)

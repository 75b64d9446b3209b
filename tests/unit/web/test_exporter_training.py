"""The exporter finds the training that runs in its folder, follows it, and forgets it when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from railbed.model.record import Measurement
from railbed.store import OpenRun, open_run
from railbed.web.metrics import status
from railbed.web.metrics.status import TrainingValues, follow_trainings

SECONDS = 60.0


@pytest.fixture(autouse=True)
def _runs_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(status, "LOOK_SECONDS", 0.02)


@asynccontextmanager
async def following(cluster: str = "lab") -> AsyncIterator[TrainingValues]:
    values = TrainingValues()
    task = asyncio.create_task(follow_trainings(values, cluster))
    try:
        yield values
        assert not task.done()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


def measure(run: OpenRun, step: int, seconds: float) -> None:
    labels: dict[str, str | int] = {"step": step, "rank": 0, "node": "node1"}
    run.append(Measurement(name="step_seconds", value=seconds, unit="s", labels=labels))


async def test_a_training_is_followed_until_it_ends() -> None:
    async with following() as values:
        for seconds in (0.5, 0.75):
            with open_run("train", cluster_name="lab", cluster_text="") as run:
                measure(run, 1, seconds)
                await until(lambda: values.step() == 1)
                measure(run, 2, seconds)
                await until(lambda: values.step() == 2)
                assert values.run == run.folder.name
                assert values.values() == {"step_seconds": {("node1", "0"): seconds}}
                run.finish("done", 0)
            await until(lambda: values.step() is None)
            assert values.values() == {}


async def test_other_verbs_other_clusters_and_trainings_that_ended_are_ignored() -> None:
    with open_run("train", cluster_name="lab", cluster_text="") as ended:
        measure(ended, 9, 1.0)
        ended.finish("done", 0)
    with (
        open_run("train", cluster_name="other", cluster_text="") as elsewhere,
        open_run("bench", cluster_name="lab", cluster_text="") as bench,
    ):
        for run in (elsewhere, bench):
            measure(run, 5, 1.0)
        async with following() as values:
            for _ in range(5):
                await asyncio.sleep(0.02)
                assert (values.run, values.step()) == ("", None)


def test_a_step_that_is_no_float_is_ignored() -> None:
    values = TrainingValues()
    values.begin("run")
    for step in (7, 10**400):
        labels: dict[str, str | int] = {"rank": 0, "node": "a", "step": step}
        values.take(Measurement(name="loss", value=2.5, unit="nat", labels=labels))
    assert values.step() == 7

"""The global batch is divided by measured speed: a slow rank takes less of it, and the step is the same."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from railbed.train.spec import ResumeSource
from tests.support.ranks import Rank, Starter, losses
from tests.support.smallmodel import recipe, write_tokens

pytestmark = [pytest.mark.whole, pytest.mark.xdist_group("ranks")]
SEQUENCES = 24
BY_SPEED = recipe(shares="speed", batch={"sequences": SEQUENCES, "micro": 1}, checkpoint={"steps": 10})
EQUAL = {**BY_SPEED, "shares": "equal"}
NAMES = ("fast", "slow")


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tokens(tmp_path_factory.mktemp("data") / "tokens")


@pytest.fixture(scope="module")
def starter(tmp_path_factory: pytest.TempPathFactory, tokens: Path) -> Iterator[Starter]:
    starter = Starter(tmp_path_factory.mktemp("speed"), tokens)
    yield starter
    starter.close()


@pytest.fixture(scope="module")
def complete(starter: Starter) -> list[Rank]:
    """Return the ranks of a complete run by speed; its checkpoints stay."""
    return starter.run(2, BY_SPEED, names=NAMES, slow=[1])


@pytest.fixture(scope="module")
def equal(tmp_path_factory: pytest.TempPathFactory, tokens: Path) -> list[float]:
    """Return the losses of the same training with equal shares."""
    starter = Starter(tmp_path_factory.mktemp("equal"), tokens)
    ranks = starter.run(2, EQUAL, names=NAMES, checkpoints="")
    starter.close()
    assert {counts(ranks, step) for step in range(1, 21)} == {(12, 12)}
    assert not ranks[0].messages_of("shares")
    return losses(ranks[0])


def counts(ranks: Sequence[Rank], step: int) -> tuple[int, ...]:
    """Return how many sequences each rank took in a step; together they are the step's, each exactly once."""
    ranges = [
        message["samples"] for rank in ranks for message in rank.messages_of("progress") if message["step"] == step
    ]
    taken = [number for first, end in ranges for number in range(first, end)]
    assert taken == list(range((step - 1) * SEQUENCES, step * SEQUENCES))
    return tuple(end - first for first, end in ranges)


def test_shares_follow_the_speed_and_the_loss_does_not_change(complete: list[Rank], equal: list[float]) -> None:
    taken = [counts(complete, step) for step in range(1, 21)]
    assert taken[0] == (12, 12)
    assert taken[-1][0] > 1.5 * taken[-1][1] > 0
    for rank in complete:
        assert losses(rank) == pytest.approx(equal, rel=1e-5)
    (message, *_) = complete[0].messages_of("shares")
    fast, slow = message["counts"]
    start = f"fast takes {fast} of 24 sequences, slow {slow}: fast was measured "
    assert message["sentence"].startswith(start)
    assert message["sentence"].endswith(" times as fast as slow")
    assert taken[message["step"] : message["step"] + 2] == [(12, 12), (fast, slow)]
    assert not complete[1].messages_of("shares")


def test_a_resumed_run_begins_with_the_split_that_was_in_force(
    starter: Starter, complete: list[Rank], equal: list[float]
) -> None:
    in_force = counts(complete, 11)
    assert in_force != (12, 12)
    shutil.rmtree(starter.folder / "node0")
    state = json.loads((starter.folder / "node1" / "step-00000010" / "state.json").read_text())
    assert set(state["paces"]) == set(NAMES)
    resumed = starter.run(2, BY_SPEED, names=NAMES, slow=[1], resume=ResumeSource(step=10, rank=1))
    assert counts(resumed, 11) == in_force
    assert resumed[0].messages_of("shares")[0]["counts"] == list(in_force)
    assert losses(resumed[0]) == pytest.approx(equal[10:], rel=1e-5)
    hashes = {
        message["hash"] for rank in resumed for message in rank.messages_of("checkpoint") if message["step"] == 20
    }
    assert len(hashes) == 1
    turned = starter.start(2, BY_SPEED, names=NAMES[::-1], resume=ResumeSource(step=10, rank=1))
    turned[0].read(until=lambda message: message["kind"] == "shares")
    assert turned[0].messages_of("shares")[0]["counts"] == list(in_force[::-1])

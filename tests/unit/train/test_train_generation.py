"""The ranks of a generation: what they share with each other, but with no other generation."""

from __future__ import annotations

import json
from typing import Any

from railbed.launch.files.ship import Parcel
from railbed.launch.job import RankStart
from railbed.launch.placement import Placement
from railbed.train.ranks import KnownCheckpoints, TrainingRun, ranks_of

PLACEMENTS = [
    Placement(node=name, address=f"10.0.0.{number}", ranks=2, interface="rail0", code="/c", folder=f"/{name}")
    for number, name in enumerate(("a", "b"), start=1)
]
RUN = TrainingRun(name="r", recipe={"steps": 40}, tokens=Parcel("tokens/1", "", {}, {}))


def jobs(number: int, checkpoints: KnownCheckpoints) -> list[dict[str, Any]]:
    starts = [start for own in ranks_of(RUN, number, PLACEMENTS, checkpoints, 29500).values() for start in own]
    return [json.loads(start.job) for start in starts]


def test_ranks_share_a_secret_that_no_other_generation_has() -> None:
    first, second = ({job["secret"] for job in jobs(number, KnownCheckpoints())} for number in (1, 2))
    assert (len(first), len(second)) == (1, 1)
    assert first != second
    assert all(len(bytes.fromhex(secret)) == 32 for secret in first | second)


def test_the_secret_is_not_shown_where_a_start_is() -> None:
    (start, *_) = ranks_of(RUN, 1, PLACEMENTS, KnownCheckpoints(), 29500)["a"]
    assert isinstance(start, RankStart)
    assert json.loads(start.job)["secret"] not in repr(start)


def test_a_validation_is_owed_where_it_was_not_told() -> None:
    checkpoints = KnownCheckpoints()
    assert not any(job["owes_evaluation"] for job in jobs(1, checkpoints))
    checkpoints.note("b", 20, "hash")
    source = {"step": 20, "rank": 2, "folder": ""}
    assert all(job["owes_evaluation"] and job["resume"] == source for job in jobs(2, checkpoints))
    checkpoints.evaluated.add(20)
    assert not any(job["owes_evaluation"] for job in jobs(3, checkpoints))

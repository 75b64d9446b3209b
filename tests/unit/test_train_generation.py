"""The ranks of a generation: what they share with each other and with no other generation."""

from __future__ import annotations

import json
from typing import Any

from railbed.launch.job import RankStart
from railbed.launch.roster import Member
from railbed.train.ranks import Course, Place, Saved, ranks_of

MEMBERS = [Member(name=name, address=f"10.0.0.{number}", ranks=2) for number, name in enumerate(("a", "b"), start=1)]


def course() -> Course:
    places = {
        node.name: Place(python="python3", code="/c", tokens="/t", folder=f"/{node.name}", interface="rail0")
        for node in MEMBERS
    }
    return Course(run="r", recipe={"steps": 40}, places=places, port=29500)


def jobs(number: int, saved: Saved) -> list[dict[str, Any]]:
    starts = [start for of_node in ranks_of(course(), number, MEMBERS, saved).values() for start in of_node]
    return [json.loads(start.job) for start in starts]


def test_ranks_share_a_secret_that_no_other_generation_has() -> None:
    first, second = ({job["secret"] for job in jobs(number, Saved())} for number in (1, 2))
    assert (len(first), len(second)) == (1, 1)
    assert first != second
    assert all(len(bytes.fromhex(secret)) == 32 for secret in first | second)


def test_the_secret_is_not_shown_where_a_start_is() -> None:
    (start, *_) = ranks_of(course(), 1, MEMBERS, Saved())["a"]
    assert isinstance(start, RankStart)
    assert json.loads(start.job)["secret"] not in repr(start)


def test_a_validation_is_owed_where_it_was_not_told() -> None:
    saved = Saved()
    assert not any(job["owes_evaluation"] for job in jobs(1, saved))
    saved.note("b", 20, "hash")
    assert all(job["owes_evaluation"] and job["resume"] == {"step": 20, "rank": 2} for job in jobs(2, saved))
    saved.evaluated.add(20)
    assert not any(job["owes_evaluation"] for job in jobs(3, saved))

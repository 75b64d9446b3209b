"""Conclusions from the messages of ranks, and from their silence."""

from __future__ import annotations

import pytest

from railbed.launch import generation
from railbed.launch.generation import RankWatch


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("railbed.launch.generation.time.monotonic", lambda: now[0])
    return now


def test_a_rank_that_loads_libraries_may_be_silent_for_longer(clock: list[float]) -> None:
    watch = RankWatch({0: "node1"})
    watch.note(0, {"kind": "alive", "phase": "starting", "step": 0})
    watch.note(0, {"kind": "chosen"})
    clock[0] += generation.START_SECONDS - 1
    assert watch.stall() is None
    watch.note(0, {"kind": "alive", "phase": "training", "step": 0})
    clock[0] += generation.RANK_SECONDS + 0.1
    assert watch.stall() == ("node1", f"rank 0 was silent for {generation.RANK_SECONDS:g} s")


def test_a_refusal_is_kept_as_first_given(clock: list[float]) -> None:
    watch = RankWatch({0: "node1", 1: "node2"})
    watch.note(0, {"kind": "error", "sentence": "a failure", "peer": False})
    assert watch.refusal is None
    for number, sentence in enumerate(("no", "never")):
        clock[0] += 1
        watch.note(number, {"kind": "error", "sentence": sentence, "refused": True, "hint": None})
    assert watch.refusal == ("no", "")


def test_what_a_rank_says_is_wrong_with_itself_is_kept_and_what_others_did_to_it_is_not(clock: list[float]) -> None:
    watch = RankWatch({0: "node1", 1: "node2"})
    clock[0] += 1
    watch.note(0, {"kind": "error", "sentence": "torch is not installed for python3", "peer": False})
    watch.note(1, {"kind": "error", "sentence": "rank 0 went away", "peer": True})
    assert watch.errors == {0: "torch is not installed for python3"}


def test_strangers_and_interference_are_noted_and_nobody_is_at_fault(clock: list[float]) -> None:
    watch = RankWatch({0: "node1", 1: "node2"})
    clock[0] += 1
    watch.note(0, {"kind": "intrusion", "address": "10.0.0.9", "sentence": "turned away"})
    assert (watch.intrusions, watch.interference, watch.lost_peers(0)) == (1, "", False)
    watch.note(1, {"kind": "error", "sentence": "altered", "peer": True, "interference": True})
    assert (watch.interference, watch.lost_peers(1), watch.errors) == ("altered", True, {})

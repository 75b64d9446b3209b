"""Foreign text, files and messages: for any input, readers either return or refuse.

`make soak` does the same with a million inputs; see tools/soak_fuzz.py.
"""

from __future__ import annotations

import contextlib
import json
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_core import to_json
from tools import soak_fuzz

from railbed.errors import ParseError
from railbed.probes.outputs import all_probes
from tests.support.mutate import PIECES, VALUES
from tests.support.readers import Reader, all_readers

SETTINGS = settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
HANGS_SECONDS = 5.0
"""Of processor time, which no input of this size comes near."""
SHAPES = {
    "deep": "[" * 3000,
    "deep objects": '{"a":' * 3000,
    "deep and whole": "[" * 900 + "]" * 900,
    "brackets in a line": "PING 10.1.0.5 (10.1.0.5) from " + "[" * 20_000,
    "spaces": " " * 20_000,
    "blank lines": "\n" * 20_000,
    "a long word": "x" * 60_000,
    "a long number": "9" * 60_000,
    "NaN": '{"a": NaN, "b": Infinity, "c": 1e999}',
    "a surrogate in a name": '[{"ifname": "\\ud800"}]',
    "a surrogate in a message": '{"kind": "error", "sentence": "\\ud800"}',
    "a surrogate": '"\\ud800"',
    "a surrogate as such": '{"python": "\ud800", "torch": "2.13.0"}',
    "directives": "%YAML 1.5\n",
    "later directives": "---\n%YAML 2.0\n---\nname: x\n",
    **{f"JSON {json.dumps(value)[:20]}": json.dumps(value) for value in VALUES},
    **{f"piece {piece!r:.20}": piece for piece in PIECES},
}


def survives(reader: Reader, text: str) -> None:
    reader.prepare()
    begun = time.thread_time()
    reader.read(text)
    assert time.thread_time() - begun < HANGS_SECONDS


@pytest.mark.parametrize("probe", sorted(all_probes()))
def test_any_text(probe: str) -> None:
    @SETTINGS
    @given(st.text(max_size=400))
    def is_understood_or_refused(text: str) -> None:
        with contextlib.suppress(ParseError):
            to_json(all_probes()[probe].parse(text))

    is_understood_or_refused()


@pytest.mark.parametrize("name", sorted(all_readers()))
def test_damaged_inputs(name: str) -> None:
    reader = all_readers()[name]
    for index in range(60 if reader.share > 3 else 15):
        survives(reader, reader.input(0, index))


@pytest.mark.parametrize("name", sorted(all_readers()))
def test_shapes_that_were_once_too_much(name: str) -> None:
    for text in SHAPES.values():
        survives(all_readers()[name], text)


@pytest.mark.parametrize("name", sorted(all_readers()))
def test_what_is_damaged_was_good_before(name: str) -> None:
    reader = all_readers()[name]
    assert reader.seeds, "nothing to damage"
    for text in reader.seeds[:5]:
        survives(reader, text)


def test_an_input_is_the_same_for_the_same_number() -> None:
    reader = all_readers()["cluster file"]
    assert [reader.input(7, index) for index in range(20)] == [reader.input(7, index) for index in range(20)]
    assert reader.input(7, 1) != reader.input(8, 1)


def test_the_campaign_counts_and_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(text: str) -> None:
        if "a" in text:
            raise KeyError(text[:10])

    # The process of a campaign is small; that of the tests has loaded much more.
    monkeypatch.setattr(soak_fuzz, "MOST_MEMORY_MIB", 1 << 20)
    tally = soak_fuzz.try_batch(Reader("planted", read, ["a b c", "b c d"]), 0)
    assert tally.inputs == soak_fuzz.BATCH
    assert tally.failures
    assert all("KeyError" in what for _, what in tally.failures)
    monkeypatch.setattr(soak_fuzz, "SLOW_SECONDS", -1.0)
    assert any("took" in what for _, what in soak_fuzz.try_batch(Reader("planted", len, ["x"]), 0).failures)


def test_the_campaign_measures_memory_by_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak_fuzz, "BATCH", 5)
    large = soak_fuzz.try_batch(Reader("planted", lambda _: b"x" * (300 << 20), ["x"]), 0)
    small = soak_fuzz.try_batch(Reader("planted", len, ["x"]), 0)
    assert large.memory > small.memory + 250
    monkeypatch.setattr(soak_fuzz, "MOST_MEMORY_MIB", 1)
    assert any("MiB of memory" in what for _, what in soak_fuzz.try_batch(Reader("planted", len, ["x"]), 0).failures)


def test_a_campaign_tries_every_reader() -> None:
    assert {name for name, _ in soak_fuzz.batches(0)} == set(all_readers())
    planned = soak_fuzz.batches(1_000_000)
    assert 0 <= len(planned) * soak_fuzz.BATCH - 1_000_000 < soak_fuzz.BATCH * len(all_readers())
    assert len(set(planned)) == len(planned)

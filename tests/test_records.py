"""Records are a contract: every event and measurement is listed in one place, with an example in the reference."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import pytest
from tools.record_examples import CHANGE, EXAMPLES, FINDING, MEASUREMENT

from railbed.model import events
from railbed.model.events import all_events
from railbed.model.events.listed import PARTS
from railbed.model.meters import RECORDED
from railbed.model.record import Event
from railbed.store import read_record, to_line
from tests.support.cli import unlisted_labels
from tests.support.source import SOURCE, trees


def classes_in_events() -> Iterator[str]:
    for path in (SOURCE / "model" / "events").glob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and any(getattr(base, "id", "") == "Event" for base in node.bases):
                yield node.name


def test_every_event_is_listed_once_and_has_an_example() -> None:
    listed = all_events()
    assert sorted(classes_in_events()) == sorted(event.__name__ for event in listed.values())
    assert [event.name for event in listed.values()] == list(listed)
    assert sorted(example.name for example in EXAMPLES) == sorted(listed)


def test_every_class_of_events_is_loaded_by_its_name() -> None:
    exported = set(events.__all__) - {"all_events", "parse"}
    assert exported == {kind.__name__ for kind in all_events().values()} | set(PARTS)
    assert {name: kind for name in exported if (kind := getattr(events, name)).__name__ != name} == {}


@pytest.mark.parametrize("record", [FINDING, MEASUREMENT, CHANGE, *EXAMPLES], ids=lambda record: type(record).__name__)
def test_a_record_comes_back_from_its_line(record: Event) -> None:
    again = read_record(to_line(record))
    assert type(again) is type(record)
    assert to_line(again) == to_line(record)


def test_the_data_of_an_event_is_nested_and_has_no_empty_fields() -> None:
    line = to_line(next(example for example in EXAMPLES if example.name == "checkpoint_failed"))
    assert line == (
        b'{"name":"checkpoint_failed","subject":"node1/rank0","message":"the disk is full",'
        b'"data":{"rank":0,"step":200},"time":1790000000.0,"kind":"event"}'
    )


def measured_in(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the name and the unit of every measurement that a module constructs with literals."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and {"name", "value", "unit"} <= {key.arg for key in node.keywords}:
            literal = {key.arg: key.value.value for key in node.keywords if isinstance(key.value, ast.Constant)}
            if "name" in literal and "unit" in literal:
                yield str(literal["name"]), str(literal["unit"])


@pytest.mark.xdist_group("source")
def test_every_measurement_is_listed_with_its_unit() -> None:
    measured = {pair for tree in trees().values() for pair in measured_in(tree)}
    assert len(measured) > 15
    assert {name: unit for name, unit in measured if name not in RECORDED or RECORDED[name].recorded_unit != unit} == {}


def test_a_label_that_is_not_listed_is_noticed() -> None:
    """Every test that reads the records of a command looks for such labels."""
    records: list[dict[str, Any]] = [
        {"kind": "measurement", "name": "loss", "labels": {"step": 1, "rank": 0, "surprise": 1}},
        {"kind": "event", "name": "notice"},
    ]
    assert unlisted_labels(records) == {"loss": {"surprise"}}


def test_an_event_that_is_not_listed_cannot_be_constructed() -> None:
    with pytest.raises(TypeError):
        Event(name="surprise")  # type: ignore[call-arg]

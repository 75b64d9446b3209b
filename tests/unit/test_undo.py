"""Which changes of earlier runs are unfinished or can be undone, from the records of the runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from railbed.model import events
from railbed.model.events.configure import Outcome
from railbed.model.fix import Fix, Persistence, run
from railbed.store import open_run
from railbed.store.undo import Unfinished, devices_to_undo, save_undo, unfinished_changes

CLUSTER = "x"


@pytest.fixture(autouse=True)
def _runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path))


def attempt(outcome: Outcome | None, *, undoes: str | None = None, saved: bool = True) -> str:
    """Store a run that changed the device `d`, or began to; return its name."""
    with open_run("configure", cluster_name=CLUSTER, cluster_text="") as stored:
        stored.append(events.ChangeStarted(subject="d", message="", run=undoes))
        if saved:
            save_undo(stored.folder, Fix(device="d", apply=run("true"), undo=(), persistence=Persistence.KEPT))
        if outcome:
            stored.append(events.DeviceChanged(subject="d", message="", outcome=outcome, run=undoes))
            stored.finish("done", 0)
        return stored.folder.name


def to_undo(name: str) -> tuple[list[str], dict[str, str]]:
    attempts, later = devices_to_undo(CLUSTER, name)
    return [item.device for item in attempts], later


@pytest.mark.parametrize("outcome", [None, "unknown"])
def test_a_change_that_was_cut_short_is_unfinished_until_it_is_undone(outcome: Outcome | None) -> None:
    first = attempt(outcome)
    assert unfinished_changes(CLUSTER) == {"d": Unfinished(run=first)}
    attempt("undone", undoes=first)
    assert unfinished_changes(CLUSTER) == {}
    assert to_undo(first) == ([], {})


@pytest.mark.parametrize("outcome", [None, "unknown"])
def test_an_undo_that_was_cut_short_is_offered_again(outcome: Outcome | None) -> None:
    first = attempt("applied")
    second = attempt(outcome, undoes=first, saved=False)
    assert unfinished_changes(CLUSTER) == {"d": Unfinished(run=first, undoing=True)}
    assert to_undo(first) == (["d"], {})
    assert to_undo(second) == ([], {}), "the run itself is undone, not its undo"


@pytest.mark.parametrize("outcome", ["refused", "restored"])
def test_an_undo_that_failed_can_be_tried_again(outcome: Outcome) -> None:
    first = attempt("applied")
    attempt(outcome, undoes=first)
    assert unfinished_changes(CLUSTER) == {}
    assert to_undo(first) == (["d"], {})


def test_a_later_run_that_was_undone_or_restored_hides_no_earlier_one() -> None:
    first = attempt(None)
    second = attempt("unknown")
    assert unfinished_changes(CLUSTER) == {"d": Unfinished(run=second)}
    attempt("undone", undoes=second)
    attempt("restored")
    assert unfinished_changes(CLUSTER) == {"d": Unfinished(run=first)}
    attempt("applied")
    assert unfinished_changes(CLUSTER) == {}


def test_the_newest_later_run_is_to_be_undone_first() -> None:
    first, _, third = (attempt("applied") for _ in range(3))
    assert to_undo(first) == (["d"], {"d": third})


def test_before_its_undo_was_saved_a_change_is_not_in_the_way_of_others() -> None:
    first = attempt("applied")
    second = attempt(None, saved=False)
    assert unfinished_changes(CLUSTER) == {}
    assert to_undo(first) == (["d"], {})
    (locked,) = devices_to_undo(CLUSTER, second)[0]
    assert not locked.saved

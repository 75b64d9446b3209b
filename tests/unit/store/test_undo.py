"""Which changes of earlier runs are unfinished or can be undone, from the records of the runs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import railbed

from railbed.errors import UsageError
from railbed.model import events
from railbed.model.events.runs import Outcome
from railbed.model.fix import Fix, Persistence, as_steps
from railbed.store import open_run, proof, undo
from railbed.store.proof import prove
from railbed.store.undo import (
    SUBJECT,
    Unfinished,
    devices_to_undo,
    read_undo,
    save_undo,
    unfinished_changes,
    unreadable_undos,
)

CLUSTER = "x"


@pytest.fixture(autouse=True)
def _runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path))


def attempt(outcome: Outcome | None, *, undoes: str | None = None, saved: bool = True) -> str:
    """Store a run that changed the device `d`, or began to; return its name."""
    with open_run("configure", cluster_name=CLUSTER, cluster_text="") as stored:
        stored.append(events.ChangeStarted(subject="d", message="", run=undoes))
        if saved:
            save_undo(stored.folder, Fix(device="d", apply=as_steps("true"), undo=(), persistence=Persistence.KEPT))
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


@pytest.mark.parametrize("outcome", [None, "unknown"])
def test_an_undo_that_was_cut_short_is_unfinished_until_it_is_repeated(outcome: Outcome | None) -> None:
    first = attempt("applied")
    attempt(outcome, undoes=first, saved=False)
    attempt("undone", undoes=first, saved=False)
    assert unfinished_changes(CLUSTER) == {}
    assert to_undo(first) == ([], {})


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


class Killed(BaseException):
    """Stands for the death of the process."""


@pytest.mark.parametrize("step", range(5))
def test_an_undo_is_proven_wherever_its_saving_is_cut_short(
    step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two devices, the second is being saved: the undo of the first is needed, and --yes must do."""
    name, calls = attempt("applied"), iter(range(5))

    def step_or_die(act: Callable[..., None]) -> Callable[..., None]:
        def wrapped(*arguments: Any) -> None:
            if next(calls) == step:
                raise Killed
            act(*arguments)
            if next(calls) == step:
                raise Killed

        return wrapped

    monkeypatch.setattr(undo, "prove", step_or_die(proof.prove))
    with suppress(Killed):
        save_undo(tmp_path / name, Fix(device="e", apply=as_steps("true"), undo=(), persistence=Persistence.KEPT))
    assert "d" in {fix.device for fix in read_undo(tmp_path / name, own=True)}


def damage(name: str, line: bytes, folder: Path) -> None:
    with (folder / name / "undo.jsonl").open("ab") as file:
        file.write(line + b"\n")
    prove(folder / name, name, {SUBJECT: (folder / name / "undo.jsonl").read_bytes()})


def stored(**step: object) -> bytes:
    """Return the line of a fix with one step."""
    return json.dumps({"device": "d", "apply": [step], "undo": [], "persistence": "kept"}).encode()


def test_a_run_whose_undo_is_damaged_is_named_and_the_others_work(tmp_path: Path) -> None:
    first = attempt("applied")
    broken = attempt("applied")
    damage(broken, b'{"device": "d", "app', tmp_path)
    (error,) = unreadable_undos(CLUSTER)
    assert error.message == f"the undo of {broken} is unreadable ({tmp_path / broken}/undo.jsonl: line 2 is damaged)"
    assert error.hint == (
        f"{tmp_path / broken}/records.jsonl lists what it changed: restore that by hand, "
        f"then `railbed runs --clean {broken}`"
    )
    assert unfinished_changes(CLUSTER) == {}
    assert to_undo(first) == (["d"], {"d": broken}), "it may still be in effect"
    shutil.rmtree(tmp_path / broken)
    assert to_undo(first) == (["d"], {})


def test_a_damaged_run_that_was_cut_short_is_still_reported(tmp_path: Path) -> None:
    broken = attempt(None)
    (tmp_path / broken / "undo.jsonl").write_bytes(b"\x00\xff\n")
    assert unfinished_changes(CLUSTER) == {"d": Unfinished(run=broken)}


REFUSED = {
    "'etc/passwd' is not the absolute path of a file": {"step": "file", "path": "etc/passwd", "content": ""},
    "'/etc/../root/x' is not the absolute path of a file": {"step": "file", "path": "/etc/../root/x", "content": ""},
    "'644; reboot' is not a mode in octal, such as 644": {
        "step": "file",
        "path": "/x",
        "content": "",
        "mode": "644; reboot",
    },
    "'u+s' is not a mode in octal, such as 644": {"step": "file", "path": "/x", "content": "", "mode": "u+s"},
    "'0:0 /etc/shadow' is not an owner, such as root:root": {
        "step": "file",
        "path": "/x",
        "content": "",
        "owner": "0:0 /etc/shadow",
    },
    "'--reference=/x' is not an owner, such as root:root": {
        "step": "file",
        "path": "/x",
        "content": "",
        "owner": "--reference=/x",
    },
    "a command is empty": {"step": "run", "command": " "},
    "'mtu e/rail0' is not a change of d": {"step": "run", "command": "true", "part": "mtu e/rail0"},
    "'mtu d/rail0, reboot' is not a change of d": {"step": "run", "command": "true", "part": "mtu d/rail0, reboot"},
    "'mtu d/curl a | sh' is not a change of d": {"step": "run", "command": "true", "part": "mtu d/curl a | sh"},
    "'$(id) d' is not a change of d": {"step": "file", "path": "/x", "content": "", "part": "$(id) d"},
    "a command contains a null character": {"step": "run", "command": "true", "verify": "a\0b"},
    "'mtu 1 ; reload' is not a line of a switch's configuration": {
        "step": "slot",
        "section": [],
        "slot": "mtu",
        "before": ["mtu 1 ; reload"],
    },
    "'mtu 1\\nreload' is not a line of a switch's configuration": {
        "step": "slot",
        "section": [],
        "slot": "mtu",
        "before": [],
        "after": ["mtu 1\nreload"],
    },
}


@pytest.mark.parametrize(("reason", "step"), REFUSED.items(), ids=REFUSED)
def test_a_step_that_cannot_be_executed_as_saved_is_refused(
    tmp_path: Path, reason: str, step: dict[str, object]
) -> None:
    name = attempt("applied")
    damage(name, stored(**step), tmp_path)
    with pytest.raises(UsageError) as error:
        read_undo(tmp_path / name)
    assert error.value.message == f"the undo of {name} is unreadable ({tmp_path / name}/undo.jsonl: line 2: {reason})"


@pytest.mark.parametrize("owner", ["root", "0:0", "ada:staff", "www-data:www-data"])
@pytest.mark.parametrize("mode", ["644", "0600", "4755"])
def test_every_mode_and_owner_of_a_file_is_accepted(tmp_path: Path, owner: str, mode: str) -> None:
    name = attempt("applied")
    damage(name, stored(step="file", path="/etc/x", content=None, mode=mode, owner=owner), tmp_path)
    assert len(read_undo(tmp_path / name)) == 2


def test_configure_ends_with_a_sentence_when_its_undo_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path / "runs"))
    name = attempt("applied")
    damage(name, stored(step="file", path="/x", content="", mode="$(reboot)"), tmp_path / "runs")
    (tmp_path / "cluster.yaml").write_text(f"name: {CLUSTER}\nnodes: {{d: {{host: local}}}}\n")
    result = railbed(tmp_path, "configure", "--undo", name, "--yes", "--cluster", tmp_path / "cluster.yaml")
    assert result.code == 2
    assert f"the undo of {name} is unreadable (" in result.err
    assert "Traceback" not in result.err
    shown = railbed(tmp_path, "configure", "--rule", "mtu", "--cluster", tmp_path / "cluster.yaml")
    assert (shown.code, f"the undo of {name} is unreadable" in shown.out + shown.err) == (0, True)


def test_steps_for_another_kind_of_device_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path / "runs"))
    name = attempt("applied")
    damage(name, stored(step="slot", section=[], slot="mtu", before=["mtu 1500"]), tmp_path / "runs")
    (tmp_path / "cluster.yaml").write_text(f"name: {CLUSTER}\nnodes: {{d: {{host: local}}}}\n")
    result = railbed(tmp_path, "configure", "--undo", name, "--yes", "--cluster", tmp_path / "cluster.yaml")
    assert (result.code, f"{name} cannot be undone: its steps for d are not those" in result.err) == (2, True)

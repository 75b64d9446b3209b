"""`railbed runs`: the status of every run in the right word and colour, readable on a narrow terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from railbed.cli.screens.runs import STATUS_STYLES
from railbed.store import Status, list_runs, open_run, read_run_in
from tests.support.cli import environment, railbed
from tests.support.preloaded import server
from tests.support.runs import plain_run

pytestmark = pytest.mark.whole
SECONDS = 300.0
COLOURS = {"running": "1;36", "done": "32", "stopped": "33", "failed": "1;31", "died": "1;31", "waiting": "36"}
LONG = "a-cluster-whose-name-is-as-long-as-people-sometimes-choose-them"


@pytest.fixture(autouse=True)
def _runs_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path / "runs"))


def on_a_terminal(folder: Path, columns: int, *arguments: str) -> str:
    env = {name: value for name, value in environment(COLUMNS=str(columns)).items() if name != "NO_COLOR"}
    return server().show(list(arguments), cwd=folder, env=env, timeout=SECONDS)


def plain(output: str) -> list[str]:
    return re.sub(r"\x1b\[[\d;]*m", "", output).replace("\r", "").splitlines()


def make_runs() -> dict[str, str]:
    """Make a run for each way to end but `running`, and return the statuses by name."""
    statuses: dict[str, str] = {}
    for status in ("done", "stopped", "failed", "waiting"):
        statuses[plain_run(status=status, verb="check").name] = status
    with open_run("check", cluster_name=LONG, cluster_text="") as run:
        pass  # as after a kill: nothing recorded how it ended
    statuses[run.folder.name] = "died"
    return statuses


def test_each_status_has_its_word_and_colour(tmp_path: Path) -> None:
    statuses = make_runs()
    with open_run("check", cluster_name="lab", cluster_text="") as run:
        statuses[run.folder.name] = "running"
        output = on_a_terminal(tmp_path, 160, "runs")
        records = {record["id"]: record["status"] for record in railbed(tmp_path, "runs", "--json").records}
        run.finish("done", 0)
    assert set(statuses.values()) == COLOURS.keys() == STATUS_STYLES.keys()
    assert records == statuses
    lines = output.splitlines()
    for name, status in statuses.items():
        (line,) = (line for line in lines if line.startswith(f"{name} ") and "continue" not in line)
        assert f"\x1b[{COLOURS[status]}m{status}" in line, line


def test_how_to_continue_names_the_way_it_ended(tmp_path: Path) -> None:
    (stopped, died), out = _of(make_runs(), "stopped", "died"), railbed(tmp_path, "runs").out
    assert f"{stopped} was stopped; to continue: railbed check\n" in out
    assert f"{died} was killed; to continue: " in out


def test_a_watch_that_was_stopped_ended_as_it_always_does(tmp_path: Path) -> None:
    plain_run(status="stopped", verb="watch")
    assert "to continue" not in railbed(tmp_path, "runs").out
    assert railbed(tmp_path, "runs", "--json").records[0]["next"] == ""


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_nothing_is_cut_on_a_narrow_terminal(tmp_path: Path, columns: int) -> None:
    """Names, statuses and commands stay whole; only a cluster's name that is wider than the terminal is broken."""
    statuses = make_runs()
    output = on_a_terminal(tmp_path, columns, "runs")
    lines = plain(output)
    for name, status in statuses.items():
        assert any(re.fullmatch(rf"{name}  +({status}|.* {status}( .*)?)", line.rstrip()) for line in lines), lines
    assert all(len(line) <= columns for line in lines if "railbed" not in line), lines
    assert LONG in "".join(line.strip() for line in lines)


def test_a_pipe_gets_each_run_on_one_line(tmp_path: Path) -> None:
    statuses = make_runs()
    out = railbed(tmp_path, "runs", COLUMNS="40").out
    assert out.count("\n") == 1 + len(statuses) + 3  # with the heading, and how three of them continue
    assert LONG in out


def test_a_run_of_an_earlier_version_has_the_name_of_today(tmp_path: Path) -> None:
    folder = plain_run(status="stopped")
    about = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**about, "status": "interrupted"}))
    assert [run.status for run in list_runs()] == ["stopped"]
    assert railbed(tmp_path, "runs", "--json").records[0]["status"] == "stopped"
    assert read_run_in(folder) is not None


def _of(statuses: dict[str, str], *wanted: Status) -> Sequence[str]:
    return [next(name for name, status in statuses.items() if status == name_of) for name_of in wanted]

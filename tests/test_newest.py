"""Wherever a run is named, `newest` is the newest run that the verb can use, and unknown names list similar ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from railbed.cli.main import VERBS, make_app
from railbed.model import events
from railbed.model.fix import Fix, Persistence, as_steps
from railbed.store import find_run
from railbed.store.submitted import note_job
from railbed.store.undo import save_undo
from tests.support.cli import railbed
from tests.support.runs import CLUSTER, made_run, plain_run, training_run

WATCHED = "20270101-000000-train"
COMPARED = "20270102-000000-train"
TRAINED = "20270103-000000-train"
REFUSED = "20270104-000000-train"
VISITED = "20270105-000000-bench"
BENCHED = "20270106-000000-bench"
CHANGED = "20270107-000000-configure"
UNCHANGED = "20270108-000000-configure"
SUBMITTED = "20270102-120000-train"
CHECKED = "20270109-000000-check"
EXPORTED = "20270110-000000-export"

CASES = {
    ("report", "run"): (["report", "RUN", "-o", "-", "--format", "md"], CHECKED),
    ("diagnose", "run"): (["diagnose", "RUN"], TRAINED),
    ("watch", "run"): (["watch", "RUN"], TRAINED),
    ("compare", "before"): (["compare", "RUN", COMPARED], REFUSED),
    ("compare", "after"): (["compare", VISITED, "RUN"], BENCHED),
    ("export", "source"): (["export", "RUN", "weights", "--timeout", "1"], TRAINED),
    ("generate", "source"): (["generate", "RUN", "-p", "x", "--timeout", "1"], TRAINED),
    ("configure", "undo"): (["configure", "--undo", "RUN", "--yes", "-c", "lab.yaml", "--timeout", "1"], CHANGED),
    ("bench", "second_visit"): (["bench", "--second-visit", "RUN", "-c", "lab.yaml"], VISITED),
    ("train", "resume"): (["train", "--resume", "RUN", "-c", "other.yaml"], TRAINED),
    ("train", "attach"): (["train", "--attach", "RUN"], REFUSED),
    ("train", "stop"): (["train", "--stop", "RUN"], REFUSED),
    ("runs", "attach"): (["runs", "--attach", "RUN"], REFUSED),
    ("runs", "stop"): (["runs", "--stop", "RUN"], REFUSED),
    ("submit", "words"): (["submit", "train", "--resume", "RUN"], SUBMITTED),
    ("runs", "names"): (["runs", "--clean", "RUN"], ""),
}
"""The command of each parameter that names a run, and the run that is the newest it can use; none if it is refused."""


def parameters() -> Iterator[tuple[str, str, str]]:
    """Yield verb, name and help of every parameter that names a run."""
    for verb in VERBS:
        command = get_command(make_app([verb])).commands[verb]  # type: ignore[attr-defined]
        for parameter in command.params:
            if "RUN" in str(parameter.metavar):
                yield verb, parameter.name, parameter.help


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs of all kinds; the newest ones are those that most verbs cannot use."""
    folder = tmp_path_factory.mktemp("newest")
    (folder / "lab.yaml").write_text(CLUSTER)
    (folder / "other.yaml").write_text("name: other\nnodes: {other: {host: 192.0.2.1}}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAILBED_RUNS", str(folder / "runs"))
        for name in (WATCHED, COMPARED, TRAINED):
            rename(training_run(steps=60, fails_at=None), name)
        submitted = rename(plain_run(status="failed", code=3), SUBMITTED)
        note_job(submitted, 7)
        rename(plain_run(status="failed", code=2), REFUSED)
        visit = events.FirstVisitDone(subject="x", message="", experiment={}, paths=[])
        rename(plain_run([visit], verb="bench"), VISITED)
        rename(plain_run(verb="bench"), BENCHED)
        rename(configured(), CHANGED)
        rename(plain_run(verb="configure"), UNCHANGED)
        rename(plain_run(verb="check"), CHECKED)
        rename(plain_run(verb="export"), EXPORTED)
    return folder


def rename(made: Path, name: str) -> Path:
    return made.rename(made.parent / name)


def configured() -> Path:
    """Make a run that changed a node."""
    with made_run("configure") as (made, _):
        made.append(events.ChangeStarted(subject="node1", message=""))
        save_undo(made.folder, Fix(device="node1", apply=as_steps("true"), undo=(), persistence=Persistence.KEPT))
        made.append(events.DeviceChanged(subject="node1", message="", outcome="applied"))
        made.finish("done", 0)
    return made.folder


def test_every_parameter_that_names_a_run_has_a_case_and_its_help_offers_newest() -> None:
    named = {(verb, name): text for verb, name, text in parameters()}
    assert named.keys() == CASES.keys() - {("submit", "words")}  # which are those of the job's verb
    assert [parameter for parameter, text in named.items() if "newest" not in text] == [("runs", "names")]


@pytest.mark.whole
@pytest.mark.parametrize(("words", "expected"), [case for case in CASES.values() if case[1]], ids=lambda case: case[0])
def test_newest_is_the_newest_that_the_verb_can_use(folder: Path, words: list[str], expected: str) -> None:
    """Whatever becomes of it: most of these runs are of nodes that do not exist."""
    result = railbed(folder, *(word.replace("RUN", "newest") for word in words))
    assert result.err.startswith("newest "), result
    assert result.err.partition("\n")[0].endswith(f": {expected}"), result


@pytest.mark.whole
@pytest.mark.parametrize("words", [case[0] for case in CASES.values()], ids=lambda words: " ".join(words[:2]))
def test_an_unknown_name_is_refused_with_similar_ones(folder: Path, words: list[str]) -> None:
    result = railbed(folder, *(word.replace("RUN", "20270103") for word in words))
    assert result.code == 2, result
    assert "there is no run '20270103' in runs" in result.err
    assert f"did you mean {TRAINED}? `railbed runs` lists all" in result.err


@pytest.mark.whole
def test_a_run_to_remove_is_named(folder: Path) -> None:
    """`--clean newest` may mean to remove it or to keep it."""
    result = railbed(folder, "runs", "--clean", "newest", "--yes")
    assert (result.code, "--clean needs the name of a run, not `newest`" in result.err) == (2, True), result
    assert f"`railbed runs --clean {EXPORTED}` removes it" in result.err


@pytest.mark.whole
@pytest.mark.parametrize(
    ("other", "sentence"),
    [("newest", "newest and newest are the same run"), (BENCHED, f"{BENCHED} is itself the newest bench run")],
)
def test_a_run_is_not_compared_with_itself(folder: Path, other: str, sentence: str) -> None:
    result = railbed(folder, "compare", "newest", other)
    assert (result.code, sentence in result.err) == (2, True), result


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("0103", f"did you mean {TRAINED}?"),
        ("bench", f"did you mean {BENCHED} or {VISITED}?"),
        ("train", f"did you mean {REFUSED}, {TRAINED} or {SUBMITTED}?"),
        ("20270103-000000-trian", f"did you mean {TRAINED}"),
        ("newst", "did you mean newest?"),
        ("latest", "did you mean newest?"),
        ("elsewhere", "`railbed runs` lists them"),
        ("", "`railbed runs` lists them"),
    ],
)
def test_similar_names_are_listed_the_newest_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, hint: str
) -> None:
    monkeypatch.setenv("RAILBED_RUNS", str(folder / "runs"))
    with pytest.raises(Exception, match="there is no run") as refused:
        find_run(name)
    assert refused.value.hint.startswith(hint)  # type: ignore[attr-defined]

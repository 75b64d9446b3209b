"""Commands in hints: pasted unchanged, they must work on the cluster in use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.events import event

from railbed.cli.hints import add_cluster_file, command_line, use_cluster_file, with_cluster
from railbed.cli.main import run
from railbed.lab import folder
from railbed.lab.model import Spec, StoredLab
from railbed.model.record import Change, Event, Finding, Verdict
from railbed.present.wording import cluster_option


@pytest.fixture(autouse=True)
def no_file_in_use() -> Iterator[None]:
    use_cluster_file(None)
    yield
    use_cluster_file(None)


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("`railbed check` has the details", "`railbed check -c lab.yaml` has the details"),
        ("`railbed check memlock` says what to do", "`railbed check memlock -c lab.yaml` says what to do"),
        ("`railbed discover HOST…` writes one", "`railbed discover HOST… -c lab.yaml` writes one"),
        ("a, then `railbed discover --write`", "a, then `railbed discover --write -c lab.yaml`"),
        ("`railbed bench` or `railbed train`", "`railbed bench -c lab.yaml` or `railbed train -c lab.yaml`"),
        ("`railbed check -c other.yaml`", "`railbed check -c other.yaml`"),
        ("`railbed train --resume RUN`", "`railbed train --resume RUN`"),
        ("`railbed train --list`", "`railbed train --list`"),
        ("`railbed runs` lists them", "`railbed runs` lists them"),
        ("`railbed lab up` creates one", "`railbed lab up` creates one"),
        ("`railbed checkers`", "`railbed checkers`"),
        ("a word like railbed check stays", "a word like railbed check stays"),
    ],
)
def test_the_file_in_use_is_in_commands_that_take_one(text: str, complete: str) -> None:
    assert with_cluster(text) == text
    use_cluster_file(Path("lab.yaml"))
    assert with_cluster(text) == complete
    assert with_cluster(complete) == complete


def test_a_file_is_quoted_for_the_shell_and_the_usual_one_is_left_out() -> None:
    assert cluster_option(Path("my lab's.yaml")) == """ -c 'my lab'"'"'s.yaml'"""
    assert cluster_option(Path("cluster.yaml")) == cluster_option(Path("./cluster.yaml")) == cluster_option(None) == ""
    use_cluster_file(Path("$(reboot).yaml"))
    assert with_cluster("`railbed check`") == "`railbed check -c '$(reboot).yaml'`"


def test_records_are_kept_and_shown_with_it() -> None:
    finding = Finding(
        check="x", subject="a", verdict=Verdict.FAIL, expected="", observed="", why="", remedy="`railbed check` helps"
    )
    notice = event(name="notice", message="`railbed discover --write` adds it")
    assert add_cluster_file(finding) is finding
    use_cluster_file(Path("lab.yaml"))
    changed, shown = add_cluster_file(finding), add_cluster_file(notice)
    assert isinstance(changed, Finding)
    assert isinstance(shown, Event)
    assert changed.remedy == "`railbed check -c lab.yaml` helps"
    assert shown.message == "`railbed discover --write -c lab.yaml` adds it"
    left_out = add_cluster_file(
        Change(subject="a", action="set", left_out="`railbed configure --rule mtu` includes it")
    )
    assert isinstance(left_out, Change)
    assert left_out.left_out == "`railbed configure --rule mtu -c lab.yaml` includes it"
    assert command_line("railbed configure --undo RUN") == "railbed configure --undo RUN -c lab.yaml"


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["compare"], "Missing argument 'RUN'", "`railbed compare --help` shows how it is used"),
        (["compare", "a"], "Missing argument 'OTHER_RUN'", "`railbed compare --help`"),
        (["lab", "fault", "mtu", "node1"], "Missing argument 'VALUE'", "`railbed lab fault mtu --help`"),
        (["lab"], "Missing command", "`railbed lab --help`"),
        (["check", "--jsno"], "No such option: --jsno; did you mean --json?", "`railbed check --help`"),
        (["train", "--sett", "x"], "No such option: --sett; did you mean --set?", "`railbed train --help`"),
        (["diagnose", "--explain"], "Option '--explain' requires an argument\n", "`railbed --help`"),
        (["check", "--frobnicate"], "No such option: --frobnicate\n", "`railbed check --help`"),
        (["check", "--timeout", "never"], "'--timeout'", "`railbed check --help`"),
        (["lab", "upp"], "Did you mean 'up'?", "`railbed lab --help`"),
        (["chekc"], "Did you mean 'check'?", "`railbed --help` shows the commands"),
        (["check", "-c", "no such.yaml"], "no such.yaml", "`railbed discover HOST… -c 'no such.yaml'` writes one"),
    ],
)
def test_wrong_arguments_point_to_the_help_of_their_command(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str, hint: str
) -> None:
    assert run(arguments) == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert hint in printed


def test_a_lab_is_named_where_its_command_would_not_find_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    labs = [StoredLab(spec=Spec(name="lab", kind="netns", nodes=1), number=1, id="0001", folder=tmp_path)]
    monkeypatch.setattr(folder, "load_labs", lambda: labs)
    assert folder.name_option("lab") == ""
    assert folder.name_option("other") == " --name other"
    labs.append(StoredLab(spec=Spec(name="other", kind="netns", nodes=1), number=2, id="0002", folder=tmp_path))
    assert folder.name_option("lab") == " --name lab"

"""The batch script of a submitted run, and what is refused before anything is submitted."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from tests.support.cli import railbed

from railbed.cli.background.runs import to_resume
from railbed.cli.slurm.script import JobRequest, batch_script
from railbed.cli.verbs.submit import split_resume
from railbed.errors import UsageError
from railbed.store import RunSummary


def options(script: str) -> list[str]:
    return [line.removeprefix("#SBATCH ") for line in script.splitlines() if line.startswith("#SBATCH ")]


def test_a_training_is_requeued_and_the_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"HOME": "/h", "PATH": "/bin", "NEXUS_PASSWORD": "of-nobody"})
    request = JobRequest(nodes=4, time="4:00:00", named={"gres": "gpu:8"}, further=["--mem=64G"], notice=300)
    train = batch_script(request, "train", ["train", "tiny", "-c", "slurm"], run=Path("/r"), folder=Path("/f"))
    assert options(train) == [
        "--job-name=railbed-train",
        "--nodes=4",
        "--time=4:00:00",
        "--gres=gpu:8",
        "--exclusive",
        "--output=/dev/null",
        "--export=HOME,PATH",
        "--no-kill",
        "--requeue",
        "--signal=B:USR1@300",
        "--mem=64G",
    ]
    assert "of-nobody" not in train
    check = batch_script(JobRequest(nodes=2, shares=True), "check", ["check"], run=Path("/r"), folder=Path("/f"))
    assert "--no-requeue" in options(check)
    assert not {"--no-kill", "--requeue", "--exclusive"} & {*options(check)}


def test_names_of_folders_do_not_run(tmp_path: Path) -> None:
    """The script's own shell reads it: names with quotes, substitutions and line breaks stay names."""
    folder = tmp_path / "a $(touch ran) `touch ran`\n#SBATCH --nodes=9\n'; touch ran; \"x%j"
    folder.mkdir()
    words = ["train", "$(touch ran)", "--set", "a='b'"]
    script = batch_script(JobRequest(nodes=1), "train", words, run=folder, folder=folder)
    before, _, command = script.rpartition("exec ")
    shown = tmp_path / "show"
    shown.write_text(f'{before}pwd -P; echo "$RAILBED_RUN"; printf "%s\\n" {command}')
    (folder / "run.json").touch()
    subprocess.run(["/bin/sh", shown], cwd=tmp_path, check=True)
    printed = (folder / "output.txt").read_text()
    assert printed.startswith(f"{folder}\n{folder}\n")
    assert printed.endswith("\n" + "\n".join(words) + "\n")
    assert not list(tmp_path.rglob("ran"))
    # Slurm reads options only until the first command, which comes before every path.
    head = script[: script.index("trap")]
    assert "--nodes=9" not in head


@pytest.mark.parametrize("value", ["a b", "a\n#SBATCH --nodes=9", "$(id)", "a'b", "", 'a"', "a#b", "a\\b", "é"])
def test_values_that_no_option_of_slurm_has(value: str) -> None:
    for request in (JobRequest(nodes=1, named={"partition": value}), JobRequest(nodes=1, further=[f"--x={value}"])):
        if value or request.named:
            with pytest.raises(UsageError, match="has a character that no option of Slurm has"):
                batch_script(request, "train", ["train"], run=Path("/r"), folder=Path("/f"))
    with pytest.raises(UsageError, match="is not an option of sbatch"):
        batch_script(JobRequest(nodes=1, further=["x"]), "train", ["train"], run=Path("/r"), folder=Path("/f"))


def test_a_dry_run_creates_nothing(tmp_path: Path) -> None:
    result = railbed(
        tmp_path, "submit", "train", "tiny", "--set", "steps=9", "--nodes", "2", "--min-nodes", "2", "--dry-run"
    )
    assert result.code == 0, result
    assert shlex.split(result.out.splitlines()[-1])[5:] == [
        "train", "tiny", "--set", "steps=9", "--min-nodes", "2", "-c", "slurm"
    ]  # fmt: skip
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["configure"], "configure cannot be submitted"),
        (["train", "nosuch"], "nosuch"),
        (["train", "tiny", "--detach"], "--detach cannot be used in a job"),
        (["train", "--nosuch"], "No such option: --nosuch"),
        (["train", "--resume", "x", "tiny"], "--resume and RECIPE cannot be combined"),
        (["check", "nosuch"], "nosuch"),
        (["bench", "nosuch"], "nosuch"),
        (["check", "-c", "cluster.yaml"], "a job has no cluster cluster.yaml"),
        (["check", "-c", "slurm:nosuch.yaml"], "there is no site file nosuch.yaml"),
        (["check", "--sbatch", "x"], "is not an option of sbatch"),
    ],
)
def test_mistakes_are_reported_before_the_queue(tmp_path: Path, words: list[str], sentence: str) -> None:
    result = railbed(tmp_path, "submit", *words, "--nodes", "2")
    assert (result.code, sentence in result.err) == (2, True), result
    assert list(tmp_path.iterdir()) == []


def test_a_job_that_slurm_refuses_leaves_nothing(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "sbatch").write_text("#!/bin/sh\necho 'sbatch: error: Invalid qos' >&2\nexit 1\n")
    (programs / "sbatch").chmod(0o755)
    (programs / "sinfo").write_text("#!/bin/sh\necho 'lab*|0/2/0/2|1-infinite'\n")
    (programs / "sinfo").chmod(0o755)
    result = railbed(tmp_path, "submit", "check", "--qos", "x", PATH=f"{programs}:{os.environ['PATH']}")
    assert (result.code, "railbed: Slurm: Invalid qos\n" in result.err) == (2, True), result
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_run_to_continue() -> None:
    assert split_resume(["--resume", "r", "--min-nodes", "2"]) == ("r", ["--min-nodes", "2"])
    assert split_resume(["--resume=r"]) == ("r", [])
    assert split_resume(["tiny"]) == (None, ["tiny"])
    summary = RunSummary(
        id="r", verb="train", arguments=["submit", "train", "-N", "3"], cluster="c", version="1", started=0.0
    )
    assert to_resume(summary) == "railbed submit train --resume r --nodes 3"

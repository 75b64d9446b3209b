"""Options of sbatch with which a job would not be that of one run: refused by name, wherever they come from."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.cli import railbed

from railbed import clusterfile
from railbed.errors import ClusterFileError
from railbed.transport.slurm import slurm_environment


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("--array=1-3", "--array"),
        ("--arr=1-3", "--array (--arr=1-3)"),
        ("-a1-3", "--array (-a1-3)"),
        ("-a", "--array (-a)"),
        ("-Qka1-3", "--array (-Qka1-3)"),
        ("--wrap=id", "--wrap"),
        ("--wra=id", "--wrap (--wra=id)"),
        ("--output=x", "--output"),
        ("--ou=x", "--output (--ou=x)"),
        ("-ox", "--output (-ox)"),
        ("--error=x", "--error"),
        ("-ex", "--error (-ex)"),
        ("--input=x", "--input"),
        ("--open-mode=truncate", "--open-mode"),
        ("--chdir=/tmp", "--chdir"),
        ("--chd=/tmp", "--chdir (--chd=/tmp)"),
        ("-D/tmp", "--chdir (-D/tmp)"),
        ("--workdir=/tmp", "--workdir"),
        ("--wait", "--wait"),
        ("-W", "--wait (-W)"),
        ("-HW", "--wait (-HW)"),
        ("--signal=USR2", "--signal"),
        ("--test-only", "--test-only"),
        ("--uid=0", "--uid"),
    ],
)
def test_an_option_is_refused_by_name_in_every_form(tmp_path: Path, option: str, name: str) -> None:
    result = railbed(tmp_path, "submit", "check", f"--sbatch={option}", "--nodes", "2")
    assert (result.code, f"railbed: --sbatch={name} cannot be used: " in result.err) == (2, True), result
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("word", [":", "hetjob", "packjob"])
def test_a_heterogeneous_job_is_refused(tmp_path: Path, word: str) -> None:
    result = railbed(tmp_path, "submit", "check", "--sbatch", word, "--nodes", "2")
    assert (result.code, "would make a heterogeneous job" in result.err) == (2, True), result


@pytest.mark.parametrize(
    "option",
    [
        "--mem=64G",
        "-H",
        "--hold",
        "--wckey=a",
        "--exclude=n1",
        "--wait-all-nodes=1",
        "-N2",
        "-Jarray",
        "-pa",
        "--gres=x",
    ],
)
def test_other_options_are_passed_on(tmp_path: Path, option: str) -> None:
    result = railbed(tmp_path, "submit", "check", f"--sbatch={option}", "--dry-run")
    assert (result.code, f"#SBATCH {option}\n" in result.out) == (0, True), result


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("SBATCH_ARRAY_INX", "--array"),
        ("SBATCH_OUTPUT", "--output"),
        ("SBATCH_ERROR", "--error"),
        ("SBATCH_INPUT", "--input"),
        ("SBATCH_OPEN_MODE", "--open-mode"),
        ("SBATCH_WAIT", "--wait"),
        ("SBATCH_SIGNAL", "--signal"),
    ],
)
def test_a_variable_of_sbatch_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, name: str
) -> None:
    monkeypatch.setenv(variable, "1-3")
    result = railbed(tmp_path, "submit", "check", "--nodes", "2")
    sentence = f"railbed: {variable} is set, and sbatch's {name} cannot be used: "
    assert (result.code, sentence in result.err) == (2, True), result
    assert f"`unset {variable}`" in result.err
    assert list(tmp_path.iterdir()) == []


def test_the_environment_does_not_change_what_a_job_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables of sbatch override the options of a script, and that lists what the job may have."""
    for name in ("SBATCH_EXPORT", "SBATCH_GET_USER_ENV", "SBATCH_ACCOUNT"):
        monkeypatch.setenv(name, "ALL")
    passed = slurm_environment()
    assert "SBATCH_EXPORT" not in passed
    assert "SBATCH_GET_USER_ENV" not in passed
    assert passed["SBATCH_ACCOUNT"] == "ALL"


@pytest.mark.parametrize("option", ["--output=x", "--outp=x", "--input=none", "--pty", "--label", "--het-group=1"])
def test_options_of_steps_that_take_their_output_away_are_refused(option: str) -> None:
    with pytest.raises(ClusterFileError, match=f"--{option.strip('-')[:3]}.* cannot be an option of srun here"):
        clusterfile.loads(f"name: x\nlogin: {{slurm_options: ['{option}']}}\nnodes: {{a: {{host: b}}}}\n", name="x")

"""configure creates the Python environment of a node from a folder of wheels, without a network."""

from __future__ import annotations

import tomllib
import zipfile
from pathlib import Path

import pytest

from railbed.check.shared.environment import REQUIREMENTS, TUNING
from railbed.probes import torch
from tests.support.cli import Result, railbed
from tests.support.labs import RunningLab

VERSIONS = {"numpy": "2.1.0", "safetensors": "0.5.0", "tokenizers": "0.21.0", "torch": "2.9.0", "railbed": "1.0"}
TUNING_VERSIONS = {"bitsandbytes": "0.50.0", "peft": "0.21.0", "transformers": "5.23.0"}


def make_wheels(folder: Path) -> None:
    """Write wheels without dependencies, each with a package of nothing but a version file, which a probe reads."""
    folder.mkdir()
    for name, version in (VERSIONS | TUNING_VERSIONS).items():
        about = f"{name}-{version}.dist-info"
        files = {
            f"{name}/__init__.py": "",
            f"{name}/version.py": f"__version__ = '{version}'\ncuda = None\nhip = None\n",
            f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        record = "".join(f"{path},,\n" for path in (*files, f"{about}/RECORD"))
        with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
            for path, text in {**files, f"{about}/RECORD": record}.items():
                wheel.writestr(path, text)


def configure(lab: RunningLab, *options: str | Path) -> Result:
    return lab.railbed("configure", "--json", "--timeout", "120", *options)


@pytest.mark.netns
@pytest.mark.xdist_group("configure")
def test_an_environment_is_made_from_wheels_and_removed_by_the_undo(netns_lab: RunningLab, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir(mode=0o700)
    make_wheels(tmp_path / "wheels")
    lab = netns_lab.seen_from(tmp_path, nodes=1, python=work / "env" / "bin" / "python")
    rule = ("--rule", "torch_equal")
    (shown,) = [record for record in configure(lab, *rule, "--wheels", "wheels").records if record["kind"] == "change"]
    assert shown["before"] == f"no Python at {work}/env/bin/python"
    assert not list(work.iterdir()), "showing changes nothing"
    applied = configure(lab, *rule, "--wheels", "wheels", "--apply", "--yes")
    assert applied.code == 0, applied
    imported = lab.run_inside(
        "node1", f"{work}/env/bin/python -c 'import torch, railbed, numpy; print(torch.__file__)'"
    )
    assert imported.out.startswith(f"{work}/env/"), imported
    assert "fail" not in lab.verdicts("torch_equal").values()
    add_and_remove_libraries(lab, tmp_path)
    run = changing_runs(tmp_path)[0]
    undone = configure(lab, "--undo", run, "--yes")
    assert undone.code == 0, undone
    assert not (work / "env").exists()
    assert not list(work.rglob("*.whl"))


def changing_runs(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "runs").glob("*-configure*") if (path / "undo.jsonl").exists())


def add_and_remove_libraries(lab: RunningLab, folder: Path) -> None:
    """Add what tuning needs to the environment, see that a check agrees, and undo it."""
    rule, before = ("--rule", "tuning_libraries"), set(changing_runs(folder))
    packages = f"ls {folder}/work/env/lib/python3*/site-packages"
    installed = lab.run_inside("node1", packages).out
    applied = configure(lab, *rule, "--wheels", "wheels", "--apply", "--yes")
    assert applied.code == 0, applied
    assert lab.verdicts("tuning_libraries") == {("tuning_libraries", "node1"): "ok"}
    (run,) = set(changing_runs(folder)) - before
    undone = configure(lab, "--undo", run, "--yes")
    assert undone.code == 0, undone
    assert lab.verdicts("tuning_libraries") == {("tuning_libraries", "node1"): "fail"}
    assert lab.run_inside("node1", packages).out == installed


@pytest.mark.soak  # test_configure_netns.py has a step that fails, test_configure_packages.py an installation
@pytest.mark.netns
@pytest.mark.xdist_group("configure")
def test_an_environment_that_cannot_be_completed_is_removed(netns_lab: RunningLab, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir(mode=0o700)
    make_wheels(tmp_path / "wheels")
    (tmp_path / "wheels" / f"torch-{VERSIONS['torch']}-py3-none-any.whl").unlink()
    lab = netns_lab.seen_from(tmp_path, nodes=1, python=work / "env" / "bin" / "python")
    result = configure(lab, "--rule", "torch_equal", "--wheels", "wheels", "--apply", "--yes")
    assert result.code == 1
    (event,) = [record for record in result.records if record.get("name") == "device_changed"]
    assert event["data"]["outcome"] == "restored"
    assert "Could not find a version that satisfies the requirement torch" in event["message"]
    assert not (work / "env").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--wheels", "empty"], "empty has no wheels"),
        (["--wheels", "empty", "--render", "out"], "--wheels goes only with --apply"),
        (["--wheels", "empty", "--undo", "x", "--yes"], "--wheels goes only with --apply"),
    ],
)
def test_wheels_that_cannot_be_used_are_refused(options: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "cluster.yaml").write_text("name: here\nnodes: {here: {host: local}}\n")
    result = railbed(tmp_path, "configure", *options)
    assert (result.code, message in result.err) == (2, True), result


def test_ranks_get_what_the_extras_require() -> None:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert set(REQUIREMENTS) == set(extras["train"])
    assert set(TUNING) == set(extras["tune"])
    assert tuple(sorted(requirement.partition(">")[0] for requirement in TUNING)) == torch.TUNING

"""railbed as people get it: the wheel and the source archive have every file, and the wheel works once installed."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools import release, uplot

from railbed import __version__
from railbed.cli.main import VERBS
from tests.support.installed import Installed
from tests.support.ports import free_port
from tests.support.smallrun import write_small_run

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.xdist_group("package")  # one environment serves all
HELP = """
import contextlib, io, railbed
from typer.main import get_command
from railbed.cli.main import make_app, run
def names(command, *words):
    yield words
    for name, below in getattr(command, "commands", {}).items():
        yield from names(below, *words, name)
for words in names(get_command(make_app())):
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        code = run([*words, "--help"])
    print(*words, code, "Usage: " in output.getvalue())
print(railbed.__file__)
"""


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> release.Built:
    return release.build(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def installed(built: release.Built, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """railbed without extras: pip gets what it requires from where `make setup` did, in the locked versions."""
    return Installed(release.install(built.wheel, tmp_path_factory.mktemp("installed") / "venv"))


def tracked() -> set[str]:
    """Return the files of the repository; without one, there is nothing to compare with."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is not a clone")
    return set(git("ls-files")) - set(git("ls-files", "--deleted"))


def git(*words: str) -> list[str]:
    done = subprocess.run(["git", "-C", str(ROOT), *words, "-z"], capture_output=True, text=True, check=True)
    return done.stdout.split("\0")[:-1]


def test_no_file_of_the_repository_is_ignored() -> None:
    tracked()
    assert git("ls-files", "--cached", "--ignored", "--exclude-standard") == [], "the wheel will not have them"


@pytest.mark.whole
def test_the_wheel_has_every_file_of_the_packages(built: release.Built) -> None:
    files = release.wheel_files(built.wheel)
    release.compare(dict.fromkeys(release.package_files(ROOT)), dict.fromkeys(files), "the wheel")
    assert {f"src/{name}" for name in files} >= {name for name in tracked() if name.startswith("src/")}


@pytest.mark.whole
def test_the_source_archive_has_every_file_and_gives_the_same_wheel(built: release.Built, tmp_path: Path) -> None:
    """Also without an index: uPlot travels with it."""
    release.unpack(built.sdist, tmp_path / "source")
    assert uplot.is_complete(tmp_path / "source" / uplot.FOLDER)
    assert release.sdist_files(built.sdist) >= tracked()
    env = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}
    again = release.build(tmp_path / "source", tmp_path / "dist", **env)
    release.compare(release.wheel_files(built.wheel), release.wheel_files(again.wheel), "the wheel built from it")


@pytest.mark.whole
def test_an_installed_railbed_starts_and_every_command_has_its_help(installed: Installed, tmp_path: Path) -> None:
    version = installed.run(tmp_path, "railbed", "--version")
    assert (version.code, version.out, version.err) == (0, f"railbed {__version__}\n", "")
    overview = installed.run(tmp_path, "railbed", "--help")
    assert overview.code == 0
    assert all(f" {verb} " in overview.out for verb in VERBS), overview
    *commands, file = installed.run(tmp_path, "python", "-c", HELP).out.splitlines()
    assert [line for line in commands if not line.endswith("0 True")] == []
    assert {*(f"{verb} 0 True" for verb in VERBS), "lab up 0 True", "lab fault mtu 0 True"} < {*commands}
    assert Path(file).is_relative_to(installed.packages)


@pytest.mark.whole
def test_an_installed_railbed_checks_this_machine(installed: Installed, tmp_path: Path) -> None:
    check = installed.run(tmp_path, "railbed", "check", "--json", HOME=str(tmp_path))
    assert check.code in release.VERDICTS, check
    assert {"reachable", "disk_space"} <= {finding["check"] for finding in check.findings}


@pytest.fixture
def installed_lab(installed: Installed, tmp_path: Path) -> Iterator[Path]:
    """The cluster file of a lab that an installed railbed brought up; it is gone afterwards."""
    if os.geteuid() != 0:
        pytest.skip("labs need root")
    name, cache = f"test-{secrets.token_hex(3)}", str(tmp_path / "cache")
    up = installed.run(tmp_path, "railbed", "lab", "up", "--name", name, "--json", RAILBED_CACHE=cache)
    assert up.code == 0, up
    cluster = Path(up.records[-1]["data"]["cluster"])
    yield cluster
    down = installed.run(tmp_path, "railbed", "lab", "down", "--name", name, RAILBED_CACHE=cache)
    assert down.code == 0, down
    assert not cluster.exists()


@pytest.mark.netns
def test_an_installed_railbed_checks_a_lab(installed: Installed, installed_lab: Path, tmp_path: Path) -> None:
    """It has no torch, which is a warning, and the nodes are right otherwise."""
    check = installed.run(tmp_path, "railbed", "check", "--cluster", installed_lab, "--json")
    assert check.code == 0, check.problems
    assert {finding["subject"] for finding in check.findings if finding["check"] == "reachable"} == {"node1", "node2"}


@pytest.mark.whole
def test_an_installed_railbed_with_its_extra_trains_and_reports(installed: Installed, tmp_path: Path) -> None:
    """Its ranks, too, use the wheel and nothing but what the extra requires."""
    write_small_run(tmp_path, python=installed.programs / "python", port=free_port())
    without = installed.run(tmp_path, "railbed", "train", "small.yaml")
    assert (without.code, "pip install 'numpy>=2.1' " in without.err) == (3, True), without
    installed.add_extra("train")
    train = installed.run(
        tmp_path, "railbed", "train", "small.yaml", "--json", HOME=str(tmp_path), XDG_CACHE_HOME=str(tmp_path / "cache")
    )
    assert train.code == 0, train.err
    assert len([record for record in train.records if record["name"] == "loss"]) == 12
    page = installed.run(tmp_path, "railbed", "report", "--json")
    assert page.code == 0, page
    assert json.loads(page.out.splitlines()[-1])["kind"] == "event"

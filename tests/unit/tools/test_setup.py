"""What `make setup` and `make setup-dev` do on machines that lack something: stand-ins for the programs they call."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[3] / "tools"
COMMON = ("sh", "cat", "chmod", "dirname", "mkdir")
"""Programs of this machine that the scripts may use."""
LOCKED = "install --quiet --disable-pip-version-check --no-compile --require-hashes --only-binary :all:"
INSTALLS = [
    f"pip {LOCKED} --requirement {TOOLS}/../requirements/build.txt",
    f"pip {LOCKED} --requirement {TOOLS}/../requirements/railbed.txt"
    f" --requirement {TOOLS}/../requirements/train.txt --requirement /dev/stdin",
    "pip install --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation --editable .",
]
CHOOSES_TORCH = "echo torch==1"
"""What `tools.torch_build` does in the new environment."""
PYTHON = """\
case "$1 $2" in
"-m venv")
    mkdir -p .venv/bin
    for name in pip python; do cat bin/$name >.venv/bin/$name; chmod +x .venv/bin/$name; done ;;
*version_info*'<'*) exit {too_old} ;;
*ensurepip*) [ -e has-venv ] ;;
*) echo python3.12-venv ;;
esac
"""


@dataclass
class Machine:
    """A folder of programs, and what was called."""

    folder: Path

    def have(self, program: str, script: str) -> None:
        path = self.folder / "bin" / program
        path.write_text(f'#!/bin/sh\necho "{program} $*" >>"{self.folder}/calls"\n{script}\n')
        path.chmod(0o755)

    def run(self, script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        env = {"PATH": str(self.folder / "bin"), **variables}
        return subprocess.run(
            ["sh", str(TOOLS / script), *arguments],
            env=env,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def calls(self, program: str) -> list[str]:
        calls = self.folder / "calls"
        lines = calls.read_text().splitlines() if calls.exists() else []
        return [line for line in lines if line.startswith(f"{program} ")]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "bin").mkdir()
    for program in COMMON:
        for folder in ("/usr/bin", "/bin"):
            if os.access(f"{folder}/{program}", os.X_OK) and not (tmp_path / "bin" / program).exists():
                (tmp_path / "bin" / program).symlink_to(f"{folder}/{program}")
    return Machine(tmp_path)


@pytest.fixture
def debian(machine: Machine) -> Machine:
    """A machine with one of three packages; its distribution has another one, but not the third."""
    machine.have("dpkg-query", '[ "$4" = ethtool ] && echo installed || exit 1')
    machine.have("apt-get", "")
    machine.have("apt-cache", '[ "$2" = chromium ] || echo "Package: $2"')
    return machine


def test_root_installs_what_is_missing_and_available(debian: Machine) -> None:
    debian.have("id", "echo 0")
    done = debian.run("packages.sh", "ethtool", "fio", "chromium", "kmod")
    assert done.returncode == 0, done
    assert debian.calls("apt-get") == ["apt-get update -qq", "apt-get install -y -qq --no-install-recommends fio kmod"]
    assert done.stderr.splitlines() == [
        "this distribution does not have these packages, and what needs them is skipped: chromium",
        "installing fio kmod",
    ]


def test_others_get_the_command(debian: Machine) -> None:
    debian.have("id", "echo 1000")
    done = debian.run("packages.sh", "ethtool", "fio", "kmod")
    assert (done.returncode, debian.calls("apt-get")) == (0, [])
    assert done.stderr == (
        "these packages are missing, and what needs them is skipped: "
        "sudo apt-get install --no-install-recommends fio kmod\n"
    )


def test_nothing_happens_if_nothing_is_missing_or_the_distribution_is_another(debian: Machine) -> None:
    debian.have("id", "echo 0")
    assert debian.run("packages.sh", "ethtool").stderr == ""
    (debian.folder / "bin" / "dpkg-query").unlink()
    assert debian.run("packages.sh", "ethtool", "fio").stderr == ""
    assert debian.calls("apt-get") == []


def test_a_python_that_is_too_old_is_refused(machine: Machine) -> None:
    machine.have("python3", PYTHON.format(too_old=1))
    done = machine.run("setup.sh", ".venv", PYTHON="python3")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert done.stderr.startswith("railbed needs Python 3.11 or newer; 'python3' is not")


def test_a_python_without_venv_is_refused_with_the_package_that_has_it(debian: Machine) -> None:
    debian.have("id", "echo 1000")
    debian.have("python3", PYTHON.format(too_old=0))
    done = debian.run("setup.sh", ".venv", PYTHON="python3")
    assert (done.returncode, (debian.folder / ".venv").exists()) == (1, False)
    assert done.stderr == (
        "'python3' cannot create virtual environments: sudo apt-get install --no-install-recommends python3.12-venv\n"
    )


def test_root_gets_the_package_installed(debian: Machine) -> None:
    debian.have("id", "echo 0")
    debian.have("apt-get", '[ "$1" = update ] || : >has-venv')
    debian.have("pip", "")
    debian.have("python", CHOOSES_TORCH)
    debian.have("python3", PYTHON.format(too_old=0))
    done = debian.run("setup.sh", ".venv", PYTHON="python3")
    assert debian.calls("apt-get")[-1] == "apt-get install -y -qq --no-install-recommends python3.12-venv"
    assert done.returncode == 0, done
    assert "python3 -m venv --clear .venv" in debian.calls("python3")
    assert [call for call in debian.calls("pip") if "install" in call] == INSTALLS
    assert debian.calls("python") == ["python -m tools.torch_build"]


def test_an_environment_that_works_is_retained(machine: Machine) -> None:
    (machine.folder / ".venv" / "bin").mkdir(parents=True)
    machine.have("python3", f'exec "{sys.executable}" "$@"')
    for program, script in {"pip": "", "python": CHOOSES_TORCH}.items():
        machine.have(program, script)
        (machine.folder / "bin" / program).rename(machine.folder / ".venv" / "bin" / program)
    done = machine.run("setup.sh", ".venv", PYTHON="python3")
    assert done.returncode == 0, done
    assert not any("--clear" in call for call in machine.calls("python3"))
    assert [call for call in machine.calls("pip") if "install" in call] == INSTALLS


def test_nothing_is_installed_if_no_build_of_torch_can_be_trusted(machine: Machine) -> None:
    (machine.folder / ".venv" / "bin").mkdir(parents=True)
    machine.have("python3", f'exec "{sys.executable}" "$@"')
    for program, script in {"pip": "", "python": "exit 1"}.items():
        machine.have(program, script)
        (machine.folder / "bin" / program).rename(machine.folder / ".venv" / "bin" / program)
    done = machine.run("setup.sh", ".venv", PYTHON="python3")
    assert done.returncode == 1, done
    assert [call for call in machine.calls("pip") if "install" in call] == INSTALLS[:1]


@pytest.mark.parametrize("path", [*sorted(TOOLS.glob("*.sh")), TOOLS.parent / "Makefile"], ids=lambda path: path.name)
def test_every_installation_is_locked_or_without_an_index(path: Path) -> None:
    for line in path.read_text().replace("\\\n", " ").splitlines():
        if re.search(r"\bpip\S* (?:install|download|wheel)\b", line):
            assert "--require-hashes" in line or {"--no-index", "--no-deps"} <= set(line.split()), line

"""Other users of a node cannot stop the guard of a change, hold its lock, or read what it is about to do."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from railbed.fleet import Fleet, change
from railbed.fleet.change import NotChanged, Refused, commit
from railbed.model.fix import FileStep, Fix, Persistence, as_steps
from railbed.transport.base import Target
from railbed.transport.connect import live_connector
from tests.support.strangers import local_user

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("useradd"), reason="needs root, to create another user"
)
SECRET = "content-of-a-file-that-is-restored"  # noqa: S105


@pytest.fixture(scope="module")
def stranger() -> Iterator[str]:
    """A user of this machine who is neither root nor the login."""
    with local_user() as name:
        yield name


@pytest.fixture
def run_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in place of /run that everybody can enter."""
    folder = Path(tempfile.mkdtemp(prefix="railbed-strangers-"))
    folder.chmod(0o755)
    monkeypatch.setattr(change, "FOLDER", f"{folder}/railbed")
    monkeypatch.setattr(change, "LOCK", f"{folder}/railbed/change.lock")
    yield folder
    shutil.rmtree(folder)


def as_user(name: str, script: str) -> subprocess.CompletedProcess[str]:
    user = pwd.getpwnam(name)
    return subprocess.run(
        ["sh", "-c", script],
        user=user.pw_uid,
        group=user.pw_gid,
        extra_groups=[],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def changed(fix: Fix, verify: Callable[[], Awaitable[str]]) -> None:
    """Make a change of this machine."""

    async def work() -> None:
        async with live_connector() as connect, Fleet([Target(name="n1", host="local")], connect) as fleet:
            await commit(fleet, fix, save=lambda _: None, verify=verify)

    asyncio.run(work())


def making(path: Path) -> Fix:
    """Return a change that makes a file, and whose undo removes it and restores another."""
    other = path.with_name("other")
    other.write_text(SECRET)
    files = (FileStep(path=str(other), content="new\n"),)
    return Fix(
        device="n1",
        apply=(*as_steps(f"touch {path}"), *files),
        undo=as_steps(f"rm {path}"),
        persistence=Persistence.BOOT,
    )


async def never() -> str:
    pytest.fail("nothing may be changed")


ATTACKS = (
    "mkdir {mark}.log",
    "touch {mark}.kept",
    "touch {mark}.busy",
    "mv {mark} {mark}.kept",
    "rm -f {mark}",
    "mkdir {mark}.undoing",
    "flock -sn {lock} true",
    "flock -xn {lock} true",
    "cat {lock}",
    "ls {folder}",
    "mv {folder} {folder}.old",
)


def test_the_guard_undoes_whatever_others_try(stranger: str, run_folder: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    succeeded: list[str] = []
    shown: list[str] = []

    async def attack() -> str:
        (mark,) = [path for path in (run_folder / "railbed").glob("change-*") if not path.suffix]
        assert made.exists()
        for script in ATTACKS:
            text = script.format(mark=mark, lock=mark.parent / "change.lock", folder=mark.parent)
            if as_user(stranger, text).returncode == 0:
                succeeded.append(text)
        processes = as_user(stranger, "cat /proc/[0-9]*/cmdline 2>/dev/null").stdout
        assert "sleep" in processes, "the process list was read"
        shown.extend(text for text in (mark.name, str(made), SECRET) if text in processes)
        return "it is not good"

    with pytest.raises(NotChanged, match="n1 was restored: it is not good"):
        changed(making(made), attack)
    assert succeeded == []
    assert shown == []
    assert not made.exists()
    assert (tmp_path / "other").read_text() == SECRET
    assert list((run_folder / "railbed").iterdir()) == [run_folder / "railbed" / "change.lock"]


PLANTED = {
    "a folder of the stranger": "mkdir {folder}",
    "a folder of the stranger for nobody else": "mkdir -m 700 {folder}",
    "a link to a folder of root": "ln -s /root {folder}",
    "a file": "touch {folder}",
}


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
def test_a_folder_that_others_prepared_is_refused(stranger: str, run_folder: Path, tmp_path: Path, plant: str) -> None:
    folder = run_folder / "railbed"
    run_folder.chmod(0o1777)
    assert as_user(stranger, plant.format(folder=folder)).returncode == 0
    with pytest.raises(Refused, match=f"n1 cannot be changed: {folder} is not a folder of root alone: ") as error:
        changed(making(tmp_path / "made"), never)
    assert stranger in error.value.message, "it shows whose it is"
    assert not (tmp_path / "made").exists()


def test_a_folder_of_root_that_others_may_write_to_is_refused(run_folder: Path, tmp_path: Path) -> None:
    (run_folder / "railbed").mkdir()
    (run_folder / "railbed").chmod(0o777)
    with pytest.raises(Refused, match="is not a folder of root alone: drwxrwxrwx"):
        changed(making(tmp_path / "made"), never)


def test_a_file_is_never_written_through_a_link_beside_it(stranger: str, run_folder: Path, tmp_path: Path) -> None:
    """The new content is written beside the old, under a name that nobody can prepare."""
    run_folder.chmod(0o1777)
    victim, target = tmp_path / "victim", run_folder / "setting"
    victim.write_text("mine\n")
    assert as_user(stranger, f"ln -s {victim} {target}.railbed-new").returncode == 0
    fix = Fix(device="n1", apply=(FileStep(path=str(target), content="new\n"),), undo=(), persistence=Persistence.KEPT)

    async def good() -> str:
        return ""

    changed(fix, good)
    assert (target.read_text(), victim.read_text()) == ("new\n", "mine\n")
    assert target.stat().st_mode & 0o777 == 0o644

"""The processes of a guard are killed: the change is undone, or stays and is recognised, and nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.support.openfiles import holders
from tests.support.ranks import wait_for
from tests.unit.fleet.test_change import fix, lock, on_this_machine

from railbed.fleet import Fleet, change
from railbed.fleet.change import DAY, GUARD_KILLED, NotUndone, apply_script, commit, guard_script, undone_script
from railbed.model.fix import as_steps

__all__ = ["lock"]
HOLDER = "run x-configure"
OWN = "RAILBED_TEST_GUARD"


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change, "POLL_SECONDS", 1)


def processes(mark: Path) -> dict[int, str]:
    """Return the processes of the guard with a mark, which is in their environment."""
    own, lines = f"{OWN}={mark}".encode(), {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if own in (path / "environ").read_bytes():
                lines[int(path.name)] = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return lines


@contextmanager
def guarded(mark: Path, made: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a guard, and make the change that it undoes."""
    script = guard_script(as_steps(f"rm {made}"), str(mark), DAY, holder=HOLDER, alone=True)
    environment = {**os.environ, OWN: str(mark)}
    with subprocess.Popen(["sh", "-c", script], start_new_session=True, env=environment) as shell:
        subprocess.run(["sh", "-c", apply_script(as_steps(f"touch {made}"), str(mark))], check=True, timeout=30)
        try:
            yield shell
        finally:
            for pid in processes(mark):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def test_only_the_guard_itself_holds_the_lock(tmp_path: Path, lock: Path) -> None:
    with guarded(tmp_path / "mark", tmp_path / "made") as shell:
        wait_for(lambda: len(holders(lock)) == 1)
        assert holders(lock) != [shell.pid]


@pytest.mark.parametrize("part", ["shell", "guard", "shell and guard", "input"])
def test_nothing_is_left_when_a_part_of_the_guard_is_killed(tmp_path: Path, lock: Path, part: str) -> None:
    mark, made = tmp_path / "mark", tmp_path / "made"
    with guarded(mark, made) as shell:
        wait_for(lambda: len(holders(lock)) == 1)
        (guard,) = holders(lock)
        parts = {"shell": [shell.pid], "guard": [guard], "shell and guard": [guard, shell.pid]}
        others = [
            pid for pid, line in processes(mark).items() if line.startswith("sh ") and pid not in (guard, shell.pid)
        ]
        for pid in parts.get(part, others):
            os.kill(pid, signal.SIGKILL)
        shell.wait(30)
        wait_for(lambda: not processes(mark))
    done = subprocess.run(
        ["sh", "-c", undone_script(str(mark))], capture_output=True, text=True, timeout=30, check=False
    )
    if "guard" in part:
        assert (done.returncode, done.stderr) == (1, f"{GUARD_KILLED}\n")
        assert (made.exists(), lock.read_text()) == (True, f"{HOLDER}\n"), "it is recognised as half-changed"
    else:
        assert (done.returncode, done.stderr) == (0, "")
        assert (made.exists(), lock.read_text()) == (False, "")


async def kill_the_guard(lock: Path) -> None:
    (guard,) = holders(lock)
    os.kill(guard, signal.SIGKILL)


def test_a_change_whose_guard_was_killed_is_confirmed_and_does_not_look_unfinished(tmp_path: Path, lock: Path) -> None:
    made = tmp_path / "made"

    async def work(fleet: Fleet) -> None:
        async def verify() -> str:
            await kill_the_guard(lock)
            return ""

        await commit(fleet, fix(f"touch {made}", undo=f"rm {made}"), save=lambda _: None, verify=verify, holder=HOLDER)

    on_this_machine(work)
    assert (made.exists(), lock.read_text()) == (True, "")
    assert holders(lock) == []


def test_a_change_that_is_not_good_and_whose_guard_was_killed_may_still_be_in_effect(
    tmp_path: Path, lock: Path
) -> None:
    made = tmp_path / "made"

    async def work(fleet: Fleet) -> None:
        async def verify() -> str:
            await kill_the_guard(lock)
            return "the node no longer answers on rail0"

        with pytest.raises(NotUndone, match=f"a change may still be in effect: n1: {GUARD_KILLED}"):
            await commit(
                fleet, fix(f"touch {made}", undo=f"rm {made}"), save=lambda _: None, verify=verify, holder=HOLDER
            )

    on_this_machine(work)
    assert made.exists()
    assert lock.read_text().startswith(f"{HOLDER}, ")

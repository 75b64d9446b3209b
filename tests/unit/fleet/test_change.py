"""Changes of devices: no matter what ends the shell that started a guard, the guard undoes an unconfirmed change."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.ranks import wait_for

from railbed.bench.compare.experiment import Arm, ArmChange
from railbed.bench.compare.run import ArmChanges
from railbed.clusterfile import loads
from railbed.fleet import Fleet, change
from railbed.fleet.change import (
    DAY,
    BeingChanged,
    NotChanged,
    NotUndone,
    apply_script,
    commit,
    guard_script,
    undone_script,
)
from railbed.fleet.experiment import temporarily
from railbed.model.events import ChangeStarted
from railbed.model.fix import FileStep, Fix, Persistence, RunStep, as_steps
from railbed.model.reading import DeviceFacts, Known, Output
from railbed.probes.ip_link import Link, Links
from railbed.store.records import to_line
from railbed.store.undo import DeviceChange, read_attempts, read_undo, save_undo
from railbed.transport.base import Command, Target
from railbed.transport.connect import live_connector

CLUSTER = """
name: c
rails: {r: {subnet: 10.0.0.0/24}}
nodes:
  n1: {host: n1, ports: [{netdev: eth1, rail: r, address: 10.0.0.1}]}
"""


@pytest.fixture(autouse=True)
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The lock of this machine is shared with everything else that runs here."""
    path = tmp_path / "railbed" / "change.lock"
    monkeypatch.setattr(change, "FOLDER", str(path.parent))
    monkeypatch.setattr(change, "LOCK", str(path))
    return path


class OwnFleet(Fleet):
    """This machine, with our own rights."""

    async def ask(self, device: str, command: Command) -> Output:
        return await super().ask(device, replace(command, as_root=False))


def on_this_machine(work: Callable[[Fleet], Coroutine[Any, Any, None]]) -> None:
    async def body() -> None:
        async with live_connector() as connect, OwnFleet([Target(name="n1", host="local")], connect) as fleet:
            await work(fleet)

    asyncio.run(body())


def fix(*apply: str, undo: str = ":", files: tuple[FileStep, ...] = ()) -> Fix:
    return Fix(device="n1", apply=(*as_steps(*apply), *files), undo=as_steps(undo), persistence=Persistence.BOOT)


def end_by_input(shell: subprocess.Popen[bytes]) -> None:
    os.killpg(shell.pid, signal.SIGTERM)


def end_at_once(shell: subprocess.Popen[bytes]) -> None:
    os.killpg(shell.pid, signal.SIGKILL)


@pytest.mark.parametrize("end", [end_by_input, end_at_once])
@pytest.mark.parametrize("works", [True, False])
def test_it_undoes_however_the_shell_ends(
    tmp_path: Path, end: Callable[[subprocess.Popen[bytes]], None], works: bool
) -> None:
    mark, made = tmp_path / "mark", tmp_path / "made"
    undo = as_steps(f"rm {made}" if works else "echo no >&2; exit 1", f"touch {tmp_path}/second")
    with subprocess.Popen(
        ["sh", "-c", guard_script(undo, str(mark), DAY, holder="a test", alone=True)], start_new_session=True
    ) as shell:
        subprocess.run(["sh", "-c", apply_script(as_steps(f"touch {made}"), str(mark))], check=True, timeout=30)
        assert mark.exists()
        end(shell)
    done = subprocess.run(["sh", "-c", undone_script(str(mark))], capture_output=True, timeout=30, check=False)
    assert made.exists() is not works
    assert (tmp_path / "second").exists(), "a step that fails must not keep the next from undoing"
    assert (done.returncode, done.stderr) == ((0, b"") if works else (1, b"no\n"))
    assert not list(tmp_path.glob("mark*"))


def test_a_temporary_change_is_there_in_its_block_and_files_are_restored_as_they_were(tmp_path: Path) -> None:
    made, old, new = (tmp_path / name for name in ("made", "old", "it's new"))
    old.write_text("as it\nwas, without a line end")
    old.chmod(0o640)
    files = (FileStep(path=str(old), content="other\n"), FileStep(path=str(new), content="quote ' and $HOME\n"))

    async def work(fleet: Fleet) -> None:
        async with temporarily(fleet, [fix(f"touch {made}", undo=f"rm {made}", files=files)]):
            assert made.exists()
            assert (old.read_text(), new.read_text()) == ("other\n", "quote ' and $HOME\n")
        assert (made.exists(), new.exists()) == (False, False)

    on_this_machine(work)
    assert old.read_text() == "as it\nwas, without a line end"
    assert old.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(("failures", "code", "message"), [(1, 0, ""), (2, 1, "Attribute write: Protocol error\n")])
def test_dcb_is_tried_twice(tmp_path: Path, failures: int, code: int, message: str) -> None:
    calls, mark = tmp_path / "calls", tmp_path / "mark"
    mark.touch()
    tool = tmp_path / "dcb"
    tool.write_text(
        f'#!/bin/sh\necho "$@" >>{calls}\n'
        f"[ $(wc -l <{calls}) -gt {failures} ] || {{ echo 'Attribute write: Protocol error' >&2; exit 1; }}\n"
    )
    tool.chmod(0o755)
    script = apply_script(as_steps("dcb pfc set dev eth1 prio-pfc all:off"), str(mark))
    variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-c", script], env=variables, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (code, message)
    assert calls.read_text() == "pfc set dev eth1 prio-pfc all:off\n" * 2


def test_a_change_that_fails_half_way_is_undone_and_an_undo_that_fails_is_reported(tmp_path: Path) -> None:
    made = tmp_path / "made"

    async def work(fleet: Fleet) -> None:
        with pytest.raises(NotChanged, match="n1 cannot be changed: no such luck"):
            async with temporarily(fleet, [fix(f"touch {made}", "echo no such luck >&2; exit 1", undo=f"rm {made}")]):
                pytest.fail("it was not applied")
        assert not made.exists()
        with pytest.raises(NotUndone, match="a change may still be in effect: n1: not today") as raised:
            async with temporarily(fleet, [fix(f"touch {made}", undo="echo not today >&2; exit 1")]):
                pass
        assert raised.value.hint == "check the device, and undo the change by hand: echo not today >&2; exit 1"

    on_this_machine(work)


def test_a_device_without_a_shell_is_refused() -> None:
    async def work() -> None:
        async with live_connector() as connect, Fleet([Target(name="n1", host="s", kind="switch")], connect) as fleet:
            with pytest.raises(NotChanged, match="a guard needs a shell"):
                await commit(fleet, fix("true"), save=lambda _: pytest.fail("nothing is changed"))

    asyncio.run(work())


def test_a_change_for_good_stays_and_the_run_can_undo_it(tmp_path: Path) -> None:
    file = tmp_path / "setting"
    file.write_text("before\n")

    async def work(fleet: Fleet) -> None:
        def save(undo: Fix) -> None:
            assert file.read_text() == "before\n", "the way back is saved first"
            save_undo(tmp_path, undo)

        await commit(fleet, fix("true", files=(FileStep(path=str(file), content="after\n"),)), save=save)
        assert file.read_text() == "after\n"
        (undo,) = read_undo(tmp_path)
        await commit(fleet, undo, save=lambda _: None)
        assert file.read_text() == "before\n"

    on_this_machine(work)


def test_a_change_that_is_not_good_or_not_confirmed_in_time_is_undone(tmp_path: Path) -> None:
    made = tmp_path / "made"
    making = fix(f"touch {made}", undo=f"rm {made}")

    async def unreachable() -> str:
        assert made.exists()
        return "the node no longer answers on rail0"

    async def too_late() -> str:
        async with asyncio.timeout(30):
            while made.exists():
                await asyncio.sleep(0.05)
        return ""

    async def work(fleet: Fleet) -> None:
        with pytest.raises(NotChanged, match="n1 was restored: the node no longer answers on rail0"):
            await commit(fleet, making, save=lambda _: None, verify=unreachable)
        assert not made.exists()
        with pytest.raises(NotChanged, match="not confirmed in time"):
            await commit(fleet, making, save=lambda _: None, verify=too_late, seconds=1)
        assert not made.exists()

    on_this_machine(work)


def test_a_change_for_good_is_undone_when_it_is_cut_short(tmp_path: Path) -> None:
    made = tmp_path / "made"

    async def work(fleet: Fleet) -> None:
        async def never() -> str:
            await asyncio.Event().wait()
            return ""

        changing = commit(fleet, fix(f"touch {made}", undo=f"rm {made}"), save=lambda _: None, verify=never)
        task = asyncio.create_task(changing)
        async with asyncio.timeout(30):
            while not made.exists():
                await asyncio.sleep(0.02)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    on_this_machine(work)
    wait_for(lambda: not made.exists())


def test_a_second_change_of_a_device_is_refused_and_names_the_first(tmp_path: Path, lock: Path) -> None:
    made = tmp_path / "made"
    refused: list[str] = []

    async def work(fleet: Fleet) -> None:
        async def change_too() -> str:
            with pytest.raises(BeingChanged) as error:
                await commit(fleet, fix(f"touch {made}"), save=lambda _: None)
            refused.append(error.value.message)
            return ""

        async with temporarily(fleet, [fix("true")]):
            await change_too()
        await commit(fleet, fix("true"), save=lambda _: None, verify=change_too, holder="run x-configure")
        assert not made.exists()
        await commit(fleet, fix(f"touch {made}"), save=lambda _: None)
        assert made.exists()

    on_this_machine(work)
    by_experiment, by_configure = refused
    assert by_experiment == "n1 is being changed by somebody else: an experiment"
    assert by_configure.startswith("n1 is being changed by somebody else: run x-configure, ")
    assert f" pid {os.getpid()}, " in by_configure
    wait_for(lambda: lock.read_text() == "")


def test_two_experiments_on_one_machine_do_not_exclude_each_other(tmp_path: Path) -> None:
    """Two names of the cluster file may be the same machine."""

    async def work(fleet: Fleet) -> None:
        async with (
            temporarily(fleet, [fix(f"touch {tmp_path}/a", undo=f"rm {tmp_path}/a")]),
            temporarily(fleet, [fix(f"touch {tmp_path}/b", undo=f"rm {tmp_path}/b")]),
        ):
            assert (tmp_path / "a").exists()
            assert (tmp_path / "b").exists()
        assert not (tmp_path / "a").exists()

    on_this_machine(work)


def test_who_cannot_undo_leaves_word_in_the_lock(lock: Path) -> None:
    async def work(fleet: Fleet) -> None:
        with pytest.raises(NotUndone):
            await commit(
                fleet, fix("exit 1", undo="echo not today >&2; exit 1"), save=lambda _: None, holder="run x-configure"
            )

    on_this_machine(work)
    holder, trouble = lock.read_text().splitlines()
    assert holder.startswith("run x-configure, ")
    assert trouble == "not today"


def test_a_temporary_change_is_named_in_the_lock_only_if_it_was_not_undone(lock: Path) -> None:
    async def work(fleet: Fleet) -> None:
        for undo in (":", "echo not today >&2; exit 1", ":"):
            with suppress(NotUndone):
                async with temporarily(fleet, [fix(":", undo=undo)]):
                    pass

    on_this_machine(work)
    holder, trouble = lock.read_text().splitlines()
    assert holder.startswith("an experiment, ")
    assert trouble == "not today"


def test_a_step_that_fails_is_named() -> None:
    async def work(fleet: Fleet) -> None:
        with pytest.raises(NotChanged, match=r"cannot be changed: no \(at: echo no >&2; exit 3\)"):
            await commit(fleet, fix("true", "echo no >&2; exit 3", "true"), save=lambda _: None)

    on_this_machine(work)


def test_a_file_that_cannot_be_written_stays_as_it_was(tmp_path: Path) -> None:
    """`set -e` has no effect if failures are handled: a half-written file must not replace the old one."""
    file, mark = tmp_path / "file", tmp_path / "mark"
    file.write_text("before\n")
    mark.touch()
    # A limit of one block: the copy is cut off in the middle.
    script = f"ulimit -f 1; {apply_script([FileStep(path=str(file), content='x' * 100_000)], str(mark))}"
    done = subprocess.run(["sh", "-c", script], capture_output=True, check=False, timeout=30)
    assert done.returncode != 0
    assert file.read_text() == "before\n"


def test_files_come_back_with_their_mode_and_folders_go_with_the_file_they_were_made_for(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "made.d" / "new"
    old.write_text("secret\n")
    old.chmod(0o640)

    async def work(fleet: Fleet) -> None:
        files = (
            FileStep(path=str(old), content=None),
            FileStep(path=str(new), content="n\n", mode="600", own_folder=True),
        )
        await commit(fleet, fix("true", files=files), save=lambda undo: save_undo(tmp_path, undo))
        assert not old.exists()
        assert new.stat().st_mode & 0o777 == 0o600
        (undo,) = read_undo(tmp_path)
        await commit(fleet, undo, save=lambda _: None)

    on_this_machine(work)
    assert (old.read_text(), old.stat().st_mode & 0o777) == ("secret\n", 0o640)
    assert not new.parent.exists()


def test_an_undo_has_nothing_to_do_where_its_step_never_ran(tmp_path: Path) -> None:
    made = tmp_path / "made"
    undo = (RunStep(command=f"rm {made}", only_if=f"[ -e {made} ]"),)

    async def work(fleet: Fleet) -> None:
        for apply in (f"touch {made}", ":"):
            async with temporarily(fleet, [replace(fix(apply), undo=undo)]):
                pass
            assert not made.exists()

    on_this_machine(work)


def test_a_step_that_has_no_effect_fails_even_if_its_command_succeeds(tmp_path: Path) -> None:
    made = tmp_path / "made"
    effective = RunStep(command=f"touch {made}", verify=f"[ -e {made} ]")
    ignored = RunStep(command="true | true", verify=f"[ ! -e {made} ]")

    async def work(fleet: Fleet) -> None:
        async with temporarily(fleet, [replace(fix(":"), apply=(effective,))]):
            assert made.exists()
        with pytest.raises(NotChanged, match=r"no effect: other values were read back \(at: true \| true\)"):
            async with temporarily(fleet, [replace(fix(":"), apply=(effective, ignored))]):
                pass

    on_this_machine(work)


def test_a_device_whose_undo_was_not_saved_has_no_change_in_effect(tmp_path: Path) -> None:
    started = [ChangeStarted(subject=name, message=f"changing {name}") for name in ("n1", "n2")]
    (tmp_path / "records.jsonl").write_bytes(b"".join(to_line(event) + b"\n" for event in started))
    save_undo(tmp_path, fix("a", undo="b").inverse)
    attempts = read_attempts(tmp_path)
    assert attempts == {"n1": DeviceChange(device="n1"), "n2": DeviceChange(device="n2", saved=False)}
    assert [attempt.is_in_effect for attempt in attempts.values()] == [True, False]


def test_the_undo_of_a_run_is_read_last_change_first_and_without_a_torn_line(tmp_path: Path) -> None:
    assert read_undo(tmp_path) == []
    first, second = fix("a", undo="b"), fix("c", undo="d", files=(FileStep(path="/x", content=None),))
    for made in (first, second):
        save_undo(tmp_path, made.inverse)
    with (tmp_path / "undo.jsonl").open("ab") as file:
        file.write(b'{"device":"n1","app')
    assert [undo.inverse for undo in read_undo(tmp_path)] == [second, first]


def test_the_mtu_of_an_arm_is_undone_to_what_was_read() -> None:
    cluster = loads(CLUSTER, name="c.yaml")
    output = Output(device="n1", key="ip_link", command="", stdout=b"", exit=0, sent=0, received=0)
    links = Known(facts=Links(links={"eth1": Link(name="eth1", mtu=1500, flags=(), state="UP")}), output=output)
    facts = {"n1": DeviceFacts(device="n1", readings={"ip_link": (links,)})}
    arm = Arm(name="a", change=ArmChange(mtu=9000))
    (mtu,) = ArmChanges(cluster=cluster, facts=facts).of(arm, ["n1"])
    assert list(map(str, mtu.apply)) == ["ip link set dev eth1 mtu 9000"]
    assert list(map(str, mtu.undo)) == ["ip link set dev eth1 mtu 1500"]
    with pytest.raises(NotChanged, match="the MTU of eth1 is unknown"):
        ArmChanges(cluster=cluster, facts={"n1": DeviceFacts(device="n1")}).of(arm, ["n1"])


def test_an_arm_that_configures_devices_has_the_planned_fixes_of_those_involved() -> None:
    text = CLUSTER + "switches: {s1: {host: s}}\n"
    planned = {"on": [replace(fix("true"), device=device) for device in ("n1", "n9", "s1")]}
    on, off = Arm(name="on", change=ArmChange(configure=("pfc",))), Arm(name="off")
    changes = ArmChanges(cluster=loads(text, name="c.yaml"), facts={}, planned=planned)
    assert [planned_fix.device for planned_fix in changes.of(on, ["n1"])] == ["n1", "s1"]
    assert (changes.of(off, ["n1"]), changes.obstacle([off, on])) == ([], "")
    nothing = replace(changes, planned={"on": []})
    assert nothing.obstacle([off, on]) == "there is nothing to change for on: no device has a fix for pfc"


@pytest.mark.parametrize("fields", [{}, {"mtu": 9000, "configure": ("pfc",)}, {"configure": ()}])
def test_an_arm_makes_one_kind_of_change(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ArmChange(**fields)

"""Changes of an emulated Nexus over SSH: applied in order, rolled back, undone byte for byte, left half-made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from railbed.configure.apply import change_devices
from railbed.configure.planned import PlannedFix
from railbed.configure.request import Callbacks
from railbed.configure.switchlines import merge_lines
from railbed.configure.undo_plan import UndoPlan, UndoTerms, plan_switch
from railbed.fleet import Fleet
from railbed.fleet.change import BeingChanged, NotChanged, NotUndone
from railbed.fleet.experiment import temporarily
from railbed.fleet.switch_change import read_running
from railbed.model import events
from railbed.model.cluster import Login, Secret
from railbed.model.events.runs import Outcome
from railbed.model.fix import Fix, Persistence, configure_lines
from railbed.model.record import Finding, Verdict
from railbed.parsing.nexus.slots import lines_to_enter
from railbed.parsing.nexus.switch_lock import CHANGING, Holder, checkpoint_name
from railbed.transport.base import Command, Target
from railbed.transport.connect import live_connector
from railbed.transport.record import OutputRecorder, recording_connector
from switchlab.nexus.commands.loader import apply_lines
from switchlab.nexus.model.switch import Switch
from tests.switchlab.nexus.conftest import StartEmulator
from tests.switchlab.nexus.support import LOSSLESS, PASSWORD

RUN, UNDO = "20261116-180000-configure", "20261116-190000-configure"
EARLIER = """
policy-map type network-qos site
  class type network-qos c-8q-nq3
    mtu 1500
system qos
  service-policy type network-qos site
interface Ethernet1/1
  mtu 1500
"""


@dataclass
class Site:
    """A switch, a fleet with it, and what a run saved."""

    switch: Switch
    fleet: Fleet
    saved: list[Fix] = field(default_factory=list)
    callbacks: Callbacks = field(init=False)

    def __post_init__(self) -> None:
        async def confirm(_: str) -> bool:
            return True

        self.callbacks = Callbacks(
            confirm=confirm,
            save=self.saved.append,
            exclusive=lambda: pytest.fail("not used"),
            run_name=lambda: RUN,
            write=lambda _: pytest.fail("not used"),
        )

    async def apply(self, fix: Fix, **changes: object) -> events.DeviceChanged:
        return await self._changed([fix], replace(self.callbacks, **changes), "applied", None)  # type: ignore[arg-type]

    async def undo(
        self,
        has_ended: Callable[[Holder], bool] = lambda _: True,
        *,
        overwrite: bool = False,
        cut: int | None = None,
    ) -> events.DeviceChanged:
        """Undo what was saved last; the lock if a change was cut short before that. Cut it after so many commands."""
        locked = Fix(device="s", apply=(), undo=(), persistence=Persistence.KEPT)
        callbacks = replace(self.callbacks, has_ended=has_ended, run_name=lambda: UNDO)
        plan = await self.plan(self.saved[-1] if self.saved else locked, overwrite=overwrite)
        self.switch.faults.commands_until_cut = cut
        return await self._changed([plan.fix], callbacks, "undone", RUN)

    async def plan(self, saved: Fix, *, overwrite: bool = False) -> UndoPlan:
        holder, running = await read_running(self.fleet, "s")
        half_undone = holder is not None and holder.purpose == "undo"
        return plan_switch(saved, running, half_undone=half_undone, terms=UndoTerms(run=RUN, overwrite=overwrite))

    async def _changed(
        self, fixes: Sequence[Fix], callbacks: Callbacks, outcome: Outcome, run: str | None
    ) -> events.DeviceChanged:
        records = [record async for record in change_devices(self.fleet, fixes, callbacks, outcome=outcome, run=run)]
        (changed,) = [record for record in records if isinstance(record, events.DeviceChanged)]
        return changed


@pytest.fixture
async def site(
    switch: Switch, emulate: StartEmulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Site]:
    assert apply_lines(switch, EARLIER.splitlines()) == []
    switch.save()
    async with open_site(switch, emulate, tmp_path, monkeypatch) as opened:
        yield opened


@asynccontextmanager
async def open_site(
    switch: Switch, emulate: StartEmulator, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Site]:
    monkeypatch.setenv("NEXUS_PASSWORD", PASSWORD)
    async with emulate(switch) as emulator:
        public = (folder / "host_key.pub").read_text()
        (folder / "known_hosts").write_text(f"[127.0.0.1]:{emulator.ssh_port} {public}")
        login = Login(
            user="admin",
            port=emulator.ssh_port,
            password=Secret(env="NEXUS_PASSWORD"),
            known_hosts=str(folder / "known_hosts"),
        )
        target = Target(name="s", host="127.0.0.1", login=login, kind="switch")
        with OutputRecorder(folder / "recorded") as recorder:
            async with live_connector() as connect, Fleet([target], recording_connector(connect, recorder)) as fleet:
                yield Site(switch, fleet)
        recorded = [path for path in (folder / "recorded").rglob("*") if path.is_file()]
        assert recorded
        assert not [path for path in folder.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()]


def change(*lines: str) -> Fix:
    """Return lines as configure would enter them: merged and in order."""
    fix = configure_lines("s", *lines)
    finding = Finding(check="r", subject="s", verdict=Verdict.FAIL, expected="", observed="", why="", fix=fix)
    steps = tuple(step for planned in merge_lines([PlannedFix.of(finding, fix)]) for step in planned.fix.apply)
    return Fix(device="s", apply=steps, undo=(), persistence=Persistence.KEPT)


def lossless() -> Fix:
    """Everything that makes a switch lossless, in the worst order; the site's own policy leaves."""
    sections: list[list[str]] = []
    for line in LOSSLESS.strip().replace("interface Ethernet1/1-2", "interface Ethernet1/1").splitlines():
        sections = [*sections, [line]] if not line.startswith(" ") else [*sections[:-1], [*sections[-1], line]]
    lines = [line for section in reversed(sections) for line in section]
    at = lines.index("system qos") + 1
    return change(
        "no policy-map type network-qos site",
        *lines[:at],
        "  no service-policy type network-qos site",
        *lines[at:],
    )


async def test_a_factory_switch_becomes_lossless_and_comes_back_byte_for_byte(site: Site) -> None:
    before, startup = site.switch.running_text(), site.switch.startup
    changed = await site.apply(lossless())
    assert (changed.outcome, changed.message) == ("applied", "s was changed")
    running = site.switch.running_text()
    for line in ("pause pfc-cos 3", "service-policy type network-qos NETWORK", "priority-flow-control mode on"):
        assert line in running
    assert "policy-map type network-qos site" not in running
    assert site.switch.startup == running, "a reload keeps it"
    assert list(site.switch.checkpoints) == [checkpoint_name(RUN)]
    undone = await site.undo()
    assert (undone.outcome, undone.message) == (
        "undone",
        f"what {RUN} changed on s is undone; checkpoint {checkpoint_name(UNDO)} is the state before this undo",
    )
    assert (site.switch.running_text(), site.switch.startup) == (before, startup)
    assert list(site.switch.checkpoints) == [checkpoint_name(UNDO)]
    assert site.switch.checkpoints[checkpoint_name(UNDO)].text == running


CLASSES = ("CNP", "ROCE")
OTHERS = (
    "hostname mine",
    "vlan 7",
    "interface Ethernet1/1",
    "  description cable 12",
    "interface Ethernet1/9",
    "  mtu 9216",
)


def difference(before: str, after: str) -> tuple[list[str], list[str]]:
    """Return the lines that only one of two configurations has."""
    old, new = before.splitlines(), after.splitlines()
    return [line for line in old if line not in new], [line for line in new if line not in old]


async def test_an_undo_leaves_what_others_have_entered_since(site: Site) -> None:
    reference = Switch(site.switch.platform)
    assert apply_lines(reference, [*EARLIER.splitlines(), *OTHERS]) == []
    assert (await site.apply(lossless())).outcome == "applied"
    assert apply_lines(site.switch, OTHERS) == []
    site.switch.save()
    undone = await site.undo()
    assert undone.outcome == "undone", undone.message
    assert difference(reference.running_text(), site.switch.running_text()) == ([], [])
    assert site.switch.startup == site.switch.running_text()


async def test_an_undo_does_not_save_what_others_have_not_saved(site: Site) -> None:
    assert (await site.apply(lossless())).outcome == "applied"
    startup = site.switch.startup
    assert apply_lines(site.switch, OTHERS) == []
    undone = await site.undo()
    assert undone.outcome == "undone", undone.message
    assert "not saved, since it had unsaved changes before" in undone.message
    assert site.switch.startup == startup
    assert "hostname mine" in site.switch.running_text()


async def test_what_others_have_changed_since_is_shown_and_left_unless_it_is_to_be_overwritten(site: Site) -> None:
    before = site.switch.running_text()
    assert (await site.apply(lossless())).outcome == "applied"
    policy = ["policy-map type qos CLASSIFY", "  class CNP", "    set qos-group 6"]
    assert apply_lines(site.switch, ["interface Ethernet1/1", "  priority-flow-control mode off", *policy]) == []
    plan = await site.plan(site.saved[-1])
    left = {change.before: change.left_out for change in plan.changes if change.left_out and change.before}
    assert [shown.partition(" / ")[0] for shown in left] == [
        *("policy-map type qos CLASSIFY", "interface Ethernet1/1: priority-flow-control mode off")
    ]
    assert left["interface Ethernet1/1: priority-flow-control mode off"] == (
        f"changed since {RUN}, which left priority-flow-control mode on; "
        f"`railbed configure --undo {RUN} --overwrite` undoes it all the same"
    )
    used = [change.left_out for change in plan.changes if change.left_out and not change.before]
    assert used == [
        f"class-map type qos match-any {name} is still used by lines that are not undone" for name in CLASSES
    ]
    for overwrite in (False, True):
        undone = await site.undo(overwrite=overwrite)
        assert undone.outcome == "undone", undone.message
        assert (site.switch.running_text() == before) is overwrite
        site.switch.remove_checkpoint(checkpoint_name(UNDO))


async def test_what_others_use_by_now_is_left(site: Site) -> None:
    """Somebody has attached the run's policy to another port."""
    before = site.switch.running_text()
    assert (await site.apply(lossless())).outcome == "applied"
    port = ["interface Ethernet1/7", "  service-policy type qos input CLASSIFY"]
    assert apply_lines(site.switch, port) == []
    assert (await site.undo(overwrite=True)).outcome == "undone"
    _, added = difference(before, site.switch.running_text())
    for line in ("policy-map type qos CLASSIFY", "class-map type qos match-any ROCE", port[1]):
        assert line in added
    assert "policy-map type queuing EGRESS" not in added
    assert site.switch.running_text().count(port[1]) == 1, "the run's own is gone"


async def test_an_undo_that_leaves_something_keeps_the_checkpoint_of_the_run(site: Site) -> None:
    assert (await site.apply(lossless())).outcome == "applied"
    assert apply_lines(site.switch, ["interface Ethernet1/1", "  priority-flow-control mode off"]) == []
    undone = await site.undo()
    assert undone.outcome == "undone", undone.message
    assert "1 of 2 changes left as they are now; " in undone.message
    assert "  priority-flow-control mode off" in site.switch.running_text()
    assert sorted(site.switch.checkpoints) == [checkpoint_name(RUN), checkpoint_name(UNDO)]


async def test_a_checkpoint_of_the_same_name_is_left_alone(site: Site) -> None:
    """Two runs in different folders may begin in the same second."""
    await site.fleet.ask("s", Command(key="x", script=f"checkpoint {checkpoint_name(RUN)}"))
    theirs = dict(site.switch.checkpoints)
    assert apply_lines(site.switch, ["interface Ethernet1/5", "  mtu 9216"]) == []
    site.switch.save()
    running = site.switch.running_text()
    refused = await site.apply(lossless())
    assert refused.outcome == "refused"
    assert f"s already has a checkpoint {checkpoint_name(RUN)}" in refused.message
    assert (site.switch.running_text(), site.switch.checkpoints) == (running, theirs)
    site.switch.remove_checkpoint(checkpoint_name(RUN))
    assert (await site.apply(lossless())).outcome == "applied"
    await site.fleet.ask("s", Command(key="x", script=f"checkpoint {checkpoint_name(UNDO)}"))
    undone = await site.undo()
    assert f"checkpoint {checkpoint_name(UNDO)}-2 is the state before this undo" in undone.message
    assert site.switch.running_text() == running


async def test_a_switch_that_changes_after_the_lines_were_shown_is_left_alone(site: Site) -> None:
    assert (await site.apply(lossless())).outcome == "applied"
    plan = await site.plan(site.saved[-1])
    assert apply_lines(site.switch, ["interface Ethernet1/1", "  no mtu 9216"]) == []
    running = site.switch.running_text()
    changed = await site._changed([plan.fix], replace(site.callbacks, run_name=lambda: UNDO), "undone", RUN)
    assert changed.outcome == "refused"
    assert "s has changed since the lines were shown (interface Ethernet1/1 / mtu)" in changed.message
    assert (site.switch.running_text(), list(site.switch.checkpoints)) == (running, [checkpoint_name(RUN)])


async def test_unsaved_changes_of_others_are_not_saved(site: Site) -> None:
    assert apply_lines(site.switch, ["vlan 7"]) == []
    startup = site.switch.startup
    changed = await site.apply(change("interface Ethernet1/1", "  mtu 9216"))
    assert changed.outcome == "applied"
    assert "it had unsaved changes before" in changed.message
    assert site.switch.startup == startup


@pytest.mark.parametrize("name", ["x;reload", "x\nreload", "x\x1b[2J"])
async def test_a_name_that_would_be_a_command_of_its_own_is_not_entered(site: Site, name: str) -> None:
    """Fixes repeat names of policy-maps and classes as the switch reports them."""
    before = site.switch.running_text()
    await read_running(site.fleet, "s")
    result = await site.apply(configure_lines("s", f"policy-map type qos {name}", "  class x"))
    assert (result.outcome, "is not a line of a switch's configuration" in result.message) == ("refused", True)
    assert (site.switch.running_text(), list(site.switch.checkpoints)) == (before, [])


async def test_a_line_that_is_refused_rolls_the_switch_back(site: Site) -> None:
    before = site.switch.running_text()
    changed = await site.apply(
        change("interface Ethernet1/1", "  mtu 9216", "system qos", "  service-policy type qos no")
    )
    assert changed.outcome == "restored"
    assert "s cannot be changed: " in changed.message
    assert "(at: configure terminal ; system qos" in changed.message
    assert site.switch.running_text() == before
    assert site.switch.checkpoints == {}


async def test_a_switch_that_cannot_be_logged_in_to_any_more_is_rolled_back(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = site.switch.running_text()

    async def unreachable(_: str) -> str:
        return "no answer"

    monkeypatch.setattr(site.fleet, "log_in_again", unreachable)
    changed = await site.apply(change("interface Ethernet1/1", "  mtu 9216"))
    assert changed.outcome == "restored"
    assert changed.message == "s was restored: railbed can no longer log in: no answer"
    assert site.switch.running_text() == before


async def test_a_connection_that_is_cut_at_any_command_of_a_change_is_rolled_back_or_can_be_undone(site: Site) -> None:
    before, startup = site.switch.running_text(), site.switch.startup
    outcomes: list[Outcome] = []
    while "applied" not in outcomes:
        site.switch.faults.commands_until_cut = len(outcomes) + 1
        changed = await site.apply(lossless())
        outcomes.append(changed.outcome)
        site.switch.faults.commands_until_cut = None
        if changed.outcome == "unknown":
            # Cut at the lock: it may or may not have been executed.
            assert f"`railbed configure --undo {RUN}` restores it" in changed.message
        if changed.outcome != "restored":
            undone = await site.undo()
            assert undone.outcome == "undone", undone.message
            site.switch.checkpoints.pop(checkpoint_name(UNDO), None)
        assert (site.switch.running_text(), site.switch.startup, site.switch.checkpoints) == (before, startup, {})
        site.saved.clear()
        assert len(outcomes) < 60, outcomes
    assert outcomes.count("restored") > 5
    assert outcomes.index("restored") == outcomes.count("unknown") == 1


async def test_an_undo_that_is_cut_at_any_command_is_completed_by_the_next(site: Site) -> None:
    before, startup = site.switch.running_text(), site.switch.startup
    outcomes: list[Outcome] = []
    while "undone" not in outcomes:
        assert (await site.apply(lossless())).outcome == "applied"
        outcomes.append((await site.undo(cut=len(outcomes) + 1)).outcome)
        site.switch.faults.commands_until_cut = None
        if outcomes[-1] != "undone":
            undone = await site.undo()
            assert undone.outcome == "undone", undone.message
        site.switch.checkpoints.pop(checkpoint_name(UNDO), None)
        assert (site.switch.running_text(), site.switch.startup, site.switch.checkpoints) == (before, startup, {})
        site.saved.clear()
        assert len(outcomes) < 60, outcomes
    # The lock; then every command is rolled back, or repeated over a new connection.
    assert outcomes[0] == "unknown"
    assert set(outcomes[1:-1]) == {"restored"}


async def test_an_undo_needs_no_checkpoint(site: Site) -> None:
    before = site.switch.running_text()
    assert (await site.apply(lossless())).outcome == "applied"
    site.switch.checkpoints.clear()
    assert (await site.undo()).outcome == "undone"
    assert site.switch.running_text() == before


async def test_an_undo_does_not_take_the_lock_of_a_change_in_progress(site: Site) -> None:
    assert (await site.apply(lossless())).outcome == "applied"
    after = site.switch.running_text()
    async with temporarily(site.fleet, [change("interface Ethernet1/1", "  mtu 1500")]):
        refused = await site.undo(has_ended=lambda _: False)
        assert (refused.outcome, "by an experiment" in refused.message) == ("refused", True)
    assert site.switch.running_text() == after


async def test_a_run_that_takes_over_and_fails_leaves_the_lock_of_the_first(site: Site) -> None:
    """The switch is as half-changed as it was: the first run's undo is still the way out."""
    first = Holder(purpose="run", run=RUN, user="ada", machine="desk", pid=4711)
    await site.fleet.ask("s", Command(key="x", script=f"checkpoint {CHANGING} description {first.description}"))
    assert apply_lines(site.switch, ["interface Ethernet1/1", "  mtu 9216"]) == []
    half = site.switch.running_text()
    second = change("system qos", "  service-policy type qos no")
    restored = await site.apply(second, run_name=lambda: "20261116-190000-configure", has_ended=lambda _: True)
    assert restored.outcome == "restored"
    assert (site.switch.running_text(), list(site.switch.checkpoints)) == (half, [CHANGING])
    assert site.switch.checkpoints[CHANGING].description == first.description


async def test_a_configuration_that_cannot_be_saved_is_rolled_back(site: Site) -> None:
    before, startup = site.switch.running_text(), site.switch.startup
    site.switch.faults.refused["copy"] = "ERROR: no space left\n"
    changed = await site.apply(lossless())
    assert (changed.outcome, "no space left" in changed.message) == ("unknown", True)
    assert (site.switch.running_text(), site.switch.startup) == (before, startup)


async def test_a_run_that_is_interrupted_is_rolled_back(site: Site) -> None:
    before = site.switch.running_text()
    task = asyncio.create_task(site.apply(lossless()))
    async with asyncio.timeout(60):
        while site.switch.running_text() == before:
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert site.switch.running_text() == before
    assert site.switch.checkpoints == {}


async def test_a_switch_that_was_left_half_changed_is_refused_unless_it_is_our_own_run(site: Site) -> None:
    holder = Holder(purpose="run", run=RUN, user="ada", machine="desk", pid=4711)
    await site.fleet.ask("s", Command(key="x", script=f"checkpoint {CHANGING} description {holder.description}"))
    refused = await site.apply(change("interface Ethernet1/1", "  mtu 9216"))
    assert refused.outcome == "refused"
    assert f"s is being changed, or left half-changed, by run {RUN}, ada on desk, pid 4711" in refused.message
    assert f"`railbed configure --undo {RUN}`" in refused.message
    changed = await site.apply(change("interface Ethernet1/1", "  mtu 9216"), has_ended=lambda other: other == holder)
    assert changed.outcome == "applied", changed.message
    assert CHANGING not in site.switch.checkpoints


async def test_a_rollback_that_fails_is_reported_with_the_command(site: Site) -> None:
    site.switch.faults.refused["rollback"] = "ERROR: no\n"
    changed = await site.apply(change("system qos", "  service-policy type qos no"))
    assert changed.outcome == "unknown"
    assert f"rollback running-config checkpoint {checkpoint_name(RUN)} atomic" in changed.message
    assert CHANGING in site.switch.checkpoints, "the next run sees it"


def test_modes_are_left_before_a_line_of_the_mode_above() -> None:
    lines = ("policy-map a", "  class b", "    mtu 1", "    pause", "  class c", "    mtu 2")
    assert list(lines_to_enter(lines)) == ["policy-map a", "class b", "mtu 1", "pause", "exit", "class c", "mtu 2"]


def temporary(site: Site) -> AbstractAsyncContextManager[None]:
    return temporarily(site.fleet, [lossless()])


async def test_a_temporary_change_is_rolled_back_and_never_saved(site: Site) -> None:
    before, startup = site.switch.running_text(), site.switch.startup
    for _ in range(2):
        async with temporary(site):
            assert "priority-flow-control mode on" in site.switch.running_text()
            assert (site.switch.startup, list(site.switch.checkpoints)) == (startup, [CHANGING])
        assert (site.switch.running_text(), site.switch.startup, site.switch.checkpoints) == (before, startup, {})


async def test_a_temporary_change_ends_with_whatever_ends_the_block(site: Site) -> None:
    before = site.switch.running_text()
    with pytest.raises(KeyError):
        async with temporary(site):
            raise KeyError
    assert (site.switch.running_text(), site.switch.checkpoints) == (before, {})
    site.switch.faults.refused["pause"] = "ERROR: no\n"
    with pytest.raises(NotChanged, match="s cannot be changed: ERROR: no"):
        async with temporary(site):
            pytest.fail("a line was refused")
    assert (site.switch.running_text(), site.switch.checkpoints) == (before, {})


async def test_a_temporary_change_excludes_others_and_says_if_it_stays(site: Site) -> None:
    async with temporary(site):
        with pytest.raises(BeingChanged, match="left half-changed, by an experiment"):
            async with temporary(site):
                pytest.fail("two at once")
    with pytest.raises(NotUndone) as left:
        async with temporary(site):
            site.switch.faults.refused["rollback"] = "ERROR: no\n"
    assert f"rollback running-config checkpoint {CHANGING} atomic" in left.value.hint

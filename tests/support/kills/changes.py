"""Changes that are killed: a device is as before, or half-changed, and the report names the undo that restores it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from railbed import clusterfile
from railbed.probes.pending_change import LOCK
from tests.support.cli import Result
from tests.support.configuring import configure, named, running, runs_of, show
from tests.support.kills.scenario import Duration, Killed, Moment, Scenario, Watched
from tests.support.labs import RunningLab
from tests.support.openfiles import holders

APPLY = ("configure", "-c", "cluster.yaml", "--apply", "--yes", "--timeout", "120")
OFTEN_SECONDS = 0.002
MTU, WRONG_MTU = 9000, 1500
PENDING = ("pending_change", "switch_pending")


@dataclass
class Devices(Scenario):
    """Devices, in the state that a change restores."""

    middle: ClassVar = "change_started"
    site: RunningLab = field(kw_only=True)
    only: str = field(kw_only=True)
    before: Any = None

    def state(self) -> object:
        """Return all that may be changed."""
        raise NotImplementedError

    def break_it(self) -> None:
        """Bring the devices to the state before the change."""
        raise NotImplementedError

    def prepare(self) -> None:
        self.break_it()
        self.before = self.state()

    @property
    def applying(self) -> Sequence[str]:
        """The change."""
        return [*APPLY, "--only", self.only]

    @property
    def arguments(self) -> Sequence[str]:
        return self.applying

    def verify(self, killed: Killed) -> None:
        self.assert_listed(killed)
        self.restore_what_is_reported()
        self.undo_what_was_applied()
        assert self.state() == self.before
        result = self.railbed(*self.applying, "--json")
        assert result.code == 0, result.out[-2000:]
        undone = configure(self.site, "--undo", runs_of(self.site)[-1], "--yes")
        assert undone.code == 0, undone
        assert (self.state(), self.reported()) == (self.before, {})

    def reported(self) -> dict[str, str]:
        """Return what the next check and the next configure report as half-changed, with the remedy."""
        shown = configure(self.site, "--only", self.only)
        assert shown.code in (0, 1), shown
        unfinished = {event["subject"]: event["message"] for event in named(shown, "change_unfinished")}
        return unfinished | findings_of(self.railbed("check", *PENDING, "-c", "cluster.yaml", "--json"))

    def restore_what_is_reported(self) -> None:
        """Run the undo that the reports name."""
        if reports := self.reported():
            (run,) = {
                report.partition("`railbed configure --undo ")[2].split("`")[0].split()[0]
                for report in reports.values()
            }
            undone = configure(self.site, "--undo", run, "--yes")
            assert undone.code == 0, (reports, undone)
            assert (still := self.reported()) == {}, f"after the undo: {still}"

    def undo_what_was_applied(self) -> None:
        """Undo a run whose change was complete when it was killed."""
        if self.state() != self.before:
            undone = configure(self.site, "--undo", "newest", "--yes")
            assert undone.code == 0, undone


def findings_of(checked: Result) -> dict[str, str]:
    """Return the devices that a check reports as half-changed, with the remedy."""
    failing = [
        finding
        for finding in checked.findings
        if finding["check"] in PENDING and finding["verdict"] not in ("ok", "skipped")
    ]
    return {finding["subject"]: f"{finding['observed']}; {finding['remedy']}" for finding in failing}


@dataclass
class ConfigureKilled(Devices):
    """A change of two nodes: both have lost their address, and the first has the wrong MTU."""

    def address(self, node: str) -> str:
        """Return the address that a node's rail should have."""
        cluster = clusterfile.load(self.site.cluster)
        subnet = cluster.rails["rail0"].subnet
        assert subnet
        return f"{cluster.nodes[node].ports[0].address}/{subnet.prefixlen}"

    @property
    def nodes(self) -> list[str]:
        """The nodes that are changed."""
        return self.only.split(",")

    def state(self) -> object:
        look = "ip -o -4 addr show dev rail0; cat /sys/class/net/rail0/mtu"
        return {node: self.site.run_inside(node, look).out for node in self.nodes}

    def break_it(self) -> None:
        for node in self.nodes:
            clear = f"[ ! -e {LOCK} ] || : >{LOCK}; rm -f {Path(LOCK).parent}/change-*"
            mtu = WRONG_MTU if node == self.nodes[0] else MTU
            commands = f"{clear}; ip addr flush dev rail0; ip link set dev rail0 mtu {mtu}"
            assert self.site.run_inside(node, commands).code == 0

    def heal(self) -> None:
        """Give the nodes back as they were."""
        self.break_it()
        for node in self.nodes:
            repair = f"ip link set dev rail0 mtu {MTU} && ip addr replace {self.address(node)} dev rail0"
            assert self.site.run_inside(node, repair).code == 0


@dataclass
class SwitchKilled(Devices):
    """A change of the emulated switch."""

    def state(self) -> object:
        return running(self.site), running(self.site, "startup")

    def break_it(self) -> None:
        if self.before and (self.state(), "railbed" in show(self.site, "show checkpoint summary")) != (
            self.before,
            False,
        ):
            show(self.site, "clear checkpoint database ; terminal dont-ask ; write erase")
            assert self.site.fault("kill", "nexus").code == 0
            self.site.heal()


class Undoing(Devices):
    """The undo of a change instead of the change."""

    def prepare(self) -> None:
        super().prepare()
        result = self.railbed(*self.applying, "--json")
        assert result.code == 0, result.out[-2000:]
        self.applied = runs_of(self.site)[-1]

    @property
    def arguments(self) -> Sequence[str]:
        return ["configure", "-c", "cluster.yaml", "--undo", self.applied, "--yes", "--timeout", "120"]


@dataclass
class UndoKilled(Undoing, ConfigureKilled):
    """An undo on nodes."""


@dataclass
class SwitchUndoKilled(Undoing, SwitchKilled):
    """An undo on the switch."""


@dataclass
class GuardKilled(ConfigureKilled):
    """The guard on a node is killed, and railbed is not."""

    middle: ClassVar = ""

    def run_undisturbed(self) -> Duration:
        start, end = 0.0, 0.0
        with Watched(self.start()) as verb:
            while verb.read(OFTEN_SECONDS):
                if self.guards():
                    start, end = start or time.monotonic(), time.monotonic()
        assert verb.result.code == 0, verb.result
        assert end > start
        return Duration(end - start)

    def guards(self) -> list[int]:
        """Return the processes of the first node that hold its lock, as the node numbers them."""
        return holders(LOCK, self.site.file_inside(self.nodes[0], "/proc"))

    def kill_after(self, moment: Moment) -> Killed | None:
        runs, start, took = set(self.runs()), 0.0, 0.0
        with Watched(self.start()) as verb:
            while verb.read(OFTEN_SECONDS):
                guards = [] if took else self.guards()
                start = start or (time.monotonic() if guards else 0.0)
                if guards and time.monotonic() - start >= moment.seconds:
                    took = time.monotonic() - start
                    self.site.run_inside(self.nodes[0], f"kill -KILL {' '.join(map(str, guards))}")
        self.code = verb.result.code
        return self.killed(took, set(self.runs()) - runs) if took else None

    def assert_listed(self, killed: Killed) -> list[str]:
        """railbed itself reaches its end, and reports the outcome."""
        outcomes = {event["subject"]: event["data"]["outcome"] for event in killed.events("device_changed")}
        assert set(outcomes) == set(self.nodes), killed.records[-3:]
        assert self.code == (0 if set(outcomes.values()) == {"applied"} else 1), outcomes
        return []

"""configure is cut short on a switch: by kill -9, a cut connection or a reload, at every step of a change or its undo.

Afterwards the switch is untouched, or the next check and the next configure name the run, and its undo restores the
switch byte for byte.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from railbed import clusterfile
from railbed.parsing.nexus.switch_lock import CHANGING, checkpoint_name
from tests.support.cli import Result
from tests.support.configuring import applied, configure, factory_switch, named, running, runs_of, show
from tests.support.holding import held, held_at
from tests.support.labs import RunningLab

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("configure")]
APPLY = ("configure", "--apply", "--yes", "--timeout", "120", "--only", "nexus")
EVERY_STEP = {
    "show startup-config": "locked, nothing else",
    "checkpoint railbed-2": "the undo is saved",
    "configure terminal": "the checkpoint exists",
    "system qos": "in the middle of the lines",
    "show clock": "after the last line",
    "copy running-config": "before it is saved",
    "no checkpoint railbed-changing": "before it is unlocked",
}
UNDO_STEPS = (
    *("checkpoint railbed-2", "configure terminal", "system qos", "show clock", "copy running-config"),
    *("no checkpoint railbed-2", "no checkpoint railbed-changing"),
)
CUTS = ("kill", "cut")


def some(values: list[tuple[str, ...]], chosen: set[tuple[str, ...]]) -> list[object]:
    """Return the values as parameters; those that are not chosen for every commit are for `make soak`."""
    return [pytest.param(*value, marks=[] if value in chosen else pytest.mark.soak) for value in values]


@pytest.fixture
def lab(switch_lab: RunningLab, tmp_path: Path) -> Iterator[RunningLab]:
    """The lab with a switch in factory state."""
    lab = switch_lab.seen_from(tmp_path)
    with factory_switch(switch_lab, lab):
        yield lab


def cut_short(switch_lab: RunningLab, lab: RunningLab, how: str, command: str, *arguments: str) -> None:
    """Run a verb, and end it or its connection when the switch is about to run a command."""
    with held_at(switch_lab, lab, command, *arguments) as process:
        if how == "kill":
            process.kill()
        else:
            assert switch_lab.fault("cut", "nexus").code == 0
        process.communicate(timeout=120)
        assert process.returncode == (-9 if how == "kill" else 1)
    switch_lab.heal()


def pending(result: Result) -> list[tuple[str, str]]:
    """Return the findings that the switch may be half-changed, with their remedies."""
    return [
        (finding["observed"], finding["remedy"])
        for finding in result.findings
        if finding["check"] == "switch_pending" and finding["verdict"] != "ok"
    ]


def assert_reported(lab: RunningLab, run: str, *, undoing: bool = False) -> None:
    """Assert that the next check and the next configure name the run and the way out."""
    who = f"by {'the undo of ' if undoing else ''}run {run}, "
    for result in (lab.railbed("check", "switch_pending", "--json", "--timeout", "120"), configure(lab)):
        ((observed, remedy),) = pending(result)
        assert who in observed
        assert f"`railbed configure --undo {run} " in remedy
        assert result.code == 1


def assert_undone(lab: RunningLab, run: str, before: str) -> None:
    """Assert that the undo of a run restores the switch byte for byte, and leaves neither lock nor checkpoint of it."""
    undone = configure(lab, "--undo", run, "--yes")
    assert undone.code == 0, undone
    assert (running(lab), running(lab, "startup")) == (before, before)
    summary = show(lab, "show checkpoint summary")
    assert CHANGING not in summary
    assert checkpoint_name(run) not in summary
    after = configure(lab)
    assert (pending(after), named(after, "change_unfinished")) == ([], [])


@pytest.mark.parametrize(
    ("how", "command"),
    some(
        [(how, command) for command in EVERY_STEP for how in CUTS],
        {("kill", "system qos")},
    ),
)
def test_a_change_that_is_cut_short_is_reported_and_undone(
    switch_lab: RunningLab, lab: RunningLab, how: str, command: str
) -> None:
    before = running(lab)
    cut_short(switch_lab, lab, how, command, *APPLY)
    (run,) = runs_of(lab)
    assert_reported(lab, run)
    assert_undone(lab, run, before)


@pytest.mark.soak
@pytest.mark.parametrize("how", CUTS)
def test_a_switch_that_is_not_locked_yet_is_untouched(switch_lab: RunningLab, lab: RunningLab, how: str) -> None:
    before = running(lab)
    cut_short(switch_lab, lab, how, "checkpoint railbed-changing", *APPLY)
    assert (running(lab), running(lab, "startup")) == (before, before)
    assert "railbed" not in show(lab, "show checkpoint summary")
    assert pending(configure(lab)) == []
    applied(lab, "--only", "nexus")


@pytest.mark.parametrize(
    ("how", "command"), some([(how, command) for command in UNDO_STEPS for how in CUTS], {("kill", "system qos")})
)
def test_an_undo_that_is_cut_short_is_reported_and_completed(
    switch_lab: RunningLab, lab: RunningLab, how: str, command: str
) -> None:
    before = running(lab)
    run = applied(lab, "--only", "nexus")
    cut_short(switch_lab, lab, how, command, "configure", "--undo", run, "--yes", "--timeout", "120")
    assert_reported(lab, run, undoing=True)
    assert_undone(lab, run, before)


@pytest.mark.soak
@pytest.mark.parametrize("how", CUTS)
def test_a_rollback_that_is_cut_short_is_reported_and_completed(
    switch_lab: RunningLab, lab: RunningLab, how: str
) -> None:
    before = running(lab)
    assert switch_lab.fault("refuse", "nexus", "service-policy").code == 0
    cut_short(switch_lab, lab, how, "rollback", *APPLY)
    (run,) = runs_of(lab)
    assert_reported(lab, run)
    assert_undone(lab, run, before)


@pytest.mark.soak
def test_a_switch_that_reloads_in_the_middle_of_the_lines_is_reported_and_undone(
    switch_lab: RunningLab, lab: RunningLab
) -> None:
    before = running(lab)
    with held_at(switch_lab, lab, "system qos", *APPLY) as process:
        assert switch_lab.fault("kill", "nexus").code == 0
        process.communicate(timeout=120)
        assert process.returncode == 1
    switch_lab.heal()
    assert running(lab) == before, "it started with what was saved"
    (run,) = runs_of(lab)
    assert_reported(lab, run)
    assert_undone(lab, run, before)


@pytest.mark.soak
def test_a_change_that_was_cut_short_can_also_be_completed(switch_lab: RunningLab, lab: RunningLab) -> None:
    before = running(lab)
    cut_short(switch_lab, lab, "kill", "system qos", *APPLY)
    first, second = *runs_of(lab), applied(lab, "--only", "nexus")
    assert configure(lab, "--only", "nexus").code == 0
    assert CHANGING not in show(lab, "show checkpoint summary")
    # Undone from the last to the first; the other way round is refused.
    refused = configure(lab, "--undo", first, "--yes")
    assert (refused.code, f"railbed configure --undo {second}" in refused.err) == (2, True)
    assert configure(lab, "--undo", second, "--yes").code == 0
    assert_undone(lab, first, before)


def elsewhere(lab: RunningLab, folder: Path, **variables: str) -> RunningLab:
    """Return the lab as somebody sees it who works in another folder."""
    folder.mkdir()
    shutil.copy(lab.cluster, folder / "cluster.yaml")
    return RunningLab(lab.name, folder / "cluster.yaml", folder, {**lab.variables, **variables})


@pytest.mark.soak  # unit/test_store_lock.py has the lock
def test_a_second_configure_is_refused_in_any_folder_and_names_the_first(
    switch_lab: RunningLab, lab: RunningLab, tmp_path: Path
) -> None:
    other = elsewhere(lab, tmp_path / "folder")
    with held_at(switch_lab, lab, "checkpoint railbed-changing", *APPLY) as first:
        refused = other.railbed(*APPLY, "--json")
    (run,) = runs_of(lab)
    who = rf"run {run}, \w+ on \S+, pid {first.pid}, in {lab.folder}/runs"
    assert re.search(rf"another `railbed configure` is running: {who}", refused.err), refused
    assert refused.code == 2


def test_a_second_configure_is_refused_on_any_machine_and_names_the_first(
    switch_lab: RunningLab, lab: RunningLab, tmp_path: Path
) -> None:
    """Another machine shares no file with this one, but sees the lock on the switch."""
    before = running(lab)
    other = elsewhere(lab, tmp_path / "machine", RAILBED_CACHE=str(tmp_path / "cache"))
    with held_at(switch_lab, lab, "system qos", *APPLY) as first:
        result = other.railbed(*APPLY, "--json")
        assert held(switch_lab) == ["system qos"]
    (run,) = runs_of(lab)
    (reason,) = {record["left_out"] for record in result.records if record["kind"] == "change"}
    assert f"nexus is being changed, or left half-changed, by run {run}, " in reason
    assert f"pid {first.pid}; " in reason
    assert (result.code, named(result, "device_changed")) == (1, [])
    assert_undone(lab, run, before)


@pytest.mark.soak
def test_an_undo_on_another_machine_leaves_a_change_in_progress_alone(
    switch_lab: RunningLab, lab: RunningLab, tmp_path: Path
) -> None:
    before = running(lab)
    other = elsewhere(lab, tmp_path / "machine", RAILBED_CACHE=str(tmp_path / "cache"))
    theirs = applied(other, "--only", "nexus", "--rule", "switch_mtu")
    with held_at(switch_lab, lab, "system qos", *APPLY) as first:
        undone = configure(other, "--undo", theirs, "--yes")
        (event,) = named(undone, "device_changed")
        assert event["data"]["outcome"] == "refused"
        assert f"pid {first.pid}" in event["message"]
    (run,) = runs_of(lab)
    assert configure(lab, "--undo", run, "--yes").code == 0
    assert_undone(other, theirs, before)


def test_a_port_that_carries_the_login_is_not_changed(lab: RunningLab) -> None:
    """By mistake, the cluster file has a node on the management port."""
    cluster = clusterfile.load(lab.cluster)
    switch = cluster.switches["nexus"]
    ports = (switch.ports[0].model_copy(update={"name": "mgmt0"}), *switch.ports[1:])
    changed = cluster.model_copy(update={"switches": {"nexus": switch.model_copy(update={"ports": ports})}})
    lab.cluster.write_text(clusterfile.dumps(changed))
    result = configure(lab, "--apply", "--yes", "--only", "nexus")
    refused = {record["left_out"] for record in result.records if record.get("left_out")}
    assert refused == {"refused: `interface mgmt0` would cut the path to nexus"}
    assert result.code == 1
    assert running(lab).endswith("interface mgmt0\n"), "nothing is configured on it"
    (run,) = runs_of(lab)
    assert configure(lab, "--undo", run, "--yes").code == 0


EXPERIMENT = """\
description: what does it gain
repeats: 3
a: {name: off}
b: {name: on, change: {configure: [switch_pfc, switch_network_qos]}}
comparisons:
  - measure: bandwidth
    a: {test: iperf3, pattern: pair, direction: one, seconds: 1}
    b: {test: iperf3, pattern: pair, direction: one, seconds: 1}
"""


@pytest.mark.skipif(not shutil.which("iperf3"), reason="iperf3 is not installed")
@pytest.mark.soak  # test_bench_ssh.py kills an experiment, the tests above a change of the switch
def test_an_experiment_that_is_killed_in_an_arm_is_reported_with_the_commands_that_restore_the_switch(
    switch_lab: RunningLab, lab: RunningLab
) -> None:
    before = running(lab)
    (lab.folder / "experiment.yaml").write_text(EXPERIMENT)
    cut_short(
        switch_lab, lab, "kill", "rollback", "bench", "--experiment", "experiment.yaml", "--yes", "--timeout", "120"
    )
    assert running(lab) != before
    for result in (lab.railbed("check", "switch_pending", "--json", "--timeout", "120"), configure(lab)):
        ((observed, remedy),) = pending(result)
        assert "left half-changed, by an experiment, " in observed
    assert all("an experiment" in record["left_out"] for record in result.records if record["kind"] == "change")
    for command in re.findall(r"`([^`]+)`", remedy):
        show(lab, command)
    assert (running(lab), running(lab, "startup")) == (before, before)
    assert pending(lab.railbed("check", "switch_pending", "--json", "--timeout", "120")) == []

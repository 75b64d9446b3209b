"""Every verb is killed (`kill -9`) at random moments: nothing is orphaned, locked or lost, and the next command works.

`make soak` kills 200 times; KILLS=N kills about N times, and RAILBED_SEED=N repeats the moments of an earlier soak. The
seed and every kill are printed. `tests/support/kills` has the verbs and what must hold afterwards.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.configuring import address_command, factory_switch
from tests.support.kills.changes import ConfigureKilled, GuardKilled, SwitchKilled, SwitchUndoKilled, UndoKilled
from tests.support.kills.jobs import SubmitKilled
from tests.support.kills.labs import LabDownKilled, LabUpKilled
from tests.support.kills.reading import BenchKilled, CaptureKilled, ExportKilled
from tests.support.kills.scenario import Scenario, attack
from tests.support.kills.training import ShipKilled, TrainKilled, own_disks
from tests.support.labs import RunningLab
from tests.support.ports import free_port
from tests.support.slurm import user_of
from tests.support.smallrun import write_small_run
from tests.support.training import training_site

pytestmark = [pytest.mark.netns, pytest.mark.soak]
ALL = 200
SHARES = {
    "train": 24,
    "ship": 12,
    "configure": 24,
    "configure switch": 14,
    "undo": 16,
    "undo switch": 12,
    "guard": 20,
    "lab up": 14,
    "lab down": 12,
    "submit": 12,
    "export": 16,
    "capture": 12,
    "bench": 12,
}
"""How many of the 200 kills each verb gets."""
CHANGED = ("node1", "node2")
SLOWLY = 'sleep 0.5; exec /run/ip.real "$@"'
"""How the first of these nodes sets its address: most kills would miss a change that takes no time."""


def test_the_shares_are_200_kills() -> None:
    assert sum(SHARES.values()) == ALL


def kills(verb: str, tests: int = 1) -> int:
    """Return how many kills a verb gets in each of its tests."""
    return math.ceil(SHARES[verb] * int(os.environ.get("KILLS", ALL)) / ALL / tests)


def assert_holds(scenario: Scenario, count: int) -> None:
    seed = int(os.environ.get("RAILBED_SEED", time.time_ns() % 10_000))
    assert attack(scenario, count, seed) == []


@pytest.mark.xdist_group("nettrain")
def test_train(netns_lab: RunningLab, warm_python: Path, tmp_path: Path) -> None:
    training_site(netns_lab, tmp_path, nodes=2, python=warm_python)
    assert_holds(TrainKilled(tmp_path, netns_lab.name), kills("train"))


@pytest.mark.xdist_group("nettrain")
def test_ship(netns_lab: RunningLab, warm_python: Path, tmp_path: Path) -> None:
    lab, nodes = training_site(netns_lab, tmp_path, nodes=3, python=warm_python), ("node1", "node2", "node3")
    own_disks(lab, nodes, tmp_path / "work")
    assert lab.fault("slow", "rail0", "60M").code == 0
    try:
        assert_holds(ShipKilled(tmp_path, lab.name, site=lab, nodes=nodes), kills("ship"))
    finally:
        lab.heal()
        for node in nodes:
            lab.run_inside(node, f"umount {tmp_path}/work")


@pytest.fixture
def changed(netns_lab: RunningLab, tmp_path: Path) -> RunningLab:
    return netns_lab.seen_from(tmp_path, nodes=len(CHANGED))


@pytest.mark.xdist_group("configure")
@pytest.mark.parametrize(
    ("verb", "scenario"),
    [("configure", ConfigureKilled), ("undo", UndoKilled), ("guard", GuardKilled)],
    ids=["configure", "undo", "guard"],
)
def test_changes_of_nodes(changed: RunningLab, verb: str, scenario: type[ConfigureKilled]) -> None:
    attacked = scenario(changed.folder, changed.name, site=changed, only=",".join(CHANGED))
    try:
        with address_command(changed, CHANGED[0], SLOWLY):
            assert_holds(attacked, kills(verb))
    finally:
        attacked.heal()


@pytest.fixture
def switched(switch_lab: RunningLab, tmp_path: Path) -> Iterator[RunningLab]:
    lab = switch_lab.seen_from(tmp_path)
    with factory_switch(switch_lab, lab):
        yield lab


@pytest.mark.xdist_group("configure")
@pytest.mark.parametrize(
    ("verb", "scenario"),
    [("configure switch", SwitchKilled), ("undo switch", SwitchUndoKilled)],
    ids=["configure", "undo"],
)
def test_changes_of_a_switch(switched: RunningLab, verb: str, scenario: type[SwitchKilled]) -> None:
    variables = dict(switched.variables)
    assert_holds(scenario(switched.folder, switched.name, variables, site=switched, only="nexus"), kills(verb))


@pytest.mark.xdist_group("netns")
@pytest.mark.parametrize(("verb", "scenario"), [("lab up", LabUpKilled), ("lab down", LabDownKilled)])
def test_labs(tmp_path: Path, verb: str, scenario: type[LabUpKilled]) -> None:
    assert_holds(scenario(tmp_path), kills(verb))


@pytest.mark.xdist_group("slurm")
@pytest.mark.parametrize("followed", [True, False], ids=["followed", "alone"])
def test_submit(slurm_lab: RunningLab, slurm_python: dict[str, Path], followed: bool) -> None:
    with user_of(slurm_lab, "nobody", slurm_python["nobody"]) as user:
        attacked = SubmitKilled(user.folder, slurm_lab.name, user=user, followed=followed)
        try:
            assert_holds(attacked, kills("submit", 2))
        finally:
            attacked.clean()


@pytest.mark.xdist_group("train")
@pytest.mark.parametrize("options", [(), ("--gguf",)], ids=["transformers", "gguf"])
def test_export(tmp_path: Path, warm_python_here: Path, options: tuple[str, ...]) -> None:
    write_small_run(tmp_path, python=warm_python_here, port=free_port("127.0.0.1"))
    attacked = ExportKilled(tmp_path, options=options)
    assert attacked.railbed("train", "small.yaml", "--ranks", "1").code == 0
    assert_holds(attacked, kills("export", 2))


@pytest.mark.xdist_group("netns")
def test_capture(netns_lab: RunningLab, tmp_path: Path) -> None:
    lab = netns_lab.seen_from(tmp_path)
    assert_holds(CaptureKilled(tmp_path, lab.name, site=lab), kills("capture"))


@pytest.mark.xdist_group("netns")
@pytest.mark.parametrize("experiment", [False, True], ids=["suite", "experiment"])
def test_bench(netns_lab: RunningLab, tmp_path: Path, experiment: bool) -> None:
    lab = netns_lab.seen_from(tmp_path)
    attacked = BenchKilled(tmp_path, lab.name, site=lab, experiment=experiment)
    assert_holds(attacked, kills("bench", 2))

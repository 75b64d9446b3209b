"""A lab with Slurm: jobs on all nodes, nodes that die and return, and nothing left behind."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from railbed.lab.folder import load_lab
from railbed.lab.host import is_alive
from railbed.lab.netns.machine import processes
from tests.support.cli import railbed
from tests.support.labs import RunningLab, call, end_up_at
from tests.support.slurm import AS_NOBODY, NODES, states, until

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("slurm")]


@pytest.fixture
def lab(slurm_lab: RunningLab) -> RunningLab:
    return slurm_lab


@pytest.fixture
def healed(lab: RunningLab) -> Iterator[RunningLab]:
    yield lab
    lab.heal()
    until(lambda: set(states(lab).values()) == {"idle"})


def controller(lab: RunningLab, command: str) -> str:
    """Return what a command prints on the controller."""
    result = lab.shell("controller", command)
    assert result.code == 0, result
    return result.out


def test_a_job_runs_on_all_nodes_also_as_an_ordinary_user(lab: RunningLab) -> None:
    assert sorted(controller(lab, "srun -N 3 hostname").split()) == NODES
    assert controller(lab, f"cd /tmp && {AS_NOBODY} srun -N 3 id -u").split() == ["65534"] * 3
    assert lab.shell("node2", "srun -N 1 -w node3 hostname").out == "node3\n"
    status = lab.status()
    assert (status["scheduler"], status["states"]) == ("slurm", dict.fromkeys([*NODES, "controller"], "up"))


def test_a_killed_node_is_down_until_it_is_healed(healed: RunningLab) -> None:
    assert healed.fault("kill", "node3").code == 0
    until(lambda: states(healed).get("node3", "").startswith("down"))
    assert controller(healed, "srun -N 2 hostname | sort").split() == ["node1", "node2"]
    assert healed.fault("heal", "node3").code == 0
    until(lambda: states(healed).get("node3") == "idle")
    assert sorted(controller(healed, "srun -N 3 hostname").split()) == NODES


def test_a_controller_that_lost_power_still_has_its_jobs(healed: RunningLab) -> None:
    job = controller(healed, "sbatch --parsable --hold --job-name waiting --wrap true").strip()
    saved = healed.cluster.parent / "slurm" / "state" / "job_state"
    until(lambda: b"waiting" in saved.read_bytes())  # slurmctld saves its state some seconds later
    assert healed.fault("kill", "controller").code == 0
    assert healed.status()["states"]["controller"] == "off"
    assert healed.shell("node1", "timeout 5 sinfo").code != 0
    assert healed.fault("heal", "controller").code == 0
    until(lambda: len(states(healed)) == 3)
    assert controller(healed, f"squeue --noheader --format %i; scancel {job}").split() == [job]


def test_faults_of_rails_are_refused_for_the_controller(lab: RunningLab) -> None:
    result = lab.fault("cut", "controller")
    assert (result.code, "'controller' is not a node or rail" in result.err) == (2, True), result


def test_a_second_lab_that_is_killed_leaves_nothing_and_does_not_disturb_the_first(
    lab: RunningLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    options = ("--nodes", "1", "--scheduler", "slurm", "--name", "second")
    end_up_at("lab_scheduler_up", signal.SIGKILL, tmp_path, *options, RAILBED_CACHE=str(cache))
    with monkeypatch.context() as changed:
        changed.setenv("RAILBED_CACHE", str(cache))
        second = load_lab("second")
        pids = processes(second, second.machines)
        commands = {Path(f"/proc/{pid}/comm").read_text().strip() for pid in pids}
        assert commands >= {"sshd", "munged", "slurmd", "slurmctld"}
        assert call(tmp_path, "lab", "down", "--name", "second").code == 0
    assert [pid for pid in pids if is_alive(pid)] == []
    assert not list(cache.glob("labs/*"))
    assert not list(Path("/run/netns").glob(f"*{second.id}*"))
    assert str(cache) not in Path("/proc/self/mountinfo").read_text()
    assert sorted(controller(lab, "srun -N 3 hostname").split()) == NODES


def test_virtual_machines_have_no_scheduler(tmp_path: Path) -> None:
    result = railbed(tmp_path, "lab", "up", "--kind", "vm", "--scheduler", "slurm")
    assert (result.code, "only a netns lab has a scheduler" in result.err) == (2, True), result

"""Another user of the nodes holds ports on which ranks meet: before they start, and between two generations."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.held_ports import holding, kill_a_rank
from tests.support.labs import RunningLab, call
from tests.support.strangers import local_user
from tests.support.training import Training, events, losses, training, training_site, with_port

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("nettrain")]
PAIR = ["node1", "node2"]
ENDLESS = ("small.yaml", "--set", "steps=100000", "--sample", "0", "-c")
USUAL, FIXED = 29500, 4711


@pytest.fixture(scope="module")
def pair(netns_lab: RunningLab, warm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> RunningLab:
    return training_site(netns_lab, tmp_path_factory.mktemp("holder"), nodes=len(PAIR), python=warm_python)


@pytest.fixture
def slow(pair: RunningLab) -> Iterator[RunningLab]:
    assert pair.fault("slow", "rail0", "20M").code == 0
    yield pair
    pair.heal()


@pytest.fixture(scope="module")
def mallory() -> Iterator[str]:
    with local_user() as name:
        yield name


def end(run: Training) -> None:
    run.process.send_signal(signal.SIGINT)
    assert run.end() == 130


def test_nobody_ends_a_training_by_holding_ports(slow: RunningLab, mallory: str) -> None:
    """Neither the usual port nor those of an earlier generation matter; no node is blamed."""
    with (
        holding(slow, mallory, PAIR, USUAL),
        training(slow, *ENDLESS, "cluster.yaml") as run,
    ):
        run.until(lambda _: run.steps >= 2)
        for generation, node in ((2, "node2"), (3, "node1")):
            kill_a_rank(slow, node)
            run.until(lambda _, number=generation: run.generation == number and run.steps >= 2)  # type: ignore[misc]
        end(run)
    assert [event["data"]["nodes"] for event in events(run.records, "generation")] == [PAIR] * 3
    assert events(run.records, "node_out") == []
    assert events(run.records, "intrusion") == []


def test_a_port_that_the_cluster_file_sets_is_held_on_a_node(slow: RunningLab, mallory: str) -> None:
    """The ranks meet on another node, and the holder is named; between generations nobody can take the port there."""
    cluster = str(with_port(slow, FIXED))
    with holding(slow, mallory, ["node1"], FIXED):
        refused = call(slow.folder, "check", "rendezvous_free", "-c", cluster, "--json")
        assert [finding["verdict"] for finding in refused.findings] == ["fail", "ok"]
        with holding(slow, mallory, ["node2"], USUAL), training(slow, *ENDLESS, cluster, "--no-check") as run:
            run.until(lambda _: run.steps >= 2)
            kill_a_rank(slow, "node1")
            run.until(lambda _: run.generation == 2 and run.steps >= 2)
            end(run)
    notices = [event["message"] for event in events(run.records, "notice") if "cannot meet" in event["message"]]
    held = f"it is held by a program of {mallory}"
    assert notices == [f"the ranks cannot meet on port {FIXED} of node1, and meet on another node: {held}"] * 2
    assert [sorted(event["data"]["nodes"]) for event in events(run.records, "generation")] == [PAIR] * 2
    assert events(run.records, "node_out") == []
    assert losses(run.records)


def test_a_port_that_the_cluster_file_sets_is_held_everywhere(pair: RunningLab, mallory: str) -> None:
    """One sentence names the holder on each node; no node is excluded."""
    with holding(pair, mallory, PAIR, FIXED):
        result = call(pair.folder, "train", *ENDLESS, str(with_port(pair, FIXED)), "--no-check", "--json")
    held = f"it is held by a program of {mallory}"
    assert result.code == 3
    assert f"the ranks cannot meet on port {FIXED} (node1: {held}; node2: {held})" in result.err
    assert "remove `rendezvous_port` from the cluster file" in result.err
    assert events(result.records, "node_out") == []

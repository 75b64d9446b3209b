"""A large model on its way to the nodes of a netns lab: railbed is killed, then a node that passes it on."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from railbed import clusterfile
from tests.support.basemodels import write_base, write_conversations
from tests.support.labs import RunningLab
from tests.support.training import events, training, training_site

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("nettrain")]
NODES = ["node1", "node2", "node3"]
MEGABYTES = 40
SLOW = ("slow", "rail0", "16M")
"""A copy over the rail takes twenty seconds."""
RELAYS = "pgrep -f 'exec[(]sys.stdin.buffer'"


@pytest.fixture
def site(netns_lab: RunningLab, warm_python: Path, tmp_path: Path) -> Iterator[RunningLab]:
    """Three nodes, each with a disk of its own."""
    lab = training_site(netns_lab, tmp_path, nodes=len(NODES), python=warm_python)
    work = tmp_path / "work"
    work.mkdir(mode=0o700)
    cluster = lab.cluster.read_text()
    assert f"workdir: {tmp_path}\n" in cluster
    lab.cluster.write_text(cluster.replace(f"workdir: {tmp_path}\n", f"workdir: {work}\n"))
    for node in NODES:
        assert lab.shell(node, f"mount -t tmpfs -o mode=700 tmpfs {work}").code == 0
    assert lab.fault(*SLOW).code == 0
    yield lab
    lab.heal()
    for node in NODES:  # one that was killed has lost its mounts
        lab.shell(node, f"umount {work}")


@pytest.mark.soak  # test_relay.py has the same on this machine
def test_a_copy_survives_the_death_of_railbed_and_of_a_node(site: RunningLab) -> None:
    base = write_base(site.folder / "llama", "llama")
    (base / "notes.txt").write_bytes(random.Random(7).randbytes(MEGABYTES * 10**6))  # noqa: S311
    chats = write_conversations(site.folder / "chats.jsonl")
    settings = [f"model.path={base}", f"data.files=[{chats}]", "steps=2", "threads=1", "model.context=96"]
    options = ["lora", *(word for setting in (*settings, "batch.sequences=4") for word in ("--set", setting))]
    options += ["-c", "cluster.yaml", "--min-nodes", "2", "--sample", "0"]
    with training(site, *options) as run:
        run.until(lambda record: in_progress(record) >= MEGABYTES * 1.2)  # node1 has it, and node2 a part
        assert site.shell("node2", RELAYS).code == 0
        run.process.kill()
    for node in NODES:
        assert site.shell(node, f'timeout 30 sh -c "while {RELAYS}; do sleep 0.2; done" >/dev/null').code == 0
    with training(site, *options) as run:
        run.until(lambda record: in_progress(record) > MEGABYTES * 1.3)
        (middle,) = [node for node in NODES[1:] if listens(site, node)]
        (last,) = set(NODES[1:]) - {middle}
        assert site.fault("kill", middle).code == 0
        assert run.end() == 1
    (copied,) = events(run.records, "files_copied")
    assert (copied["subject"], copied["data"]["source"], copied["data"]["rail"]) == (last, "node1", "rail0")
    assert copied["data"]["continued"] > 0
    broken = f"{middle} stopped passing files on to {last}: "
    assert any(broken in event["message"] for event in events(run.records, "notice"))
    (generation,) = events(run.records, "generation")
    assert generation["data"]["nodes"] == sorted(["node1", last])
    for node in ("node1", last):
        look = f"cd {site.folder}/work/.railbed && ls partial && sha256sum models/*/notes.txt | cut -c1-64"
        stored, expected = site.shell(node, look), site.shell(node, f"sha256sum {base}/notes.txt | cut -c1-64")
        assert stored.out == expected.out, stored


def listens(lab: RunningLab, node: str) -> bool:
    """Return whether a node serves others: then it listens on its rail, and nowhere else."""
    listeners = lab.shell(node, "ss -Hltn | awk '{print $4}'").out.split()
    addresses = {listener.rpartition(":")[0] for listener in listeners if not listener.endswith(":22")}
    (rail,) = clusterfile.load(lab.cluster).nodes[node].ports
    assert addresses <= {str(rail.address)}
    return bool(addresses)


def in_progress(record: dict[str, object]) -> int:
    """Return how many megabytes of the model are on all nodes together; 0 for other records."""
    match record:
        case {"name": "progress", "message": "copying the model to the nodes, in MB", "data": {"done": int(done)}}:
            return done
    return 0

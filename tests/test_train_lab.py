"""Training on the nodes of a netns lab: proofs, an intruder, resuming, and that nothing is left behind."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from railbed import clusterfile
from tests.support.labs import RunningLab, call
from tests.support.training import (
    Records,
    assert_files_agree,
    events,
    losses,
    trained,
    training,
    training_site,
    with_port,
)

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("nettrain")]
REPOSITORY = Path(__file__).parent.parent
EVERYWHERE = ("0.0.0.0", "*", "[::]")  # noqa: S104
NODES = ["node1", "node2", "node3"]
PAIR = NODES[:2]


@pytest.fixture(scope="module")
def pair(netns_lab: RunningLab, warm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> RunningLab:
    """Two nodes, for what needs no more: each node loads torch before it trains."""
    return training_site(netns_lab, tmp_path_factory.mktemp("pair"), nodes=len(PAIR), python=warm_python)


@pytest.fixture(scope="module")
def site(netns_lab: RunningLab, warm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> RunningLab:
    return training_site(netns_lab, tmp_path_factory.mktemp("train"), nodes=len(NODES), python=warm_python)


@contextmanager
def slow_rail(lab: RunningLab, rate: str = "50M") -> Iterator[None]:
    """Make steps long enough for something to happen in the middle; end all faults afterwards."""
    assert lab.fault("slow", "rail0", rate).code == 0
    yield
    lab.heal()


@pytest.fixture
def lab(site: RunningLab) -> Iterator[RunningLab]:
    """Three nodes with a slow rail."""
    with slow_rail(site):
        yield site


def train(lab: RunningLab, *options: str, faults: Mapping[int, Sequence[str]]) -> Records:
    """Train to the end, with faults that come when their step is reached."""
    with training(lab, *options) as run:
        for at, fault in faults.items():
            run.until(lambda record, at=at: record.get("labels", {}).get("step", 0) >= at)  # type: ignore[misc]
            assert lab.fault(*fault).code == 0
        assert run.end() == 1
    lost = events(run.records, "ending")[-1]["data"]["lost"]
    assert set(lost) == {fault[1] for fault in faults.values()}
    return run.records


@pytest.fixture(scope="module")
def undisturbed(site: RunningLab) -> dict[int, float]:
    """The same training on one rank of this machine, without faults."""
    return losses(trained(site, "small.yaml", "--ranks", "1", "--cluster", "local"))


@pytest.mark.soak  # `make test` has one fault of each kind in one run: test_train_faults.py
@pytest.mark.parametrize(
    ("fault", "noticed"),
    [
        (["kill", "node2"], "no message"),
        (["freeze", "node3"], "no message"),
        (["cut", "node1"], "no step"),
    ],
)
def test_training_survives_a_node_and_loses_nothing(
    lab: RunningLab, undisturbed: dict[int, float], fault: list[str], noticed: str
) -> None:
    records = train(lab, "small.yaml", "-c", "cluster.yaml", "--min-nodes", "2", faults={20: fault})
    (restart, *_) = events(records, "restart")
    assert noticed in restart["message"] or "lost the others" in restart["message"]
    generations = [event["data"]["nodes"] for event in events(records, "generation")]
    assert generations[0] == NODES
    assert [node for node in NODES if node != fault[1]] in generations
    reported = losses(records)
    assert reported == pytest.approx({step: undisturbed[step] for step in reported}, rel=2e-4)
    assert (
        len(reported) >= len(undisturbed) - 1
    )  # a fault may swallow the last words of a node, of a step that was saved
    assert_files_agree(max(Path(lab.folder, "runs").glob("*-train*")), records)
    assert proof(records)["observed"].startswith("gradients went over TCP")


def proof(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    (finding,) = [
        record for record in records if record["kind"] == "finding" and record["check"] == "gradients_over_rdma"
    ]
    return finding


@pytest.mark.soak  # test_train_ranks.py has an intruder on this machine
def test_an_intruder_on_the_rail_changes_nothing(pair: RunningLab, netns_lab: RunningLab) -> None:
    """It attacks the rendezvous from another node all the while; no rank listens on more than the rail."""
    stop = pair.folder / "enough"
    address = clusterfile.load(pair.cluster).nodes["node1"].ports[0].address
    attack = f"cd {REPOSITORY} && exec {sys.executable} -m tests.support.intruder {address} 29500 {stop}"
    watch = f"while [ ! -e {stop} ]; do ss -Hltn | awk '{{print $4}}'; sleep 0.3; done | sort -u"
    with (
        slow_rail(pair),
        pair.start_shell("node4", f"{attack} 2>/dev/null") as intruder,
        pair.start_shell("node1", watch) as listeners,
    ):
        assert intruder.stdout is not None
        assert listeners.stdout is not None
        try:
            assert intruder.stdout.readline() == "begins\n"  # it loads torch for longer than the training takes
            with training(pair, "small.yaml", "-c", str(with_port(pair, 29500)), "--set", "steps=15") as run:
                assert run.end() == 1
        finally:
            stop.touch()  # without it, they would not end
        assert set(json.loads(intruder.stdout.read()).values()) == {0}
        listening = listeners.stdout.read().split()
    assert f"{address}:29500" in listening
    assert [address for address in listening if address.startswith(EVERYWHERE) and not address.endswith(":22")] == []
    assert [event["data"]["nodes"] for event in events(run.records, "generation")] == [PAIR]
    assert len(losses(run.records)) == 15
    intruder_address = str(clusterfile.load(netns_lab.cluster).nodes["node4"].ports[0].address)
    assert {event["data"]["address"] for event in events(run.records, "intrusion")} == {intruder_address}
    (ending,) = events(run.records, "ending")
    assert (
        ending["message"] == f"trained to the end, but a stranger at {intruder_address} tried to connect to its ranks"
    )


SINK = """
import socket, threading
def drain(taken):
    while taken.recv(1 << 16): pass
server = socket.create_server(("", 5999))
print("ready", flush=True)
for _ in range(2):
    threading.Thread(target=drain, args=server.accept()[:1]).start()
"""
SOURCE = """
import socket, sys
rail, management = (socket.create_connection((address, 5999)) for address in sys.argv[1:])
print("ready", flush=True)
sys.stdin.readline()
rail.sendall(bytes({rail}))
management.sendall(bytes({management}))
print("sent", flush=True)
sys.stdin.readline()
"""
"""A copy by another program: over the rail, and over the network by which nodes are reached."""
RAIL_BYTES, MANAGEMENT_BYTES = 345_678, 20_000_000


@contextmanager
def copying(lab: RunningLab) -> Iterator[Callable[[], None]]:
    """Connect node1 to node2, and give the function that sends; the connections stay to the end."""

    @contextmanager
    def script(node: str, text: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        command = f"exec python3 -c {shlex.quote(text)} {shlex.join(arguments)}"
        with lab.start_inside(node, command) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process

    node = YAML(typ="safe").load(lab.cluster)["nodes"]["node2"]
    there = [node["ports"][0]["address"], node["host"]]
    text = SOURCE.format(rail=RAIL_BYTES, management=MANAGEMENT_BYTES)
    with script("node2", SINK), script("node1", text, *there) as source:

        def send() -> None:
            assert source.stdin is not None
            assert source.stdout is not None
            source.stdin.write("now\n")
            source.stdin.flush()
            assert source.stdout.readline() == "sent\n"

        yield send


@dataclass(frozen=True)
class Finished:
    """A run that was completed."""

    name: str
    records: Records


@pytest.fixture(scope="module")
def over_gloo(site: RunningLab) -> Finished:
    """Train on three nodes while another program copies, over the rail and elsewhere."""
    options = ["small.yaml", "-c", "cluster.yaml", "--transport", "gloo", "--set", "steps=40"]
    # The first state and the last: neither is passed over while another is written.
    options += ["--set", "wire=bf16", "--set", "shares=equal", "--set", "checkpoint.steps=20"]
    # Ten seconds: on a busy machine, records of steps come a second late.
    with slow_rail(site, "4M"), copying(site) as send, training(site, *options) as run:
        run.until(lambda record: record.get("labels", {}).get("step", 0) >= 2)
        send()
        assert run.end() == 0
    return Finished(max((site.folder / "runs").glob("*-train*")).name, run.records)


def test_gloo_is_proven_to_be_tcp_to_the_byte(over_gloo: Finished) -> None:
    """Traffic of another program is counted separately."""
    finding = proof(over_gloo.records)
    assert finding["verdict"] == "warn"
    assert "on all 3 nodes, because node1 has no RDMA: no RDMA device in the cluster file" in finding["observed"]
    moved = {
        (record["name"], record["labels"]["node"]): record["value"]
        for record in over_gloo.records
        if record["kind"] == "measurement" and record["labels"].get("bound", "least") == "least"
    }
    for node in NODES:
        # A ring of three sends each byte four thirds times.
        assert 1.333 <= moved["tcp_bytes", node] / moved["gradient_bytes", node] < 1.4
        assert moved["rdma_bytes", node] == 0
    paths = events(over_gloo.records, "gradient_path")
    rails = {event["node"]: event["rails"][0] for event in paths[-1]["data"]["nodes"]}
    others = {node: rail["other_tcp_bytes"] for node, rail in rails.items()}
    assert others == {**dict.fromkeys(NODES, 0), "node1": RAIL_BYTES}
    for rail in rails.values():
        least, most = rail["tcp_bytes"]
        assert most < 1.1 * least  # the megabytes on the other network are not taken for what it may have been


def test_weights_come_from_the_node_of_rank_0(site: RunningLab, over_gloo: Finished, tmp_path: Path) -> None:
    """The run's own cluster file has the node."""
    fetched = call(site.folder, "export", over_gloo.name, tmp_path / "weights")
    assert (fetched.code, "weights of step 40, as written at its end, from node1" in fetched.out) == (0, True), fetched


def test_a_run_goes_on_from_its_last_good_checkpoint(site: RunningLab, over_gloo: Finished) -> None:
    """The newest checkpoint is damaged on every node, so the one before it is used."""
    (begun,) = events(over_gloo.records, "training")
    for newest in Path(site.folder, ".railbed", "runs", begun["data"]["run"]).glob("*/checkpoints/step-00000040"):
        weights = newest / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-7])
    again = trained(site, "--resume", over_gloo.name)  # on its own cluster
    (resuming,) = events(again, "resuming")
    assert resuming["message"].startswith("continues after step 20 of 40; the state is on node1, node2")
    assert any("step-00000040" in event["message"] for event in events(again, "checkpoint_failed"))
    assert min(losses(again)) == 21
    assert losses(again)[40] == pytest.approx(losses(over_gloo.records)[40], rel=1e-6)


def test_a_check_proves_it_without_a_model(pair: RunningLab) -> None:
    result = call(pair.folder, "check", "reachable", "--prove", "training", "-c", "cluster.yaml", "--json")
    assert result.code == 0, result
    finding = proof(result.records)
    assert (finding["verdict"], finding["subject"]) == ("warn", "cluster")
    assert finding["observed"].startswith("gradients went over TCP: 48.0 MB on both nodes")
    refused = pair.railbed("check", "--prove", "storage")
    assert refused.code == 2


def test_a_path_without_rdma_is_not_proven(pair: RunningLab) -> None:
    result = pair.railbed("check", "reachable", "--prove", "path", "--json")
    assert result.code == 3, result
    assert "unknown path_mark cluster: no stream was sent, so no path is proven" in result.problems


def test_without_its_device_auto_takes_tcp_and_mpi_is_refused(pair: RunningLab, tmp_path: Path) -> None:
    text = pair.cluster.read_text().replace("{netdev: rail0, ", "{netdev: rail0, rdma: rxe0, ")
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(text)
    assert text.count("rdma: rxe0") == len(PAIR)
    reason = "no RDMA device rxe0 port 1 on the node"
    command = ("train", "small.yaml", "--no-check", "--json", "--set", "steps=2", "-c", cluster)
    auto = call(pair.folder, *command)
    assert auto.code == 0, auto
    (chosen,) = events(auto.records, "transport")
    assert (chosen["subject"], chosen["data"]["falls_back"]) == ("gloo", True)
    assert chosen["message"].startswith("gloo over TCP (rail0): ")
    assert reason in chosen["message"]
    assert "gradients went over TCP" in proof(auto.records)["observed"]
    assert "no RDMA device rxe0" in proof(auto.records)["observed"]
    refused = call(pair.folder, *command, "--transport", "mpi")
    assert refused.code == 3
    assert "mpi was requested and does not work here: node" in refused.err
    assert reason in refused.err
    assert losses(refused.records) == {}


def test_the_environment_is_shown_with_its_reasons(site: RunningLab) -> None:
    shown = site.railbed("train", "--show-env", "--json")
    assert shown.code == 0, shown
    for record, node in zip(shown.records, NODES, strict=True):
        assert (record["node"], record["rdma"]) == (node, False)
        assert record["obstacle"] == "no RDMA device in the cluster file"
        assert [(line["name"], line["value"]) for line in record["lines"]] == [("GLOO_SOCKET_IFNAME", "rail0")]
    assert "no RDMA: no RDMA device in the cluster file" in site.railbed("train", "--show-env").out


@pytest.mark.soak  # so does a run with one fault of each kind: test_train_faults.py
def test_a_node_that_comes_back_is_taken_back(lab: RunningLab, undisturbed: dict[int, float]) -> None:
    options = ["small.yaml", "-c", "cluster.yaml", "--min-nodes", "2", "--set", "steps=100000"]
    with training(lab, *options) as run:
        run.until(lambda _: run.steps >= 20)
        assert lab.fault("kill", "node3").code == 0
        run.until(lambda _: run.steps >= 5 and run.nodes == ["node1", "node2"])
        assert lab.fault("heal", "node3").code == 0
        run.until(lambda record: "node3 returned" in record.get("message", ""))
        run.until(lambda _: run.steps >= 5 and run.nodes == NODES)
        run.process.send_signal(signal.SIGINT)
        assert run.end() == 130
    assert losses(run.records)[1] == pytest.approx(undisturbed[1], rel=1e-3)


HOLD_PORT = """
import socket, sys
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
sys.stdin.readline()
"""


def judged(lab: RunningLab, folder: Path) -> dict[str, dict[str, Any]]:
    """Return what `check` in a folder says about other runs on each node."""
    result = call(folder, "check", "other_run", "memory_available", "-c", lab.cluster, "--json")
    findings = [record for record in result.records if record["kind"] == "finding"]
    assert not any("kill" in finding["remedy"] for finding in findings if "runs here" in finding["observed"])
    return {finding["subject"]: finding for finding in findings if finding["check"] == "other_run"}


def test_a_check_during_training_names_the_run(pair: RunningLab, tmp_path: Path) -> None:
    """Whoever started it is told how to stop it; a second run does not start; other programs are ended by hand."""
    with training(pair, "small.yaml", "-c", "cluster.yaml", "--set", "steps=100000") as run:
        run.until(lambda _: run.steps >= 1)
        own, job = max((pair.folder / "runs").glob("*-train*")).name, events(run.records, "training")[0]["data"]["run"]
        here, elsewhere = judged(pair, pair.folder), judged(pair, tmp_path)
        second = call(tmp_path, "train", "traffic", "-c", pair.cluster)
        run.process.send_signal(signal.SIGINT)
        assert run.end() == 130
    assert [here[node]["verdict"] for node in PAIR] == ["warn", "warn"]
    assert here["node1"]["observed"].startswith(f"training {own} of root runs here (since ")
    assert here["node1"]["remedy"] == f"wait until it is done, or stop it: `railbed train --stop {own}`"
    assert elsewhere["node1"]["observed"].startswith(f"training {job} of root runs here (since ")
    assert f"have root stop it: `railbed train --stop {job}` in the folder" in elsewhere["node1"]["remedy"]
    assert second.code == 2
    assert f"training {job} of root runs here" in second.err
    afterwards = judged(pair, pair.folder)
    assert [afterwards[node]["verdict"] for node in PAIR] == ["ok", "ok"]


def test_a_program_that_holds_the_port_of_the_cluster_file_is_ended_by_hand(pair: RunningLab) -> None:
    cluster = with_port(pair, 29500)
    address = clusterfile.load(pair.cluster).nodes["node1"].ports[0].address
    with pair.start_inside("node1", f"exec python3 -c {shlex.quote(HOLD_PORT)} {address} 29500") as stranger:
        assert stranger.stdout is not None
        assert stranger.stdout.readline() == "ready\n"
        first, second = call(pair.folder, "check", "rendezvous_free", "-c", cluster, "--json").findings
        stranger.kill()
    assert (first["verdict"], second["verdict"]) == ("fail", "ok")
    assert "kill" in first["remedy"]


def test_a_control_that_is_killed_leaves_no_rank(pair: RunningLab) -> None:
    with training(pair, "small.yaml", "-c", "cluster.yaml", "--set", "steps=100000") as run:
        run.until(lambda _: run.steps >= 1)
        assert pair.shell("node1", "pgrep -f railbed.launch.node.forkserver").code == 0
        run.process.kill()
    look = (
        "timeout 30 sh -c \"while pgrep -f 'railbed[.](train|launch)' || pgrep ^rank; do sleep 0.2; done\" >/dev/null"
    )
    for node in PAIR:
        assert pair.run_inside(node, look).code == 0


@pytest.mark.soak  # test_train_detached.py does it on one node
def test_a_detached_run_is_stopped_on_every_node(lab: RunningLab) -> None:
    def train_command(*arguments: str) -> list[dict[str, Any]]:
        result = call(lab.folder, "train", *arguments, "--json")
        assert result.code == 0, result
        return result.records

    (begun,) = train_command("small.yaml", "-c", "cluster.yaml", "--set", "steps=100000", "--detach")
    with training(lab, "--attach", begun["data"]["run"]) as view:
        view.until(lambda record: "state of step 10 " in record.get("message", ""))
        assert view.nodes == NODES
        view.process.send_signal(signal.SIGINT)
        assert view.end() == 130
    look = "pgrep -f 'railbed[.](train|launch)'"
    assert [lab.shell(node, look).code for node in NODES] == [0] * 3
    (stopped,) = train_command("--stop", begun["data"]["run"])
    assert stopped["data"]["status"] == "stopped"
    assert [lab.shell(node, look).code for node in NODES] == [1] * 3


@pytest.mark.soak  # test_train_vm.py trains with mpi on nodes, test_collective_choice.py has what is said of it
def test_mpi_without_rdma_is_tcp_and_says_so(pair: RunningLab) -> None:
    records = trained(pair, "small.yaml", "-c", "cluster.yaml", "--transport", "mpi", "--set", "steps=2")
    (transport,) = events(records, "transport")
    assert transport["message"].startswith("mpi over TCP (rail0): ")
    assert "gradients went over TCP" in proof(records)["observed"]


@pytest.mark.soak
def test_mpi_without_rdma_survives_a_node(lab: RunningLab, undisturbed: dict[int, float]) -> None:
    options = ["small.yaml", "-c", "cluster.yaml", "--min-nodes", "2", "--transport", "mpi"]
    records = train(lab, *options, faults={20: ["kill", "node2"]})
    generations = [event["data"]["nodes"] for event in events(records, "generation")]
    assert generations == [NODES, ["node1", "node3"]]
    assert [event["message"].startswith("mpi over TCP (rail0): ") for event in events(records, "transport")] == [
        True
    ] * 2
    assert losses(records) == pytest.approx(undisturbed, rel=2e-4)

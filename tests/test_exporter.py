"""railbed watch --exporter on a lab: metrics of real nodes, a node that freezes, and the end of the service."""

from __future__ import annotations

import signal
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from railbed import clusterfile
from tests.support.background import Background
from tests.support.cli import environment, railbed
from tests.support.labs import RunningLab, cache_variables
from tests.support.ports import free_port
from tests.support.prometheus import wait_for

pytestmark = pytest.mark.whole

Metrics = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scrape(port: int) -> Metrics:
    """Return the metrics of an exporter; empty while it starts."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            text = answer.read().decode()
    except OSError:
        return {}
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def up(port: int) -> dict[str, float]:
    """Return whether each device is up."""
    return {dict(labels)["device"]: value for (name, labels), value in scrape(port).items() if name == "railbed_up"}


def received(port: int, node: str) -> float:
    """Return the packets that a node has received on its rail."""
    labels = {("node", node), ("port", "rail0"), ("rail", "rail0")}
    return scrape(port).get(("railbed_net_rx_packets_total", frozenset(labels)), 0.0)


@contextmanager
def exporter(lab: RunningLab, *options: str) -> Iterator[tuple[Background, int]]:
    port = free_port()
    words = ["watch", "--exporter", "--port", str(port), "--cluster", str(lab.cluster), *options]
    variables = environment(**cache_variables(), **lab.variables)
    with Background(words, cwd=lab.folder, env=variables) as process:
        try:
            yield process, port
        finally:
            process.kill()


@pytest.mark.netns
@pytest.mark.xdist_group("netns")
def test_metrics_of_a_lab(netns_lab: RunningLab, tmp_path: Path) -> None:
    lab = netns_lab.seen_from(tmp_path, nodes=2)
    first, second = (f"node{number}" for number in (1, 2))
    with exporter(lab) as (process, port):
        wait_for(lambda: up(port) == {first: 1.0, second: 1.0})
        before = wait_for(lambda: received(port, second))
        lab.run_inside(first, f"ping -c 3 -i 0.1 {_address(lab, second)}")
        wait_for(lambda: received(port, second) > before)
        lab.fault("freeze", second)
        try:
            wait_for(lambda: up(port) == {first: 1.0, second: 0.0})
            assert received(port, second) == 0.0, "values of a silent node are absent"
        finally:
            lab.heal()
        wait_for(lambda: up(port)[second] == 1.0)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) == 0
        log = process.stderr.read().decode()
    assert f"http://127.0.0.1:{port}/metrics\n" in log
    assert f"{second}: " in log, "the gap is in the journal"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cluster.yaml"], "an exporter stores nothing"


def _address(lab: RunningLab, node: str) -> str:
    return str(clusterfile.load(lab.cluster).nodes[node].ports[0].address)


def test_another_address_needs_a_token(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text("name: lab\nnodes: {a: {host: local}}\n")
    refused = railbed(tmp_path, "watch", "--exporter", "--address", "0.0.0.0")  # noqa: S104
    assert refused.code == 2
    assert "need a token" in refused.err
    (tmp_path / "token").write_text("0123456789abcdef")
    (tmp_path / "token").chmod(0o644)
    token = str(tmp_path / "token")
    refused = railbed(tmp_path, "watch", "--exporter", "--address", "0.0.0.0", RAILBED_TOKEN_FILE=token)  # noqa: S104
    assert refused.code == 2
    assert "others can read the token" in refused.err


def test_monitoring_files_are_written_for_the_cluster_file(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text("name: lab\nnodes: {a: {host: local}}\n")
    written = railbed(tmp_path, "watch", "--write-monitoring", "monitoring")
    names = ["prometheus.yml", "railbed.rules.yml", "railbed.rules.test.yml", "railbed.dashboard.json"]
    assert written.out.splitlines() == [f"monitoring/{name}" for name in (*names, "railbed-exporter.service")]
    unit = (tmp_path / "monitoring" / "railbed-exporter.service").read_text()
    assert f"--cluster {tmp_path}/cluster.yaml --port 9817" in unit
    options = ("--json", "--interval", "0.5", "--port", "7000")
    (record,) = railbed(tmp_path, "watch", "--write-monitoring", "monitoring", *options).records
    unit = (tmp_path / "monitoring" / "railbed-exporter.service").read_text()
    assert "--port 7000 --interval 0.5\n" in unit
    assert record["data"]["files"] == sorted((*names, "railbed-exporter.service"))
    (tmp_path / "monitoring" / "prometheus.yml").write_text("mine")
    refused = railbed(tmp_path, "watch", "--write-monitoring", "monitoring")
    assert refused.code == 2
    assert "prometheus.yml" in refused.err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("options", [("--exporter", "--for", "5"), ("--exporter", "--page"), ("--exporter", "run")])
def test_options_that_do_not_go_together(tmp_path: Path, options: tuple[str, ...]) -> None:
    refused = railbed(tmp_path, "watch", *options)
    assert refused.code == 2
    assert "cannot be combined" in refused.err


def test_monitoring_files_need_a_cluster_file(tmp_path: Path) -> None:
    refused = railbed(tmp_path, "watch", "--write-monitoring", "monitoring")
    assert refused.code == 2
    assert "cluster.yaml" in refused.err

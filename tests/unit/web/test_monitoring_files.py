"""The generated files for Prometheus, Grafana and systemd; promtool judges them in tests/test_prometheus.py."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from tests.support.monitored import monitored_cluster

from railbed import clusterfile
from railbed.errors import UsageError
from railbed.model.cluster import Cluster, Login, Node, Secret
from railbed.web.monitoring.files import DASHBOARD, PROMETHEUS, TESTS, monitoring_files, write_monitoring
from railbed.web.monitoring.rules import RULES, alerts_of
from railbed.web.monitoring.service import UNIT, Service, unit
from railbed.web.monitoring.site import MonitoredCluster

EXAMPLES = sorted((Path(__file__).parent.parent.parent.parent / "examples").glob("*.yaml"))
SERVICE = Service(
    program=Path("/opt/railbed/bin/railbed"), cluster_file=Path("/srv/site/cluster.yaml"), user="operator"
)
PFC_ALERTS = {"RailbedPfcStorm", "RailbedPauseShare", "RailbedLosslessDrops"}
ECN_ALERTS = {"RailbedCnpWithoutReaction", "RailbedCnpIgnored"}
RDMA_ALERTS = {"RailbedOutOfSequence", "RailbedTcpFallback"}
OTHER_ALERTS = {
    "RailbedLinkFlap",
    "RailbedStragglerRank",
    "RailbedSilentNode",
    "RailbedSilentSwitch",
    "RailbedExporterDown",
}


def yaml(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def names(cluster: Cluster) -> set[str]:
    return {alert.name for alert in alerts_of(MonitoredCluster(cluster))}


def test_every_alert_has_a_case_in_which_it_fires_and_a_near_miss() -> None:
    for alert in alerts_of(MonitoredCluster(monitored_cluster())):
        assert {case.fires is None for case in alert.cases} == {True, False}, alert.name


def test_alerts_follow_the_policy() -> None:
    assert names(monitored_cluster()) == PFC_ALERTS | ECN_ALERTS | RDMA_ALERTS | OTHER_ALERTS
    assert names(monitored_cluster(pfc=False)) == ECN_ALERTS | RDMA_ALERTS | OTHER_ALERTS
    assert names(monitored_cluster(ecn=False)) == PFC_ALERTS | RDMA_ALERTS | OTHER_ALERTS
    assert names(monitored_cluster(rdma=False)) == OTHER_ALERTS
    local = Cluster(name="local", nodes={"local": Node(host="local")})
    assert names(local) == OTHER_ALERTS - {"RailbedLinkFlap", "RailbedSilentSwitch"}


def test_the_lossless_priority_is_that_of_the_policy() -> None:
    text = "\n".join(monitoring_files(monitored_cluster(priority=5), SERVICE).values())
    assert 'priority=\\"5\\"' in text
    assert 'queue="5"' in text
    assert 'priority="3"' not in text
    assert 'queue="3"' not in text


def test_the_limit_for_tcp_follows_the_speed_of_the_rail() -> None:
    cluster = monitored_cluster()
    rails = {"rail0": cluster.rails["rail0"], "rail1": cluster.rails["rail1"].model_copy(update={"speed": None})}
    alerts = [
        a
        for a in alerts_of(MonitoredCluster(cluster.model_copy(update={"rails": rails})))
        if a.name == "RailbedTcpFallback"
    ]
    assert [('rail=~"rail0"' in alert.expr, "> 1250000000\n" in alert.expr) for alert in alerts] == [
        (True, True),
        (False, False),
    ]
    assert "> 100000000\n" in alerts[1].expr


def test_only_ports_with_rdma_can_fall_back() -> None:
    cluster = monitored_cluster()
    plain = cluster.nodes["node2"].ports[0].model_copy(update={"rdma": None})
    node = cluster.nodes["node2"].model_copy(update={"ports": (plain, cluster.nodes["node2"].ports[1])})
    mixed = cluster.model_copy(update={"nodes": {**cluster.nodes, "node2": node}})
    limits = MonitoredCluster(mixed).rdma_selection(["rail0"]), MonitoredCluster(mixed).rdma_selection(["rail1"])
    assert limits == ({"rail_matches": "rail0", "node_matches": "node1"}, {"rail_matches": "rail1"})


def test_files_depend_on_nothing_but_the_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = monitoring_files(monitored_cluster(), SERVICE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("USER", "somebody")
    assert monitoring_files(monitored_cluster(), SERVICE) == before
    assert set(before) == {PROMETHEUS, RULES, TESTS, DASHBOARD, UNIT}


def test_no_secret_and_no_login_is_in_the_files() -> None:
    login = Login(user="trainer-x", key="/home/x/key-x", jump="jump-x", password=Secret(env="PASSWORD_X"))
    text = "\n".join(monitoring_files(monitored_cluster().model_copy(update={"login": login}), SERVICE).values())
    for private in ("trainer-x", "key-x", "jump-x", "PASSWORD_X"):
        assert private not in text


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_files_of_the_examples_can_be_read(path: Path) -> None:
    cluster = clusterfile.load(path)
    files = monitoring_files(cluster, SERVICE)
    board = json.loads(files[DASHBOARD])
    assert board["title"] == f"railbed: {cluster.name}"
    assert [choice["name"] for choice in board["templating"]["list"]] == ["datasource", "node", "rail"]
    (job,) = yaml(files[PROMETHEUS])["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["127.0.0.1:9817"], "labels": {"cluster": cluster.name}}]
    assert yaml(files[RULES])["groups"][0]["name"] == f"railbed-{cluster.name}"


def test_panels_do_not_overlap_and_have_numbers_of_their_own() -> None:
    panels = json.loads(monitoring_files(monitored_cluster(), SERVICE)[DASHBOARD])["panels"]
    assert [panel["id"] for panel in panels] == list(range(1, len(panels) + 1))
    cells = [
        (column, line)
        for panel in panels
        for column in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for line in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(column for column, _ in cells) < 24


def test_files_are_written_and_updated(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "monitoring"
    files = monitoring_files(monitored_cluster(), SERVICE)
    write_monitoring(folder, files)
    (folder / "notes.txt").write_text("mine")
    changed = monitoring_files(monitored_cluster(3, priority=4), SERVICE)
    write_monitoring(folder, changed)
    assert {path.name: path.read_text() for path in folder.iterdir()} == {**changed, "notes.txt": "mine"}


@pytest.mark.parametrize("name", [PROMETHEUS, RULES, TESTS, DASHBOARD, UNIT])
def test_a_file_that_was_changed_is_not_overwritten(tmp_path: Path, name: str) -> None:
    files = monitoring_files(monitored_cluster(), SERVICE)
    write_monitoring(tmp_path, files)
    edited = files[name].replace("site", "Site", 1)
    (tmp_path / name).write_text(edited)
    with pytest.raises(UsageError, match=name.replace(".", r"\.")):
        write_monitoring(tmp_path, monitoring_files(monitored_cluster(3), SERVICE))
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {**files, name: edited}


@pytest.mark.parametrize("content", [b"", b"global: {}\n", b"\xff\xfe\x00", b"# sha256:" + b"0" * 64])
def test_a_foreign_file_is_not_overwritten(tmp_path: Path, content: bytes) -> None:
    (tmp_path / RULES).write_bytes(content)
    with pytest.raises(UsageError, match="did not write"):
        write_monitoring(tmp_path, monitoring_files(monitored_cluster(), SERVICE))
    assert [path.name for path in tmp_path.iterdir()] == [RULES]
    assert (tmp_path / RULES).read_bytes() == content


def test_links_and_folders_are_not_overwritten(tmp_path: Path) -> None:
    files = monitoring_files(monitored_cluster(), SERVICE)
    target = tmp_path / "elsewhere"
    target.write_text(files[RULES])
    for make in (lambda path: path.symlink_to(target), lambda path: path.symlink_to("missing"), Path.mkdir, os.mkfifo):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        make(folder / RULES)
        with pytest.raises(UsageError, match="did not write"):
            write_monitoring(folder, files)
        assert [path.name for path in folder.iterdir()] == [RULES]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write to"):
        write_monitoring(tmp_path / "file" / "folder", monitoring_files(monitored_cluster(), SERVICE))


def test_another_address_needs_a_token_from_a_file() -> None:
    away = Service(program=SERVICE.program, cluster_file=SERVICE.cluster_file, user="operator", address="::", port=7)
    files = monitoring_files(monitored_cluster(), away)
    (job,) = yaml(files[PROMETHEUS])["scrape_configs"]
    assert job["authorization"] == {"type": "Bearer", "credentials_file": "/etc/prometheus/railbed.token"}
    assert job["static_configs"][0]["targets"] == ["[::]:7"]
    assert Service(program=Path("r"), cluster_file=Path("c"), user="u", address="::", host="h").target == "h:9817"
    assert "LoadCredential=token:/etc/railbed/exporter.token" in files[UNIT]
    assert "authorization" not in monitoring_files(monitored_cluster(), SERVICE)[PROMETHEUS]


def test_odd_paths_are_quoted_for_systemd() -> None:
    odd = Service(program=Path("/opt/my tools/100%/railbed"), cluster_file=Path('/srv/a "b" $HOME/c.yaml'), user="x")
    text = unit(monitored_cluster(), odd)
    assert '"/opt/my tools/100%%/railbed" watch' in text
    assert '"/srv/a \\"b\\" $$HOME/c.yaml"' in text


def test_systemd_accepts_the_unit_and_finds_it_well_protected(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    program = Path(sys.executable).with_name("railbed")
    for address in ("127.0.0.1", "10.0.0.1"):
        service = Service(program=program, cluster_file=tmp_path / "cluster.yaml", user="root", address=address)
        (tmp_path / UNIT).write_text(monitoring_files(monitored_cluster(), service)[UNIT])
        verified = _analyze("verify", "--man=no", tmp_path / UNIT)
        assert (verified.returncode, verified.stderr) == (0, "")
    judged = _analyze("security", "--offline=yes", "--threshold=30", tmp_path / UNIT)
    assert judged.returncode == 0, judged.stdout


def _analyze(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *map(str, words)], capture_output=True, text=True, timeout=120, check=False
    )


def test_this_machine_can_be_a_node_of_the_service() -> None:
    local = Cluster(name="local", nodes={"local": Node(host="local")})
    assert "ProcSubset=pid" in unit(monitored_cluster(), SERVICE)
    assert "ProcSubset" not in unit(local, SERVICE)
    assert "PrivateDevices" not in unit(local, SERVICE)

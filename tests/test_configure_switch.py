"""check and configure on two nodes and an emulated switch, over real SSH and NX-API; and no secret anywhere."""

from __future__ import annotations

import base64
import hashlib
import itertools
import os
import re
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from railbed import clusterfile
from railbed.check.book import CHECK_BOOK
from railbed.model.cluster import Cluster, Login, Nxapi, Secret
from tests.support.background import Background
from tests.support.cli import Result, environment
from tests.support.configuring import applied, changes, configure, factory_switch, named, running, show
from tests.support.labs import SWITCH_PASSWORD, RunningLab, cache_variables

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("configure")]
PASSWORD = Secret(env="NEXUS_PASSWORD")
RULES = sorted(name for name in CHECK_BOOK.rules if name.startswith(("switch_", "cable_")))


@pytest.fixture
def lab(switch_lab: RunningLab, tmp_path: Path) -> Iterator[RunningLab]:
    """The lab with a switch in factory state; one node has the wrong MTU."""
    lab = switch_lab.seen_from(tmp_path)
    assert lab.run_inside("node1", "ip link set dev rail0 mtu 1500").code == 0
    with factory_switch(switch_lab, lab):
        yield lab
    assert lab.run_inside("node1", "ip link set dev rail0 mtu 9000").code == 0


def with_switch(lab: RunningLab, name: str, **changed: Any) -> RunningLab:
    """Return the lab with another cluster file, in which the switch has other settings."""
    cluster = clusterfile.load(lab.cluster)
    switch = cluster.switches["nexus"].model_copy(update=changed)
    (lab.folder / name).write_text(clusterfile.dumps(cluster.model_copy(update={"switches": {"nexus": switch}})))
    return replace(lab, cluster=lab.folder / name)


def test_both_ends_are_made_right_stay_right_and_come_back_byte_for_byte(lab: RunningLab) -> None:
    before = running(lab)
    assert running(lab, "startup") == before, "a fresh lab has saved its configuration"
    assert {
        ("mtu", "node1/rail0"),
        ("switch_network_qos", "nexus"),
        ("switch_pfc", "nexus/Ethernet1/1"),
        ("switch_pfc", "nexus/Ethernet1/3"),
        ("switch_mtu", "nexus/Ethernet1/1"),
    } <= lab.failing("mtu", *RULES)

    shown = configure(lab)
    assert shown.code == 1
    assert {subject.partition("/")[0] for subject in changes(shown)} == {"node1", "nexus"}
    assert running(lab) == before, "showing changes nothing"

    run = applied(lab)
    right = running(lab)
    assert "priority-flow-control mode on" in right
    assert running(lab, "startup") == right, "what was applied is saved"
    assert lab.failing("mtu", *RULES) == set()
    again = configure(lab)
    assert (again.code, changes(again)) == (0, {})
    assert_nothing_to_compare(lab)

    show(lab, "configure terminal ; interface Ethernet1/3 ; no priority-flow-control mode")
    assert ("switch_pfc", "nexus/Ethernet1/3") in lab.failing("switch_pfc")
    drift = changes(configure(lab))
    assert any("priority-flow-control mode on" in line for lines in drift.values() for line in lines)
    assert "Ethernet1/1" not in str(drift), "only what drifted is in the difference"
    show(lab, "configure terminal ; interface Ethernet1/3 ; priority-flow-control mode on")

    undone = configure(lab, "--undo", run, "--yes")
    assert undone.code == 0, undone
    assert (running(lab), running(lab, "startup")) == (before, before)
    assert ("mtu", "node1/rail0") in lab.failing("mtu")


OTHERS = ("hostname mine", "vlan 7", "interface Ethernet1/1", "description cable 12")


def test_an_undo_takes_nothing_else_with_it(lab: RunningLab) -> None:
    """What people enter by hand after a run stays, on the switch and on the nodes, and in what the switch has saved."""
    before = running(lab).splitlines()
    run = applied(lab)
    show(lab, " ; ".join(("configure terminal", *OTHERS, "end", "copy running-config startup-config")))
    assert lab.run_inside("node1", "ip link set dev rail0 mtu 4000").code == 0
    theirs = running(lab)
    undone = configure(lab, "--undo", run, "--yes")
    (mtu,) = [record for record in undone.records if record.get("left_out")]
    assert (undone.code, mtu["subject"]) == (1, "node1/rail0")
    assert f"changed since {run}" in mtu["left_out"]
    assert lab.run_inside("node1", "cat /sys/class/net/rail0/mtu").out == "4000\n"
    after = running(lab)
    assert running(lab, "startup") == after
    assert [line for line in after.splitlines() if line not in before] == [
        *("hostname mine", "vlan 1,7", "  description cable 12")
    ]
    assert [line for line in before if line not in after.splitlines()] == ["hostname nexus", "vlan 1"]
    (event,) = [event for event in named(undone, "device_changed") if event["subject"] == "nexus"]
    checkpoint = re.search(r"checkpoint (railbed-\S+) is the state before this undo", event["message"])
    assert checkpoint
    saved = show(lab, f"show checkpoint {checkpoint[1]}").splitlines()
    assert [line for line in theirs.splitlines() if line not in saved and not line.startswith("version ")] == []


def assert_nothing_to_compare(lab: RunningLab) -> None:
    """Assert that an experiment whose arm is in force already says so and measures nothing."""
    (lab.folder / "experiment.yaml").write_text(EXPERIMENT)
    right = lab.railbed("bench", "--experiment", "experiment.yaml", "--yes", "--json", "--timeout", "120")
    (answer,) = [finding for finding in right.findings if finding["check"] == "bench_difference"]
    assert (answer["verdict"], "there is nothing to change for on" in answer["observed"]) == ("unknown", True)


def test_a_change_that_the_switch_refuses_leaves_it_as_it_was_and_the_nodes_right(lab: RunningLab) -> None:
    before = running(lab)
    assert lab.fault("refuse", "nexus", "service-policy").code == 0
    result = configure(lab, "--apply", "--yes")
    outcomes = {event["subject"]: event["data"]["outcome"] for event in named(result, "device_changed")}
    assert (result.code, outcomes) == (1, {"node1": "applied", "nexus": "restored"})
    assert lab.fault("heal").code == 0
    assert (running(lab), running(lab, "startup")) == (before, before)


@pytest.fixture
def over_nxapi(lab: RunningLab, switch_lab: RunningLab) -> Iterator[RunningLab]:
    """The same lab, with its switch read over NX-API and its certificate pinned."""
    show(lab, "configure terminal ; feature nxapi")
    certificate = ssl.PEM_cert_to_DER_cert((switch_lab.cluster.parent / "nexus" / "nxapi.crt").read_text())
    trust = Nxapi(fingerprint=hashlib.sha256(certificate).digest().hex(":").upper())
    yield with_switch(lab, "nxapi.yaml", access="nxapi", nxapi=trust, login=Login(user="admin", password=PASSWORD))
    show(lab, "configure terminal ; no feature nxapi")


def summary(result: Result) -> list[tuple[str, ...]]:
    fields = ("check", "subject", "verdict", "expected", "observed", "remedy")
    return sorted(tuple(str(finding.get(name, "")) for name in fields) for finding in result.findings)


def checked(lab: RunningLab, *options: str | Path) -> list[tuple[str, ...]]:
    """Return the findings about the switch and its cables."""
    return summary(lab.railbed("check", *RULES, "--json", "--timeout", "120", *options))


def test_check_finds_the_same_over_nxapi(lab: RunningLab, over_nxapi: RunningLab) -> None:
    factory = checked(over_nxapi)
    assert "fail" in {verdict for _, _, verdict, *_ in factory}
    assert factory == checked(lab)
    run = applied(over_nxapi)
    right = checked(over_nxapi)
    assert "fail" not in {verdict for _, _, verdict, *_ in right}
    assert right == checked(lab)
    assert configure(over_nxapi, "--undo", run, "--yes").code == 0


@pytest.mark.soak  # the test above reads over NX-API, test_recording.py replays
def test_a_recording_over_nxapi_replays(over_nxapi: RunningLab, tmp_path: Path) -> None:
    live = checked(over_nxapi, "--record", tmp_path / "recorded")
    assert live
    assert checked(over_nxapi, "--replay", tmp_path / "recorded") == live


def test_a_switch_that_is_not_trusted_is_one_finding_with_the_way_out(over_nxapi: RunningLab) -> None:
    pinned = clusterfile.load(over_nxapi.cluster).switches["nexus"].nxapi.fingerprint
    unknown = with_switch(over_nxapi, "unknown.yaml", nxapi=Nxapi())
    findings = [
        finding
        for finding in unknown.railbed("check", "switch_network_qos", "--json", "--timeout", "120").findings
        if finding["subject"] == "nexus"
    ]
    assert {finding["verdict"] for finding in findings} == {"unknown"}
    assert any(
        "is not trusted: self-signed certificate" in finding["observed"] and str(pinned) in finding["remedy"]
        for finding in findings
    ), findings


YOUNG, SELDOM = 10, 50


@dataclass
class Watch:
    """Reads the command lines of all processes, again and again, until it is ended.

    A process that has just begun is read more often: its command line changes when it becomes another program.
    """

    lines: set[bytes] = field(default_factory=set)
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        times_read: dict[str, int] = {}
        for turn in itertools.count():
            pids = [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208  (a tenth of the time)
            times_read = {pid: times_read.get(pid, 0) for pid in pids}
            for pid in pids:
                if times_read[pid] > YOUNG and turn % SELDOM:
                    continue
                times_read[pid] += 1
                with suppress(OSError):
                    self.lines.add(Path(f"/proc/{pid}/cmdline").read_bytes())
            if self.ended.wait(0.02):
                return


def watched(lab: RunningLab, *arguments: str, **variables: str) -> tuple[int, bytes, set[bytes]]:
    """Run railbed; return its exit code, all that it printed, and the command lines of all processes meanwhile."""
    watch = Watch()
    thread = threading.Thread(target=watch.run)
    thread.start()
    try:
        words = [*arguments, "--cluster", str(lab.cluster)]
        process = Background(
            words, cwd=lab.folder, env=environment(**{**cache_variables(), **lab.variables, **variables})
        )
        printed = b"".join(process.communicate(timeout=600))
    finally:
        watch.ended.set()
        thread.join()
    return process.wait(), printed, watch.lines


def secrets_in(data: bytes) -> list[bytes]:
    """Return the forms of the password that occur in data."""
    header = base64.b64encode(f"admin:{SWITCH_PASSWORD}".encode())
    return [form for form in (SWITCH_PASSWORD.encode(), header) if form in data]


def files_with_secrets(*folders: Path) -> list[Path]:
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert files
    return [path for path in files if secrets_in(path.read_bytes())]


def password_login(lab: RunningLab) -> Login:
    """Return a login whose key the switch does not know, so that the password is used."""
    key = lab.folder / "stranger"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True, timeout=60)
    return Login(user="admin", key=str(key), password=PASSWORD)


@pytest.mark.parametrize("access", ["ssh", pytest.param("nxapi", marks=pytest.mark.soak)])
def test_the_password_is_in_no_file_output_or_process_list(
    over_nxapi: RunningLab, switch_lab: RunningLab, access: str
) -> None:
    lab = with_switch(over_nxapi, "password.yaml", access=access, login=password_login(over_nxapi))
    folders = (lab.folder, switch_lab.cluster.parent)
    before = running(lab)
    runs = [
        ("check", *RULES, "--json", "--timeout", "120", "--record", str(lab.folder / "recorded")),
        ("configure", "--json", "--timeout", "120", "--apply", "--yes", "--record", str(lab.folder / "changed")),
        ("configure", "--timeout", "120"),
    ]
    for arguments in runs:
        code, printed, lines = watched(lab, *arguments)
        assert code in (0, 1), printed
        assert b"refused the login" not in printed
        assert any(b"switchlab.nexus" in line for line in lines), "the process list was read"
        assert not secrets_in(printed)
        assert not any(secrets_in(line) for line in lines)
    assert running(lab) != before
    assert files_with_secrets(*folders) == []
    (lab.folder / "planted").write_text(SWITCH_PASSWORD)
    assert files_with_secrets(*folders) == [lab.folder / "planted"], "a secret would be found"


@pytest.mark.parametrize("access", ["ssh", pytest.param("nxapi", marks=pytest.mark.soak)])
def test_a_wrong_password_is_not_shown(over_nxapi: RunningLab, access: str) -> None:
    wrong = "almost-the-right-password-1b7d"
    lab = with_switch(over_nxapi, "password.yaml", access=access, login=password_login(over_nxapi))
    code, printed, lines = watched(lab, "check", "switch_pfc", "--json", "--timeout", "120", NEXUS_PASSWORD=wrong)
    assert b"refused the login of admin" in printed, (code, printed)
    assert wrong.encode() not in printed
    assert not any(wrong.encode() in line for line in lines)
    assert not [path for path in lab.folder.rglob("*") if path.is_file() and wrong.encode() in path.read_bytes()]


def test_the_cluster_file_of_a_lab_names_no_secret(switch_lab: RunningLab) -> None:
    cluster: Cluster = clusterfile.load(switch_lab.cluster)
    assert cluster.switches["nexus"].login.password is None
    assert not secrets_in(switch_lab.cluster.read_bytes())


EXPERIMENT = """\
description: what does it gain
repeats: 3
a: {name: off}
b: {name: on, change: {configure: [switch_pfc, switch_network_qos, mtu]}}
comparisons:
  - measure: bandwidth
    a: {test: iperf3, pattern: pair, direction: one, seconds: 1}
    b: {test: iperf3, pattern: pair, direction: one, seconds: 1}
"""


@pytest.mark.skipif(not shutil.which("iperf3"), reason="iperf3 is not installed")
def test_an_experiment_takes_its_arm_from_configure_and_undoes_it_on_nodes_and_switch(lab: RunningLab) -> None:
    before, mtu = running(lab), "cat /sys/class/net/rail0/mtu"
    assert lab.fault("slow", "rail0", "100M").code == 0  # iperf3 takes both processors otherwise
    (lab.folder / "experiment.yaml").write_text(EXPERIMENT)
    silent = lab.railbed("bench", "--experiment", "experiment.yaml", "--json", "--timeout", "120")
    assert (silent.code, "no terminal to ask on" in silent.err) == (2, True)
    result = lab.railbed("bench", "--experiment", "experiment.yaml", "--yes", "--json", "--timeout", "120")
    (planned,) = named(result, "changes_planned")
    assert planned["data"]["devices"] == ["nexus", "node1"]
    assert ["all ports"] in [record["losing"] for record in result.records if record["kind"] == "change"]
    assert {subject.partition("/")[0] for subject in changes(result)} == {"node1", "nexus"}
    values = [record for record in result.records if record.get("name") == "arm_value"]
    assert sorted(value["labels"]["arm"] for value in values) == ["off"] * 3 + ["on"] * 3, result
    (raw,) = [path / "raw" for path in (lab.folder / "runs").glob("*-bench*")]
    recorded = b"".join(path.read_bytes() for path in raw.rglob("*") if path.is_file())
    for command in (b"ip link set dev rail0 mtu 9000", b"rollback running-config"):
        assert 1 <= recorded.count(command) < 3, f"{command!r}: changed once for all repeats, and restored once"
    (answer,) = [finding for finding in result.findings if finding["check"] == "bench_difference"]
    assert "the arms did not take turns" in answer["observed"]
    assert (running(lab), running(lab, "startup")) == (before, before)
    assert "railbed" not in show(lab, "show checkpoint summary")
    assert lab.run_inside("node1", mtu).out.strip() == "1500"

"""`railbed bench` over real SSH servers: numbers, judgements, and what remains when something goes wrong."""

from __future__ import annotations

import csv
import io
import json
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.benchsite import processes_with, write_cluster, write_suite
from tests.support.cli import railbed, start
from tests.support.ranks import wait_for
from tests.support.sshd import SSHD, Servers, running_servers

TOOLS = ("iperf3", "sockperf", "fio", "ping")
MISSING = [tool for tool in TOOLS if not shutil.which(tool)]
pytestmark = [
    pytest.mark.ssh,
    pytest.mark.xdist_group("bench"),
    pytest.mark.skipif(SSHD is None, reason="OpenSSH's sshd is not installed"),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]
SECONDS = 60
LONG_IPERF3 = "-J -t 30 -P 1"
"""How an iperf3 of this test is found, and nothing else that runs here."""


PACED = """#!/bin/sh
case "$*" in *"-l 256"*) rate=20M ;; *) rate=200M ;; esac
case "$*" in *"-c 127."*) exec {iperf3} "$@" -b $rate ;; esac
exec {iperf3} "$@"
"""
"""An iperf3 that is slower with small writes, as always; at full speed it would keep both processors busy."""


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Servers]:
    with running_servers(2, _keys(tmp_path), options=iperf3_instead(tmp_path, PACED)) as servers:
        write_cluster(servers, tmp_path)
        yield servers


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Servers]:
    with running_servers(3, _keys(tmp_path), options=iperf3_instead(tmp_path, PACED)) as servers:
        write_cluster(servers, tmp_path)
        yield servers


def iperf3_instead(folder: Path, script: str) -> list[str]:
    """Return the options of servers on which a script takes the place of iperf3."""
    program = folder / "bin" / "iperf3"
    program.parent.mkdir()
    program.write_text(script.replace("{iperf3}", str(shutil.which("iperf3"))))
    program.chmod(0o755)
    return [f"SetEnv HOME={folder / 'keys' / 'home'} PATH={program.parent}:/usr/bin:/bin:/usr/sbin:/sbin"]


def _keys(folder: Path) -> Path:
    (folder / "keys").mkdir()
    return folder / "keys"


def kept_records(folder: Path, run: str) -> list[dict[str, Any]]:
    lines = (folder / "runs" / run / "records.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if "name" in record]


def measures(records: list[dict[str, Any]]) -> list[tuple[str, float, str]]:
    """Return what was measured, in a form that two runs can be compared in."""
    return [
        (record["name"], record["value"], json.dumps(record["labels"], sort_keys=True))
        for record in records
        if record["kind"] == "measurement"
    ]


def await_process(word: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not processes_with(word):
        assert time.monotonic() < deadline, f"nothing with {word} was started"
        time.sleep(0.05)


def await_none(word: str) -> None:
    deadline = time.monotonic() + 15
    while processes := processes_with(word):
        assert time.monotonic() < deadline, processes
        time.sleep(0.1)


def test_numbers_come_from_the_raw_outputs_and_are_judged(two: Servers, tmp_path: Path) -> None:
    """Measured once over SSH, and again from what the run kept; then by its own baseline, and by a speed."""
    write_suite(
        tmp_path,
        "test: ping, samples: 10",
        "test: iperf3, seconds: 1, streams: 2",
        "test: iperf3, seconds: 1, direction: both, pattern: pair",
        "test: sockperf_tcp, seconds: 1, direction: one",
        "test: ib_write_bw, seconds: 1",
        f"test: fio_randwrite, seconds: 1, file: 16M, path: {tmp_path / 'disk'}",
        first_port=20610,
    )
    done = railbed(tmp_path, "bench", "suite.yaml", "--json", "--save-baseline")
    assert done.code == 0, done
    measurements = measures(done.records)
    labels = [json.loads(record[2]) for record in measurements]
    ways = {(label["from"], label["to"]) for label in labels if label["test"] == "iperf3" and label["streams"] == 2}
    assert ways == {("n1", "n2"), ("n2", "n1")}
    assert {label["version"].split()[0] for label in labels} == {"ping", "iperf", "sockperf", _fio(labels)}
    names = {(record[0], json.loads(record[2])["test"]) for record in measurements}
    assert {
        ("round_trip", "ping"),
        ("bandwidth", "iperf3"),
        ("cpu_seconds_per_gb", "iperf3"),
        ("half_round_trip", "sockperf_tcp"),
        ("disk_operations", "fio_randwrite"),
    } <= names
    skipped = [finding for finding in done.findings if finding["verdict"] == "skipped"]
    assert any("no RDMA device" in finding["observed"] for finding in skipped)

    (run,) = (tmp_path / "runs").iterdir()
    again = railbed(tmp_path, "bench", "suite.yaml", "--json", "--replay", run)
    assert measures(again.records) == measurements
    judged = {(finding["check"], finding["subject"]): finding["verdict"] for finding in again.findings}
    assert judged["bench_baseline", "cluster"] == "ok"
    assert list((tmp_path / "disk").iterdir()) == []

    assert reported(tmp_path, run, "iperf3") == sorted(received(run))

    write_cluster(two, tmp_path, speed=100_000)
    slow = railbed(tmp_path, "bench", "suite.yaml", "--json", "-c", "cluster.yaml", "--replay", run)
    (rate, *_) = [
        finding for finding in slow.findings if finding["check"] == "bench_line_rate" and finding["verdict"] == "fail"
    ]
    assert "the link of n" in rate["expected"]
    await_none(" 2061")


def reported(folder: Path, run: Path, test: str) -> list[float]:
    """Return the bandwidths of a test as the report has them."""
    table = railbed(folder, "report", run, "--format", "csv", "--output", "-").out
    rows = [row for row in csv.DictReader(io.StringIO(table)) if (row["name"], row["test"]) == ("bandwidth", test)]
    return sorted(float(row["value"]) for row in rows)


def received(run: Path) -> list[float]:
    """Return what receivers counted, in Gb/s, from what iperf3 itself printed: without any of our parsers."""
    rates = []
    for path in (run / "raw").glob("*/*.iperf3.*.out"):
        printed = path.read_text().partition("==> output <==")[2].partition("==> after <==")[0]
        end = json.loads(printed)["end"] if '"sum_received"' in printed else {}
        rates += [end[name]["bits_per_second"] * 1e-9 for name in end if name.startswith("sum_received")]
    return rates


def _fio(labels: list[dict[str, Any]]) -> str:
    return next(str(label["version"]) for label in labels if label["tool"] == "fio")


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.soak), signal.SIGKILL]
)
def test_nothing_is_left_when_it_is_ended(two: Servers, tmp_path: Path, number: signal.Signals) -> None:
    """Neither a server nor a client on any node, nor the disk's file; and what was measured until then is kept."""
    assert two.servers
    port = 20700 + number
    write_suite(
        tmp_path,
        "test: fio_write, seconds: 30, file: 16M",
        "test: ping, samples: 5",
        first_port=port,
    )
    with start(tmp_path, "bench", "suite.yaml") as process:
        await_process("--name=fio_write")
        process.send_signal(number)
        code = process.wait(SECONDS)
    assert code == {signal.SIGINT: 130, signal.SIGTERM: 130}.get(number, -number)
    await_none("--name=fio_write")
    assert list((tmp_path / "disk").iterdir()) == []

    write_suite(tmp_path, "test: iperf3, seconds: 30", first_port=port)
    with start(tmp_path, "bench", "suite.yaml") as process:
        await_process(f"iperf3 -c 127.0.0.3 -B 127.0.0.2 -p {port}")
        process.send_signal(number)
        process.wait(SECONDS)
    await_none(f"-p {port}")


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.soak)])
def test_what_was_measured_until_it_was_ended_is_shown(two: Servers, tmp_path: Path, number: signal.Signals) -> None:
    assert two.servers
    long = f"-J -t {40 + number} -P 1"
    write_suite(tmp_path, "test: ping, samples: 5", f"test: iperf3, seconds: {40 + number}", first_port=20750)
    with start(tmp_path, "bench", "suite.yaml", "-c", "cluster.yaml") as process:
        await_process(long)
        process.send_signal(number)
        out, err = (text.decode() for text in process.communicate(timeout=SECONDS))
    await_none(long)
    (run,) = railbed(tmp_path, "runs", "--json").records
    trials = [record["data"] for record in kept_records(tmp_path, run["id"]) if record["name"] == "trial"]
    assert [measurement["done"] for measurement in trials] == list(range(len(trials)))
    (total,) = {measurement["total"] for measurement in trials}
    assert total > len(trials) - 1 > 0
    again = "railbed bench suite.yaml -c cluster.yaml"
    assert run["next"] == again
    if number == signal.SIGINT:
        measured = f"{len(trials) - 1} of {total}"
        assert "µs rtt" in out
        assert f"interrupted: {measured} measured" in out
        assert f"saved in runs/{run['id']}: " in err
        assert f"{measured} trials measured" in err
        assert f"railbed report {run['id']} shows it; start again: {again}\n" in err
    else:
        assert f"{run['id']} was killed; to continue: {again}\n" in railbed(tmp_path, "runs").out
    report = railbed(tmp_path, "report", run["id"], "--format", "md", "--output", "-")
    assert report.code == 0
    assert "ping" in report.out


UNTIL_KILLED = """#!/bin/sh
case "$*" in *"-c 127.0.0.4"*) exec {iperf3} "$@" -b 200M -t 100 ;; *"-c 127."*) exec {iperf3} "$@" -b 200M ;; esac
exec {iperf3} "$@"
"""
"""An iperf3 that sends to the last node until that is killed, however late the test does it."""


def test_a_node_that_dies_costs_its_own_pairs_only(tmp_path: Path) -> None:
    with running_servers(3, _keys(tmp_path), options=iperf3_instead(tmp_path, UNTIL_KILLED)) as servers:
        write_cluster(servers, tmp_path)
        write_suite(tmp_path, "test: iperf3, seconds: 3, pattern: matrix, direction: one", first_port=20800)
        with start(tmp_path, "bench", "suite.yaml", "--json") as process:
            await_process("iperf3 -c 127.0.0.4")
            servers.servers[2].kill()
            out, err = process.communicate(timeout=120)
    assert process.returncode == 1, err.decode()
    records = [json.loads(line) for line in out.splitlines()]
    unknown = {
        record["subject"] for record in records if record["kind"] == "finding" and record["verdict"] == "unknown"
    }
    assert unknown == {"n1/lo > n3", "n2/lo > n3"}
    assert [record["subject"] for record in records if record.get("check") == "reachable"] == ["n3"]
    pairs = {record["labels"]["pair"] for record in records if record["kind"] == "measurement"}
    assert pairs == {"n1-n2"}
    await_none(" 2080")


BUSY = """#!/bin/sh
case "$*" in
  *"-c 127.0.0.3 -B 127.0.0.2"*) {busy} && exec {iperf3} "$@" -b 10M ;;
esac
case "$*" in *"-c 127."*) exec {iperf3} "$@" -b 100M ;; esac
exec {iperf3} "$@"
"""
"""An iperf3 that sends 100 Mb/s, but only a tenth of that from the first node to the second, once or always."""


@pytest.mark.parametrize(("busy", "verdict"), [("mkdir met 2>/dev/null", "ok"), ("true", "warn")])
def test_one_way_that_is_slow_alone_gets_a_second_look(tmp_path: Path, busy: str, verdict: str) -> None:
    """A busy moment is not named, a way that is slow every time is; and the numbers are all kept."""
    script = BUSY.replace("{busy}", busy.replace("met", str(tmp_path / "met")))
    with running_servers(3, _keys(tmp_path), options=iperf3_instead(tmp_path, script)) as servers:
        write_cluster(servers, tmp_path)
        write_suite(tmp_path, "test: iperf3, seconds: 1, pattern: matrix, direction: one", first_port=21000)
        done = railbed(tmp_path, "bench", "suite.yaml", "--json")
    (judged,) = [finding for finding in done.findings if finding["check"] == "bench_outlier"]
    assert (judged["verdict"], done.code) == (verdict, 0), done
    measured = [record for record in done.records if record.get("name") == "bandwidth"]
    assert [measurement["labels"]["pair"] for measurement in measured] == ["n1-n2", "n1-n3", "n2-n3", "n1-n2", "n1-n2"]
    assert [measurement["labels"]["repeat"] for measurement in measured] == [1, 1, 1, 2, 3]
    assert len({measurement["labels"]["trial"] for measurement in measured}) == 5
    (message,) = [record["message"] for record in done.records if record.get("name") == "remeasuring"]
    assert message.startswith("n1 > n2 on rail0 lags behind the others: measuring again, about ")
    if verdict == "warn":
        assert judged["subject"] == "n1/lo > n2"
        assert judged["observed"].startswith("n1 → n2 rail0: delivers ")
        assert judged["observed"].endswith("Gb/s, the median of 3 measurements")
    (run,) = (tmp_path / "runs").iterdir()
    again = railbed(tmp_path, "bench", "suite.yaml", "--json", "--replay", run)
    assert measures(again.records) == measures(done.records)


def test_a_port_that_is_taken_is_changed(two: Servers, tmp_path: Path) -> None:
    """Whether a UDP port is in use shows only when the server starts: then the next port is tried."""
    assert two.servers
    write_suite(tmp_path, "test: sockperf_udp, seconds: 1, direction: one", first_port=20900)
    with socket.socket(type=socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.3", 20900))
        done = railbed(tmp_path, "bench", "suite.yaml", "--json")
    assert done.code == 0, done
    assert any(record["name"] == "half_round_trip" for record in done.records)


def test_what_cannot_be_measured_is_a_finding_and_the_rest_goes_on(two: Servers, tmp_path: Path) -> None:
    assert two.servers
    write_suite(tmp_path, "test: fio_read, seconds: 1, path: /etc/hostname", "test: ping, samples: 5")
    done = railbed(tmp_path, "bench", "suite.yaml", "--json")
    failed = [finding for finding in done.findings if finding["verdict"] == "fail"]
    assert [finding["subject"] for finding in failed] == ["n1", "n2"]
    assert all("/etc/hostname is not a folder" in finding["observed"] for finding in failed)
    assert done.code == 1
    assert len({json.loads(record[2])["pair"] for record in measures(done.records)}) == 1


def test_where_nothing_is_measured_that_is_not_a_success(two: Servers, tmp_path: Path) -> None:
    """Without RDMA, or if no node accepts the files of a collective, that test ends and the rest is measured."""
    assert two.servers
    done = railbed(tmp_path, "bench", "rdma", "--json")
    assert (done.code, {finding["verdict"] for finding in done.findings}) == (3, {"skipped"}), done
    (tmp_path / "disk").rmdir()
    (tmp_path / "disk").write_text("no folder")
    for steps, code in ((["test: all_reduce"], 3), (["test: all_reduce", "test: ping, samples: 5"], 0)):
        write_suite(tmp_path, *steps)
        done = railbed(tmp_path, "bench", "suite.yaml", "--json")
        assert done.code == code, done
        unknown = {
            finding["subject"]: finding["observed"] for finding in done.findings if finding["verdict"] == "unknown"
        }
        assert sorted(unknown) == ["n1", "n2"]
        assert all("Not a directory" in why or "File exists" in why for why in unknown.values()), unknown


EXPERIMENT = """
repeats: 3
a: {{name: plain}}
b: {{name: changed, change: {{apply: 'test ! -e {mark} && touch {mark}', undo: 'rm {mark}'}}}}
comparisons:
  - measure: {measure}
    a: {{test: {a}, pattern: pair, direction: one}}
    b: {{test: {b}, pattern: pair, direction: one}}
"""
ADDRESS = '$(echo $SSH_CONNECTION | cut -d" " -f3)'
LARGE, SMALL, LONG = "iperf3, seconds: 1", "iperf3, seconds: 1, sizes: [256]", "iperf3, seconds: 30"


def experiment(folder: Path, a: str, b: str) -> str:
    return EXPERIMENT.format(mark=folder / ADDRESS, measure="bandwidth", a=a, b=b)


def test_an_experiment_takes_turns_and_answers_with_an_interval(two: Servers, tmp_path: Path) -> None:
    """Small writes are slower than large ones; the change is there in its arm only, and on one node at a time."""
    assert two.servers
    text = experiment(tmp_path, LARGE, SMALL)
    (tmp_path / "e.yaml").write_text(text)
    done = railbed(tmp_path, "bench", "--experiment", "e.yaml", "--json")
    assert done.code == 0, done
    arms = [record["labels"]["arm"] for record in done.records if record.get("name") == "bandwidth"]
    assert arms == ["plain", "changed", "changed", "plain", "plain", "changed"]
    bounds = {
        record["labels"]["bound"]: record["value"] for record in done.records if record.get("name") == "difference"
    }
    assert bounds["low"] <= bounds["mean"] <= bounds["high"]
    assert bounds["mean"] < 0
    (answer,) = [finding["observed"] for finding in done.findings if finding["check"] == "bench_difference"]
    assert "95 % confidence, 3 repeats" in answer
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("127.")) == []


VISITS = """
repeats: 3
visits: 2
between: move the cable
a: {name: before}
b: {name: after}
comparisons:
  - measure: bandwidth
    a: {test: iperf3, pattern: pair, direction: one, seconds: 1}
    b: {test: iperf3, pattern: pair, direction: one, seconds: 1}
"""


def test_two_visits_that_hear_the_same_see_no_difference(two: Servers, tmp_path: Path) -> None:
    """The second visit gets exactly the output of the tools in the first: nothing can differ."""
    assert two.servers
    (tmp_path / "e.yaml").write_text(VISITS)
    done = railbed(tmp_path, "bench", "--experiment", "e.yaml", "--json")
    assert done.code == 0, done
    assert [record["labels"]["arm"] for record in done.records if record.get("name") == "bandwidth"] == ["before"] * 3
    assert not [finding for finding in done.findings if finding["check"] == "bench_difference"]
    (run,) = (tmp_path / "runs").iterdir()
    assert f"now move the cable, then measure after: railbed bench --second-visit {run.name}" in done.err
    again = railbed(tmp_path, "bench", "--second-visit", run.name, "--replay", run, "--json")
    assert again.code == 0, again
    bounds = {
        record["labels"]["bound"]: record["value"] for record in again.records if record.get("name") == "difference"
    }
    assert bounds["mean"] == 0
    (answer,) = [finding["observed"] for finding in again.findings if finding["check"] == "bench_difference"]
    assert "no difference seen" in answer
    assert "in two visits" in answer
    arms = [record for record in again.records if record.get("name") == "arm_value"]
    assert [arm["labels"]["arm"] for arm in arms] == ["before"] * 3 + ["after"] * 3
    second = next(path.name for path in (tmp_path / "runs").iterdir() if path != run)
    for wrong, words in (
        (["--second-visit", second], "is not the first visit"),
        (["--second-visit", run.name, "--experiment", "e.yaml"], "cannot be combined"),
        (["--second-visit", run.name, "--save-baseline"], "has no baseline"),
    ):
        refused = railbed(tmp_path, "bench", *wrong)
        assert (refused.code, words in refused.err) == (2, True), refused


# SIGINT is in the test of a change that is still there, below.
@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.soak), signal.SIGKILL])
def test_a_change_is_undone_whatever_happens(two: Servers, tmp_path: Path, number: signal.Signals) -> None:
    assert two.servers
    marks = [tmp_path / address for address in ("127.0.0.2", "127.0.0.3")]
    text = experiment(tmp_path, LARGE, LONG)
    (tmp_path / "e.yaml").write_text(text)
    with start(tmp_path, "bench", "--experiment", "e.yaml") as process:
        await_process(LONG_IPERF3)
        wait_for(lambda: all(mark.exists() for mark in marks))
        process.send_signal(number)
        process.wait(SECONDS)
    deadline = time.monotonic() + 15
    while any(mark.exists() for mark in marks):
        assert time.monotonic() < deadline, "the change is still there"
        time.sleep(0.1)
    await_none(LONG_IPERF3)


def left_changed(folder: Path, b: str) -> None:
    """Write an experiment whose change cannot be undone on the second node."""
    mark, refuse = folder / ADDRESS, f"test {ADDRESS} != 127.0.0.3 || {{ echo not today >&2; exit 1; }}"
    change = f"{{apply: 'touch {mark}', undo: 'rm {mark}; {refuse}'}}"
    arms = f"a: {{name: changed, change: {change}}}\nb: {{name: plain}}"
    way = "pattern: pair, direction: one"
    question = f"  - {{measure: bandwidth, a: {{test: {b}, {way}}}, b: {{test: {b}, {way}}}}}\n"
    (folder / "e.yaml").write_text(f"repeats: 3\n{arms}\ncomparisons:\n{question * 2}")


def test_a_change_that_cannot_be_undone_is_a_finding_and_ends_the_experiment(two: Servers, tmp_path: Path) -> None:
    """What comes next would take it for what was there before."""
    assert two.servers
    left_changed(tmp_path, "iperf3, seconds: 1")
    done = railbed(tmp_path, "bench", "--experiment", "e.yaml", "--json")
    assert done.code == 1, done
    (failure,) = [finding for finding in done.findings if finding["verdict"] == "fail"]
    assert (failure["check"], failure["subject"]) == ("bench_undone", "n2"), failure
    assert "not today" in failure["observed"]
    assert "undo the change by hand: rm " in failure["remedy"]
    (pending,) = [
        finding
        for finding in railbed(tmp_path, "check", "pending_change", "--json").findings
        if finding["verdict"] == "fail" and finding["subject"] == "n2"
    ]
    assert pending["observed"].startswith("half-changed by an experiment, ")
    assert [record["labels"]["arm"] for record in done.records if record.get("name") == "bandwidth"] == ["changed"]
    answers = [finding["observed"] for finding in done.findings if finding["check"] == "bench_difference"]
    assert answers[0].startswith("too few repeats")
    assert answers[1].startswith("not measured: a change may still be in effect: n2: ")


def test_ctrl_c_does_not_hide_that_a_change_is_still_there(two: Servers, tmp_path: Path) -> None:
    """It is undone on every node; only that the second says no is not known to be harmless."""
    assert two.servers
    marks = [tmp_path / address for address in ("127.0.0.2", "127.0.0.3")]
    left_changed(tmp_path, LONG)
    with start(tmp_path, "bench", "--experiment", "e.yaml") as process:
        await_process(LONG_IPERF3)
        assert all(mark.exists() for mark in marks)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 3
    assert not any(mark.exists() for mark in marks), "the change is undone on every node"
    assert "a change may still be in effect: n2: " in err.decode()
    await_none(LONG_IPERF3)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("steps: []", "steps: at least one is needed"),
        ("steps: [{test: ib_wriet_bw}]", "did you mean ib_write_bw?"),
        ("steps: [{test: ping, sizes: [2T]}]", "expected a size such as 8, 64K or 1G"),
        ("steps: [{test: ping, duration: 4}]", "did you mean seconds?"),
        ("steps: [{test: iperf3, memory: gpu}]", "memory: gpu works only with the perftest tests"),
    ],
)
def test_a_suite_file_is_refused_with_line_and_key(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "suite.yaml").write_text(text)
    done = railbed(tmp_path, "bench", "suite.yaml")
    assert done.code == 2
    assert sentence in done.err
    assert "suite.yaml" in done.err


def test_suites_and_tests_are_listed_and_a_wrong_name_is_reported(tmp_path: Path) -> None:
    listed = railbed(tmp_path, "bench", "--list", "--json").records
    suites = {record["name"] for record in listed if record["kind"] == "suite"}
    assert suites == {"quick", "rdma", "tcp", "storage", "collective", "full"}
    assert {"ib_write_bw", "all_reduce"} <= {record["name"] for record in listed if record["kind"] == "test"}
    refused = railbed(tmp_path, "bench", "quikc")
    assert (refused.code, "did you mean quick?" in refused.err) == (2, True)

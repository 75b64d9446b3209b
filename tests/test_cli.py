"""The command line from a user's point of view, on this machine: valid and invalid input, exit codes, stored runs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from railbed.cli.main import run
from railbed.cli.verbs.check import run as checking
from tests.support.cli import RAILBED, Result, environment, railbed

pytestmark = pytest.mark.whole

VOLATILE = {"time", "observed", "evidence"}


def assert_one_sentence(result: Result, code: int, *words: str) -> None:
    """A complaint is one sentence (and a hint) on standard error, nothing on standard output, and no traceback."""
    assert result.code == code, result
    assert result.out == ""
    assert result.err.startswith("railbed: ")
    assert "Traceback" not in result.err
    for word in words:
        assert word in result.err


def test_without_arguments_it_says_what_there_is(tmp_path: Path) -> None:
    result = railbed(tmp_path)
    assert result.code == 0
    for verb in ("discover", "check", "runs", "parse"):
        assert verb in result.out


def test_version(tmp_path: Path) -> None:
    assert railbed(tmp_path, "--version").out.startswith("railbed 0.")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["chekc"], ["chekc"]),
        (["check", "--no-such-option"], ["--no-such-option"]),
        (["check", "no_such_rule"], ["no rule 'no_such_rule'"]),
        (["check", "mut"], ["did you mean mtu?"]),
        (["check", "--explain", "gid"], ["gid"]),
        (["check", "--timeout", "never"], ["--timeout"]),
        (["check", "-c", "missing.yaml"], ["missing.yaml", "railbed discover"]),
        (["check", "-c", "."], ["."]),
        (["check", "--replay", "missing"], ["missing", "is not a folder"]),
        (["check", "--replay", "."], ["does not hold a recording"]),
        (["parse", "ip_link"], ["a probe and a file are needed"]),
        (["parse", "ip_lnik", "x"], ["did you mean ip_link?"]),
        (["parse", "ip_link", "missing.txt"], ["missing.txt cannot be read"]),
        (["discover", "a b"], ["'a b' is not a machine"]),
        (["discover", "host:99999"], ["is not a machine"]),
        (["discover", "h", "h"], ["given twice"]),
    ],
)
def test_wrong_arguments_are_one_sentence(tmp_path: Path, arguments: list[str], words: list[str]) -> None:
    assert_one_sentence(railbed(tmp_path, *arguments), 2, *words)


def test_a_wrong_cluster_file_names_file_line_and_key(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text("name: x\nnodes:\n  a:\n    hots: 10.0.0.1\n")
    assert_one_sentence(railbed(tmp_path, "check"), 2, "cluster.yaml:4", "hots", "did you mean host?")


def test_explain(tmp_path: Path) -> None:
    result = railbed(tmp_path, "check", "--explain", "mtu")
    assert result.code == 0
    for heading in ("What", "Why", "Fix", "Source", "Reads"):
        assert f"\n{heading}\n" in result.out
    assert max(map(len, result.out.splitlines())) <= 80


def expected_code(folder: Path) -> int:
    """Return the exit code that the findings of the only run in a folder lead to."""
    (run_folder,) = (folder / "runs").iterdir()
    findings = [json.loads(line) for line in (run_folder / "records.jsonl").read_text().splitlines()]
    verdicts = {(finding.get("verdict"), finding.get("essential", False)) for finding in findings}
    if any(verdict == "fail" for verdict, _ in verdicts):
        return 1
    return 3 if ("unknown", True) in verdicts else 0


def test_check_here_keeps_a_run(tmp_path: Path) -> None:
    result = railbed(tmp_path, "check")
    assert result.code == expected_code(tmp_path), result
    (run_folder,) = (tmp_path / "runs").iterdir()
    about = json.loads((run_folder / "run.json").read_text())
    assert (about["verb"], about["status"], about["exit"], about["cluster"]) == ("check", "done", result.code, "local")
    records = [json.loads(line) for line in (run_folder / "records.jsonl").read_text().splitlines()]
    assert {"event", "finding"} <= {record["kind"] for record in records}
    assert (run_folder / "raw" / "local" / "os_release.1.out").read_text()
    assert run_folder.name in result.out.replace("\n", "")
    assert max(map(len, result.out.splitlines())) <= 80


def test_json_is_all_there_is_on_standard_output(tmp_path: Path) -> None:
    result = railbed(tmp_path, "check", "--json")
    assert result.findings
    for finding in result.findings:
        assert {"check", "subject", "verdict", "expected", "observed", "why", "remedy"} <= finding.keys()
        assert finding["why"]


def test_only_the_rules_that_were_asked_for(tmp_path: Path) -> None:
    result = railbed(tmp_path, "check", "disk_space", "kernel_equal", "--json")
    assert {finding["check"] for finding in result.findings} == {"disk_space", "kernel_equal"}


@pytest.mark.parametrize(
    ("rule", "missing"), [("mtu", "port"), ("rail_speed_equal", "rail"), ("switch_pfc", "switch port")]
)
def test_a_rule_that_was_asked_for_and_has_nothing_to_judge(tmp_path: Path, rule: str, missing: str) -> None:
    ran = railbed(tmp_path, "check", rule, "--json")
    assert ran.code == 2
    (finding,) = ran.findings
    assert (finding["check"], finding["verdict"]) == (rule, "skipped")
    assert finding["observed"] == f"the cluster file has no {missing}"
    assert "`railbed discover" in finding["remedy"]
    beside = railbed(tmp_path, "check", rule, "disk_space")
    assert beside.code == 0
    assert f"{rule} (the cluster file has no {missing})" in beside.out


def test_a_recording_gives_the_same_findings(tmp_path: Path) -> None:
    live = railbed(tmp_path, "check", "--record", "rec", "--json")
    assert live.findings
    for source in ("rec", "runs/" + next((tmp_path / "runs").iterdir()).name):
        replayed = railbed(tmp_path, "check", "--replay", source, "--json")
        assert [strip(finding) for finding in replayed.findings] == [strip(finding) for finding in live.findings]
        assert replayed.code == live.code


def strip(finding: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in finding.items() if key != "time"}


def test_a_recording_folder_must_be_new(tmp_path: Path) -> None:
    (tmp_path / "rec").mkdir()
    (tmp_path / "rec" / "mine.txt").write_text("precious")
    assert_one_sentence(railbed(tmp_path, "check", "--record", "rec"), 2, "rec is not empty")
    assert (tmp_path / "rec" / "mine.txt").read_text() == "precious"


def test_a_damaged_recording(tmp_path: Path) -> None:
    railbed(tmp_path, "check", "disk_space", "--record", "rec")
    (tmp_path / "rec" / "local" / "index.jsonl").write_text('{"key": "disk", "exit": 0}\nnot json\n')
    assert_one_sentence(railbed(tmp_path, "check", "--replay", "rec"), 2, "cannot be read")
    (tmp_path / "rec" / "local" / "index.jsonl").write_text('{"key": "disk", "exit": 0}\n')
    assert_one_sentence(railbed(tmp_path, "check", "disk_space", "--replay", "rec"), 2, "is damaged")


def test_what_a_recording_lacks_is_unknown(tmp_path: Path) -> None:
    railbed(tmp_path, "check", "disk_space", "--record", "rec")
    (finding,) = railbed(tmp_path, "check", "memory_available", "--replay", "rec", "--json").findings
    assert finding["verdict"] == "unknown"
    assert "not in the recording" in finding["observed"]


def test_runs_lists_the_newest_first(tmp_path: Path) -> None:
    assert railbed(tmp_path, "runs").code == 0
    railbed(tmp_path, "check", "disk_space")
    railbed(tmp_path, "check", "memory_available")
    (tmp_path / "runs" / "notes.txt").write_text("not a run")
    (tmp_path / "runs" / "20200101-000000-check").mkdir()
    runs = railbed(tmp_path, "runs", "--json").records
    assert [run["arguments"] for run in runs] == [["check", "memory_available"], ["check", "disk_space"]]
    assert "check" in railbed(tmp_path, "runs").out


def test_runs_go_where_they_are_sent_or_it_says_why_not(tmp_path: Path) -> None:
    railbed(tmp_path, "check", "disk_space", RAILBED_RUNS=str(tmp_path / "elsewhere"))
    assert len(list((tmp_path / "elsewhere").iterdir())) == 1
    assert_one_sentence(railbed(tmp_path, "check", RAILBED_RUNS="/proc/nowhere"), 2, "/proc/nowhere", "RAILBED_RUNS")


def test_parse_prints_facts(tmp_path: Path) -> None:
    text = b'[{"ifname":"eth0","mtu":9000,"operstate":"UP","flags":["UP"]}]'
    (tmp_path / "saved.txt").write_bytes(text)
    for arguments, stdin in (("saved.txt", b""), ("-", text)):
        result = railbed(tmp_path, "parse", "ip_link", arguments, stdin=stdin)
        assert json.loads(result.out)["facts"]["links"]["eth0"]["mtu"] == 9000


def test_parse_reads_a_saved_sysfs_folder(tmp_path: Path) -> None:
    port = tmp_path / "mlx5_7" / "ports" / "1"
    port.mkdir(parents=True)
    for name, value in {"state": "4: ACTIVE", "rate": "100 Gb/sec (4X EDR)", "link_layer": "Ethernet"}.items():
        (port / name).write_text(value + "\n")
    facts = json.loads(railbed(tmp_path, "parse", "infiniband", "mlx5_7").out)["facts"]
    assert facts["devices"]["mlx5_7"]["ports"]["1"]["rate_gbps"] == 100.0


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00\x01" * 100, b"{" * 100_000, b"[[[[", b"nonsense\n" * 1000])
def test_parse_refuses_what_it_does_not_know(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "odd.txt").write_bytes(content)
    assert_one_sentence(railbed(tmp_path, "parse", "ip_link", "odd.txt"), 2, "odd.txt cannot be parsed as ip_link")


def test_parse_list_names_every_probe(tmp_path: Path) -> None:
    out = railbed(tmp_path, "parse", "--list").out
    assert "ip_link" in out
    assert max(map(len, out.splitlines())) <= 80


def test_our_own_fault_is_one_sentence_and_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def broken(name: str) -> object:
        raise RuntimeError(f"a bug about {name}")

    monkeypatch.setattr(checking, "rule_named", broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert run(["check", "--explain", "mtu"]) == 70
    err = capsys.readouterr().err
    assert "Traceback" not in err
    (details,) = tmp_path.glob("railbed-*.txt")
    assert str(details) in err
    assert "a bug about mtu" in details.read_text()


@pytest.mark.parametrize(
    ("redirection", "code", "message"),
    [
        (">&-", 0, ""),
        ("2>&-", 0, ""),
        ("> /dev/full", 2, "railbed: the output cannot be written: the disk is full\n"),
        ("--json > /dev/full", 2, "railbed: the output cannot be written: the disk is full\n"),
        ("| exec true; exit ${PIPESTATUS[0]}", 141, ""),
        ("--json | exec true; exit ${PIPESTATUS[0]}", 141, ""),
    ],
)
def test_output_that_goes_nowhere(tmp_path: Path, redirection: str, code: int, message: str) -> None:
    # Enough rules that the reader is gone before the last line is written.
    command = f"{RAILBED} check disk_space memory_available kernel_equal {redirection}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment(), capture_output=True, check=False)
    first, *left = done.stderr.decode().splitlines(keepends=True) or [""]
    assert (done.returncode, first) == (code, message)
    assert not left or "saved in runs/" in left[0]


def test_a_terminal_that_knows_only_ascii(tmp_path: Path) -> None:
    result = railbed(tmp_path, "check", PYTHONIOENCODING="ascii")
    assert result.code == expected_code(tmp_path), result
    assert (result.out.isascii(), result.err.isascii()) == (True, True)


def test_nothing_found_out_is_not_all_well(tmp_path: Path) -> None:
    railbed(tmp_path, "check", "disk_space", "--record", "rec")
    assert railbed(tmp_path, "check", "memory_available", "--replay", "rec").code == 3


def test_discover_here(tmp_path: Path) -> None:
    first = railbed(tmp_path, "discover", "local", "-c", "here.yaml")
    assert first.code == 0, first
    assert "written" in first.err
    text = (tmp_path / "here.yaml").read_text()
    assert "host: local" in text
    again = railbed(tmp_path, "discover", "-c", "here.yaml")
    assert (again.code, "unchanged" in again.err) == (0, True)
    assert (tmp_path / "here.yaml").read_text() == text


def test_a_machine_alone_has_nothing_to_compare_itself_with(tmp_path: Path) -> None:
    result = railbed(tmp_path, "bench", "--experiment", "rdma-vs-tcp", "--cluster", "local", "--json")
    answers = [finding["observed"] for finding in result.findings if finding["check"] == "bench_difference"]
    assert (result.code, answers) == (3, ["it cannot be measured here: no two nodes share a rail"] * 2), result

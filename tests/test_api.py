"""`import railbed`: verbs as functions, whose records are those that `--json` prints."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest
from pydantic_core import to_json
from typer.core import TyperGroup
from typer.main import get_command

import railbed
from railbed.api import thread
from railbed.api.reach import Reach
from railbed.cli.main import VERBS
from railbed.errors import ClusterFileError, UsageError
from railbed.lab.model import FaultName
from railbed.model import events
from railbed.model.record import Finding, Record
from tests.support import cli
from tests.support.recordings import make_recording
from tests.support.source import ROOT, SOURCE


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reach:
    monkeypatch.chdir(tmp_path)
    return Reach(replay=make_recording("two-roce-vms", tmp_path / "recording"))


def names(records: list[Record]) -> list[str]:
    return [f"{record.check} {record.subject}" for record in records if isinstance(record, Finding)]


def test_the_types_list_what_the_package_loads() -> None:
    stub = ast.parse((SOURCE / "__init__.pyi").read_text())
    homes = {alias.name: node.module for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    del homes["Final"]
    assert homes == {**railbed.HOMES, **{name: module.rpartition(".")[0] for name, module in railbed.MODULES.items()}}
    for name in (*railbed.HOMES, *railbed.MODULES):
        assert getattr(railbed, name) is not None
        assert name in dir(railbed)


def test_nothing_is_loaded_before_it_is_used() -> None:
    script = "import railbed, sys; print([name for name in sys.modules if name.startswith('railbed.')])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize("first", ["", "import railbed.check.run, railbed.diagnose.book\n"])
def test_a_function_and_a_package_share_a_name(first: str) -> None:
    script = (
        f"import railbed\n{first}assert railbed.check.__doc__.startswith('Check a cluster')\n"
        "import railbed.check.run as work\nfrom railbed import check\n"
        "assert railbed.check is check and callable(check) and work is check.run\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_check_yields_what_the_command_prints(recording: Reach, tmp_path: Path) -> None:
    printed = cli.railbed(tmp_path, "check", "--replay", recording.replay or "", "--json")
    stream = railbed.check(reach=recording)
    records = list(stream)
    assert names(records) == [f"{finding['check']} {finding['subject']}" for finding in printed.findings]
    run = stream.run
    assert (run.verb, run.status, run.exit) == ("check", "done", printed.code)
    assert names([*run.records()]) == names(records)
    assert [railbed.to_json(finding) for finding in run.findings()] == [
        railbed.to_json(record) for record in records if isinstance(record, Finding)
    ]
    assert run.failed == [finding for finding in run.findings() if finding.verdict is railbed.Verdict.FAIL] != []
    assert run.cluster.name == "two-roce-vms"
    assert [stored.id for stored in railbed.runs()] == [run.id, *[other.id for other in railbed.runs()[1:]]]
    assert railbed.read_run() == railbed.read_run(run.id) == run


def test_the_result_alone(recording: Reach) -> None:
    run = railbed.check(rules=["disk_space"], reach=recording).result()
    assert {finding.check for finding in run.findings()} <= {"disk_space", "reachable"}
    assert list(run.summary.arguments) == ["check", "disk_space"]


async def test_in_a_coroutine(recording: Reach) -> None:
    run = await railbed.check(rules=["disk_space"], reach=recording).wait()
    assert run.status == "done"
    async with aclosing(railbed.check(rules=["disk_space"], reach=recording)) as records:
        async for record in records:
            assert isinstance(record, events.ReadingStarted)
            break
    assert records.run.status == "stopped"


async def test_without_async_where_a_loop_runs(recording: Reach) -> None:
    """A notebook runs all of its cells in one."""
    assert asyncio.get_running_loop()
    assert railbed.check(rules=["disk_space"], reach=recording).result().status == "done"


def test_a_loop_that_is_left_early(recording: Reach) -> None:
    stream = railbed.check(rules=["disk_space"], reach=recording)
    for _ in stream:
        assert stream.run.status == "running"
        break
    assert stream.run.status == "stopped"
    assert [name for name in map(str, threading.enumerate()) if "railbed" in name] == []


def test_discover_writes_a_file_and_shows_what_changed(recording: Reach, tmp_path: Path) -> None:
    stream = railbed.discover(cluster="site.yaml", reach=recording)
    built = [record for record in stream if isinstance(record, events.ClusterBuilt)]
    site = railbed.load_cluster("site.yaml")
    assert [railbed.Cluster.model_validate(record.cluster) for record in built] == [site]
    assert (stream.run.verb, stream.run.exit) == ("discover", 0)
    text = (tmp_path / "site.yaml").read_text()
    (tmp_path / "site.yaml").write_text("# mine\n" + text.replace("rocep11s0", "mlx5_9", 1))
    compared = railbed.discover(cluster="site.yaml", reach=recording).result()
    printed = cli.railbed(tmp_path, "discover", "-c", "site.yaml", "--replay", recording.replay or "", "--json")
    shown = [record["subject"] for record in printed.records if record["kind"] == "change"]
    assert [change.subject for change in compared.changes()] == shown != []
    assert compared.exit == printed.code == 1
    assert railbed.discover(cluster="site.yaml", write=True, reach=recording).result().exit == 0
    assert (tmp_path / "site.yaml").read_text().startswith("# mine\n")
    assert railbed.load_cluster("site.yaml") == site
    with pytest.raises(UsageError, match="'a b' is not a machine"):
        railbed.discover("a b")


def test_a_list_to_tick_is_the_one_that_is_printed(recording: Reach, tmp_path: Path) -> None:
    def printed() -> list[dict[str, object]]:
        return cli.railbed(tmp_path, "check", "--checklist", "--replay", recording.replay or "", "--json").records

    assert [json.loads(to_json(item)) for item in railbed.checklist(reach=recording)] == printed()
    railbed.check(reach=recording).result()
    ticked = railbed.checklist(reach=recording)
    assert [json.loads(to_json(item)) for item in ticked] == printed()
    assert any(item.is_done for item in ticked)
    assert {item.check for item in railbed.checklist(rules=["mtu"], reach=recording)} == {"mtu"}
    with pytest.raises(UsageError, match="there is no rule 'nix'"):
        railbed.checklist(rules=["nix"], reach=recording)


def test_mistakes_are_raised(recording: Reach, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no rule 'nix'"):
        railbed.check(rules=["nix"], reach=recording)
    (tmp_path / "broken.yaml").write_text("nodes: 1\n")
    with pytest.raises(ClusterFileError):
        railbed.check("broken.yaml")
    stream = railbed.check(rules=["disk_space"], reach=recording)
    with pytest.raises(UsageError, match="has not begun"):
        stream.run  # noqa: B018  (it raises)
    stream.result()
    with pytest.raises(UsageError, match="has been used"):
        stream.result()


def test_runs_in_another_folder(recording: Reach, tmp_path: Path) -> None:
    store = railbed.Store(folder=tmp_path / "elsewhere")
    run = railbed.check(rules=["disk_space"], reach=recording, store=store).result()
    assert run.folder.parent == store.folder
    assert [stored.id for stored in railbed.runs(store=store)] == [run.id]
    assert railbed.read_run(store=store).id == run.id
    assert railbed.runs() == []


def test_a_lab_refuses_what_its_command_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILBED_CACHE", str(tmp_path / "cache"))
    with pytest.raises(UsageError, match="'fast' is not a rate"):
        railbed.Lab(rate="fast")
    lab = railbed.Lab("absent")
    with pytest.raises(UsageError, match="cut takes no value, such as 5"):
        lab.fault("cut", "node1", 5)
    with pytest.raises(UsageError, match="slow needs a rate"):
        lab.fault("slow", "node1")
    with pytest.raises(UsageError, match="'much' is not a percentage"):
        lab.fault("lose", "rail0", "much")
    with pytest.raises(UsageError, match="there is no lab called 'absent'"):
        lab.fault("lose", "rail0", "5%").result()
    with pytest.raises(UsageError, match="there is no lab called 'absent'"):
        lab.cluster  # noqa: B018  (it raises)
    stream = lab.status()
    assert stream.result() == []
    with pytest.raises(UsageError, match="this lab status has been used"):
        stream.result()


def test_a_fault_in_a_thread_is_raised_where_it_is_waited_for() -> None:
    async def faulty() -> AsyncGenerator[int, None]:
        yield 1
        raise ZeroDivisionError

    values = thread.iterate(faulty)
    assert next(values) == 1
    with pytest.raises(ZeroDivisionError):
        next(values)


def test_a_program_that_ends_ends_its_verbs(recording: Reach, tmp_path: Path) -> None:
    script = (
        "import railbed, sys\nfrom pathlib import Path\n"
        "records = iter(railbed.check(rules=['disk_space'], reach=railbed.Reach(replay=Path(sys.argv[1]))))\n"
        "next(records)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(recording.replay)], check=True, cwd=tmp_path)
    assert railbed.read_run().status == "stopped"


HOSTNAME = "node1\n10.0.0.1 STREAM node1\n"
SHOWN = {"as_json", "everything", "explain", "listing", "show_list", "yes", "follow", "output", "as_records", "save"}
"""What only chooses what is printed, where, or asks."""
OTHER = {
    "bench": set(),
    "capture": {"files", "from_files", "full"},
    "check": {"checklist"},
    "compare": set(),
    "configure": {"undo", "overwrite", "power_cycle"},
    "diagnose": set(),
    "discover": set(),
    "export": set(),
    "generate": set(),
    "parse": set(),
    "report": set(),
    "runs": {"names", "clean_up", "keep", "cluster", "attach", "stop"},
    "train": {"context", "detach", "attach", "stop", "environment", "shown", "watched"},
    "watch": {"run", "page", "address", "port", "exporter", "monitoring"},
}
"""What other functions do, or what is about terminals, processes in the background, and servers."""
REACH = {"timeout", "record", "replay"}
RENAMED = {
    "all_pairs": "every_pair",
    "file": "output",
    "fingerprint": "fingerprints",
    "minimum": "min_nodes",
    "prompt": "prompts",
    "rule": "rules",
    "sample_seconds": "sample",
    "size": "ring_bytes",
    "switch": "switches",
    "snap": "snap_length",
    "unchecked": "check_first",
}


@pytest.mark.parametrize("verb", OTHER)
def test_every_option_of_a_verb_is_a_parameter(verb: str) -> None:
    module = import_module(f"railbed.cli.verbs.{VERBS[verb]}")
    options = {*inspect.signature(getattr(module, f"{verb}_command")).parameters} - SHOWN - OTHER[verb]
    parameters = {*inspect.signature(getattr(railbed, verb)).parameters}
    assert ("reach" in parameters) == bool(options & REACH) == (verb not in ("compare", "diagnose", "parse", "runs"))
    assert {RENAMED.get(option, option) for option in options - REACH} <= parameters


def only_of_the_command_line() -> set[str]:
    """Return the commands that docs/api.md lists with the reason why they are no functions."""
    page = (ROOT / "docs" / "api.md").read_text()
    _, _, section = page.partition("\n## What only the command line does\n")
    return set(re.findall(r"^\| `railbed ([a-z -]+)` \| \S", section, re.MULTILINE))


def test_every_verb_is_a_function_or_the_page_says_why_not() -> None:
    lab = get_command(import_module("railbed.cli.verbs.lab").lab_command)
    assert isinstance(lab, TyperGroup)
    faults = lab.commands.pop("fault")
    assert isinstance(faults, TyperGroup)
    commands = {*VERBS, *(f"lab {name}" for name in lab.commands)} - {"lab"}
    functions = {*railbed.HOMES, *(f"lab {name}" for name in vars(railbed.Lab))}
    listed = only_of_the_command_line()
    assert {command for command in commands if command not in functions} == {
        name for name in listed if "-" not in name
    }, "write its function, or list it in docs/api.md with the reason"
    assert {*faults.commands} == {*get_args(FaultName), "heal"}
    assert hasattr(railbed.Lab, "heal")


def test_every_option_of_a_lab_is_a_parameter() -> None:
    options = {*inspect.signature(import_module("railbed.cli.verbs.lab").lab_up).parameters} - SHOWN
    parameters = {*inspect.signature(railbed.Lab).parameters}
    assert {{"extra": "training"}.get(option, option) for option in options} == parameters


def test_every_verb_is_compared() -> None:
    assert {*OTHER} == {*VERBS} & {*railbed.HOMES}


def test_facts_of_a_saved_output(tmp_path: Path) -> None:
    saved = tmp_path / "hostname"
    saved.write_text(HOSTNAME)
    printed = json.loads(cli.railbed(tmp_path, "parse", "hostname", saved).out)
    for output in (HOSTNAME, saved):
        assert json.loads(to_json(railbed.parse("hostname", output))) == printed["facts"]
    with pytest.raises(UsageError, match="there is no probe 'hostnam'"):
        railbed.parse("hostnam", saved)
    with pytest.raises(UsageError, match="missing cannot be read"):
        railbed.parse("hostname", tmp_path / "missing")

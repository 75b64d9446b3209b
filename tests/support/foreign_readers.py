"""Readers of what other people and hostile nodes send: the files of a run's folder, messages of agents, and facts."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

from tools.record_examples import EXAMPLES

from railbed.capture.methods import Method
from railbed.capture.recording import PortPlan, RecordingLimits
from railbed.capture.remote import Control, NodeRecorder
from railbed.check.book import CHECK_BOOK
from railbed.cli.slurm.attempt import read_history
from railbed.clusterfile import loads
from railbed.configure.undo_plan import NodeUndo, UndoTerms, values_before, values_of
from railbed.diagnose.book import DIAGNOSE_BOOK
from railbed.errors import DeviceError, ParseError, UserError
from railbed.fleet import Fleet
from railbed.fleet.change import apply_script, guard_script
from railbed.launch.agentlink import NodeMessage
from railbed.launch.files.ship import Parcel
from railbed.launch.meeting import Meeting
from railbed.launch.messages import decode
from railbed.launch.placement import Placement
from railbed.launch.supervise import Supervisor
from railbed.model.cluster import Port
from railbed.model.fix import FileStep, Fix, Persistence, RunStep
from railbed.model.meters import Sample, SeriesKey
from railbed.model.reading import Known
from railbed.probes.outputs import all_probes
from railbed.report.handover import notes
from railbed.rules.engine import judge
from railbed.rules.rule import Rule
from railbed.rules.site import Site
from railbed.store import read_run_in, to_line
from railbed.store.atomic_folder import AtomicFolder
from railbed.store.find import cluster_to_read
from railbed.store.proof import first_training, own_cluster_file, prove
from railbed.store.series import SeriesWriter
from railbed.store.submitted import job_of, note_job
from railbed.store.timeline import Timeline
from railbed.store.undo import FILE, read_attempts, read_results, read_undo, save_undo
from railbed.train.network.ledger import Ledger
from railbed.train.ranks import KnownCheckpoints, TrainingRun
from railbed.train.results.program import receive
from railbed.train.results.sources import weights_sources
from railbed.train.run import TrainJob
from tests.support.esxi_readers import esxi_readers
from tests.support.rulecase import CASES, load_yaml, site_of

ReadText = Callable[[str], object]
Entry = tuple[str, ReadText, list[str], int]
"""Name of a reader, the reader, what it is meant to read, and how often it is chosen."""
CLUSTER = """\
name: lab
training: {workdir: /tmp/x}
nodes:
  a: {host: 10.0.0.1, python: /x, ports: [{netdev: eth1, rdma: mlx5_0, rail: r, address: 10.1.0.1}]}
  b: {host: 10.0.0.2, login: {password: {env: X}}, ports: [{netdev: eth1, rdma: mlx5_0, rail: r, address: 10.1.0.2}]}
rails: {r: {subnet: 10.1.0.0/24}}
"""
UNDO = Fix(
    device="a",
    apply=(
        RunStep(command="ip link set dev eth1 mtu 1500", only_if="true", verify="true", part="mtu a/eth1"),
        FileStep(path="/etc/hosts", content="a\n", mode="644", owner="0:0", part="hostname_resolves a"),
    ),
    undo=(RunStep(command="ip link set dev eth1 mtu 9000", part="mtu a/eth1"),),
    persistence=Persistence.KEPT,
)
PLACEMENTS = [
    Placement(node=name, address=f"10.1.0.{number}", ranks=1, interface="eth1", code="/a/b/c/d", folder=f"/{name}")
    for number, name in enumerate(("a", "b"), start=1)
]
RUN = TrainingRun(name="r", recipe={"steps": 40}, tokens=Parcel("tokens/1", "", {}, {}))
RANK_MESSAGES: tuple[dict[str, object], ...] = (
    {"kind": "alive", "step": 1, "phase": "training", "stepping": True},
    {"kind": "progress", "step": 1, "loss": 1.5, "allreduce_exposed_seconds": 0.1, "time": 1.0},
    {"kind": "progress", "step": 1, "bytes_sent": 5, "bytes_reduced": 5, "samples": [0, 4]},
    {"kind": "counters", "rdma": {"mlx5_0/1": {"tx": 5}}, "net": {"eth1": {"tx": 5}}, "begin": True},
    {"kind": "checkpoint", "step": 3, "seconds": 0.5, "hash": "x"},
    {"kind": "error", "sentence": "it failed", "refused": True, "hint": "x", "interference": False},
    {"kind": "sample", "text": "x", "step": 3},
    {"kind": "rank_done", "step": 9},
)
AGENT_MESSAGES: tuple[dict[str, object], ...] = (
    {"kind": "hello", "pid": 1, "host": "a", "python": "3.11"},
    {"kind": "up"},
    {"kind": "listening", "port": 5000},
    {"kind": "listening", "why": "in use"},
    {"kind": "meeting", "generation": 2, "port": 5000},
    {"kind": "meeting", "generation": 2, "why": "in use"},
    {"kind": "reach", "question": 1, "unreached": {"b": "refused"}},
    {"kind": "log", "rank": 0, "text": "x"},
    {"kind": "halted", "generation": 1, "rank": 0},
    {"kind": "exit", "generation": 1, "rank": 0, "code": -9, "why": "x"},
    {"kind": "stopped", "generation": 1},
    {"kind": "lost", "why": "x", "gone": True},
    *({"kind": "message", "generation": 1, "rank": 0, "message": message} for message in RANK_MESSAGES),
)


RECORDER_LINES = (
    "h 1 4711",
    "y",
    'n {"ports": {"eth1": {"packets": 5, "ended": false}}}',
    't {"began": 1, "ended": 2, "ports": {"eth1": {"captured": 1, "dropped": 0, "reason": "", "size": 24}}}',
    "d eth1 3",
    "abcz",
)


async def _record(folder: Path, output: bytes) -> None:
    """Record on a node whose recorder prints this."""
    method = Method(name="kernel", source="eth1", why="")
    plan = PortPlan(node="a", port=Port(netdev="eth1", rail="r", address=ip_address("10.1.0.1")), method=method)
    node = NodeRecorder("a", "python3", [plan], RecordingLimits(), folder / "packets", Control(stop=asyncio.Event()))
    await node.serve(cast("Fleet", AnsweringFleet(output)))


def foreign_readers(folder: Path) -> Iterator[Entry]:
    """Yield every reader; `folder` is one for their files."""
    yield from _files_of_a_run(folder)
    yield "message to the supervisor", _supervise, ["\n".join(map(json.dumps, AGENT_MESSAGES))], 12
    yield "message to the supervisor alone", _supervise, [json.dumps(message) for message in AGENT_MESSAGES], 12
    yield "notes of a cluster", _read_notes, [notes.TEMPLATE, "# a\n- b\n  c\n\n```\nd\n```\n1) `e` <!-- f -->\ng"], 4
    yield from _answers_of_nodes(folder)
    yield from _judged_facts()
    yield from esxi_readers()


def _read_notes(text: str) -> object:
    return list(notes.blocks_of(text))


def _files_of_a_run(folder: Path) -> Iterator[Entry]:
    run = folder / "20260101-000010-train"
    run.mkdir()
    about = {
        "id": run.name,
        "verb": "train",
        "arguments": ["train"],
        "cluster": "lab",
        "version": "1",
        "started": 1.79e9,
        "ended": 1.79e9 + 60,
        "status": "done",
        "exit": 0,
        "process": None,
    }
    records = b"".join(to_line(record) + b"\n" for record in EXAMPLES)
    (run / "run.json").write_text(json.dumps(about))
    (run / "cluster.yaml").write_text(CLUSTER)
    (run / "records.jsonl").write_bytes(records)
    (run / "notes.jsonl").write_bytes(records)
    layout = tuple(SeriesKey(node, "net_rx_bytes", "eth1", "") for node in "ab")
    with SeriesWriter(run) as writer:
        for second in range(60):
            writer.append(Sample("a", 1.79e9 + second, layout, (second * 10**6, second * 300_000)))
    state = {"XDG_STATE_HOME": str(folder / "state")}
    with patch.dict(os.environ, state):
        prove(run, run.name, {"cluster": CLUSTER.encode()})
        note_job(run, 7)
        save_undo(run, UNDO)

    def damaged(name: str, text: str) -> None:
        before = (run / name).read_bytes()
        (run / name).write_text(text, errors="replace")
        try:
            with patch.dict(os.environ, state):
                _read_run(run)
        finally:
            (run / name).write_bytes(before)

    shares = {"run.json": 8, "cluster.yaml": 6, "records.jsonl": 6, "notes.jsonl": 3, "proof.json": 8, "job.json": 8}
    for name, share in {**shares, FILE: 10}.items():
        text = (run / name).read_text()
        seeds = [text, *text.splitlines(keepends=True)] if name.endswith(".jsonl") else [text]
        yield f"run's {name}", partial(damaged, name), seeds, share

    def diagnosed(name: str, text: str) -> None:
        before = (run / name).read_bytes()
        (run / name).write_bytes(text.encode("latin-1" if name.startswith("series") else "utf-8", "replace"))
        with suppress(UserError):
            list(judge(DIAGNOSE_BOOK, Site(loads(CLUSTER, name="x"), timeline=Timeline(run))))
        (run / name).write_bytes(before)

    chunks = next((run / "series").glob("*.chunks")).relative_to(run)
    yield "diagnosis of records", partial(diagnosed, "records.jsonl"), [records.decode()], 1
    raw = (run / chunks).read_bytes().decode("latin-1")
    yield "diagnosis of series", partial(diagnosed, str(chunks)), [raw], 1


def _read_run(run: Path) -> None:
    """Read all that verbs read of a run."""
    read_run_in(run)
    own_cluster_file(run)
    first_training(run)
    job_of(run)
    for read in (cluster_to_read, read_history, _plan_undo, lambda folder: Timeline(folder).marks()):
        with suppress(UserError):
            read(run)


def _plan_undo(run: Path) -> None:
    """Plan the undo of a run, with the scripts that it would run."""
    read_attempts(run)
    changes, results = read_results(run)
    before, after = values_before(changes), values_of(results)
    for fix in read_undo(run, own=True) + read_undo(run):
        files = [replace(step, content="x\n") for step in fix.apply if isinstance(step, FileStep)]
        if not all(isinstance(step, RunStep | FileStep) for step in (*fix.apply, *fix.undo)):
            continue
        terms = UndoTerms(run=run.name)
        plan = NodeUndo(fix=fix, files=files, before=before, after=after, now=after, terms=terms).plan()
        b"".join(map(to_line, plan.changes))
        apply_script(plan.fix.apply, "/run/x")
        guard_script(plan.fix.undo, "/run/x", plan.fix.seconds, holder="x", alone=True)


def _supervise(text: str) -> None:
    """Let a supervisor take messages of a node, as if two had started ranks."""
    cluster = loads(CLUSTER, name="x")
    job = TrainJob(RUN, KnownCheckpoints(), Ledger(cluster, {}, demanded=False))
    supervisor = Supervisor(cast("Fleet", None), job, PLACEMENTS, 1)
    for node in "ab":
        supervisor._note(NodeMessage(node, {"kind": "up"}))
        supervisor._note(NodeMessage(node, {"kind": "listening", "port": 5000}))
    to_line(supervisor._start_ranks(1, PLACEMENTS, 29500))
    meeting = Meeting(2, 0, supervisor._links)
    meeting.request(PLACEMENTS)
    supervisor._reachability.test_all()
    for line in text.encode("utf-8", "replace").split(b"\n"):
        message = decode(line)
        if message is not None:
            received = NodeMessage("a", message)
            for record in (*supervisor._note(received), *meeting.take(received)):
                to_line(record)
            supervisor._generation.failure(received, supervisor._reachability.answer(received))
            supervisor._test_rail()


class _Program:
    """A program on a node that prints what it is meant to print, and ends."""

    def __init__(self, output: bytes) -> None:
        self._output = output

    async def write(self, data: bytes) -> None:
        """Take what is sent."""

    async def read(self, stream: int) -> bytes:
        """Return everything at once."""
        output, self._output = (self._output, b"") if stream == 1 else (b"", self._output)
        return output


class AnsweringFleet:
    """A fleet of one node, on which every program prints the same."""

    def __init__(self, output: bytes) -> None:
        self._output = output

    @asynccontextmanager
    async def open(self, _node: str, _command: str) -> AsyncIterator[_Program]:
        """Start a program."""
        yield _Program(self._output)

    async def hang_up_if_broken(self, _node: str) -> None:
        """Close a connection that does not answer."""


def _answers_of_nodes(folder: Path) -> Iterator[Entry]:
    cluster = loads(CLUSTER, name="x")
    files = ({"kind": "file", "name": "a.json", "size": 3}, {"kind": "file", "name": "b", "size": 0}, {"kind": "done"})
    first, second, done = (json.dumps(message) for message in files)

    async def fetch(output: bytes) -> None:
        fleet = cast("Fleet", AnsweringFleet(output))
        with AtomicFolder(folder / "fetched") as into:
            async for _ in receive(cluster, fleet, "a", "x", folder=into, needed=0):
                pass

    def fetched(text: str) -> None:
        with suppress(UserError, DeviceError):
            asyncio.run(fetch(text.encode("utf-8", "replace")))

    def weights(text: str) -> None:
        fleet = cast("Fleet", AnsweringFleet(text.encode("utf-8", "replace")))
        asyncio.run(weights_sources(cluster, fleet, "job1"))

    def recorded(text: str) -> None:
        asyncio.run(_record(folder, text.encode("utf-8", "replace")))

    manifest = json.dumps({"step": 3, "files": {"a": ["hash", 5]}})
    texts = {"kind": "texts", "texts": {"checkpoints/3/manifest.json": manifest, "model/manifest.json": manifest}}
    yield "weights on a node", weights, [f"{json.dumps(texts)}\n"], 6
    yield "lines of a recorder", recorded, ["\n".join(RECORDER_LINES)], 6
    yield "files of a node", fetched, [f"{first}\nabc{second}\n{done}\n", '{"kind": "refused", "message": "x"}\n'], 6


def _judged_facts() -> Iterator[Entry]:
    """Facts that a node chose, judged by every rule that reads them."""
    sites = _sites()
    for name, probe in all_probes().items():
        if not sites.get(name):
            continue
        texts = sorted((CASES.parent / "probes" / name).glob("*.txt"))
        seeds = [path.read_bytes().decode("utf-8", "replace")[:20_000] for path in texts]
        yield f"rules on {name}", partial(_judge, sites[name], name, probe), seeds, 3


def _sites() -> Mapping[str, list[tuple[Rule[Any], Site, str]]]:
    """Return, for each probe, rules that read it, each with a site and the device whose facts are replaced."""
    sites: dict[str, list[tuple[Rule[Any], Site, str]]] = {}
    for folder in sorted(path for path in CASES.iterdir() if path.is_dir()):
        check, taken = CHECK_BOOK.rules[folder.name], set()
        for path in sorted(folder.glob("*.yaml")):
            site = site_of(load_yaml(path))
            for device, facts in site.devices.items():
                for probe, readings in facts.readings.items():
                    if probe not in taken and any(isinstance(reading, Known) for reading in readings):
                        taken.add(probe)
                        sites.setdefault(probe, []).append((check, site, device))
    return sites


def _judge(sites: list[tuple[Rule[Any], Site, str]], name: str, probe: Any, text: str) -> None:
    try:
        facts = probe.parse(text.encode("utf-8", "surrogatepass").decode("utf-8", "replace"))
    except ParseError:
        return
    for check, site, device in sites:
        about = site.devices[device]
        readings = tuple(
            replace(reading, facts=facts) if isinstance(reading, Known) else reading for reading in about.readings[name]
        )
        devices = {**site.devices, device: replace(about, readings={**about.readings, name: readings})}
        for finding in judge(CHECK_BOOK, Site(site.cluster, devices, runs=site.runs), [check]):
            to_line(finding)
            if finding.fix and all(isinstance(step, RunStep | FileStep) for step in finding.fix.apply):
                apply_script(finding.fix.apply, "/run/x")

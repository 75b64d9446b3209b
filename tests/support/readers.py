"""Everything that reads foreign data, each as a function of a text that must either return or refuse."""

from __future__ import annotations

import asyncio
import json
import os
import random
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic_core import to_json
from tools.record_examples import EXAMPLES, FINDING

from railbed.bench import baseline, experiments, suites
from railbed.bench.tool import Tool, all_tools
from railbed.bench.wrapper import unwrap
from railbed.capture.files import packets_details, read_recording
from railbed.capture.packets import Recording
from railbed.cli.slurm import watchdog
from railbed.clusterfile import loads
from railbed.clusterfile.write import difference
from railbed.configure.persist import PortSettings, network_files
from railbed.errors import DeviceError, ParseError, UserError
from railbed.fleet.sample.clock import ControlClock
from railbed.fleet.sample.intake import Intake
from railbed.fleet.sample.nodes import ReaderState, RowReader
from railbed.launch.messages import decode
from railbed.model.events import capture
from railbed.model.fix import FileStep, Fix, Persistence, RunStep, SlotStep
from railbed.model.meters import Sample, SeriesKey
from railbed.model.private import scrub
from railbed.model.probe import Probe
from railbed.model.record import Event, Record
from railbed.parsing.boot_unit import read_unit, render_unit
from railbed.parsing.counters import parse_line
from railbed.parsing.nexus import slots
from railbed.probes.boot_config import BootConfig
from railbed.probes.outputs import all_probes
from railbed.report import describe, read
from railbed.report.compare.comparison import compare_runs
from railbed.report.compare.page import describe_both
from railbed.report.formats.html import as_html
from railbed.report.formats.markdown import as_markdown
from railbed.store import RecordReader, read_record, read_run_in, to_line
from railbed.store.series import SeriesWriter
from railbed.store.series.chunk import Chunk, decode_group, encode_group
from railbed.store.timeline import Timeline
from railbed.store.undo import read_undo
from railbed.train import recipes
from railbed.train.base.folder import read_folder
from railbed.train.data.chat import ChatTemplate, TemplateRefused
from railbed.train.data.chatprocess import TemplateProcess
from railbed.train.data.examples import Conversation, ExampleReader
from railbed.train.progress.records import records_of
from railbed.train.state import checkpoints
from railbed.train.worker.io.corpus import Tokens
from railbed.train.worker.io.tensorfile import read_tensors, write_tensors
from railbed.transport.base import Command, Target
from railbed.transport.bmc.resources import links_of, next_page
from railbed.transport.https import parse_answer
from railbed.transport.nxapi import read_reply
from railbed.transport.queue import parse_details, parse_kill_wait, parse_number, parse_queue
from railbed.transport.replay import replay_connector
from railbed.transport.slurm import complaint, shown_nodes, shown_reports, shown_shares
from railbed.web.metrics.run import Exporter
from tests.captures.compare import differences
from tests.captures.small import small_captures
from tests.support.foreign_readers import foreign_readers
from tests.support.model_readers import model_readers
from tests.support.mutate import mutated
from tests.switchlab.nexus.support import LOSSLESS

ROWS = """h 1 4711
l [["host", "", ["cpu_busy_us"]], ["rdma", "ens1", ["hw_counters/out_of_sequence", "counters/port_rcv_data"]]]
q 1 1000000 1794900000000000
r 1000100 5 4294967295 250
q 2 2000000 1794900001000000
r 2000100 6 - 9223372036854775807
l [["gpu", "0", ["power"]]]
r 3000100 5000
"""
TESTS = Path(__file__).parent.parent
CASES = TESTS / "cases"
SOURCE = TESTS.parent / "src" / "railbed"


@dataclass(frozen=True)
class Reader:
    """Something that reads foreign text."""

    name: str
    read: Callable[[str], object]
    """Raises nothing: what is refused as it should be is a value here."""
    seeds: Sequence[str]
    share: int = 1
    """How often it is chosen, beside the others."""
    prepare: Callable[[], object] = lambda: None
    """What its first input would pay for, such as compiling."""

    def input(self, seed: int, index: int) -> str:
        """Return one of its damaged inputs."""
        return mutated(self.seeds, random.Random(f"{seed} {self.name} {index}"))  # noqa: S311  (not for secrets)


def all_readers() -> dict[str, Reader]:
    """Return every reader by name; the files that they need are in a folder of this process, and go with it."""
    return _readers_of(os.getpid())


@cache
def _readers_of(_process: int) -> dict[str, Reader]:
    _FOLDERS.append(tempfile.TemporaryDirectory(prefix="railbed-fuzz-"))
    folder = Path(_FOLDERS[-1].name)
    readers = [
        *_probes(),
        *_tools(),
        *_yaml_files(folder),
        *_runs(folder),
        *_series(folder),
        *_training(folder),
        *_wires(folder),
        *_captures(folder),
        *_boot_files(),
        *_queue(),
        *_undos(folder),
        *(Reader(name, read, seeds, 6) for name, read, seeds in model_readers(folder)),
        *(Reader(name, read, seeds, share) for name, read, seeds, share in foreign_readers(folder)),
    ]
    return {reader.name: reader for reader in readers}


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []


def _texts(folder: Path, pattern: str = "*.txt") -> list[str]:
    return [path.read_bytes().decode("utf-8", "replace") for path in sorted(folder.glob(pattern))]


def _received(text: str) -> str:
    """Return a text as a parser receives it: decoded from bytes, which may spell half a character."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def _probes() -> Iterator[Reader]:
    def read(probe: Probe[Any], text: str) -> None:
        with suppress(ParseError):
            to_json(probe.parse(_received(text)))

    for name, probe in all_probes().items():
        yield Reader(f"probe {name}", partial(read, probe), _texts(CASES / "probes" / name), 18)


def _tools() -> Iterator[Reader]:
    def read(tool: Tool, text: str) -> None:
        with suppress(ParseError):
            to_json(tool.parse(unwrap(_received(text)).output))

    for name, tool in all_tools().items():
        yield Reader(
            f"tool {name}", partial(read, tool), [text[:20_000] for text in _texts(CASES / "tools" / name)], 15
        )


def _yaml_files(folder: Path) -> Iterator[Reader]:
    def read(load: Callable[[str], object], text: str) -> None:
        path = folder / "file.yaml"
        path.write_text(text, encoding="utf-8", errors="replace")
        with suppress(UserError):
            load(str(path))

    def read_cluster(text: str) -> None:
        with suppress(UserError):
            loads(text, name="cluster.yaml")

    clusters = [*_texts(CASES / "clusterfile", "*.yaml"), *_texts(TESTS.parent / "examples", "*.yaml")]
    yield Reader("cluster file", read_cluster, clusters, 15)
    yield Reader("recipe", partial(read, recipes.load), _texts(SOURCE / "train" / "recipes", "*.yaml"), 3)
    yield Reader("suite", partial(read, suites.load), _texts(SOURCE / "bench" / "suites", "*.yaml"), 3)
    yield Reader("experiment", partial(read, experiments.load), _texts(SOURCE / "bench" / "experiments", "*.yaml"), 3)


RUN = {
    "id": "x",
    "verb": "bench",
    "arguments": ["bench"],
    "cluster": "lab",
    "version": "1",
    "started": 1.79e9,
    "ended": 1.79e9 + 60,
    "status": "done",
    "exit": 0,
    "verdicts": {"ok": 2},
    "process": None,
}


def _undos(folder: Path) -> Iterator[Reader]:
    """What an undo reads: the steps that a run saved, and the configuration of a switch."""
    run = folder / "20260101-000002-configure"
    run.mkdir()
    steps = (
        RunStep(command="ip link set dev rail0 mtu 1500", only_if="true", part="mtu n1/rail0"),
        FileStep(path="/etc/hosts", content="a\n", mode="644", owner="0:0"),
        SlotStep(section=("interface Ethernet1/1",), slot="mtu", before=("mtu 1500",), after=("mtu 9216",)),
    )
    fixes = [Fix(device="n1", apply=(step,), undo=(), persistence=Persistence.KEPT) for step in steps]
    before = slots.parse_lines(LOSSLESS.splitlines())

    def undo(text: str) -> None:
        (run / "undo.jsonl").write_text(f"{text}\n", errors="replace")
        with suppress(UserError):
            read_undo(run)

    def configuration(text: str) -> None:
        after = slots.parse_lines(text.splitlines())
        changed = slots.changed_between(before, after, slots.touched_by(text.splitlines(), before))
        slots.restoring_lines(changed, after)
        slots.still_used(changed, after)

    yield Reader("undo", undo, [to_json(fix).decode() for fix in fixes], 8)
    yield Reader("configuration of a switch", configuration, [LOSSLESS], 6)


def _runs(folder: Path) -> Iterator[Reader]:
    run, other = folder / "20260101-000000-bench", folder / "20260101-000001-bench"
    for folder_of_run in (run, other):
        folder_of_run.mkdir()
        (folder_of_run / "run.json").write_text(json.dumps(RUN))
        (folder_of_run / "cluster.yaml").write_text("name: lab\nnodes: {a: {host: local}}\n")
        (folder_of_run / "records.jsonl").write_text(RECORDS)

    def about(text: str) -> None:
        (run / "run.json").write_text(text, errors="replace")
        read_run_in(run)
        (run / "run.json").write_text(json.dumps(RUN))

    def line(text: str) -> None:
        with suppress(ValueError):
            read_record(text.encode("utf-8", "replace"))

    def report(text: str) -> None:
        (run / "records.jsonl").write_text(text, errors="replace")
        with suppress(UserError):
            document = describe(read(run))
            as_html(document)
            as_markdown(document)

    def compare(text: str) -> None:
        (run / "records.jsonl").write_text(text, errors="replace")
        with suppress(UserError):
            before, after = read(run), read(other)
            as_html(describe_both(before, after, compare_runs(before, after)))

    def cluster_of_a_run(text: str) -> None:
        with suppress(UserError):
            first = loads("name: lab\nnodes: {a: {host: local}}\n", name="a")
            difference(first, loads(text, name="b"))

    def metrics(text: str) -> None:
        exporter = Exporter(loads("name: lab\nnodes: {a: {host: local}}\n", name="a"), interval=1, switch_interval=5)
        exporter.training.begin(run.name)
        if (record := RecordReader().read(text.encode("utf-8", "replace"))) is not None:
            exporter.training.take(record)
        exporter.text()

    yield Reader("metrics of a training", metrics, RECORDS.splitlines()[5:15], 8)
    yield Reader("run.json", about, [json.dumps(RUN), json.dumps({**RUN, "status": "running"})], 15)
    yield Reader("record", line, RECORDS.splitlines(), 20)
    yield Reader("report", report, [RECORDS, "\n".join(RECORDS.splitlines()[:6])], 1)
    yield Reader("report of a capture", report, [_captured()], 1)
    yield Reader("compare", compare, [RECORDS], 1)
    yield Reader("cluster difference", cluster_of_a_run, _texts(TESTS.parent / "examples", "*.yaml"), 1)


def _captured() -> str:
    """Return the records of a capture, as examples have them."""
    examples: list[Record] = [
        FINDING,
        *(example for example in EXAMPLES if type(example).__module__ == capture.__name__),
    ]
    return "".join(to_line(example).decode() + "\n" for example in examples)


def _records() -> Iterator[dict[str, object]]:
    yield {"kind": "event", "name": "reading", "data": {"devices": 2}, "time": 1.79e9}
    yield {"kind": "event", "name": "training", "data": {"run": "x", "recipe": {"steps": 3}, "ranks": [], "hash": "x"}}
    finding = {
        "kind": "finding",
        "check": "mtu",
        "subject": "a/eth1",
        "expected": "9000",
        "observed": "1500",
        "why": "…",
    }
    for verdict in ("ok", "fail", "unknown"):
        yield {**finding, "verdict": verdict, "remedy": "ip link", "evidence": "x", "time": 1.79e9}
    for generation in (1, 2):
        yield {
            "kind": "event",
            "name": "generation",
            "data": {"number": generation, "nodes": ["a", "b"], "ranks": 2, "why": "x", "step": 1},
            "time": 1.79e9 + generation,
        }
        for step in range(1, 6):
            for name, unit in (
                ("loss", "nat"),
                ("step_seconds", "s"),
                ("tokens_per_second", "token/s"),
                ("bytes_sent", "byte"),
            ):
                labels = {"step": step, "rank": generation - 1, "node": "a"}
                yield {
                    "kind": "measurement",
                    "name": name,
                    "value": 1.5 / step,
                    "unit": unit,
                    "labels": labels,
                    "time": 1.79e9,
                }
    labels = {
        "test": "ib_write_bw",
        "from": "a",
        "to": "b",
        "size": 65536,
        "tool": "perftest",
        "rail": "r",
        "repeat": 1,
    }
    yield {"kind": "measurement", "name": "bandwidth", "value": 9.5, "unit": "Gb/s", "labels": labels, "time": 1.79e9}
    yield {"kind": "measurement", "name": "retransmits", "value": 0.0, "unit": "1", "labels": labels, "time": 1.79e9}
    yield {"kind": "change", "subject": "rails.r", "action": "set", "before": "1", "after": "2", "time": 1.79e9}
    for name in (
        "checkpoint",
        "restart",
        "lost",
        "transport",
        "path",
        "sample",
        "exported",
        "answer",
        "memory",
        "notice",
    ):
        data = {"engine": "gloo", "step": 1, "seconds": 0.5, "text": "x", "verdict": "tcp", "node": "a", "bytes": 1}
        yield {"kind": "event", "name": name, "subject": "a", "message": "words", "data": data, "time": 1.79e9}


def _series(folder: Path) -> Iterator[Reader]:
    run = folder / "20260101-000002-train"
    run.mkdir()
    (run / "run.json").write_text(json.dumps(RUN))
    (run / "records.jsonl").write_text(RECORDS)
    layout = tuple(SeriesKey("a", name, "eth1", part) for name, part in (("net_rx_bytes", ""), ("pause_rx_us", "3")))
    with SeriesWriter(run) as writer:
        for second in range(0, 7300, 900):
            writer.append(Sample("a", 1.79e9 + second, layout, (second * 10**6, second * 300_000)))

    def read_all(path: Path, data: bytes) -> None:
        original = path.read_bytes()
        path.write_bytes(data)
        timeline = Timeline(run)
        for series in timeline.series():
            timeline.track(series)
            timeline.draw(series, timeline.start, timeline.end, 50)
            timeline.draw(series, timeline.start, timeline.start + 10 * 86400, 10)
        timeline.marks()
        path.write_bytes(original)

    def raw(name: str, text: str) -> None:
        read_all(run / "series" / name, text.encode("latin-1", "replace"))

    def with_checksum(text: str) -> None:
        data = text.encode("utf-8", "replace").replace(b"\n", b"")
        read_all(run / "series" / "0001.layout", b"%s\n%08x\n" % (data, zlib.crc32(data)))

    def records(text: str) -> None:
        read_all(run / "records.jsonl", text.encode("utf-8", "replace"))

    def group(text: str) -> None:
        chunk = Chunk(1, 30, 40, 0.0, 1.0, 1, ())
        with suppress(ValueError):
            decode_group(0, chunk, text.encode("latin-1", "replace"))

    for name in ("0001.chunks", "0001.hours"):
        yield Reader(f"series {name[5:]}", partial(raw, name), [(run / "series" / name).read_bytes().decode("latin-1")])
    text = (run / "series" / "0001.layout").read_text().splitlines()[0]
    yield Reader("series layout", with_checksum, [text], 2)
    yield Reader("timeline", records, [RECORDS], 1)
    yield Reader("series group", group, [encode_group(np.arange(1200).reshape(40, 30) ** 3).decode("latin-1")], 5)


RECORDS = "".join(json.dumps(record) + "\n" for record in _records())


def _training(folder: Path) -> Iterator[Reader]:
    tensors = folder / "model.safetensors"
    write_tensors(tensors, {"a": torch.zeros(2, 3), "b": torch.zeros(1, dtype=torch.int64)}, {"format": "pt"})
    data = tensors.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = data[8 : 8 + length].decode()

    def tensor_file(text: str) -> None:
        head = text.encode("utf-8", "replace")
        tensors.write_bytes(len(head).to_bytes(8, "little") + head + data[8 + length :])
        with suppress(DeviceError):
            read_tensors(tensors)

    def raw_tensor_file(text: str) -> None:
        tensors.write_bytes(text.encode("latin-1", "replace"))
        with suppress(DeviceError):
            read_tensors(tensors)

    saved = checkpoints.publish(
        folder / "checkpoints", 5, lambda to: {"state.json": checkpoints.write_synced(to / "state.json", b"{}")}
    )
    manifest = (saved.path / checkpoints.MANIFEST).read_text()

    def checkpoint(text: str) -> None:
        (saved.path / checkpoints.MANIFEST).write_text(text, errors="replace")
        with suppress(DeviceError):
            checkpoints.read_checkpoint(saved.path)

    def tokens(text: str) -> None:
        (folder / "tokens.bin").write_bytes(bytes(64))
        (folder / "tokens.json").write_text(text, errors="replace")
        with suppress(UserError):
            Tokens.open(folder)

    about = json.dumps({"tokens": 32, "train": 30, "vocabulary": 9, "end_of_text": 0, "dtype": "uint16", "texts": 1})
    yield Reader("tensor file's header", tensor_file, [header], 10)
    yield Reader("tensor file", raw_tensor_file, [data.decode("latin-1")], 6)
    yield Reader("checkpoint's manifest", checkpoint, [manifest], 8)
    yield Reader("tokens.json", tokens, [about], 4)
    yield from _model_folders(folder / "base", header)


TEMPLATES = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}|{% endfor %}",
    "{% set n = namespace(i=0) %}{% for m in messages[:] %}{% set n.i = n.i + 1 %}{{ m['content'] * n.i }}{% endfor %}",
    "{% macro say(m) %}<{{ m | tojson }}>{% endmacro %}{% for i in range(2 ** 3) %}{{ say(messages[0]) }}{% endfor %}",
)


def _model_folders(folder: Path, header: str) -> Iterator[Reader]:
    folder.mkdir()
    config = json.dumps({"architectures": ["LlamaForCausalLM"], "vocab_size": 9, "hidden_size": 4})
    template = ChatTemplate(TEMPLATES[0], {})
    examples = ExampleReader(template, folder)

    def write(text: str, head: str) -> None:
        (folder / "config.json").write_text(text, errors="replace")
        data = head.encode("utf-8", "replace")
        (folder / "model.safetensors").write_bytes(len(data).to_bytes(8, "little") + data + bytes(64))
        with suppress(UserError):
            model = read_folder(folder)
            to_json([model.parameters, model.vocabulary, model.width, model.files()])

    def line(text: str) -> None:
        with suppress(UserError, TemplateRefused):
            parsed = examples.parse(text.encode("utf-8", "replace"), "a:1")
            if isinstance(parsed, Conversation):
                template.with_answers(parsed.messages)

    def foreign_template(text: str) -> None:
        if "{{" not in text and "{%" not in text:
            return  # a process takes too long for text that is no program
        with suppress(TemplateRefused), TemplateProcess(ChatTemplate(text, {}), cpu_seconds=1) as process:
            list(process.render([messages]))

    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    forms = [
        {"messages": messages},
        {"instruction": "a", "input": "b", "output": "c"},
        {"prompt": "a", "completion": "b"},
    ]
    yield Reader("model's config.json", lambda text: write(text, header), [config], 4)
    yield Reader("model's header", lambda text: write(config, text), [header], 6)
    yield Reader("chat template", foreign_template, TEMPLATES)
    yield Reader("line of examples", line, [json.dumps(form) for form in forms], 6)


def _sample_rows(text: str) -> None:
    taken: list[Sample] = []
    emitted: list[Event] = []
    intake = Intake("a", taken.append, emitted.append)
    reader = RowReader(ReaderState("a", 1.0, ControlClock(), intake, emitted.append))
    for line in text.encode("utf-8", "surrogatepass").split(b"\n"):
        with suppress(ParseError):
            reader.heartbeat()
            reader.take(parse_line(line))
    to_json((taken, emitted))


def _redfish_links(text: str) -> None:
    try:
        resource = json.loads(text)
    except (ValueError, RecursionError):
        return
    if isinstance(resource, dict):
        for name in ("Members", "Systems"):
            paths = [path for path, _ in links_of(resource, name)] + [next_page(resource, name) or "/redfish/"]
            assert all(path.startswith("/redfish/") and path.isprintable() and " " not in path for path in paths)


def _wires(folder: Path) -> Iterator[Reader]:
    recording = folder / "recording"
    (recording / "a").mkdir(parents=True)
    (recording / "a" / "ip_link.1.out").write_bytes(b"[]")
    line = {"key": "ip_link", "command": "ip", "exit": 0, "sent": 1.0, "received": 1.5, "truncated": False}
    line |= {"failure": "", "stderr": "", "stdout": "ip_link.1.out"}
    error = {"error": "LoginRefused", "message": "no", "hint": "x"}

    async def replay() -> None:
        async with replay_connector(recording)(Target(name="a", host="a")) as transport:
            async for _ in transport.run([Command(key="ip_link", script="")]):
                pass

    def index(text: str) -> None:
        (recording / "a" / "index.jsonl").write_text(text, errors="replace")
        with suppress(UserError, DeviceError):
            asyncio.run(replay())

    def message(text: str) -> None:
        decoded = decode(text.encode("utf-8", "replace"))
        if decoded is not None:
            for record in records_of("a", 0, decoded):
                to_json(record)

    def baseline_file(text: str) -> None:
        (folder / "x.baseline.json").write_text(text, errors="replace")
        with suppress(UserError):
            baseline.read(folder / "x.baseline.json")

    def nxapi_answer(text: str) -> None:
        with suppress(DeviceError):
            read_reply(parse_answer(text.encode("utf-8", "surrogatepass"), "s1 port 443").body)

    def slurm(text: str) -> object:
        return [read(_received(text)) for read in (complaint, shown_nodes, shown_reports, shown_shares)]

    entry = {"middle": 1.0, "spread": 0.1, "unit": "Gb/s", "count": 3}
    base = json.dumps({"cluster": "lab", "run": "x", "saved": 1.0, "measures": {"bandwidth|a": entry}})
    lines = [json.dumps(line), json.dumps(error)]
    yield Reader("recording", index, [f"{line}\n" for line in (*lines, "\n".join(lines))], 8)
    yield Reader("rows of a node", _sample_rows, [ROWS], 15)
    yield Reader("message of an agent", message, [json.dumps(record) for record in MESSAGES], 15)
    yield Reader("baseline", baseline_file, [base], 4)
    secret = [
        '{"password": "x", "a": ["token abc123def"]}',
        "password=hunter2 user\n",
        "://user:pw@host/",
        "Bearer abc123def",
    ]
    yield Reader("answer of NX-API", nxapi_answer, NXAPI_ANSWERS, 8)
    yield Reader("links of Redfish", _redfish_links, REDFISH_LINKS, 4)
    yield Reader("output of Slurm", slurm, _texts(CASES / "slurm"), 8)
    yield Reader("scrub", lambda text: scrub(text.encode("utf-8", "replace")), secret, 10)


def _boot_files() -> Iterator[Reader]:
    """Files that configure wrote, as a node has them now."""
    settings = {"eth1": PortSettings(mtu=9000), "r0": PortSettings(mtu=1500, address="10.0.0.1/24")}
    boots = [BootConfig(systemd=True, manager=manager) for manager in ("netplan", "networkd", "ifupdown")]

    def network(text: str) -> None:
        for boot in boots:
            network_files(replace(boot, files={"x": text}), settings)

    seeds = [content for boot in boots for content in network_files(boot, settings).values()]
    yield Reader("network files of configure", network, seeds, 3)
    yield Reader("unit of configure", read_unit, [render_unit({"pfc eth1": ["echo 1", "dcb x"]})], 3)


def _queue() -> Iterator[Reader]:
    def queue(text: str) -> None:
        parse_queue(text)
        parse_kill_wait(text)
        watchdog.read_place(text)
        watchdog.read_job(text)
        watchdog.is_down(text)

    def refused(parse: Callable[[str], object], text: str) -> None:
        with suppress(ParseError):
            parse(text)

    seeds = ["7|RUNNING|node[1-3]|None\n8|PENDING||(Resources)\n", "KillWait                = 5 sec\n"]
    job = "JobId=7 JobName=x JobState=RUNNING Reason=None Requeue=1 Restarts=2 BatchHost=node1 WorkDir=/x\n"
    node = "NodeName=node1 NodeAddr=10.0.0.1 Port=6818 State=DOWN*+NOT_RESPONDING ThreadsPerCore=1\n"
    yield Reader("lists of Slurm", queue, [*seeds, job, node], 6)
    yield Reader("job of Slurm", partial(refused, parse_details), [job], 4)
    yield Reader("answer of sbatch", partial(refused, parse_number), ["7\n", "7;cluster\n"], 4)


def _captures(folder: Path) -> Iterator[Reader]:
    path = folder / "file.pcap"

    def read(text: str) -> None:
        path.write_bytes(text.encode("latin-1", "replace"))
        results = [_recording_or_refusal(path, engine) for engine in ("numpy", "numba")]
        if isinstance(results[0], Recording) and isinstance(results[1], Recording):
            assert differences(results[0], results[1]) == []
            if results[0].total:
                to_json(packets_details(path, {1, results[0].total}))
        else:
            assert results[0] == results[1]

    seeds = [content.decode("latin-1") for content in small_captures()]
    yield Reader("capture file", read, seeds, 12, prepare=cache(partial(read, seeds[0])))


def _recording_or_refusal(path: Path, engine: Literal["numpy", "numba"]) -> Recording | str:
    try:
        return read_recording(path, engine=engine)
    except UserError as refused:
        return refused.message


_OUTPUT = {"input": "show x", "msg": "Success", "code": "200", "body": {"TABLE_x": {"ROW_x": [{"a": 1}]}}}
_REFUSED = {"input": "show x", "msg": "Input CLI command error", "code": "400", "clierror": "  ^\n% Invalid command\n"}
_NXAPI_BODIES = [json.dumps({"ins_api": {"outputs": {"output": output}}}) for output in (_OUTPUT, _REFUSED, [_OUTPUT])]
REDFISH_LINKS = [
    '{"Members": [{"@odata.id": "/redfish/v1/Systems/1"}], "Members@odata.nextLink": "/redfish/v1/Systems?$skip=1"}',
    '{"Systems": {"@odata.id": "/redfish/v1/Systems"}, "Members": [{"@odata.id": "//host/redfish/v1/x"}, 5, null]}',
]
NXAPI_ANSWERS = [
    *(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}" for body in _NXAPI_BODIES),
    *(
        f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n{body}\r\n0\r\n\r\n"
        for body in _NXAPI_BODIES
    ),
    "HTTP/1.1 401 Unauthorized\r\nSet-Cookie: nxapi_auth=x; Secure; HttpOnly;\r\n\r\n",
]
MESSAGES: tuple[dict[str, object], ...] = (
    {"kind": "hello", "pid": 1, "host": "a", "python": "3.11"},
    {
        "kind": "progress",
        "step": 3,
        "loss": 1.5,
        "step_seconds": 0.1,
        "global_tokens_per_second": 9.0,
        "time": 1.0,
        "samples": [0, 4],
    },
    {"kind": "checkpoint", "step": 3, "seconds": 0.5, "hash": "x"},
    {"kind": "error", "sentence": "it failed", "peer": True},
    {
        "kind": "transport",
        "engine": "gloo",
        "reason": "no RDMA",
        "trials": [{"engine": "mpi", "size": 1, "seconds": [0.1]}],
    },
    {"kind": "shares", "sentence": "a does more", "cost": "1 %"},
    {"kind": "resumed", "step": 1},
    {"kind": "rank_done", "step": 9},
)

"""Exports are complete or absent when they are killed; captures and benchmarks leave nothing on nodes."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from railbed.capture.node.tcpdump import PLACES, PREFIX
from tests.support.benchsite import write_suite
from tests.support.cli import Result
from tests.support.kills.scenario import Killed, Scenario
from tests.support.labs import RunningLab
from tests.support.ranks import wait_for

MTU = 9000
GONE_SECONDS = 60.0
EXPERIMENT = """\
description: what does a small MTU cost
repeats: 3
a: {name: small, change: {mtu: 1500}}
b: {name: large}
comparisons:
  - {measure: round_trip, a: {test: ping, samples: 5, pattern: pair, direction: one}, \
b: {test: ping, samples: 5, pattern: pair, direction: one}}
"""


@dataclass
class ExportKilled(Scenario):
    """Weights of a run that is done, in the form of transformers or of llama.cpp."""

    options: Sequence[str] = ()
    expected: dict[str, bytes] = field(default_factory=dict)

    @property
    def arguments(self) -> Sequence[str]:
        return ["export", self.run_name, "weights", *self.options]

    @property
    def run_name(self) -> str:
        """The run whose weights are exported."""
        return next(path.name for path in sorted((self.folder / "runs").glob("*-train")))

    def clean(self) -> None:
        for path in (self.folder / "runs").glob("*-export*"):
            shutil.rmtree(path)
        for path in [*self.folder.glob("weights*"), *self.folder.glob(".weights*")]:
            shutil.rmtree(path)

    def succeeded(self, result: Result) -> bool:
        if result.code == 0:
            self.expected = self.content()
            self.on_node = self.node_files()
            self.beside = self.entries()
        return result.code == 0

    def content(self) -> dict[str, bytes]:
        """Return the files of the export."""
        return {path.name: path.read_bytes() for path in (self.folder / "weights").iterdir()}

    def node_files(self) -> list[str]:
        """Return what the node stores."""
        return sorted(str(path) for path in (self.folder / "work").rglob("*"))

    def entries(self) -> list[str]:
        """Return what is beside the export."""
        return sorted(path.name for path in self.folder.iterdir())

    def verify(self, killed: Killed) -> None:
        was_complete = (self.folder / "weights").exists()
        if was_complete:
            assert self.visible(self.content()) == self.visible(self.expected), "it is damaged"
        words = self.assert_listed(killed)[1:]
        result = self.railbed(*words)
        if was_complete:
            assert (result.code, "weights is not empty" in result.err) == (2, True), result
        else:
            assert result.code == 0, result
            assert self.content() == self.expected
        assert self.node_files() == self.on_node, (
            f"the node has other files: {sorted({*self.node_files()} ^ {*self.on_node})}"
        )
        assert self.entries() == self.beside

    @staticmethod
    def visible(files: dict[str, bytes]) -> dict[str, bytes]:
        """Return the files without the mark of an export that was killed when it was complete."""
        return {name: content for name, content in files.items() if not name.startswith(".")}


@dataclass
class CaptureKilled(Scenario):
    """A capture on all nodes."""

    site: RunningLab = field(kw_only=True)

    @property
    def arguments(self) -> Sequence[str]:
        return ["capture", "-c", "cluster.yaml", "--for", "2", "--rail", "rail0"]

    def succeeded(self, result: Result) -> bool:
        captured = [record for record in result.records if record.get("name") == "port_captured"]
        return result.code in (0, 1) and len(captured) == len(self.site.status()["states"])

    def prepare(self) -> None:
        self.before = self.recordings()

    @staticmethod
    def recordings() -> set[Path]:
        """Return the folders of recordings, which nodes share with this machine."""
        return {path for place in PLACES for path in Path(place).glob(f"{PREFIX}*")}

    def verify(self, killed: Killed) -> None:
        words = self.assert_listed(killed)
        # Captures of others on this machine come and go; one that nobody removes would stay until the next capture.
        wait_for(lambda: not self.recordings() - self.before, GONE_SECONDS)
        assert self.succeeded(result := self.railbed(*words[1:])), result


@dataclass
class BenchKilled(Scenario):
    """A suite, and an experiment that changes the MTU of the nodes meanwhile."""

    site: RunningLab = field(kw_only=True)
    experiment: bool = False

    def __post_init__(self) -> None:
        write_suite(self.folder, "test: ping, samples: 5", "test: iperf3, seconds: 1, pattern: ring, direction: one")
        (self.folder / "experiment.yaml").write_text(EXPERIMENT)

    @property
    def arguments(self) -> Sequence[str]:
        what = ["--experiment", "experiment.yaml"] if self.experiment else ["suite.yaml"]
        return ["bench", *what, "-c", "cluster.yaml"]

    def succeeded(self, result: Result) -> bool:
        measured = [record for record in result.records if record["kind"] == "measurement"]
        return result.code in (0, 1) and len(measured) > 5

    def verify(self, killed: Killed) -> None:
        words = self.assert_listed(killed)
        for node in self.site.status()["states"]:
            assert int(self.site.run_inside(node, "cat /sys/class/net/rail0/mtu").out) == MTU, node
        checked = self.railbed("check", "pending_change", "-c", "cluster.yaml", "--json")
        assert (checked.code, checked.problems) == (0, [])
        assert self.succeeded(result := self.railbed(*words[1:])), result

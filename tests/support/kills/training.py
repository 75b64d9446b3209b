"""A training that is killed continues from its newest checkpoint; a model on its way to the nodes arrives."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest

from tests.support.basemodels import write_base, write_conversations
from tests.support.cli import Result
from tests.support.kills.scenario import Killed, Scenario
from tests.support.labs import RunningLab
from tests.support.training import losses

STEPS = 60
ROUNDING = 1e-5
"""Ranks sum in another order after a restart."""
MEGABYTES = 24


def next_with_records(scenario: Scenario, killed: Killed) -> Result:
    """Run the command that `runs` advises after a kill, and return its records."""
    words = scenario.assert_listed(killed)[1:]
    return scenario.railbed(*words, *([] if "--json" in words else ["--json"]))


@dataclass
class TrainKilled(Scenario):
    """A training on nodes that share a disk."""

    undisturbed: dict[int, float] = field(default_factory=dict)

    @property
    def arguments(self) -> Sequence[str]:
        return ["train", "small.yaml", "-c", "cluster.yaml", "--set", f"steps={STEPS}", "--sample", "1"]

    def clean(self) -> None:
        super().clean()
        shutil.rmtree(self.folder / ".railbed", ignore_errors=True)

    def succeeded(self, result: Result) -> bool:
        self.undisturbed = losses(result.records)
        return result.code == 0 and STEPS in self.undisturbed

    def verify(self, killed: Killed) -> None:
        saved = max((event["data"]["step"] for event in killed.events("checkpoint")), default=0)
        result = next_with_records(self, killed)
        assert result.code == 0, result.err[-2000:]
        resumed = [event["data"]["step"] for event in result.records if event.get("name") == "resumed"]
        begins = resumed[0] if resumed else 0
        assert begins >= saved, f"the checkpoint of step {saved} is lost: it resumed from {resumed}"
        computed = {**losses(killed.records), **losses(result.records)}
        assert STEPS in computed
        for step, loss in losses(result.records).items():
            assert loss == pytest.approx(self.undisturbed[step], rel=ROUNDING), step


@dataclass
class ShipKilled(Scenario):
    """A large model on its way to nodes that have disks of their own."""

    middle: ClassVar = "progress"
    site: RunningLab = field(kw_only=True)
    nodes: Sequence[str] = field(kw_only=True)

    def __post_init__(self) -> None:
        self.base = write_base(self.folder / "llama", "llama")
        notes = random.Random(7).randbytes(MEGABYTES * 10**6)  # noqa: S311
        (self.base / "notes.txt").write_bytes(notes)
        self.chats = write_conversations(self.folder / "chats.jsonl")

    @property
    def arguments(self) -> Sequence[str]:
        settings = [f"model.path={self.base}", f"data.files=[{self.chats}]", "steps=2", "threads=1"]
        settings += ["model.context=96", "batch.sequences=4"]
        options = ["-c", "cluster.yaml", "--sample", "0", "--no-check"]
        return ["train", "lora", *(word for setting in settings for word in ("--set", setting)), *options]

    def clean(self) -> None:
        super().clean()
        for node in self.nodes:
            assert self.site.run_inside(node, f"rm -rf {self.folder}/work/.railbed").code == 0

    def verify(self, killed: Killed) -> None:
        words = self.assert_listed(killed)[1:]
        partial = any(self.site.run_inside(node, self._look("partial")).out for node in self.nodes)
        result = self.railbed(*words, *([] if "--json" in words else ["--json"]))
        assert result.code == 0, (result.code, result.problems, result.err[-2000:], result.out[-1000:])
        copied = [event["data"] for event in result.records if event.get("name") == "files_copied"]
        if partial:
            assert sum(event["continued"] for event in copied) > 0, f"it began again: {json.dumps(copied)}"
        expected = self.site.run_inside(self.nodes[0], f"cd {self.base} && sha256sum notes.txt").out
        for node in self.nodes:
            stored = self.site.run_inside(node, f"cd {self.folder}/work/.railbed/models/* && sha256sum notes.txt")
            assert (stored.code, stored.out) == (0, expected), node
            assert self.site.run_inside(node, self._look("partial")).out == "", "parts are left"

    def _look(self, name: str) -> str:
        return f"find {self.folder}/work/.railbed/{name} -type f -size +1M 2>/dev/null"


def own_disks(lab: RunningLab, nodes: Sequence[str], work: Path) -> None:
    """Give each node a disk of its own below its working folder."""
    work.mkdir(mode=0o700)
    text = lab.cluster.read_text()
    assert f"workdir: {lab.folder}\n" in text
    lab.cluster.write_text(text.replace(f"workdir: {lab.folder}\n", f"workdir: {work}\n"))
    for node in nodes:
        assert lab.run_inside(node, f"mount -t tmpfs -o mode=700 tmpfs {work}").code == 0

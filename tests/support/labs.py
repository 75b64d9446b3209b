"""Labs for tests: brought up by the command line, and always taken down.

Bringing one up is slow, so all tests of a kind share one lab: the fixtures `netns_lab` and `vm_lab` in conftest.py. A
test leaves it as it was, with every node up and no fault in force.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from railbed import clusterfile
from tests.support import namespaces
from tests.support.background import Background
from tests.support.cli import RAILBED, Result, environment, railbed
from tests.support.connections import Connections

UP_SECONDS = 1200.0
BACKGROUND_SECONDS = 300
SWITCH_PASSWORD = "of-the-emulated-switch-9f3c"  # noqa: S105 - of a switch that exists for the tests


@dataclass(frozen=True)
class RunningLab:
    """A lab that is up."""

    name: str
    cluster: Path
    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    """Of the environment of every command."""
    after_healing: list[Callable[[], None]] = field(default_factory=list)
    connections: Connections | None = None
    """To the nodes of a vm lab."""

    def railbed(self, *arguments: str | Path) -> Result:
        """Run a verb on the lab's cluster."""
        return call(self.folder, *arguments, "--cluster", self.cluster, **self.variables)

    def fault(self, *arguments: str) -> Result:
        """Run `lab fault` on it."""
        result = call(self.folder, "lab", "fault", *arguments, "--name", self.name, **self.variables)
        if arguments[0] == "heal":
            for act in self.after_healing:
                act()
        return result

    def shell(self, node: str, *command: str) -> Result:
        """Run a command on a node as a person does."""
        return call(self.folder, "lab", "shell", node, "--name", self.name, "--", *command)

    def run_inside(self, node: str, command: str) -> Result:
        """Run a command on a node without a login, for tests that ask often."""
        shared = self.connections
        done = shared.run(node, command) if shared else namespaces.run_inside(self.name, node, command)
        return Result(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def in_background(self, node: str, command: str, ready: str) -> Iterator[subprocess.Popen[str]]:
        """Run a command on a node of a vm lab, and continue when another command there succeeds."""
        wait = f"while kill -0 $! && ! {ready}; do sleep 0.1; done 2>/dev/null"
        script = f"timeout {BACKGROUND_SECONDS} {command} & {wait}; echo started; wait $!"
        assert self.connections
        with self.connections.start(node, script) as process:
            assert process.stdout is not None
            output = list(takewhile(lambda line: line != "started\n", process.stdout))
            assert process.poll() is None, output
            yield process

    def file_inside(self, node: str, path: str) -> Path:
        """Return a file of a node of a netns lab as this machine sees it, for tests that wait for it."""
        return Path(f"/proc/{namespaces.first_process(self.name, node)}/root{path}")

    def start_shell(self, node: str, *command: str) -> subprocess.Popen[str]:
        """Start a command on a node without waiting for it; its standard input and output are pipes."""
        words = [RAILBED, "lab", "shell", node, "--name", self.name, "--", *command]
        return _started(words, environment(**cache_variables()))

    def start_inside(self, node: str, command: str) -> subprocess.Popen[str]:
        """Start a command on a node of a netns lab without waiting for it; its standard input and output are pipes."""
        return _started(namespaces.command_inside(self.name, node, command), namespaces.environment())

    def seen_from(
        self,
        folder: Path,
        *,
        nodes: int | None = None,
        rails: Collection[str] = ("rail0",),
        workdir: Path | None = None,
        python: Path | None = None,
    ) -> RunningLab:
        """Return the lab with another working folder, whose cluster.yaml has only some of its nodes and rails."""
        cluster = clusterfile.load(self.cluster)
        other = {"python": str(python)} if python else {}
        names = list(cluster.nodes)[:nodes]
        changed = cluster.model_copy(
            update={
                "rails": {name: rail for name, rail in cluster.rails.items() if name in rails},
                "nodes": {
                    name: node.model_copy(
                        update={"ports": tuple(port for port in node.ports if port.rail in rails), **other}
                    )
                    for name, node in cluster.nodes.items()
                    if name in names
                },
                "switches": {
                    name: switch.model_copy(
                        update={
                            "ports": tuple(end for end in switch.ports if end.netdev in rails and end.node in names)
                        }
                    )
                    for name, switch in cluster.switches.items()
                },
                "training": cluster.training.model_copy(update={"workdir": str(workdir)} if workdir else {}),
            }
        )
        (folder / "cluster.yaml").write_text(clusterfile.dumps(changed))
        return replace(self, cluster=folder / "cluster.yaml", folder=folder)

    def heal(self) -> None:
        """End all faults; every node is up afterwards."""
        healed = self.fault("heal")
        assert healed.code == 0, healed
        status = self.status()
        assert status["faults"] == []
        assert set(status["states"].values()) == {"up"}

    def verdicts(self, *rules: str, seconds: int = 120) -> dict[tuple[str, str], str]:
        """Return the verdicts of rules, by rule and subject, after waiting at most so long for a node."""
        findings = self.railbed("check", *rules, "--json", "--timeout", str(seconds)).findings
        return {(finding["check"], finding["subject"]): finding["verdict"] for finding in findings}

    def failing(self, *rules: str, seconds: int = 120) -> set[tuple[str, str]]:
        """Return the rules that fail, with their subjects."""
        return {key for key, verdict in self.verdicts(*rules, seconds=seconds).items() if verdict == "fail"}

    def status(self) -> dict[str, Any]:
        """Return the status that `lab status` reports."""
        records = call(self.folder, "lab", "status", "--json").records
        (data,) = [record["data"] for record in records if record["subject"] == self.name]
        assert isinstance(data, dict)
        return data


def _started(words: list[str], env: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        words,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def cache_variables() -> dict[str, str]:
    """Return the environment variables with the folders of labs and images."""
    return {name: os.environ[name] for name in ("RAILBED_CACHE",) if name in os.environ}


def call(folder: Path, *arguments: str | Path, **variables: str) -> Result:
    """Run `railbed` with the cache of whoever runs the tests: labs share a machine, and images are made once."""
    return railbed(folder, *arguments, stdin=b"", timeout=UP_SECONDS, **{**cache_variables(), **variables})


@contextmanager
def running_lab(folder: Path, *options: str, **variables: str) -> Iterator[RunningLab]:
    """Bring up a lab with a new name, and take it down; with further variables for its commands."""
    if os.geteuid() != 0:
        pytest.skip("labs need root")
    name = f"test-{secrets.token_hex(3)}"
    result = call(folder, "lab", "up", "--name", name, *options, "--json", **variables)
    if result.code == 3 and "lab needs" in result.err:
        pytest.skip(result.err)
    assert result.code == 0, result
    connections = Connections(name) if "vm" in options else None
    try:
        cluster = Path(result.records[-1]["data"]["cluster"])
        yield RunningLab(name, cluster, folder, variables, connections=connections)
    finally:
        if connections:
            connections.close()
        down = call(folder, "lab", "down", "--name", name)
        assert down.code == 0, down


def end_up_at(event: str, number: signal.Signals, folder: Path, *options: str, **variables: str) -> None:
    """Bring up a lab, and end that with a signal as soon as an event is reported."""
    with Background(["lab", "up", *options, "--json"], cwd=folder, env=environment(**variables)) as process:
        next(line for line in process.stdout if json.loads(line)["name"] == event)
        process.send_signal(number)
        process.wait(timeout=UP_SECONDS)

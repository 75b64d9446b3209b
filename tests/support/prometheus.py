"""Debian's Prometheus server and promtool."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.support.ports import free_port

T = TypeVar("T")
SECONDS = 120.0
"""A server that takes longer hangs."""


def program(name: str) -> str:
    """Return the path of a program of Prometheus; `make setup-dev` fetches both."""
    path = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run promtool."""
    words = [program("promtool"), *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)


@dataclass(frozen=True)
class Prometheus:
    """A running server."""

    url: str

    def get(self, path: str, **parameters: str) -> Any:
        """Return the data of an answer of its API."""
        query = urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=30) as response:  # noqa: S310
                answer = json.load(response)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path} {parameters}: {error.read().decode()}") from error
        assert answer["status"] == "success", answer
        return answer["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the result of an expression now: series with their newest value."""
        result: list[dict[str, Any]] = self.get("query", query=expression)["result"]
        return result


def wait_for(condition: Callable[[], T]) -> T:
    """Wait until a condition is true, and return it."""
    deadline = time.monotonic() + SECONDS
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.2)
    return value


@contextmanager
def running_prometheus(config: Path, folder: Path) -> Iterator[Prometheus]:
    """Start a server with this configuration, on a free port of loopback, and end it."""
    port = free_port()
    words = [
        program("prometheus"),
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    with (folder / "prometheus.log").open("wb") as log, subprocess.Popen(words, stdout=log, stderr=log) as process:
        try:
            server = Prometheus(f"http://127.0.0.1:{port}")
            wait_for(lambda: _is_ready(server, process, folder))
            yield server
        finally:
            process.terminate()
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()


def _is_ready(server: Prometheus, process: subprocess.Popen[bytes], folder: Path) -> bool:
    assert process.poll() is None, (folder / "prometheus.log").read_text()
    try:
        with urllib.request.urlopen(f"{server.url}/-/ready", timeout=5) as response:  # noqa: S310
            return bool(response.status == 200)
    except OSError:
        return False

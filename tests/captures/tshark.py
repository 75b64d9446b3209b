"""Debian's tshark, as a referee: what it says about the packets of a file."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

SECONDS = 300
OPTIONS = ("-n", "-o", "ip.defragment:FALSE", "-o", "ipv6.defragment:FALSE")


def program() -> str:
    """Return the path of tshark, or skip the test."""
    path = shutil.which("tshark")
    if path is None:
        pytest.skip("tshark is not installed")
    return path


def fields_of(path: Path, names: Iterable[str]) -> list[dict[str, list[str]]]:
    """Return the fields of every packet, each with all its occurrences from the outside in."""
    listed = list(names)
    words = [program(), *OPTIONS, "-r", str(path), "-T", "fields", "-E", "separator=/t", "-E", "aggregator=;"]
    for name in listed:
        words += ["-e", name]
    done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    return [{name: value.split(";") if value else [] for name, value in zip(listed, row, strict=True)} for row in rows]

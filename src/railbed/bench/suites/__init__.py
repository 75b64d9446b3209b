"""The built-in suites, as YAML files beside this one, and how to load a suite."""

from __future__ import annotations

from pathlib import Path

from railbed.bench.builtin import HINT, load_from, names_in
from railbed.bench.suite import Suite
from railbed.errors import SuiteError
from railbed.yamlfile.kind import FileKind

FOLDER = Path(__file__).parent
SUITE_FILE = FileKind(
    noun="a suite",
    model=Suite,
    error=SuiteError,
    keys="description and steps",
    hint=HINT,
    habits={"duration": "seconds", "time": "seconds", "size": "sizes", "iterations": "samples", "parallel": "streams"},
)


def names() -> list[str]:
    """Return the names of the built-in suites."""
    return names_in(FOLDER)


def load(name_or_path: str) -> Suite:
    """Return a suite by its name or file; raise SuiteError."""
    return load_from(FOLDER, name_or_path, Suite, SUITE_FILE)

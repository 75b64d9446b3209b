"""The built-in experiments, as YAML files beside this one, and how to load an experiment."""

from __future__ import annotations

from pathlib import Path

from railbed.bench.builtin import HINT, load_from, names_in
from railbed.bench.compare.experiment import Experiment
from railbed.errors import SuiteError
from railbed.yamlfile.kind import FileKind

FOLDER = Path(__file__).parent
EXPERIMENT_FILE = FileKind(
    noun="an experiment",
    model=Experiment,
    error=SuiteError,
    keys="a, b and comparisons",
    hint=HINT,
)


def names() -> list[str]:
    """Return the names of the built-in experiments."""
    return names_in(FOLDER)


def load(name_or_path: str) -> Experiment:
    """Return an experiment by its name or file; raise SuiteError."""
    return load_from(FOLDER, name_or_path, Experiment, EXPERIMENT_FILE)

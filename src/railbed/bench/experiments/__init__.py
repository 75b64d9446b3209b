"""Experiments: those that come with railbed, as files beside this one, and how one is loaded."""

from __future__ import annotations

from pathlib import Path

from railbed.bench.compare.experiment import Experiment
from railbed.errors import SuiteError
from railbed.yamlfile.document import parse
from railbed.yamlfile.kind import FileKind
from railbed.yamlfile.mistakes import did_you_mean, refusal
from railbed.yamlfile.read import BYTE_ORDER_MARK, read_text, validated

FOLDER = Path(__file__).parent
EXPERIMENT_FILE = FileKind(
    noun="an experiment",
    model=Experiment,
    error=SuiteError,
    keys="a, b and comparisons",
    hint="`railbed bench --list` shows those that come with railbed",
)


def names() -> list[str]:
    """Return the experiments that come with railbed."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(wanted: str) -> Experiment:
    """Return an experiment by its name or file; raise SuiteError."""
    path = FOLDER / f"{wanted}.yaml" if wanted in names() else Path(wanted).expanduser()
    if wanted not in names() and path.suffix not in {".yaml", ".yml"} and not path.exists():
        advice = did_you_mean(wanted, names()) or f"; there are {', '.join(names())}, and files ending in .yaml"
        raise SuiteError(f"there is no experiment {wanted}{advice}", hint=EXPERIMENT_FILE.hint)
    document = parse(read_text(path, EXPERIMENT_FILE).removeprefix(BYTE_ORDER_MARK), str(path), EXPERIMENT_FILE)
    mistakes = list(document.mistakes)
    experiment = validated(Experiment, document.value, document, EXPERIMENT_FILE, mistakes)
    if mistakes or experiment is None:
        raise refusal(EXPERIMENT_FILE, str(path), mistakes)
    return experiment

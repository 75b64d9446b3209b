"""Suites: those that come with railbed, as files beside this one, and how a suite is loaded."""

from __future__ import annotations

from pathlib import Path

from railbed.bench.suite import Suite
from railbed.errors import SuiteError
from railbed.yamlfile.document import parse
from railbed.yamlfile.kind import FileKind
from railbed.yamlfile.mistakes import did_you_mean, refusal
from railbed.yamlfile.read import BYTE_ORDER_MARK, read_text, validated

FOLDER = Path(__file__).parent
SUITE_FILE = FileKind(
    noun="a suite",
    model=Suite,
    error=SuiteError,
    keys="description and steps",
    hint="`railbed bench --list` shows those that come with railbed",
    habits={"duration": "seconds", "time": "seconds", "size": "sizes", "iterations": "samples", "parallel": "streams"},
)


def names() -> list[str]:
    """Return the suites that come with railbed."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(wanted: str) -> Suite:
    """Return a suite by its name or file; raise SuiteError."""
    path = FOLDER / f"{wanted}.yaml" if wanted in names() else Path(wanted).expanduser()
    if wanted not in names() and path.suffix not in {".yaml", ".yml"} and not path.exists():
        advice = did_you_mean(wanted, names()) or f"; there are {', '.join(names())}, and files ending in .yaml"
        raise SuiteError(f"there is no suite {wanted}{advice}", hint=SUITE_FILE.hint)
    document = parse(read_text(path, SUITE_FILE).removeprefix(BYTE_ORDER_MARK), str(path), SUITE_FILE)
    mistakes = list(document.mistakes)
    suite = validated(Suite, document.value, document, SUITE_FILE, mistakes)
    if mistakes or suite is None:
        raise refusal(SUITE_FILE, str(path), mistakes)
    return suite

"""From a file to a cluster, or to one error that tells all that is wrong with it."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from railbed.clusterfile.document import DISCOVER_HINT, MAX_CHARACTERS, Document, parse
from railbed.clusterfile.mistakes import Mistake, refusal
from railbed.clusterfile.semantics import disagreements
from railbed.clusterfile.translate import translated
from railbed.errors import ClusterFileError
from railbed.model.cluster import Cluster

BYTE_ORDER_MARK = "\ufeff"


def load(path: Path) -> Cluster:
    """Read a cluster file; raise ClusterFileError with every mistake, one to a line."""
    return loads(read_text(path), name=str(path))


def loads(text: str, *, name: str) -> Cluster:
    """Read the text of a cluster file; `name` stands in the messages."""
    document = parse(text.removeprefix(BYTE_ORDER_MARK), name)
    mistakes = list(document.mistakes)
    cluster = _validated(document, mistakes)
    mistakes += _between_parts(document)
    if mistakes or cluster is None:
        raise refusal(name, mistakes)
    return cluster


def read_text(path: Path) -> str:
    """Return the text of a cluster file; raise ClusterFileError where there is none to read."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_CHARACTERS + 1)
        if len(data) > MAX_CHARACTERS:
            raise _unreadable(path, "larger than 1 MiB; a cluster file is not")
        return data.decode("utf-8")
    except FileNotFoundError:
        raise _unreadable(path, "there is no such file", hint=DISCOVER_HINT) from None
    except IsADirectoryError:
        raise _unreadable(path, "is a folder, not a cluster file") from None
    except PermissionError:
        raise _unreadable(path, "may not be read by you", hint=f"ls -l {path} shows who may") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise refusal(str(path), [Mistake("not UTF-8 text; save the file as UTF-8", line)]) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise _unreadable(path, f"cannot be read: {reason or error}") from None


def _unreadable(path: Path, sentence: str, *, hint: str = "") -> ClusterFileError:
    return refusal(str(path), [Mistake(sentence)], hint=hint)


def _validated(document: Document, mistakes: list[Mistake]) -> Cluster | None:
    try:
        return Cluster.model_validate(document.value)
    except ValidationError as errors:
        refused = {mistake.path for mistake in document.mistakes}
        mistakes += (mistake for mistake in translated(document, errors) if mistake.path not in refused)
        return None


def _between_parts(document: Document) -> list[Mistake]:
    assert isinstance(document.value, dict)
    return [Mistake(sentence, document.line(path), path) for path, sentence in disagreements(document.value)]

"""From a file to its text, and from the values in it to the kind's model."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from railbed.errors import UserError
from railbed.yamlfile.document import MAX_CHARACTERS, YamlDocument, too_large
from railbed.yamlfile.kind import FileKind
from railbed.yamlfile.mistakes import Mistake, refusal
from railbed.yamlfile.translate import translate_errors

M = TypeVar("M", bound=BaseModel)
BYTE_ORDER_MARK = "\ufeff"


def read_text(path: Path, kind: FileKind) -> str:
    """Return the text of a file; raise the kind's error if it cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_CHARACTERS + 1)
        if len(data) > MAX_CHARACTERS:
            raise refusal(kind, str(path), [too_large(kind.noun)])
        return data.decode("utf-8")
    except FileNotFoundError:
        raise _unreadable(path, kind, "there is no such file", hint=kind.hint) from None
    except IsADirectoryError:
        raise _unreadable(path, kind, f"is a folder, not {kind.noun}") from None
    except PermissionError:
        raise _unreadable(path, kind, "no permission to read it", hint=f"`ls -l {path}` shows who has") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise refusal(kind, str(path), [Mistake("not UTF-8 text; save the file as UTF-8", line)]) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise _unreadable(path, kind, f"cannot be read: {reason or error}") from None


def _unreadable(path: Path, kind: FileKind, sentence: str, *, hint: str = "") -> UserError:
    return refusal(kind, str(path), [Mistake(sentence)], hint=hint)


def validate(
    model: type[M], values: object, document: YamlDocument, kind: FileKind, mistakes: list[Mistake]
) -> M | None:
    """Return the values as the model; if they are invalid, add to the mistakes and return None."""
    try:
        return model.model_validate(values)
    except ValidationError as errors:
        refused = {mistake.path for mistake in document.mistakes}
        mistakes += (mistake for mistake in translate_errors(document, errors, kind) if mistake.path not in refused)
        return None

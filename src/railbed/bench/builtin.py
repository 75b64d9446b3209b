"""Load suites and experiments: built-in ones by name, the user's own by path."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from railbed.model.text import exists, expand_home
from railbed.yamlfile.document import parse
from railbed.yamlfile.kind import FileKind
from railbed.yamlfile.mistakes import did_you_mean, refusal
from railbed.yamlfile.read import BYTE_ORDER_MARK, read_text, validate

M = TypeVar("M", bound=BaseModel)
HINT = "`railbed bench --list` shows the built-in ones"


def names_in(folder: Path) -> list[str]:
    """Return the names of the built-in files of a folder."""
    return sorted(path.stem for path in folder.glob("*.yaml"))


def load_from(folder: Path, name_or_path: str, model: type[M], kind: FileKind) -> M:
    """Return a built-in file by name, or any file by path; raise the kind's error."""
    names = names_in(folder)
    path = folder / f"{name_or_path}.yaml" if name_or_path in names else expand_home(name_or_path)
    if name_or_path not in names and path.suffix not in {".yaml", ".yml"} and not exists(path):
        noun = kind.noun.partition(" ")[2]
        advice = did_you_mean(name_or_path, names) or f"; choose {', '.join(names)}, or a file ending in .yaml"
        raise kind.error(f"there is no {noun} {name_or_path}{advice}", hint=kind.hint)
    document = parse(read_text(path, kind).removeprefix(BYTE_ORDER_MARK), str(path), kind)
    mistakes = list(document.mistakes)
    value = validate(model, document.value, document, kind, mistakes)
    if mistakes or value is None:
        raise refusal(kind, str(path), mistakes)
    return value

"""From text files to memory-mapped tokens, cached by content: the same text is tokenised once.

    CACHE/tokens-<hash>/{tokens.bin, tokens.json, tokenizer.json, tokenizer_config.json, manifest.json}

The texts are in the order of their hashes, which is as good as random and the same everywhere; the last part of them
is for validation.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import shutil
import sysconfig
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from railbed.errors import CheckpointDamaged, DataError, os_reason
from railbed.model.private import make_private
from railbed.model.text import plural
from railbed.store.cache import refuse_foreign, refuse_planted
from railbed.train.base.files import CHAT_TEMPLATE, TOKENIZER, TOKENIZER_CONFIG
from railbed.train.data import tokenizer as bpe
from railbed.train.data.rows import write_windows
from railbed.train.data.sampling import window_count
from railbed.train.data.tokenizer import Report, run_interruptibly
from railbed.train.recipe import Data, Recipe
from railbed.train.state.checkpoints import Written, read_sealed, seal, write_synced

FORMAT = 1
HEAD_BYTES = 64 << 10
NOT_SOURCE = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "ensurepip", "pydoc_data"}
NOT_SOURCE |= {"encodings"}  # tables of characters, and a fifth of all tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedData:
    """A text as tokens, in a folder that can be copied to the nodes."""

    folder: Path
    hash: str
    tokens: int
    train: int
    """Tokens, or rows, to train on; the rest is for validation."""
    vocabulary: int
    end_of_text: int
    dtype: str
    texts: int
    skipped: int
    """Files in the folders that are not text."""
    layout: str = "windows"
    """`windows` of one long text, or `rows` of documents (`rows.py`); then `train` counts rows."""
    rows: int = 0
    trained: int = 0
    """Tokens that are trained, in rows."""
    context: int = 0
    cut: int = 0
    """Examples that were longer than a row."""
    unused: int = 0
    """Examples without a token to train, once cut."""


def prepare(recipe: Recipe, cache: Path, report: Report = lambda *_: None) -> PreparedData:
    """Tokenise a recipe's text, or use the cached tokens; raise DataError if the text cannot be used."""
    texts, skipped = _texts(recipe.data, report)
    wanted = recipe.model.vocabulary
    vocabulary = bpe.DEFAULT_VOCABULARY if wanted == "auto" else wanted
    key = _key(texts, recipe, vocabulary)
    folder = cache / f"tokens-{key[:16]}"
    refuse_planted(folder)
    if not _is_whole(folder):
        _make(folder, key, texts, recipe, vocabulary, report=report)
    about = json.loads((folder / "tokens.json").read_text())
    prepared = PreparedData(folder=folder, skipped=skipped, **about)
    _check(prepared, recipe)
    return prepared


def standard_library() -> list[Path]:
    """Return the source files of Python's standard library on this machine."""
    root = Path(sysconfig.get_paths()["stdlib"])
    sources = [path for path in sorted(root.rglob("*.py")) if not NOT_SOURCE.intersection(path.relative_to(root).parts)]
    if not sources:
        hint = "use your own files: --set data.files=[PATH]"
        raise DataError(f"the source of Python's standard library is not at {root}", hint=hint)
    return sources


def _check(prepared: PreparedData, recipe: Recipe) -> None:
    context, wanted = recipe.model.context, recipe.model.vocabulary
    if prepared.layout == "rows":
        return
    if window_count(prepared.train, context) < 1:
        raise DataError(
            f"the text is too short: it has {prepared.train} tokens to train on, and a sequence needs {context + 1}"
        )
    if wanted != "auto" and prepared.vocabulary > wanted:
        hint = "--set model.vocabulary=auto uses the size of the tokenizer's"
        raise DataError(f"the tokenizer has {prepared.vocabulary} tokens, the model only {wanted}", hint=hint)


def _texts(data: Data, report: Report) -> tuple[dict[str, Path], int]:
    """Return the text files by hash, in the order of the hashes, and how many files were skipped."""
    report("searching for text files", 0, 0)
    files, skipped = _files(data.files)
    sources: dict[str, Path] = {}
    for number, path in enumerate(files):
        report("reading the text", number, len(files))
        sources[_sha256(path)] = path
    return dict(sorted(sources.items())), skipped


def _files(named: Sequence[str]) -> tuple[list[Path], int]:
    if not named:
        return standard_library(), 0
    files: list[Path] = []
    skipped = 0
    for name in named:
        path = Path(name)
        if path.is_dir():
            text, others = _inside(path)
            files += text
            skipped += others
        elif not path.exists():
            raise DataError(f"there is no file or folder {path}")
        elif not _is_text(path):
            raise DataError(f"{path} is not text: it has bytes that are not UTF-8")
        elif path.stat().st_size == 0:
            raise DataError(f"{path} is empty")
        else:
            files.append(path)
    return files, skipped


def _inside(folder: Path) -> tuple[list[Path], int]:
    every = [path for path in sorted(folder.rglob("*")) if path.is_file() and not _is_hidden(path, folder)]
    full = [path for path in every if path.stat().st_size > 0]
    text = [path for path in full if _is_text(path)]
    if not every:
        raise DataError(f"the folder {folder} is empty")
    if not text:
        raise DataError(f"the folder {folder} has no text: {plural(len(every), 'file')}, all binary or empty")
    return text, len(every) - len(text)


def _is_hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def _is_text(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return b"\0" not in head


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


def _key(texts: Iterable[str], recipe: Recipe, vocabulary: int) -> str:
    """Return the hash of everything that the tokens depend on."""
    data, base = recipe.data, recipe.model.base_folder
    if base is not None:
        # Imported here and below because it loads numpy, which starts a thread, and `--detach` forks.
        from railbed.train.data.tuning import rows_key

        return rows_key(texts, recipe, base)
    tokenizer: object = vocabulary
    if data.tokenizer is not None:
        tokenizer = hashlib.sha256(bpe.open_tokenizer(Path(data.tokenizer)).to_str().encode()).hexdigest()
    content = json.dumps([FORMAT, list(texts), tokenizer, data.validation])
    return hashlib.sha256(content.encode()).hexdigest()


def _is_whole(folder: Path) -> bool:
    """Whether the folder still has exactly the files that were written."""
    try:
        return read_sealed(folder).size > 0
    except CheckpointDamaged:
        return False


def _make(folder: Path, key: str, texts: dict[str, Path], recipe: Recipe, vocabulary: int, *, report: Report) -> None:
    """Write the folder under a temporary name, and rename it."""
    try:
        make_private(folder.parent)
        refuse_foreign(folder.parent)
        beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise DataError(f"the tokens cannot be written to {folder.parent}: {os_reason(error)}") from None
    base = recipe.model.base_folder
    try:
        if base is None:
            tokenizer, about = run_interruptibly(
                lambda report: write_windows(beside, texts.values(), recipe.data, vocabulary, report), report
            )
        else:
            from railbed.train.data.tuning import write_rows

            tokenizer, about = run_interruptibly(
                lambda report: write_rows(beside, list(texts.values()), recipe, base, report), report
            )
        source = base or (Path(recipe.data.tokenizer) if recipe.data.tokenizer is not None else None)
        write_synced(beside / TOKENIZER, tokenizer.to_str(pretty=True).encode())
        write_synced(beside / TOKENIZER_CONFIG, _configuration(source).encode())
        if base is not None and (base / CHAT_TEMPLATE).exists():
            write_synced(beside / CHAT_TEMPLATE, (base / CHAT_TEMPLATE).read_bytes())
        write_synced(beside / "tokens.json", (json.dumps({"hash": key, **about}, indent=1) + "\n").encode())
        seal(beside, 0, {path.name: Written(_sha256(path), path.stat().st_size) for path in beside.iterdir()})
        shutil.rmtree(folder, ignore_errors=True)
        beside.rename(folder)
    except OSError as error:
        raise DataError(f"the tokens cannot be written to {folder.parent}: {os_reason(error)}") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _configuration(tokenizer: Path | None) -> str:
    path = tokenizer / TOKENIZER_CONFIG if tokenizer is not None else None
    return path.read_text() if path is not None and path.exists() else bpe.configuration()


def describe_data(prepared: PreparedData) -> dict[str, object]:
    """Return the prepared data as plain values, for a record."""
    return {**asdict(prepared), "folder": str(prepared.folder)}

"""Checkpoints on disk: written under a temporary name, hashed, synced, renamed, read back, and only then the latest.

    checkpoints/step-00000020/{model.safetensors, optimiser.safetensors, state.json, manifest.json}
    checkpoints/latest              the name of the newest one that was read back and verified

A folder without a manifest, or with a file that differs from it, is never loaded but reported. Needs no torch, so that
checkpoints can be verified without loading it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from railbed.errors import CheckpointDamaged

KEPT = 2
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""Name of a file in a sealed folder: it must not refer to another folder."""
MANIFEST = "manifest.json"
LATEST = "latest"
FORMAT = 1
NAME = re.compile(r"step-(\d{8,})")
UNFINISHED = re.compile(r"\.step-\d{8,}\.(?:[0-9a-f]{8}\.)?(?:new|old)")
PIECE = 8 << 20


@dataclass(frozen=True, slots=True)
class Written:
    """Hash and size of a file as it was written."""

    sha256: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint that was read back and is intact."""

    step: int
    hash: str
    """Hash of the manifest, and so of all files; equal states on two nodes have equal hashes."""
    size: int
    path: Path


@dataclass(slots=True)
class Survey:
    """The checkpoints of a folder: the intact ones, newest first, and a sentence for each damaged one."""

    good: list[Checkpoint] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)


def folder_of(checkpoints: Path, step: int) -> Path:
    """Return the folder of the checkpoint of a step."""
    return checkpoints / f"step-{step:08d}"


def publish(checkpoints: Path, step: int, write: Callable[[Path], dict[str, Written]]) -> Checkpoint:
    """Let `write` fill a folder, read it back, and make it the latest checkpoint.

    Raise OSError (for a full disk, say), leaving what was there before.
    """
    checkpoints.mkdir(parents=True, exist_ok=True)
    beside, final = checkpoints / f".step-{step:08d}.new", folder_of(checkpoints, step)
    shutil.rmtree(beside, ignore_errors=True)
    try:
        beside.mkdir()
        seal(beside, step, write(beside))
        _into_place(beside, final)
        sync_folder(checkpoints)
        checkpoint = read_checkpoint(final)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    _point(checkpoints, final.name)
    _prune(checkpoints, step)
    return checkpoint


def copy(source: Checkpoint, folder: Path) -> Checkpoint:
    """Copy a checkpoint to a folder that nodes share, read it back there, and keep the newest two.

    Later ones are kept as well: a rank of an earlier generation, which was frozen meanwhile, must not remove them.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    final = folder_of(folder, source.step)
    beside = folder / f".step-{source.step:08d}.{secrets.token_hex(4)}.new"
    try:
        beside.mkdir()
        for path in source.path.iterdir():
            _copy_file(path, beside / path.name)
        sync_folder(beside)
        if read_sealed(beside).hash != source.hash:
            raise CheckpointDamaged(f"checkpoint {source.path} has changed while it was copied")
        _into_place(beside, final)
        sync_folder(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    for path in sorted((path for path in folder.iterdir() if NAME.fullmatch(path.name)), key=_step)[:-KEPT]:
        shutil.rmtree(path, ignore_errors=True)
    return replace(source, path=final)


def _copy_file(source: Path, target: Path) -> None:
    with source.open("rb") as reading, target.open("xb") as writing:
        shutil.copyfileobj(reading, writing, PIECE)
        writing.flush()
        os.fsync(writing.fileno())


def survey(checkpoints: Path) -> Survey:
    """Read back every checkpoint of a folder."""
    result = Survey()
    if not checkpoints.is_dir():
        return result
    steps = sorted((path for path in checkpoints.iterdir() if NAME.fullmatch(path.name)), key=_step, reverse=True)
    for path in steps:
        try:
            result.good.append(read_checkpoint(path))
        except CheckpointDamaged as fault:
            result.damaged.append(fault.message)
    return result


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint back from the disk; raise CheckpointDamaged with what is wrong."""
    state = read_sealed(path)
    if state.step != _step(path):
        raise CheckpointDamaged(f"checkpoint {path}: {MANIFEST} is that of another step or another railbed")
    return state


def read_sealed(path: Path) -> Checkpoint:
    """Read back the files of a sealed folder; raise CheckpointDamaged if one has changed."""
    try:
        text = (path / MANIFEST).read_bytes()
    except OSError:
        raise CheckpointDamaged(f"checkpoint {path} has no {MANIFEST}: it is incomplete") from None
    try:
        content = json.loads(text)
        step, files = int(content["step"]), {name: Written(*file) for name, file in content["files"].items()}
        known = content["format"] == FORMAT
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        raise CheckpointDamaged(f"checkpoint {path}: {MANIFEST} is damaged") from None
    if not known:
        raise CheckpointDamaged(f"checkpoint {path}: {MANIFEST} is that of another step or another railbed")
    for name, expected in files.items():
        if not FILE_NAME.fullmatch(name):
            raise CheckpointDamaged(f"checkpoint {path}: {MANIFEST} names a file outside of it")
        _compare(path / name, expected)
    size = sum(file.size for file in files.values())
    return Checkpoint(step=step, hash=hashlib.sha256(text).hexdigest(), size=size, path=path)


def seal(folder: Path, step: int, files: Mapping[str, Written]) -> None:
    """Write the manifest of a folder, as its last file: a folder without one is incomplete."""
    content = {"format": FORMAT, "step": step, "files": {name: [f.sha256, f.size] for name, f in files.items()}}
    write_synced(folder / MANIFEST, json.dumps(content, indent=1, sort_keys=True).encode())
    sync_folder(folder)


def write_synced(path: Path, data: bytes) -> Written:
    """Write a small file and flush it to the disk."""
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return Written(hashlib.sha256(data).hexdigest(), len(data))


def write_pieces(path: Path, pieces: Iterable[memoryview]) -> Written:
    """Write a new file, down to the disk, each piece made when it is its turn; return its hash and size."""
    digest, size = hashlib.sha256(), 0
    with path.open("xb", buffering=0) as file:
        for piece in pieces:
            digest.update(piece)
            done = 0
            while done < len(piece):
                done += file.write(piece[done:])
            size += len(piece)
        os.fsync(file.fileno())
    return Written(digest.hexdigest(), size)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _compare(path: Path, expected: Written) -> None:
    where = f"checkpoint {path.parent}: {path.name}"
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size != expected.size:
                raise CheckpointDamaged(f"{where} has {size} bytes of {expected.size}")
            # Drop the page cache, so that the disk is read and not memory.
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while piece := file.read(PIECE):
                digest.update(piece)
    except OSError as error:
        raise CheckpointDamaged(f"{where} cannot be read: {error.strerror}") from None
    if digest.hexdigest() != expected.sha256:
        raise CheckpointDamaged(f"{where} has changed since it was written: its SHA-256 differs")


def _into_place(beside: Path, final: Path) -> None:
    """Rename; replaces the checkpoint of an earlier attempt at the same step."""
    old = final.with_name(f".{final.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if final.exists():
        final.rename(old)
    beside.rename(final)
    shutil.rmtree(old, ignore_errors=True)


def _point(checkpoints: Path, name: str) -> None:
    beside = checkpoints / f".{LATEST}.new"
    beside.unlink(missing_ok=True)
    write_synced(beside, f"{name}\n".encode())
    beside.rename(checkpoints / LATEST)
    sync_folder(checkpoints)


def _prune(checkpoints: Path, newest: int) -> None:
    """Keep the newest checkpoint and the intact one before it; later steps were undone by a restart."""
    keep = [folder_of(checkpoints, newest)]
    for path in sorted(checkpoints.iterdir(), key=_step, reverse=True):
        if UNFINISHED.fullmatch(path.name) or _step(path) > newest:
            shutil.rmtree(path, ignore_errors=True)
        elif NAME.fullmatch(path.name) and path not in keep:
            if len(keep) < KEPT and _is_intact(path):
                keep.append(path)
            else:
                shutil.rmtree(path, ignore_errors=True)


def _is_intact(path: Path) -> bool:
    try:
        read_checkpoint(path)
    except CheckpointDamaged:
        return False
    return True


def _step(path: Path) -> int:
    match = NAME.fullmatch(path.name)
    return int(match[1]) if match else -1

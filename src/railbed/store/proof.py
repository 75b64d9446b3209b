"""Proofs that this user made a run, with a key that only this user can read.

The folder of a run may come from anybody: unpacked, shared, or planted. What decides which programs are executed and
which machines are reached is used only if it is proven. A proof is about content and the run's id, not its path: a run
may be moved or copied.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import shlex
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from railbed.errors import UsageError, os_reason
from railbed.model.events import TrainingStarted
from railbed.model.private import for_us_alone
from railbed.model.regular import read_regular
from railbed.store.records import read_record, record_lines
from railbed.store.run import ABOUT, CLUSTER, PRIVATE, read_about, write_atomically

PROOF = "proof.json"
KEY = "run-key"
KEY_BYTES = 32
TRAINING = "training"
ELSEWHERE = "set XDG_STATE_HOME to a folder of this account"


class Unprovable(UsageError):
    """There is no key for proofs, and none can be made."""


@dataclass(frozen=True, slots=True)
class Proofs:
    """The content of `proof.json`."""

    run: str
    macs: Mapping[str, str]
    """By what they are about."""


def prove(folder: Path, run: str, contents: Mapping[str, bytes]) -> None:
    """Add proofs about a run to its folder; raise Unprovable if there is no private place for the key."""
    key = _key()
    proofs = _read_proofs(folder)
    earlier = proofs.macs if proofs and proofs.run == run else {}
    macs = {**earlier} | {subject: _mac(key, run, subject, content) for subject, content in contents.items()}
    write_atomically(folder / PROOF, json.dumps({"run": run, "macs": macs}).encode() + b"\n", mode=PRIVATE)


def is_proven(folder: Path, subject: str, content: bytes) -> bool:
    """Whether this user made this content for the run in a folder."""
    proofs = _read_proofs(folder)
    if proofs is None or proofs.run != _id_of(folder):
        return False
    try:
        key = _read_key(_key_folder())
    except Unprovable:
        return False
    if key is None:
        return False
    names = (subject, upcoming(subject))
    return any(_is_mac(proofs.macs.get(name, ""), _mac(key, proofs.run, name, content)) for name in names)


def upcoming(subject: str) -> str:
    """Return the subject of what a file is about to contain: it is proven whenever the writing is cut short."""
    return f"{subject}, about to be written"


def _is_mac(stored: str, own: str) -> bool:
    return hmac.compare_digest(own.encode(), stored.encode("utf-8", "replace"))


def own_cluster_file(folder: Path) -> bytes | None:
    """Return the cluster file of a run that this user made; None if that file, or what is trained, is not proven."""
    with suppress(OSError, ValueError):
        content = read_regular(folder / CLUSTER)
        if is_proven(folder, "cluster", content) and has_own_training(folder):
            return content
    return None


def has_own_training(folder: Path) -> bool:
    """Whether a run trains the recipe, under the name on nodes, with which this user started it."""
    if read_about(folder).verb != "train":
        return True
    training = first_training(folder)
    return training is None or is_proven(folder, TRAINING, training[0])


def first_training(folder: Path) -> tuple[bytes, TrainingStarted] | None:
    """Return the first event of a training, as its line and parsed."""
    # Every line is parsed: what is proven must not depend on the form in which somebody wrote a line before it.
    with suppress(OSError):
        for line in record_lines(folder):
            with suppress(ValueError):
                record = read_record(line)
                if isinstance(record, TrainingStarted):
                    return line, record
    return None


def prove_training(folder: Path, run: str, line: bytes) -> None:
    """Prove the first event of a training; a run that continues keeps that of its first start."""
    proofs = _read_proofs(folder)
    if proofs is None or TRAINING not in proofs.macs:
        prove(folder, run, {TRAINING: line})


def _mac(key: bytes, run: str, subject: str, content: bytes) -> str:
    about = json.dumps(["railbed", 1, run, subject, hashlib.sha256(content).hexdigest()])
    return hmac.new(key, about.encode(), hashlib.sha256).hexdigest()


def _read_proofs(folder: Path) -> Proofs | None:
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError, AttributeError):
        content = json.loads(read_regular(folder / PROOF))
        return Proofs(run=str(content["run"]), macs={name: str(mac) for name, mac in content["macs"].items()})
    return None


def _id_of(folder: Path) -> str | None:
    """Return the id in `run.json`, which a copy under another name has, too."""
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        return str(json.loads(read_regular(folder / ABOUT))["id"])
    return None


def _key() -> bytes:
    """Return the key of this user, which is made on first use."""
    folder = _key_folder()
    try:
        key = _read_key(folder)
        if key is None:
            _make_key(folder)
            key = _read_key(folder)
    except OSError as error:
        raise Unprovable(f"the key in {folder} cannot be used: {os_reason(error)}", hint=ELSEWHERE) from error
    if key is None:
        raise Unprovable(f"the key in {folder} was removed at this moment", hint="start again")
    return key


def _key_folder() -> Path:
    named = Path(os.environ.get("XDG_STATE_HOME") or "")
    with suppress(RuntimeError):
        state = named if named.is_absolute() else Path("~/.local/state").expanduser()
        if state.is_absolute():
            return state / "railbed"
    raise Unprovable("no home folder is set in which a private key could be kept", hint="set HOME or XDG_STATE_HOME")


def _read_key(folder: Path) -> bytes | None:
    """Return the key; None if there is none. Raise Unprovable if others may know or have replaced it."""
    try:
        _require_private(folder, folder.lstat(), stat.S_IFDIR)
        descriptor = os.open(folder / KEY, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unprovable(f"the key in {folder} cannot be read: {os_reason(error)}", hint=ELSEWHERE) from error
    with os.fdopen(descriptor, "rb") as file:
        _require_private(folder / KEY, os.fstat(descriptor), stat.S_IFREG)
        key = file.read(KEY_BYTES)
    if len(key) != KEY_BYTES:
        raise Unprovable(f"{folder / KEY} is damaged", hint="remove it: earlier runs then need -c FILE")
    return key


def _require_private(path: Path, about: os.stat_result, kind: int) -> None:
    if stat.S_IFMT(about.st_mode) != kind or about.st_uid != os.geteuid():
        raise Unprovable(f"{path}, where a private key is kept, belongs to another account", hint=ELSEWHERE)
    if about.st_mode & 0o077:
        raise Unprovable(f"{path} is open to other accounts", hint=f"`rm -r {shlex.quote(str(path))}` makes a new key")


def _make_key(folder: Path) -> None:
    """Make the key, or let another process make it at the same moment."""
    above = next(path for path in folder.parents if path.exists())
    if above.stat().st_uid not in (0, os.geteuid()):
        # As with `sudo -E`: the owner could not use what root makes there, and root must not use what the owner has.
        raise Unprovable(f"{above}, where a private key would be kept, belongs to another account", hint=ELSEWHERE)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = folder / f".{KEY}.{secrets.token_hex(8)}"
    try:
        with open(temporary, "xb", opener=for_us_alone) as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(temporary, folder / KEY)
    finally:
        temporary.unlink(missing_ok=True)

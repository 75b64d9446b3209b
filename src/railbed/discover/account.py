"""What a set-up changes in an account: a line in its authorized_keys, which is marked, and taken back by its mark."""

from __future__ import annotations

import getpass
import re
import shlex
import socket
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass

from railbed.model.cluster import Secret
from railbed.transport.base import Command

MARK = "railbed-set-up"
"""In the comment of every key that a set-up installed."""
PRESENT, INSTALLED, REMOVED = "present", "installed", "removed"
SECONDS = 120.0
"""For one command: an emulated machine under load needs half a minute to start a shell."""
_TO_FILE = """umask 077
cd || exit 1
file=$(readlink -f .ssh/authorized_keys)
"""
_REPLACE = """{ [ ! -e "$file" ] || chmod "$(stat -c %a "$file")" "$new"; } && mv -f "$new" "$file" || exit 1
trap - EXIT
! command -v restorecon >/dev/null 2>&1 || restorecon -F .ssh "$file" >/dev/null 2>&1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactWishes:
    """What a person chose for the first contact."""

    password: Secret | None = None
    """Where the password is; without it, the terminal is asked."""
    fingerprints: Collection[str] = ()
    """Host keys that are confirmed already."""
    confirm: Callable[[str], Awaitable[bool]] | None = None
    """Asks the person; without it, only `fingerprints` are accepted."""
    sudo: bool | None = None
    """Let accounts use sudo without a password; None asks the person, if there is one."""
    undo: bool = False


def install_key(public: str) -> Command:
    """Return the command that adds a key to authorized_keys, unless it is there; the file is old or new, never half."""
    comment = re.sub(r"[^A-Za-z0-9@._-]", "_", f"{getpass.getuser()}@{socket.gethostname()}")
    script = f"""mark={MARK}
made=
[ -d ~/.ssh ] || {{ mkdir -m 700 ~/.ssh || exit 1; made=yes mark=$mark+folder; }}
{_TO_FILE}
key={shlex.quote(public)}
if [ ! -e "$file" ]; then mark=$mark+file
elif grep -v '^[[:space:]]*#' "$file" | grep -qF -- "$key"; then echo {PRESENT}; exit 0; fi
trap 'rm -f "$new"; [ -z "$made" ] || rmdir .ssh' EXIT
new=$(mktemp "$file.XXXXXX") || exit 1
gap=; [ ! -s "$file" ] || [ -z "$(tail -c 1 "$file")" ] || gap='
'
printf '%s%s %s %s\\n' "$gap" "$key" {shlex.quote(comment)} "$mark" | {{
  if [ -e "$file" ]; then cat "$file" -; else cat; fi
}} >"$new" || exit 1
{_REPLACE}echo {INSTALLED}"""
    return Command(key="install", script=script, timeout=SECONDS, recorded=False)


def remove_keys(publics: Iterable[str]) -> Command:
    """Return the command that removes those keys that a set-up installed, with the file and folder that it created."""
    patterns = " ".join(f"-e {shlex.quote(f'{public} .*{MARK}')}" for public in publics)
    script = f"""{_TO_FILE}
[ -e "$file" ] || exit 0
marked=$(grep {patterns} "$file") || exit 0
trap 'rm -f "$new"' EXIT
new=$(mktemp "$file.XXXXXX") || exit 1
grep -v {patterns} "$file" >"$new"; [ $? -le 1 ] || exit 1
case $marked in *{MARK}*+file*) [ -s "$new" ] || rm -f "$file" || exit 1;; esac
if [ -e "$file" ]; then
{_REPLACE}fi
case $marked in *{MARK}+folder*) rm -f "$new"; rmdir .ssh 2>/dev/null;; esac
echo {REMOVED}"""
    return Command(key="remove", script=script, timeout=SECONDS, recorded=False)

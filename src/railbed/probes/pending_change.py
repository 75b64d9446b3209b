"""The change in progress on a machine, or one that was left unfinished (the lock of `fleet.change`)."""

from __future__ import annotations

from dataclasses import dataclass

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts

FOLDER = "/run/railbed"
"""On a node: root's alone, so that nobody else can read, hold or prepare what is in it."""
LOCK = f"{FOLDER}/change.lock"
COMMAND = f"""
lock={LOCK}
[ -s $lock ] || {{ echo '==> none <=='; exit 0; }}
if command -v flock >/dev/null && ! flock -sn $lock true; then echo '==> held <=='; else echo '==> abandoned <=='; fi
cat $lock
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingChange(TextFacts):
    """The change that a guard on the machine holds, or held when it died."""

    state: str
    """`none`; `held`: somebody is changing the machine; `abandoned`: it may be half-changed."""
    holder: str = ""
    """What is being changed, by whom and since when."""
    trouble: str = ""
    """The output of the undo, if it failed."""


def parse(text: str) -> PendingChange:
    """Read the state and the lines of the lock."""
    lines = Lines(text)
    state, body = next(lines.sections())
    if state not in ("none", "held", "abandoned"):
        lines.refuse("expected none, held or abandoned")
    holder, _, trouble = ("" if state == "none" else body.text).strip().partition("\n")
    return PendingChange(state=state, holder=holder, trouble=trouble, not_understood=lines.not_understood)


PROBE = Probe(
    name="pending_change",
    title="changes in progress or left unfinished",
    command=COMMAND,
    parse=parse,
    facts=PendingChange,
    needs_root=True,
)

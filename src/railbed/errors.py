"""Every exception railbed raises on purpose.

    RailbedError                one sentence, and a hint that says what to do
    ├── UserError               the user's file or arguments                    exit 2
    │   ├── ClusterFileError      file, line and key of each mistake
    │   ├── RecipeError           the same for a recipe
    │   ├── SuiteError            the same for a suite of measurements
    │   ├── DataError             text to train on that is missing, empty, binary or too short
    │   └── UsageError            arguments that do not go together
    ├── DeviceError             a device or tool is missing or out of reach     exit 3
    │   ├── Unreachable           no connection
    │   │   └── TimedOut            no answer in time, which may be a matter of load
    │   ├── HostKeyUnknown        first contact
    │   │   └── HostKeyChanged      the machine shows another key than the one known
    │   ├── LoginRefused          the machine answered and said no
    │   ├── ToolMissing           a program or library that is needed here
    │   ├── CheckpointDamaged     a saved state that is not whole
    │   └── RankFailed            a rank of a training job that cannot start or go on
    │       └── Interference        somebody got between the ranks: no node is at fault
    └── ParseError              text that a parser does not know; the fleet turns it into `unknown`

A finding that failed is data, not an exception; a failing device inside a fleet becomes a value. What is not in this
tree and still escapes is our own fault (exit 70).
"""

from __future__ import annotations

import errno


class RailbedError(Exception):
    """Base of all errors that are told to the user as a sentence."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UserError(RailbedError):
    """The user's file or arguments are wrong."""


class ClusterFileError(UserError):
    """The cluster file cannot be read or says something that cannot be."""


class RecipeError(UserError):
    """The recipe cannot be read or says something that cannot be."""


class SuiteError(UserError):
    """The suite of measurements cannot be read or says something that cannot be."""


class DataError(UserError):
    """The text to train on is missing, empty, not text, or too short."""


class UsageError(UserError):
    """Arguments that do not fit together, or name something that is not there."""


class OnlyRecorded(UsageError):
    """A recording was asked to do something: it can but answer."""


class DeviceError(RailbedError):
    """A device or a tool is missing or out of reach."""


class Unreachable(DeviceError):
    """No connection could be made, or it broke."""


class TimedOut(Unreachable):
    """No answer in time: another look, when less is going on, may see one."""


class HostKeyUnknown(DeviceError):
    """The machine's host key is not known yet."""


class HostKeyChanged(HostKeyUnknown):
    """The machine's host key is not the one known."""


class LoginRefused(DeviceError):
    """The machine answered and did not let us in."""


class ToolMissing(DeviceError):
    """A program or library that this needs is not installed."""


class CheckpointDamaged(DeviceError):
    """A saved state is missing, half-written or changed."""


class RankFailed(DeviceError):
    """A rank of a training job cannot start or go on.

    `peer` says that another one is the cause, `refused` that what was asked for cannot be, however often it is tried.
    """

    def __init__(self, message: str, *, hint: str = "", peer: bool = False, refused: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.peer = peer
        self.refused = refused


class Interference(RankFailed):
    """Somebody who does not belong to the job got between its ranks; no node of it is at fault."""

    def __init__(self, message: str) -> None:
        super().__init__(message, peer=True)


class ParseError(RailbedError):
    """A parser met text it does not know; `line` is the first line it could not read."""

    def __init__(self, message: str, *, line: str = "") -> None:
        super().__init__(f"{message}: {line[:160]!r}" if line else message)
        self.line = line


def os_reason(error: OSError) -> str:
    """Return in a few words what the system says; a disk that is full is called that."""
    match error.errno:
        case errno.ENOSPC:
            return "the disk is full"
        case errno.EDQUOT:
            return "the disk is full for this account (its quota is used up)"
    return error.strerror or str(error)

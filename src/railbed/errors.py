"""Every exception railbed raises on purpose.

    RailbedError                one sentence, and a hint about what to do
    ├── UserError               the user's file or arguments                    exit 2
    │   ├── ClusterFileError      file, line and key of each mistake
    │   ├── RecipeError           the same for a recipe
    │   ├── SuiteError            the same for a suite of measurements
    │   ├── CaptureFileError      a file of packets that cannot be read
    │   ├── DataError             text to train on that is missing, empty, binary or too short
    │   ├── ModelError            a model's folder that is missing, damaged or of an unsupported kind
    │   └── UsageError            arguments that do not go together
    ├── DeviceError             a device or tool is missing or out of reach     exit 3
    │   ├── Unreachable           no connection
    │   │   ├── TimedOut            no answer in time, perhaps because of load
    │   │   └── Gone                it will not answer again: a Slurm job has lost the node
    │   ├── HostKeyUnknown        first contact
    │   │   └── HostKeyChanged      the machine presents another key than the known one
    │   ├── LoginRefused          the machine answered and rejected the login
    │   │   └── NotAdmitted         it has accepted none of the keys, or not the password
    │   ├── ToolMissing           a program or library that is needed here
    │   ├── CheckpointDamaged     a checkpoint that is incomplete or changed
    │   └── RankFailed            a rank of a training job that cannot start or continue
    │       └── Interference        a stranger connected to the ranks: no node is at fault
    └── ParseError              text that a parser does not recognise; the fleet turns it into `unknown`

A finding that failed is data, not an exception; a failing device inside a fleet becomes a value. Any exception outside
this tree that escapes is a bug (exit 70).
"""

from __future__ import annotations

import errno


class RailbedError(Exception):
    """Base of all errors that users see as a sentence."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UserError(RailbedError):
    """The user's file or arguments are wrong."""


class ClusterFileError(UserError):
    """The cluster file cannot be read, or is invalid."""


class RecipeError(UserError):
    """The recipe cannot be read, or is invalid."""


class SuiteError(UserError):
    """The suite of measurements cannot be read, or is invalid."""


class CaptureFileError(UserError):
    """A file of packets is missing, of another kind, or damaged from its beginning."""


class DataError(UserError):
    """The text to train on is missing, empty, not text, or too short."""


class ModelError(UserError):
    """The folder of a model, or of an adapter, is missing, damaged, or of a kind that is not supported."""


class UsageError(UserError):
    """Arguments that contradict each other, or name something that does not exist."""


class OnlyRecorded(UsageError):
    """A recording cannot run anything: it only replays outputs."""


class DeviceError(RailbedError):
    """A device or a tool is missing or out of reach."""


class Unreachable(DeviceError):
    """No connection could be made, or it broke."""


class TimedOut(Unreachable):
    """No answer in time; a later attempt under less load may get one."""


class Gone(Unreachable):
    """The machine is out of reach for good: a node that a Slurm job has lost never returns to it."""


class ProgramRefused(Unreachable):
    """The machine refused to start one more program over a connection that works."""


class HostKeyUnknown(DeviceError):
    """The machine's host key is not known yet."""


class HostKeyChanged(HostKeyUnknown):
    """The machine's host key is not the known one."""


class LoginRefused(DeviceError):
    """The machine answered and rejected the login."""


class NotAdmitted(LoginRefused):
    """The machine accepts none of the account's keys, or not its password; `user` is the account."""

    def __init__(self, message: str, *, hint: str = "", user: str = "") -> None:
        super().__init__(message, hint=hint)
        self.user = user


class ToolMissing(DeviceError):
    """A required program or library is not installed."""


class CheckpointDamaged(DeviceError):
    """A checkpoint is missing, incomplete or changed."""


class RankFailed(DeviceError):
    """A rank of a training job cannot start or continue.

    `peer` means that another rank is the cause, `refused` that another attempt would fail in the same way.
    """

    def __init__(self, message: str, *, hint: str = "", peer: bool = False, refused: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.peer = peer
        self.refused = refused


class Interference(RankFailed):
    """A stranger connected to the ranks of a job; none of its nodes is at fault."""

    def __init__(self, message: str) -> None:
        super().__init__(message, peer=True)


class ParseError(RailbedError):
    """A parser does not recognise a text; `line` is the first line that it could not parse."""

    def __init__(self, message: str, *, line: str = "") -> None:
        super().__init__(f"{message}: {line[:160]!r}" if line else message)
        self.line = line


def os_reason(error: OSError) -> str:
    """Return the system's reason for an error; a full disk is named as such."""
    match error.errno:
        case errno.ENOSPC:
            return "the disk is full"
        case errno.EDQUOT:
            return "the disk is full for this account (its quota is used up)"
    return error.strerror or str(error)

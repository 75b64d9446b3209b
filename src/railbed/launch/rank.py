"""The entry point of every rank: `python -m railbed.launch.rank SPEC FUNCTION FILE --messages FD [--listener FD]`.

SPEC and FUNCTION are names of the form `module:name`: the class that reads the job file, and the function that is
called with it and with the rank's messages. The heartbeat starts before FUNCTION's module is imported, because loading
torch takes half a minute on a slow machine.

The last message of a rank is `rank_done` or `error`, with `sentence` and:

    hint          what the user can do about it
    peer          true if this rank is healthy and lost another one
    refused       true if another attempt would fail in the same way
    interference  true if a stranger interfered with the ranks
    missing       a Python package that is not installed on this node
"""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import resource
import signal
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

from railbed.errors import Interference, RailbedError, RankFailed, os_reason
from railbed.launch.messages import Messages
from railbed.model.requirements import install_package, is_in_an_extra


def main() -> int:
    """Run the rank and return its exit code: 0 when done, 1 after an error."""
    parser = argparse.ArgumentParser(prog="python -m railbed.launch.rank")
    parser.add_argument("spec", help="class that reads the job file, as module:name")
    parser.add_argument("function", help="function to call, as module:name")
    parser.add_argument("file", type=Path, help="the job file")
    parser.add_argument("--messages", type=int, default=1, metavar="FD", help="where JSON lines are written")
    parser.add_argument("--listener", type=int, default=-1, metavar="FD", help="the socket where the ranks meet")
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback; SIGTERM ends the process by default
    spec = _load(arguments.spec).from_json(arguments.file.read_text())
    spec = replace(spec, listener=arguments.listener)
    os.environ.update(spec.environment)
    _raise_memlock()
    messages = Messages(arguments.messages, spec.rank)
    messages.start_heartbeat()
    return run(arguments.function, spec, messages)


def run(function: str, spec: object, messages: Messages) -> int:
    """Call the job's function; report an error in one message, so that every job's users see reason and hint."""
    try:
        _load(function)(spec, messages)
    except BaseException as error:
        traceback.print_exc()
        messages.send("error", **describe(error))
        return 1
    return 0


def describe(error: BaseException) -> dict[str, object]:
    """Return an error as the fields of its message."""
    match error:
        case RailbedError():
            return {
                "sentence": error.message,
                "hint": error.hint,
                "peer": isinstance(error, RankFailed) and error.peer,
                "refused": isinstance(error, RankFailed) and error.refused,
                "interference": isinstance(error, Interference),
            }
        case ModuleNotFoundError(name=str(name)) if name.partition(".")[0] != "railbed":
            package = name.partition(".")[0]
            sentence = f"{package} is not installed for {sys.executable}"
            # A module may be in a package of another name; somebody else could have registered this one.
            named = install_package(package) if is_in_an_extra(package) else "install the package that provides it"
            return {"sentence": sentence, "hint": named, "missing": package}
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return {"sentence": f"{os_reason(error)}: {error.filename}" if error.filename else os_reason(error)}
    return {"sentence": f"{type(error).__name__}: {str(error).strip()[:400]}"}


def _load(name: str) -> Any:  # noqa: ANN401  (whatever has that name)
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _raise_memlock() -> None:
    """Let this process lock as much memory as its account may: RDMA pins its buffers."""
    _, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (hard, hard))


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of a collective that waits for a lost peer would keep the process from ending.
    os._exit(code)

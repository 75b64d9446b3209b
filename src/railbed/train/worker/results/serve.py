"""The life of a program: one request on standard input, messages on standard output, and its end.

Messages are JSON lines: `alive` every second, `refused` with a sentence, `done` at the end, and those of the program
itself. It ends when its input is closed, because whoever started it is gone.

Libraries that only nodes with models from elsewhere have are loaded through it.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import torch

from railbed.errors import DeviceError, RailbedError, ToolMissing, os_reason
from railbed.launch.messages import Messages
from railbed.model.requirements import install_extra
from railbed.train.worker.models.pretrained import silence_warnings

REQUEST_BYTES = 64 << 20
Work = Callable[[Mapping[str, Any], Messages], Mapping[str, object]]
"""Takes the request, sends messages, and returns the fields of `done`."""


def serve(work: Work) -> None:
    """Run a program."""
    os.umask(0o077)
    messages = _messages()
    messages.start_heartbeat()
    request = json.loads(sys.stdin.buffer.readline(REQUEST_BYTES))
    threading.Thread(target=_end_with_input, name="input", daemon=True).start()
    try:
        messages.send("done", **work(request, messages))
    except RailbedError as error:
        _refuse(messages, error)
    except torch.OutOfMemoryError:
        _refuse(messages, DeviceError("the GPU is out of memory", hint="end what else runs there, or use another node"))
    except MemoryError:
        _refuse(messages, DeviceError("the machine is out of memory"))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _refuse(messages, DeviceError(f"{where}{os_reason(error)}"))


def _messages() -> Messages:
    """Send messages through a copy of standard output; what libraries print goes to standard error."""
    descriptor = os.dup(1)
    os.dup2(2, 1)
    return Messages(descriptor, 0)


def _refuse(messages: Messages, error: RailbedError) -> None:
    kind = type(error).__name__
    messages.send("refused", error=kind, message=error.message, hint=error.hint)


def _end_with_input() -> None:
    while sys.stdin.buffer.read(1 << 16):
        pass
    os._exit(0)


OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "TOKENIZERS_PARALLELISM": "false",
}
"""Everything loads from local folders; nothing contacts a hub."""


def library(name: str) -> Any:  # noqa: ANN401 -- a module, and one that may not be there
    """Return a library; raise ToolMissing if it is not installed."""
    os.environ.update(OFFLINE)
    silence_warnings()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # their authors' business
            module: ModuleType = importlib.import_module(name)
    except ImportError as error:
        hint = f"`{install_extra('tune')}` there"
        raise ToolMissing(f"the Python library {error.name or name} is not installed", hint=hint) from None
    return module

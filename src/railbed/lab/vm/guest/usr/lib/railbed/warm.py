"""A Python that has torch loaded already: loading it takes a minute on an emulated processor.

`warm.py serve` loads torch and waits for programs (see `warm_server.py`). It runs when the machine is saved, and so in
every node that resumes from there. `warm.py ARGUMENTS`, called instead of `python3 ARGUMENTS`, sends its arguments,
environment, folder and open files to the server, which forks; the fork becomes the program. The caller waits for it and
ends with its status; if the caller is killed, so is the program. Without a server, or with arguments that it does not
support, the real Python runs.

The caller does without `json`, `socket` and `struct`: an emulated processor takes a second to load them.
"""

from __future__ import annotations

import _json
import _socket
import os
import sys

PYTHON, CALLED = "/opt/training/bin/python3.11", "/opt/training/bin/python3"
DOOR = "\0railbed-warm"
LOADED = ("torch", "torch.distributed", "torch.nn.parallel", "torch._dynamo", "numpy", "argparse", "asyncio")
FLAGS = {"-I", "-B"}
"""The options of Python that a fork can follow: isolated from the user's modules, and without writing byte code."""
NUMBER_BYTES = 4


def call(arguments: list[str]) -> None:
    """Let the server run a program, and end with its status."""
    files = sorted(int(name) for name in os.listdir("/proc/self/fd"))  # noqa: PTH208  (loading pathlib takes too long)
    count = next((index for index, argument in enumerate(arguments) if argument not in FLAGS), len(arguments))
    flags, program = arguments[:count], arguments[count:]
    door = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    if len(program) < 2 or program[0] not in ("-m", "-c") or not _knock(door):
        os.execv(PYTHON, [CALLED, *arguments])  # noqa: S606
    files = [number for number in files if _is_open(number) and number != door.fileno()]
    message = _request(flags, program, files)
    rights = b"".join(map(_number, files))
    door.sendmsg([_number(len(message))], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
    door.sendall(message)
    answer = door.recv(NUMBER_BYTES, _socket.MSG_WAITALL)
    _end_like(int.from_bytes(answer, sys.byteorder) if answer else 1 << 8)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _knock(door: _socket.socket) -> bool:
    try:
        door.connect(DOOR)
    except OSError:
        return False
    return True


def _request(flags: list[str], program: list[str], files: list[int]) -> bytes:
    """Return what the server needs to know, as JSON."""
    variables = ",".join(f"{_text(name)}:{_text(value)}" for name, value in os.environ.items())
    parts = {
        "flags": _texts(flags),
        "program": _texts(program),
        "environment": f"{{{variables}}}",
        "folder": _text(os.getcwd()),  # noqa: PTH109
        "files": str(files),
    }
    return ("{" + ",".join(f"{_text(name)}:{part}" for name, part in parts.items()) + "}").encode()


def _texts(texts: list[str]) -> str:
    return f"[{','.join(map(_text, texts))}]"


def _text(text: str) -> str:
    return _json.encode_basestring_ascii(text)


def _number(number: int) -> bytes:
    return number.to_bytes(NUMBER_BYTES, sys.byteorder)


def _end_like(status: int) -> None:
    """End as the program did."""
    if os.WIFSIGNALED(status):
        import signal  # it loads `enum`

        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))


def main() -> None:
    """Serve, or call."""
    if sys.argv[1:] != ["serve"]:
        call(sys.argv[1:])
    folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    sys.path.insert(0, folder)
    server = __import__("warm_server")
    sys.path.remove(folder)  # programs have modules of the same names
    server.serve(DOOR, CALLED, LOADED)


if __name__ == "__main__":
    main()

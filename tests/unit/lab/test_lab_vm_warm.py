"""The Python of virtual machines with torch already loaded: programs forked from it behave like any other."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.ranks import wait_for

from railbed.lab.vm import recipe

FOLDER = recipe.GUEST / "usr/lib/railbed"
START = "import sys, warm; warm.DOOR, warm.PYTHON = {door!r}, sys.executable; warm.LOADED = ('colorsys',); warm.main()"


@pytest.fixture(scope="module")
def code() -> Iterator[str]:
    """Return the code that calls a server, which runs."""
    text = START.format(door=f"\0railbed-test-{secrets.token_hex(4)}")
    with subprocess.Popen(warm(text, "serve"), env=environment(), stderr=subprocess.PIPE) as server:
        wait_for(lambda: text.split("\\x00")[1].split("'")[0] in Path("/proc/net/unix").read_text())
        yield text
        server.kill()
        assert server.stderr is not None
        assert server.stderr.read() == b""


def warm(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-P", "-c", code, *arguments]


def environment(**changes: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(FOLDER), **changes}


def run(code: str, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        warm(code, *arguments), env=environment(**changes), capture_output=True, text=True, timeout=60, check=False
    )


def test_a_program_has_what_its_caller_gave(code: str, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(
        "import os, sys\nprint(sys.argv[1:], os.environ['COLOUR'], os.getcwd(), __name__, 'colorsys' in sys.modules)\n"
        "os.write(int(sys.argv[1]), sys.stdin.read().encode())\nsys.exit(7)\n"
    )
    ours, theirs = os.pipe()
    done = subprocess.run(
        warm(code, "-m", "module", str(theirs), "x"),
        env=environment(COLOUR="red", PYTHONPATH=f"{FOLDER}:{tmp_path}"),
        cwd="/",
        input=b"said",
        capture_output=True,
        pass_fds=[theirs],
        timeout=60,
        check=False,
    )
    os.close(theirs)
    assert (done.returncode, done.stderr) == (7, b"")
    assert done.stdout.decode() == f"['{theirs}', 'x'] red / __main__ True\n"
    assert os.read(ours, 10) == b"said"
    os.close(ours)


def test_options_of_python_are_followed(code: str, tmp_path: Path) -> None:
    theirs = f"{FOLDER}:{tmp_path}"
    show = f"import sys; print(sys.path[0] == '', {str(tmp_path)!r} in sys.path, sys.dont_write_bytecode)"
    assert run(code, "-c", show, PYTHONPATH=theirs).stdout == "True True False\n"
    assert run(code, "-I", "-B", "-c", show, PYTHONPATH=theirs).stdout == "False False True\n"
    assert run(code, "-B", "-I", "-c", "import sys; print('colorsys' in sys.modules)").stdout == "True\n"


def test_errors_and_signals_are_those_of_the_program(code: str) -> None:
    failed = run(code, "-c", "raise ValueError('oh')")
    assert failed.returncode == 1
    assert failed.stderr.endswith("ValueError: oh\n")
    assert run(code, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)").returncode == -signal.SIGTERM
    assert run(code, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)").returncode == -signal.SIGKILL
    done = run(code, "-c", "import atexit, sys; atexit.register(print, 'end'); print('begin'); sys.exit('words')")
    assert (done.returncode, done.stdout, done.stderr) == (1, "begin\nend\n", "words\n")
    assert run(code, "-c", "import threading; threading.Timer(0.2, print, 'x').start()").stdout == "x\n"


def test_who_is_killed_takes_the_program_along(code: str) -> None:
    program = "import os, time; print(os.getpid(), os.getsid(0), flush=True); time.sleep(600)"
    with subprocess.Popen(warm(code, "-c", program), env=environment(), stdout=subprocess.PIPE, text=True) as caller:
        assert caller.stdout is not None
        pid, session = map(int, caller.stdout.readline().split())
        assert pid == session != caller.pid
        caller.kill()
    wait_for(lambda: not Path(f"/proc/{pid}").exists())


def test_several_at_once_and_other_arguments(code: str) -> None:
    programs = [
        subprocess.Popen(warm(code, "-c", f"import time; time.sleep(0.3); raise SystemExit({n})"), env=environment())
        for n in range(5)
    ]
    assert [program.wait(60) for program in programs] == list(range(5))
    assert run(code, "--version").stdout.startswith("Python 3.")
    assert run(code.replace("railbed-test-", "nobody-"), "-c", "print('cold')").stdout == "cold\n"

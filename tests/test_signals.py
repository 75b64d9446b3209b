"""Ctrl-C while railbed is starting, or prepares a text, works even if Python or a library swallows the exception."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import RAILBED, environment, railbed
from tests.support.ranks import wait_for

pytestmark = pytest.mark.whole
SWALLOWED = """
import signal, weakref
from railbed.__main__ import main
from railbed.cli import main as commandline

class Module:
    pass

def make_app(verbs):
    module = Module()
    watch = weakref.ref(module, lambda _: signal.raise_signal(signal.SIGINT))
    del module
    {then}
    return make(verbs)

make, commandline.make_app = commandline.make_app, make_app
main()
"""
"""An exception in the callback of a weak reference is ignored; the import system has one for every module."""


@pytest.mark.parametrize(
    ("arguments", "then", "left"),
    [
        (["check", "reachable", "-c", "local"], "", "start again: railbed check reachable -c local\n"),
        (["lab", "up", "--name", "unheard"], "", "the lab unheard was removed again"),
        (["runs"], "raise ValueError('what a library made of it')", ""),
    ],
    ids=["a verb on devices", "a lab", "another error"],
)
def test_a_ctrl_c_that_is_swallowed_is_heard(tmp_path: Path, arguments: list[str], then: str, left: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SWALLOWED.format(then=then), *arguments],
        cwd=tmp_path,
        env=environment(RAILBED_CACHE=str(tmp_path / "cache")),
        capture_output=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert (done.returncode, done.stdout) == (130, b"")
    assert done.stderr.startswith(b"railbed: interrupted\n"), done.stderr
    assert left.encode() in done.stderr
    assert not (tmp_path / "cache").exists()
    assert [run["status"] for run in railbed(tmp_path, "runs", "--json").records] in ([], ["stopped"])


def test_who_is_deaf_to_ctrl_c_stays_so(tmp_path: Path) -> None:
    """A shell starts what runs in the background so."""
    code = SWALLOWED.format(then="signal.raise_signal(signal.SIGINT)")
    done = subprocess.run(
        [sys.executable, "-c", code, "runs", "--json"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    assert (done.returncode, done.stderr) == (0, b"")


def _with_usual_signals() -> None:
    """A test may run in the background, where a shell ignores some."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_the_preparation_of_a_text_at_once(tmp_path: Path, number: signal.Signals) -> None:
    """A tokenizer is trained outside Python, for many seconds: nothing waits for it, and nothing is left."""
    chance = random.Random(7)  # noqa: S311
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))) for _ in range(150_000)]
    (tmp_path / "words.txt").write_text("\n".join(" ".join(chance.choices(words, k=40)) for _ in range(40_000)))
    command = [RAILBED, "train", "-c", "local", "--set", "data.files=[words.txt]"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment(RAILBED_CACHE=str(tmp_path / "cache")),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=_with_usual_signals,  # noqa: PLW1509
    ) as process:
        wait_for(lambda: any((tmp_path / "cache" / "tokens").glob(".tokens-*")), seconds=300.0)
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (130, b"")
    assert err.endswith(b"railbed: interrupted\n"), err
    assert list((tmp_path / "cache" / "tokens").iterdir()) == []
    assert not (tmp_path / "runs").exists()

"""The login shell of every node starts quickly.

What
----
The time from a successful login to the answer to the first command, which the start-up files of the account's
shell determine.

Why
---
Every rank, every agent and every probe is started through this shell. Start-up files that set up pyenv, conda or
modules take seconds each time, and if nodes share a home folder they wait for each other's locks: at eight nodes
logins begin to time out, and a job that should start in seconds does not start at all.

Fix
---
For `ssh HOST COMMAND`, bash reads ~/.bashrc and zsh reads ~/.zshenv. Put `case $- in *i*) ;; *) return ;; esac` at the
beginning of ~/.bashrc, so that the rest runs only in interactive shells; or give the account another shell.

Source
------
bash(1), INVOCATION ("being run by the remote shell daemon"); zsh(1), STARTUP/SHUTDOWN FILES; pyenv's README on `pyenv
init`, which takes a lock to rehash.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.nodes import describe_run, runs_on
from railbed.probes import agents, clock
from railbed.rules.judgement import Judgement, ok, warn
from railbed.rules.rule import Rule
from railbed.rules.site import NodeView

WARN_SECONDS = 5.0
EXPECTED = f"starts within {WARN_SECONDS:g} s"


def judge(node: NodeView) -> Iterator[Judgement]:
    """Judge the time of the first reply: the `clock` probe, which takes no time itself.

    The exact time differs from check to check, so it is evidence only: healthy nodes compare as equal.
    """
    output = node.output(clock.PROBE)
    seconds = output.received - output.sent
    evidence = f"first reply after {seconds:.3f} s"
    if seconds <= WARN_SECONDS:
        yield ok(expected=EXPECTED, observed=f"started within {WARN_SECONDS:g} s", evidence=evidence)
    elif runs := runs_on(node):
        problem = f"took {seconds:.0f} s to start while {describe_run(node, runs[0])}"
        remedy = "check again when it is done: it may have left no processor time for logins"
        yield warn(expected=EXPECTED, observed=problem, remedy=remedy, evidence=evidence)
    else:
        problem = f"took {seconds:.0f} s to start; a start-up file is the likely cause"
        yield warn(expected=EXPECTED, observed=problem, evidence=evidence)


RULE = Rule(
    name="login_shell",
    title="the login shell starts quickly",
    scope="node",
    needs=(clock.PROBE, agents.PROBE),
    judge=judge,
    doc=__doc__,
)

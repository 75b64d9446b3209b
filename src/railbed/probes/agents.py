"""The agents of railbed on this machine, and with them the runs that use it (`/proc`).

An agent is `python -m railbed.launch.node.agent FOLDER`; FOLDER ends in `runs/JOB/NODE` or `bench/JOB/NODE`. Its ranks
are its descendants, and run in FOLDER: a rank that a server forks for it, as in a vm lab, is no descendant.
Every account can read the commands of all others, unless /proc is mounted with hidepid, but only its own processes'
folders.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.text import integer

MODULE = "railbed.launch.node.agent"
KINDS = {"runs": "training", "bench": "benchmark"}
"""What an agent works for, by the folder that its job's folder is in."""
LATEST = 32_503_680_000
"""The year 3000: what started later is a damaged answer."""
STATUS = re.compile(r"/proc/(?P<pid>\d{1,10})/status:(?P<name>PPid|RssAnon):\s*+(?P<value>\d{1,20})(?: kB)?", re.ASCII)
FOLDER = re.compile(r"/proc/(?P<pid>\d{1,10})/cwd:(?P<folder>/.*)", re.ASCII)
# The brackets keep the pattern from matching this command itself.
COMMAND = rf"""
files=$(grep -ls '[r]{MODULE[1:].replace(".", "[.]")}' /proc/[0-9]*/cmdline)
[ -n "$files" ] || exit 0
echo '==> machine <=='
getconf CLK_TCK || echo 100
sed -n 's/^btime //p' /proc/stat
for file in $files; do
process=${{file%/cmdline}}
begun=$(sed 's/.*) //' "$process/stat" | cut -d ' ' -f 20) 2>/dev/null
[ -n "$begun" ] || continue
echo "==> ${{process#/proc/}} $(stat -c '%U %u' "$process") $begun <=="
tr '\0\n' '\n ' <"$file"
done
echo '==> processes <=='
grep -sE '^(PPid|RssAnon):' /proc/[0-9]*/status
ls -ld /proc/[0-9]*/cwd 2>/dev/null | sed -nE 's,.* (/proc/[0-9]+/cwd) -> (.*/(runs|bench)/.*),\1:\2,p'
exit 0
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningAgent:
    """One agent with its ranks, and the run they belong to."""

    job: str
    """Name of the run on its nodes."""
    kind: str
    """`training` or `benchmark`."""
    user: str
    started: float
    """By the machine's clock, in seconds since the epoch."""
    pids: tuple[int, ...]
    """The agent, all processes below it, and those that run in its folder."""
    memory: int
    """Bytes of their own memory; pages that a rank shares with the process it was forked from count for both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agents(TextFacts):
    """All agents on a machine; there may be none."""

    agents: tuple[RunningAgent, ...]


@dataclass(frozen=True, slots=True)
class _Table:
    """All processes of the machine."""

    children: dict[int, list[int]] = field(default_factory=dict)
    memory: dict[int, int] = field(default_factory=dict)
    """Bytes, by process."""
    within: dict[PurePosixPath, list[int]] = field(default_factory=dict)
    """The processes that run in a folder."""


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    user: str
    started: float
    folder: PurePosixPath


def parse(text: str) -> Agents:
    """Read the agents and the processes of a machine that has agents."""
    if not text.strip():
        return Agents(agents=())
    lines = Lines(text)
    (machine, clock), *candidates, (title, listed) = _sections(lines)
    if machine != "machine" or title != "processes":
        raise ParseError("expected the sections `machine` and `processes`", line=text.strip().partition("\n")[0])
    ticks, boot = _clock(clock)
    table = _table(listed)
    jobs: dict[PurePosixPath, list[_Process]] = {}
    for process in filter(None, (_process(name, part, ticks, boot) for name, part in candidates)):
        # The command that starts an agent in a container names it, too.
        jobs.setdefault(process.folder, []).append(process)
    agents = tuple(_agent(folder, processes, table) for folder, processes in jobs.items())
    return Agents(agents=agents, not_understood=lines.not_understood)


def _sections(lines: Lines) -> list[tuple[str, Lines]]:
    parts = list(lines.sections())
    lines.require(len(parts) >= 2, "expected agents and processes")
    return parts


def _clock(lines: Lines) -> tuple[int, int]:
    numbers: list[int] = []
    for line in lines:
        with lines.reading(line):
            numbers.append(integer(line))
    if len(numbers) != 2 or not numbers[0]:
        raise ParseError("expected clock ticks per second and the time of the boot", line=lines.text)
    return numbers[0], numbers[1]


def _process(name: str, command: Lines, ticks: int, boot: int) -> _Process | None:
    words = name.split()
    if len(words) != 4:
        raise ParseError("expected `pid user uid start`", line=name)
    pid, user, uid, start = words
    for option, module, folder in _triples(command.text.splitlines()):
        path = PurePosixPath(folder)
        if (option, module) == ("-m", MODULE) and len(path.parts) > 3 and path.parts[-3] in KINDS:
            owner = f"user {uid}" if user == "UNKNOWN" else user
            return _Process(integer(pid), owner, _start_time(boot, integer(start), ticks), path)
    return None


def _start_time(boot: int, start: int, ticks: int) -> float:
    started = boot + start / ticks
    if not 0 <= started < LATEST:
        raise ParseError("expected a process that started before the year 3000", line=f"{boot} + {start} / {ticks}")
    return started


def _triples(arguments: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    return zip(arguments, arguments[1:], arguments[2:], strict=False)


def _agent(folder: PurePosixPath, processes: Sequence[_Process], table: _Table) -> RunningAgent:
    first = min(processes, key=lambda process: process.started)
    pids: set[int] = set()
    waiting = [process.pid for process in processes] + table.within.get(folder, [])
    while waiting:
        pid = waiting.pop()
        if pid not in pids:
            pids.add(pid)
            waiting += table.children.get(pid, [])
    return RunningAgent(
        job=folder.parts[-2],
        kind=KINDS[folder.parts[-3]],
        user=first.user,
        started=first.started,
        pids=tuple(sorted(pids)),
        memory=sum(table.memory.get(pid, 0) for pid in pids),
    )


def _table(lines: Lines) -> _Table:
    table = _Table()
    for line in lines:
        if match := STATUS.fullmatch(line):
            pid, value = int(match["pid"]), int(match["value"])
            if match["name"] == "PPid":
                table.children.setdefault(value, []).append(pid)
            else:
                table.memory[pid] = value * 1024
        elif match := FOLDER.fullmatch(line):
            table.within.setdefault(PurePosixPath(match["folder"]), []).append(int(match["pid"]))
        else:
            lines.unknown(line)
    return table


PROBE = Probe(
    name="agents",
    title="runs of railbed that use this machine",
    command=COMMAND,
    parse=parse,
    facts=Agents,
)

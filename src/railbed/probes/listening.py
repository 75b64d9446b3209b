"""TCP ports on which this machine listens (`ss -Hltnp`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.cluster import Cluster
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.text import integer

PROCESS = re.compile(r'\("([^"]*)",(?:pid=)?(\d{1,10})')
"""`(("sshd",pid=912,fd=3))`; iproute2 before 3.17 wrote `(("sshd",912,3))`."""

NOT_TCP = re.compile(r"(State|Netid|Recv-Q|udp)\s|(\S+\s+)?UNCONN\s")
"""The heading, and lines of UDP sockets if they are listed; some old versions of ss print `tcp` before UDP."""

LINE = re.compile(r"(?:tcp\s+)?(?:LISTEN\s+)?\d+\s+\d+\s+(?P<local>\S+)\s+\S++(?P<rest>.*)", re.ASCII | re.DOTALL)
"""Old versions of ss omit the state if they show only one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """One listening socket."""

    address: str
    """Address it listens on; `*`, `0.0.0.0` and `::` are all addresses."""
    port: int
    process: str | None = None
    """Name of the program, if this account may see it."""
    pid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listeners(TextFacts):
    """All listening TCP sockets; there may be none."""

    listeners: tuple[Listener, ...]

    def on(self, port: int) -> tuple[Listener, ...]:
        """Return the sockets that listen on a port."""
        return tuple(listener for listener in self.listeners if listener.port == port)


def parse(text: str) -> Listeners:
    """Read `ss -ltn`, with or without its heading and its process column."""
    lines = Lines(text)
    listeners: list[Listener] = []
    for line in lines:
        with lines.reading(line):
            if not NOT_TCP.match(line):
                listeners.append(_listener(line))
    lines.require_known("expected a listening socket")
    return Listeners(listeners=tuple(listeners), not_understood=lines.not_understood)


def _listener(line: str) -> Listener:
    match = LINE.fullmatch(line.strip())
    if not match:
        raise ParseError("expected a listening socket", line=line)
    address, colon, port = match["local"].rpartition(":")
    if not colon:
        raise ParseError("expected `address:port`", line=line)
    process = PROCESS.search(match["rest"])
    return Listener(
        address=address.replace("[", "").replace("]", ""),
        port=integer(port),
        process=process.group(1) if process else None,
        pid=int(process.group(2)) if process else None,
    )


def command(cluster: Cluster, _node: str) -> str:
    """Return a command that lists the programs only if the rendezvous port is in use: finding them is slow."""
    if cluster.training.rendezvous_port is None:
        return "ss -Hltn"
    return f"""
listening=$(ss -Hltn) || exit
case $listening in *:{cluster.training.rendezvous_port}\\ *) ss -Hltnp;; *) printf '%s\\n' "$listening";; esac
"""


PROBE = Probe(
    name="listening",
    title="listening TCP ports",
    command=command,
    parse=parse,
    facts=Listeners,
    tool="ss",
    package="iproute2",
)

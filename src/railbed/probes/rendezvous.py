"""Whether this machine can reach the ranks' rendezvous port on each peer (TCP)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Literal

from railbed.errors import ParseError
from railbed.model.cluster import Cluster
from railbed.model.probe import Pair, PairTest, Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.peer_tests import IN_ONE_WRITE, LOAD, MEASURE_LOAD, MachineLoad, in_batches, parse_load
from railbed.parsing.text import integer

Outcome = Literal["connected", "refused", "timed_out", "no_route", "failed"]

OUTCOMES: tuple[tuple[re.Pattern[str], Outcome], ...] = (
    (re.compile(r"^connected$"), "connected"),
    (re.compile(r"connection refused", re.IGNORECASE), "refused"),
    (re.compile(r"timed out", re.IGNORECASE), "timed_out"),
    (re.compile(r"no route to host|network is unreachable|host is unreachable", re.IGNORECASE), "no_route"),
    (re.compile(r"^\S.*: "), "failed"),
)

KNOWN = re.compile(r"^connected$|^\S.*: |^Traceback|^  |^[\w.]*(?:Error|timeout)\b|timed out", re.IGNORECASE)
"""The lines of bash, Python and timeout."""
FREE_PORT = 45_000
"""In the middle of the range from which Linux chooses ports."""

DIAL = """\
if command -v bash >/dev/null 2>&1; then
dial() { timeout 4 bash -c 'exec 3<>"/dev/tcp/$1/$2"' bash "$1" "$2"; }
else
dial() { timeout 5 python3 -I -c 'import socket,sys; socket.create_connection(sys.argv[1:3],4)' "$1" "$2"; }
fi
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectTest:
    """One attempted connection."""

    node: str
    address: str
    port: int | None
    outcome: Outcome
    """`refused` is fine: the path is open and the port is free. `failed` proves nothing about the path."""
    message: str
    """The line that determined the outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts(TextFacts):
    """All connections that one machine attempted."""

    attempts: tuple[ConnectTest, ...]
    load: MachineLoad | None = None
    """The load of the machine, if measured: before repeating tests that timed out."""


def first_pairs(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """Yield one pair for each peer: the first on a rail that both share."""
    peers = set()
    for pair in pairs:
        if pair.peer not in peers:
            peers.add(pair.peer)
            yield pair


def port_to_try(cluster: Cluster) -> int:
    """Return the rendezvous port, or one of those that the kernel gives to ranks if none is set."""
    return cluster.training.rendezvous_port or FREE_PORT


def command(cluster: Cluster, pairs: Sequence[Pair], patient: bool) -> str:
    """Return one connection to each peer."""
    port = port_to_try(cluster)
    calls = [f"reach {quote(pair.peer)} {quote(str(pair.peer_port.address))} {port}" for pair in first_pairs(pairs)]
    if not calls:
        return ""
    return (
        f'{DIAL}reach() {{ {{ echo "==> $1 $2 $3 <=="; if dial "$2" "$3"; then echo connected; '
        f"elif [ $? = 124 ]; then echo timed out; fi; }} {IN_ONE_WRITE}; }}\n"
        f"{MEASURE_LOAD if patient else ''}{in_batches(calls)}"
    )


def timed_out(facts: Attempts) -> set[str]:
    """Return the addresses that did not answer in time; no answer to an ARP request is reported as no route."""
    return {attempt.address for attempt in facts.attempts if attempt.outcome in ("timed_out", "no_route")}


def parse(text: str) -> Attempts:
    """Read the attempts, as bash or Python reports their outcome."""
    lines = Lines(text)
    parts = list(lines.sections())
    loads = [parse_load(part) for name, part in parts if name == LOAD]
    attempts = tuple(_attempt(name, part) for name, part in parts if name != LOAD)
    return Attempts(attempts=attempts, load=loads[0] if loads else None, not_understood=lines.not_understood)


def _attempt(name: str, part: Lines) -> ConnectTest:
    words = name.split()
    if name and len(words) != 3:
        raise ParseError("expected a peer as `node address port`", line=name)
    node, address, port = words or ("", "", "")
    shown = list(part)
    for line in shown:
        if not KNOWN.search(line):
            part.unknown(line)
    lines = [line.strip() for line in shown]
    for pattern, outcome in OUTCOMES:
        for line in reversed(lines):
            if pattern.search(line):
                return ConnectTest(
                    node=node, address=address, port=integer(port) if port else None, outcome=outcome, message=line
                )
    raise ParseError("expected the outcome of a connection", line=lines[0] if lines else "")


PROBE = Probe(
    name="rendezvous",
    title="TCP connections to the peers' rendezvous port",
    command=PairTest(command=command, timed_out=timed_out),
    parse=parse,
    facts=Attempts,
    timeout=20.0,
)

"""Can this machine reach the port on which the ranks meet? A TCP connection to each peer, with a limit of 2 s."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from shlex import quote
from typing import Literal

from railbed.errors import ParseError
from railbed.model.cluster import Cluster, Port
from railbed.model.probe import Probe
from railbed.probes.parallel import WHOLE, in_batches, peers_to_ask
from railbed.probes.text import integer, sections

Outcome = Literal["connected", "refused", "timed_out", "no_route", "failed"]

OUTCOMES: tuple[tuple[re.Pattern[str], Outcome], ...] = (
    (re.compile(r"^connected$"), "connected"),
    (re.compile(r"connection refused", re.IGNORECASE), "refused"),
    (re.compile(r"timed out", re.IGNORECASE), "timed_out"),
    (re.compile(r"no route to host|network is unreachable|host is unreachable", re.IGNORECASE), "no_route"),
    (re.compile(r"^\S.*: "), "failed"),
)

DIAL = """\
if command -v bash >/dev/null 2>&1; then
dial() { timeout 4 bash -c 'exec 3<>"/dev/tcp/$1/$2"' bash "$1" "$2"; }
else
dial() { timeout 5 python3 -c 'import socket,sys; socket.create_connection(sys.argv[1:3],4)' "$1" "$2"; }
fi
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One connection that was tried."""

    node: str
    address: str
    port: int | None
    outcome: Outcome
    """`refused` is good news: the path is open and the port is free. `failed` says nothing about the path."""
    said: str
    """The words that decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """All connections that one machine tried."""

    attempts: tuple[Attempt, ...]


def targets(cluster: Cluster, node: str) -> Iterator[tuple[str, Port]]:
    """Yield each peer with the port it is asked on: its first one on a rail that both share."""
    seen = set()
    for port in cluster.nodes[node].ports:
        for other, peer in peers_to_ask(cluster, node, port):
            if other not in seen:
                seen.add(other)
                yield other, peer


def command(cluster: Cluster, node: str) -> str:
    """Return one connection to each peer, all at the same time."""
    where = cluster.training.rendezvous_port
    calls = [f"meet {quote(other)} {quote(str(peer.address))} {where}" for other, peer in targets(cluster, node)]
    if not calls:
        return ""
    return (
        f'{DIAL}meet() {{ {{ echo "==> $1 $2 $3 <=="; if dial "$2" "$3"; then echo connected; '
        f"elif [ $? = 124 ]; then echo timed out; fi; }} {WHOLE}; }}\n{in_batches(calls)}"
    )


def parse(text: str) -> Attempts:
    """Read the attempts, as bash or Python word their ends."""
    return Attempts(attempts=tuple(_attempt(name, part) for name, part in sections(text)))


def _attempt(name: str, text: str) -> Attempt:
    words = name.split()
    if name and len(words) != 3:
        raise ParseError("expected a peer as `node address port`", line=name)
    node, address, port = words or ("", "", "")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for pattern, outcome in OUTCOMES:
        for line in reversed(lines):
            if pattern.search(line):
                return Attempt(
                    node=node, address=address, port=integer(port) if port else None, outcome=outcome, said=line
                )
    raise ParseError("expected how a connection ended", line=lines[0] if lines else "")


PROBE = Probe(
    name="rendezvous",
    title="TCP connections to the peers' rendezvous port",
    command=command,
    parse=parse,
    facts=Attempts,
    timeout=20.0,
)

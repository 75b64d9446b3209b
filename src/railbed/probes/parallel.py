"""Asking many peers at once from one shell, without their answers running into each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from railbed.model.cluster import Cluster, Port

AT_ONCE = 64
"""How many questions run at the same time."""

MAX_PEERS = 64
"""How many peers one port asks: all pairs of a large rail would take longer than anyone waits."""

WHOLE = "2>&1 | dd obs=4096 2>/dev/null"
"""Put behind a group of commands: its output leaves in one write, which a pipe keeps in one piece."""


def in_batches(calls: Sequence[str]) -> str:
    """Return shell lines that run the calls in the background, AT_ONCE at a time."""
    batches = [calls[start : start + AT_ONCE] for start in range(0, len(calls), AT_ONCE)]
    return "\n".join(" & ".join(batch) + " & wait" for batch in batches)


def peers_to_ask(cluster: Cluster, node: str, port: Port) -> Iterator[tuple[str, Port]]:
    """Yield the ports on the same rail that a port asks: those that follow in the file, around its end.

    So every port of a rail larger than MAX_PEERS is still asked, by as many others.
    """
    place = {name: index for index, name in enumerate(cluster.nodes)}
    peers = sorted(cluster.peers(node, port), key=lambda peer: (place[peer[0]] - place[node]) % len(place))
    yield from peers[:MAX_PEERS]

"""What rules about nodes share: comparing them, and what uses them.

Rules that compare nodes get the values by node, and a finding for each node without a value. On nodes that are virtual
machines of a lab nothing is installed, since they disappear with the lab. What a run of railbed leaves on a node is no
leftover while it uses the node.
"""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Generic, TypeVar

from railbed.check.shared.port import report_unread
from railbed.model.cluster import Cluster
from railbed.model.probe import Probe
from railbed.model.reading import Unknown
from railbed.probes import agents
from railbed.probes.agents import RunningAgent
from railbed.rules.judgement import Judgement, skip, unknown
from railbed.rules.site import NodeView, Site

F = TypeVar("F")
V = TypeVar("V")
H = TypeVar("H", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Gathered(Generic[V]):
    """Values by node, and judgements of the nodes without a value."""

    values: dict[str, V]
    missing: tuple[Judgement, ...]

    @property
    def comparable(self) -> bool:
        """At least two nodes have a value."""
        return len(self.values) > 1


def gather(site: Site, probe: Probe[F], value: Callable[[F], V | None], expected: str) -> Gathered[V]:
    """Get a value from the facts of every node; None means that the node does not report it."""
    values: dict[str, V] = {}
    missing: list[Judgement] = []
    for node in site.nodes:
        reading = node.facts.read(probe)
        if isinstance(reading, Unknown):
            missing.extend(report_unread([(node, reading)], expected))
            continue
        reported = value(reading.facts)
        if reported is None:
            missing.append(unknown(subject=node.name, expected=expected, observed="the node does not report it"))
        else:
            values[node.name] = reported
    return Gathered(values, tuple(missing))


def too_few(site: Site, gathered: Gathered[V]) -> Iterator[Judgement]:
    """Explain why nothing was compared; nodes without a value have their own finding."""
    if len(site.cluster.nodes) == 1:
        yield skip("only one node: nothing to compare")
    elif not gathered.missing:
        # The rule `reachable` reports the nodes that did not answer.
        yield skip("fewer than two nodes answered")


def most_common(values: Iterable[H]) -> H:
    """Return the value that most nodes have; of equally frequent ones the first."""
    return Counter(values).most_common(1)[0][0]


def with_training(cluster: Cluster) -> str:
    """Return how to bring up the same lab of virtual machines with what training needs; empty for other clusters.

    The nodes of a lab of namespaces use the Python of this machine, and their host is another address.
    """
    lab = cluster.lab
    if lab is None or not all(_is_virtual_machine(node.host) for node in cluster.nodes.values()):
        return ""
    options = [
        f"--name {shlex.quote(lab)} --nodes {len(cluster.nodes)}",
        *([f"--rails {len(cluster.rails)}"] if len(cluster.rails) > 1 else []),
        *(["--switch"] if cluster.switches else []),
    ]
    return (
        f"the nodes are virtual machines of lab {lab!r}: `railbed lab down --name {shlex.quote(lab)}`, "
        f"then `railbed lab up --kind vm {' '.join(options)} --with training`"
    )


def _is_virtual_machine(host: str) -> bool:
    """Whether a machine of a lab is reached at this machine's loopback."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def runs_on(node: NodeView) -> tuple[RunningAgent, ...]:
    """Return the agents on a node; none if they are unknown."""
    facts = node.try_read(agents.PROBE)
    return facts.agents if facts else ()


def describe_run(node: NodeView, agent: RunningAgent) -> str:
    """Return a clause that names a run, the account that it runs under, and its start."""
    since = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(agent.started))
    return f"{agent.kind} {_name(node, agent)} of {agent.user} runs here (since {since})"


def advise_on_run(node: NodeView, agent: RunningAgent) -> str:
    """Return what to do about a run: nobody should have to end its processes by hand."""
    if agent.kind != "training":
        return f"wait until the {agent.kind} is done"
    if agent.job in node.site.runs:
        return f"wait until it is done, or stop it: `railbed train --stop {_name(node, agent)}`"
    command = f"`railbed train --stop {agent.job}`"
    return f"wait until it is done, or have {agent.user} stop it: {command} in the folder where it was started"


def _name(node: NodeView, agent: RunningAgent) -> str:
    return node.site.runs.get(agent.job, agent.job)

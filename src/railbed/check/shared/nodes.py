"""What rules about nodes share.

For rules that compare nodes: the values by node, and a finding for each node without a value.

The Python environment that nodes train with: created where the cluster file says it is, with what training needs.

Nodes that are virtual machines of a lab: nothing is installed on them, since they disappear with the lab.

Runs of railbed that use a node: what a rule says instead of calling them leftovers.
"""

from __future__ import annotations

import re
import shlex
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Generic, TypeVar

from railbed.model.cluster import Cluster
from railbed.model.fix import Fix, Persistence, RunStep, run
from railbed.model.probe import Probe
from railbed.model.reading import Unknown
from railbed.model.requirements import EXTRAS
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
            missing.extend(_unread(node, reading, expected))
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


def _unread(node: NodeView, reading: Unknown, expected: str) -> Iterator[Judgement]:
    """Report unknown facts, unless the device stopped answering, which the rule `reachable` reports."""
    if not reading.device_failed:
        yield unknown(
            subject=node.name,
            expected=expected,
            observed=reading.reason,
            remedy=reading.remedy,
            evidence=reading.evidence,
        )


REQUIREMENTS = EXTRAS["train"]
"""What ranks import: the extra `train`."""
TUNING = EXTRAS["tune"]
"""What ranks import to tune existing models: the extra `tune`."""
INSTALL_SECONDS = 1800
BEFORE = "installed-before-tuning"
"""File in an environment: what was installed there before the libraries for tuning."""
_PYTHON = re.compile(r"(?P<prefix>/[^\s~]*[^/\s~])/bin/python[0-9.]*")


def environment_prefix(python: str) -> str | None:
    """Return the folder of the environment that a Python is in; None if its path does not show it.

    Only absolute paths do: changes are made by root, whose home folder is another.
    """
    match = _PYTHON.fullmatch(python)
    return match["prefix"] if match and not match["prefix"].startswith(("/usr", "/bin")) else None


def create_environment(node: str, prefix: str, *, wheels: str = "", requirements: Sequence[str] = REQUIREMENTS) -> Fix:
    """Create an environment with the requirements: from a package index, or from a folder of wheels on the node."""
    folder, python = shlex.quote(prefix), shlex.quote(f"{prefix}/bin/python")
    removed = RunStep(command=f"rm -r {folder}", only_if=f"[ -e {folder}/pyvenv.cfg ]")
    return Fix(
        device=node,
        apply=run(f"python3 -I -m venv {folder}", _install(python, wheels, requirements)),
        undo=(removed, *_removed_wheels(wheels)),
        persistence=Persistence.KEPT,
        seconds=INSTALL_SECONDS,
        condition=_condition(node, wheels),
    )


def add_libraries(node: str, prefix: str, *, wheels: str = "", after: tuple[str, ...] = ()) -> Fix:
    """Add the libraries for tuning to an environment, without changing what is in it; the undo removes what is new."""
    python, before = shlex.quote(f"{prefix}/bin/python"), shlex.quote(f"{prefix}/{BEFORE}")
    listed = f"{python} -I -m pip list --format=freeze | LC_ALL=C sort"
    added = f"{listed} | LC_ALL=C comm -13 {before} - | cut -d= -f1"
    remove = f"{added} | xargs -r {python} -I -m pip --quiet --no-input uninstall -y && rm {before}"
    return Fix(
        device=node,
        apply=run(f"{listed} >{before}", _install(python, wheels, TUNING, options=f" --constraint {before}")),
        undo=(RunStep(command=remove, only_if=f"[ -e {before} ]"), *_removed_wheels(wheels)),
        persistence=Persistence.KEPT,
        seconds=INSTALL_SECONDS,
        after=after,
        condition=_condition(node, wheels),
    )


def _install(python: str, wheels: str, requirements: Sequence[str], *, options: str = "") -> str:
    source = f" --no-index --find-links {shlex.quote(wheels)}" if wheels else ""
    wanted = " ".join(shlex.quote(requirement) for requirement in requirements)
    return f"{python} -I -m pip --quiet --no-input install{source}{options} {wanted}"


def _removed_wheels(wheels: str) -> tuple[RunStep, ...]:
    folder = shlex.quote(wheels)
    return (RunStep(command=f"rm -r {folder}", only_if=f"[ -d {folder} ]"),) if wheels else ()


def _condition(node: str, wheels: str) -> str:
    return "" if wheels else f"if {node} reaches a package index; with --wheels DIR it does not need to"


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

"""Runs of railbed that use a node: what a rule says instead of calling them leftovers."""

from __future__ import annotations

import time

from railbed.probes import agents
from railbed.probes.agents import Agent
from railbed.rules.site import NodeView


def runs_on(node: NodeView) -> tuple[Agent, ...]:
    """Return the agents on a node; none if they are unknown."""
    facts = node.try_read(agents.PROBE)
    return facts.agents if facts else ()


def describe_run(node: NodeView, agent: Agent) -> str:
    """Return a clause that names a run, the account that it runs under, and its start."""
    since = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(agent.started))
    return f"{agent.kind} {_name(node, agent)} of {agent.user} runs here (since {since})"


def advise_on_run(node: NodeView, agent: Agent) -> str:
    """Return what to do about a run: nobody should have to end its processes by hand."""
    if agent.kind != "training":
        return f"wait until the {agent.kind} is done"
    if agent.job in node.site.runs:
        return f"wait until it is done, or stop it: `railbed train --stop {_name(node, agent)}`"
    command = f"`railbed train --stop {agent.job}`"
    return f"wait until it is done, or have {agent.user} stop it: {command} in the folder where it was started"


def _name(node: NodeView, agent: Agent) -> str:
    return node.site.runs.get(agent.job, agent.job)

"""What a change of the configuration does to traffic, as a real switch does it.

A queuing or network-qos policy of `system qos` acts on all ports: all lose packets while it changes. A queuing policy
of one interface acts on that interface alone. `flowcontrol` takes the link of its port down and up.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from switchlab.nexus.model.config import Attachment, Config
from switchlab.nexus.model.counters import Link, Port
from switchlab.nexus.model.render import policy_map_block

LOST_PACKETS = 1000
SYSTEM: tuple[Attachment, ...] = (("queuing", "input"), ("queuing", "output"), ("network-qos", ""))
FLOW_CONTROL = ("flowcontrol receive", "flowcontrol send")

State = dict[tuple[str, str], str]
"""What is programmed, by what it is and where: `("queuing", "Ethernet1/1")`; the system has no name."""


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Ports whose traffic a change stopped for a moment."""

    cause: str
    ports: tuple[str, ...]
    flapped: bool = False


def hardware_state(config: Config) -> State:
    """Return what a configuration programs into the hardware that cannot be changed under traffic."""
    state: State = {}
    for kind, direction in SYSTEM:
        if policy := config.system_policy((kind, direction)):
            state[f"{kind} {direction}".strip(), ""] = "\n".join(policy_map_block(policy).lines())
    for interface in config.interfaces.values():
        for (kind, direction), name in interface.policies.items():
            policy = config.policy_maps.get(("queuing", name)) if kind == "queuing" else None
            if policy:
                state[f"{kind} {direction}", interface.name] = "\n".join(policy_map_block(policy).lines())
        flow = [interface.settings[key] for key in FLOW_CONTROL if key in interface.settings]
        if flow:
            state["flowcontrol", interface.name] = "; ".join(flow)
    return state


def disturbances(before: State, after: State, config: Config, links: Mapping[str, Link]) -> Iterator[Disturbance]:
    """Yield what the step from one state to another does to the ports that have a link."""
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) == after.get(key):
            continue
        what, where = key
        ports = config.physical_ports(where) if where else [name for name in links if name.startswith("Ethernet")]
        up = tuple(name for name in ports if name in links and links[name].up)
        yield Disturbance(f"{what} of {where or 'system qos'}", up, flapped=what == "flowcontrol")


def disturb(disturbance: Disturbance, ports: Mapping[str, Port], links: Mapping[str, Link]) -> None:
    """Count what the ports lose."""
    for name in disturbance.ports:
        ports[name].errors["out_discards"] += LOST_PACKETS
        if disturbance.flapped:
            ports[name].resets += 1
            links[name].changed = time.time()

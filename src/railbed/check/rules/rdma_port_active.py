"""The RDMA port is ACTIVE and its link is up.

What
----
sysfs (or `rdma link`) shows state ACTIVE and physical state LinkUp for the port's RDMA device.

Why
---
A port that is not ACTIVE cannot create a queue pair: NCCL leaves it out and the rail carries nothing, or the first
all-reduce fails with "transport retry counter exceeded" after half a minute.

Fix
---
DOWN: bring the interface up (`ip link set dev IF up`), then look at cable and switch port. INIT on InfiniBand: no
subnet manager has set up the port. Disabled: `rdma` or the firmware has the port off.

Source
------
Linux kernel documentation, ABI/stable/sysfs-class-infiniband (state, phys_state).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from railbed.check.shared.port import no_rdma, not_there, rdma_name, rdma_port
from railbed.probes import infiniband, rdma_link
from railbed.rules.judgement import Judgement, fail, ok, unknown
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

LINK_UP = {"LinkUp", "LINK_UP"}


def judge(port: PortView) -> Iterator[Judgement]:
    """Look at both states of the port."""
    expected = "ACTIVE, LinkUp"
    states = _states(port)
    if states is None:
        yield not_there(port, expected)
        return
    state, physical = states
    observed = f"{state or 'no state'}, {physical or 'no physical state'}"
    if state is None:
        yield unknown(expected=expected, observed=observed)
    elif state == "ACTIVE" and (physical is None or physical in LINK_UP):
        yield ok(expected=expected, observed=observed)
    else:
        yield fail(expected=expected, observed=observed, remedy=_remedy(port, state))


def _states(port: PortView) -> tuple[str | None, str | None] | None:
    """Return state and physical state from netlink, else from sysfs; None if there is no such port."""
    links = port.node.try_read(rdma_link.PROBE)
    link = links.links.get(rdma_name(port)) if links else None
    if link:
        return link.state, link.physical_state
    own = rdma_port(port)
    return (own.state, own.phys_state) if own else None


def _remedy(port: PortView, state: str) -> str:
    if port.port.is_hca:
        return "look at cable and switch port, then at the subnet manager: see subnet_manager"
    bring_up = f"ip link set dev {shlex.quote(port.port.netdev)} up"
    return f"{bring_up}; then look at cable and switch port" if state == "DOWN" else ""


RULE = Rule(
    name="rdma_port_active",
    title="RDMA port active, link up",
    scope="RDMA port",
    needs=(rdma_link.PROBE, infiniband.PROBE),
    judge=judge,
    unless=no_rdma,
    doc=__doc__,
    at_restart=True,
)

"""Why no QoS policy is planned on a Nexus: it has no room to classify packets, or it carries Fibre Channel.

A qos policy needs TCAM, and only a reload gives it some. Without it, RDMA cannot be classified, and every other change
would interrupt ports for nothing. On a Nexus 5000 with FCoE, a new queuing policy would take its bandwidth away.
"""

from __future__ import annotations

from typing import Any

from railbed.check.shared.nexus_qos import FCOE, SwitchQos, interface_of, place_of
from railbed.model.probe import Probe
from railbed.probes.nexus import interface, tcam
from railbed.rules.site import SwitchPortView, SwitchView

LIMIT_PROBES: tuple[Probe[Any], ...] = (tcam.PROBE,)
"""What `qos_obstacle` reads, if a switch has it."""
ENTRIES_PER_DSCP = 3
"""One for IPv4 and two for IPv6."""


def qos_obstacle(switch: SwitchView, qos: SwitchQos) -> str:
    """Return advice if no QoS policy can be planned on a switch; empty if nothing prevents it."""
    if qos.family == "5000":
        return _fcoe(qos)
    return next(filter(None, (_no_room(port, qos) for port in switch.ports)), "")


def is_classified(port: SwitchPortView, qos: SwitchQos) -> bool:
    """Whether a port has a qos policy of its own, which proves that there is room for it."""
    return "qos input" in qos.port(place_of(port)).policies


def room_to_verify(port: SwitchPortView, qos: SwitchQos) -> str:
    """Return what a person has to know before a port gets its first qos policy; empty if railbed knows it."""
    if qos.family == "5000" or is_classified(port, qos) or port.switch.try_read(tcam.PROBE) is not None:
        return ""
    return "if `show hardware access-list tcam region` has room for qos, which could not be read"


def _fcoe(qos: SwitchQos) -> str:
    if not (policy := qos.fcoe_policy):
        return ""
    return (
        f"railbed changes no QoS policy of a Nexus 5000 with FCoE, which would lose its bandwidth: {policy} has "
        f"{FCOE}; add a class for QoS group {qos.wanted_group} to your policies beside it"
    )


def _no_room(port: SwitchPortView, qos: SwitchQos) -> str:
    """Return advice if a port has no qos policy yet, and its TCAM region no room for one."""
    regions = port.switch.try_read(tcam.PROBE)
    link = interface_of(port) if port.switch.try_read(interface.PROBE) else None
    if link is None or regions is None or is_classified(port, qos):
        return ""
    place = place_of(port)
    region = regions.for_qos(routed=link.mode == "routed")
    needed = ENTRIES_PER_DSCP * len({port.policy.dscp, port.policy.cnp_dscp})
    if region is None or region[1] >= needed:
        return ""
    name, size = region
    return (
        f"{place} cannot classify packets, since the TCAM region {name} has size {size}: take memory from a region "
        f"that is not used, then `hardware access-list tcam region {name} 256`, `copy running-config startup-config`, "
        f"and reload {port.switch.name} when nobody needs it"
    )

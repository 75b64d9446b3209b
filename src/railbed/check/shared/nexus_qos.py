"""QoS in force on a Nexus: the no-drop group, what a port's policies do, and the names of its classes.

`qos_obstacle` says why no QoS policy is planned. A qos policy needs TCAM, and only a reload gives it some: without it,
RDMA cannot be classified, and every other change would interrupt ports for nothing. On a Nexus 5000 with FCoE, a new
queuing policy would take its bandwidth away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from railbed.model.cluster import Policy
from railbed.model.probe import Probe
from railbed.parsing.nexus.answer import find_port
from railbed.parsing.nexus.qos import ClassMap, PolicyClass, PolicyMap, PolicyType
from railbed.probes.nexus import class_map, interface, policy_system, port_channel, running_qos, tcam, version
from railbed.probes.nexus.interface import SwitchInterface
from railbed.probes.nexus.policy_system import SystemPolicies
from railbed.probes.nexus.running_qos import PortQos, RunningQos
from railbed.rules.judgement import Judgement, skip
from railbed.rules.site import SwitchPortView, SwitchView

QOS_PROBES: tuple[Probe[Any], ...] = (
    *(running_qos.PROBE, policy_system.PROBE, class_map.PROBE),
    *(port_channel.PROBE, version.PROBE),
)
"""What `qos_of` and `place_of` read: part of `needs` of every rule that calls them."""
Family = Literal["8q", "4q", "5000"]
"""Eight or four queues with classes of fixed names, or a Nexus 5000, whose classes are the user's own."""
MATCH_ANY_RELEASE = "7."
"""Its guide for the Nexus 9000: `match-all` yields the same results as `match-any`."""
HIGHEST_GROUP: dict[Family, int] = {"8q": 7, "4q": 3, "5000": 5}
FCOE = "class-fcoe"
JudgePort = Callable[[SwitchPortView], Iterator[Judgement]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchQos:
    """QoS of one switch, with the policy of the cluster file."""

    policy: Policy
    running: RunningQos
    system: SystemPolicies
    class_maps: tuple[ClassMap, ...]
    release: str | None = None
    """Release of NX-OS; None if it was not read."""

    @property
    def family(self) -> Family:
        """The kind of switch, by the names of its built-in classes."""
        names = [item.name for item in self.class_maps if item.type == "queuing"]
        if any(name.startswith("c-out-8q-") for name in names):
            return "8q"
        return "4q" if any(name.startswith("c-out-q") for name in names) else "5000"

    @property
    def no_drop_class(self) -> PolicyClass | None:
        """The network-qos class that is paused on the policy's priority."""
        classes = self.system.network_qos.classes if self.system.network_qos else ()
        return next((item for item in classes if self.policy.priority in self.paused_by(item)), None)

    @property
    def no_drop_group(self) -> int | None:
        """The QoS group that is paused on the policy's priority; None if there is none."""
        return self.group_of("network-qos", self.no_drop_class.name) if self.no_drop_class else None

    @property
    def wanted_group(self) -> int:
        """The QoS group for RDMA: the one that is no-drop already, else the one with the priority's number.

        On a Nexus 9000 never the highest, which is that of the only strict queue: with four queues, RDMA is in group 2.
        """
        highest = HIGHEST_GROUP[self.family] - (0 if self.family == "5000" else 1)
        return self.no_drop_group or min(self.policy.priority, highest) or 1

    @property
    def wanted_strict_group(self) -> int | None:
        """The QoS group for congestion notifications, if no policy has a strict queue yet.

        A single strict queue of a Nexus 9000 has to be the highest: None if RDMA is in it.
        """
        highest = HIGHEST_GROUP[self.family]
        if highest != self.wanted_group:
            return highest
        return highest - 1 if self.family == "5000" else None

    @property
    def fcoe_policy(self) -> str:
        """A policy with a class for Fibre Channel over Ethernet; empty if there is none."""
        in_force = (self.system.network_qos, self.system.queuing_output, self.system.queuing_input)
        policies = [policy for policy in (*in_force, *self.running.policies) if policy]
        return next((item.name for item in policies if any(entry.name == FCOE for entry in item.classes)), "")

    def paused_by(self, item: PolicyClass) -> tuple[int, ...]:
        """Return the priorities that a network-qos class pauses; on a Nexus 5000 it is the number of its group."""
        group = self.group_of("network-qos", item.name)
        return item.pause or ((group,) if item.no_drop and group is not None else ())

    def group_of(self, kind: PolicyType, name: str) -> int | None:
        """Return the QoS group of a class of the type queuing or network-qos."""
        item = next((item for item in self.class_maps if (item.type, item.name) == (kind, name)), None)
        return next(iter(sorted(item.qos_groups)), None) if item else None

    def class_name(self, kind: PolicyType, group: int) -> str | None:
        """Return the class of a QoS group that policies for output or the network use; a Nexus 5000 may have none."""
        names = [
            item.name
            for item in self.class_maps
            if item.type == kind and group in item.qos_groups and not item.name.startswith("c-in-")
        ]
        if names or self.family == "5000":
            return names[0] if names else None
        family = "8q-" if self.family == "8q" else ""
        prefix = f"c-out-{family}q" if kind == "queuing" else f"c-{family}nq"
        return f"{prefix}{group}" if group else f"{prefix}-default"

    def port(self, name: str) -> PortQos:
        """Return what a port was configured with."""
        return find_port(self.running.ports, name) or PortQos()

    def classification(self, port: str) -> PolicyMap | None:
        """Return the policy that classifies the packets that arrive at a port."""
        name = self.port(port).policies.get("qos input") or self.running.system.get("qos input")
        return self.running.policy(name, "qos") if name else self.system.qos_input

    def egress(self, port: str) -> PolicyMap | None:
        """Return the policy of a port's queues."""
        name = self.port(port).policies.get("queuing output")
        return self.running.policy(name, "queuing") if name else self.system.queuing_output

    @property
    def narrows(self) -> bool | None:
        """Whether all lines of a `match-all` class have to match; None if the guide of the release is not known."""
        if self.family == "5000":
            return True
        return False if (self.release or "").startswith(MATCH_ANY_RELEASE) else None

    def class_of_dscp(self, policy: PolicyMap | None, dscp: int) -> PolicyClass | None:
        """Return the first class of a policy that matches all packets of a DSCP."""
        return next((item for item, includes in self._classes_of(policy, dscp) if includes), None)

    def undecided_class(self, policy: PolicyMap | None, dscp: int) -> ClassMap | None:
        """Return a class tried before that one that may match as well, and sets another group; None if none does."""
        certain = self.class_of_dscp(policy, dscp)
        for item, includes in self._classes_of(policy, dscp):
            if includes:
                return None
            if includes is None and (certain is None or certain.qos_group != item.qos_group):
                return self.running.class_map(item.name)
        return None

    def _classes_of(self, policy: PolicyMap | None, dscp: int) -> Iterator[tuple[PolicyClass, bool | None]]:
        for item in policy.classes if policy else ():
            matched = self.running.class_map(item.name)
            yield item, matched.includes(dscp, conjunctive=self.narrows) if matched else False

    def queue_of(self, policy: PolicyMap | None, group: int) -> PolicyClass | None:
        """Return what a queuing policy does with a QoS group."""
        classes = policy.classes if policy else ()
        return next((item for item in classes if self.group_of("queuing", item.name) == group), None)

    def strict_groups(self, policy: PolicyMap | None) -> list[int]:
        """Return the QoS groups that a queuing policy serves first, the highest level before the others."""
        strict = [item for item in (policy.classes if policy else ()) if item.priority is not None]
        groups = (self.group_of("queuing", item.name) for item in sorted(strict, key=lambda item: item.priority or 0))
        return [group for group in groups if group is not None]


def qos_of(switch: SwitchView) -> SwitchQos:
    """Return the QoS of a switch, or end this judgement as unknown."""
    return SwitchQos(
        policy=switch.policy,
        running=switch.read(running_qos.PROBE),
        system=switch.read(policy_system.PROBE),
        class_maps=switch.read(class_map.PROBE).class_maps,
        release=release.release if (release := switch.try_read(version.PROBE)) else None,
    )


def interface_of(port: SwitchPortView) -> SwitchInterface | None:
    """Return the port as the switch shows it, or None if the switch has none of that name."""
    return find_port(port.read(interface.PROBE).ports, port.port.name)


def port_name_of(port: SwitchPortView) -> str:
    """Return the name that the switch gives the port."""
    key = find_port({name: name for name in port.read(interface.PROBE).ports}, port.port.name)
    return key or port.port.name


def place_of(port: SwitchPortView) -> str:
    """Return the interface where a port is configured: its port-channel, if it is a member of one."""
    channels = port.switch.try_read(port_channel.PROBE)
    return (channels.channel_of(port.port.name) if channels else None) or port_name_of(port)


def speed_gbps(port: SwitchPortView) -> float | None:
    """Return the speed of a port: of its link, else of its rail in the cluster file; None if neither is known."""
    own = interface_of(port)
    if own and own.up and own.speed_mbps:
        return own.speed_mbps / 1000
    site = port.site
    cable = site.cabling.of_switch(port.switch.name, port.port)
    return site.cluster.rails[cable.port.rail].speed if cable else None


def no_port(port: SwitchPortView) -> Judgement:
    """Leave a missing port to the rule `switch_link`."""
    return skip(f"no port {port.port.name}: see switch_link")


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

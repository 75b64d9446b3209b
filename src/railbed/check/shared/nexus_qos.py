"""QoS in force on a Nexus: the no-drop group, what a port's policies do, and the names of its classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from railbed.model.cluster import Policy
from railbed.model.probe import Probe
from railbed.parsing.nexus.answer import find_port
from railbed.parsing.nexus.qos import ClassMap, PolicyClass, PolicyMap, PolicyType
from railbed.probes.nexus import class_map, interface, policy_system, running_qos, version
from railbed.probes.nexus.interface import SwitchInterface
from railbed.probes.nexus.policy_system import SystemPolicies
from railbed.probes.nexus.running_qos import PortQos, RunningQos
from railbed.rules.judgement import Judgement, skip
from railbed.rules.site import SwitchPortView, SwitchView

QOS_PROBES: tuple[Probe[Any], ...] = (running_qos.PROBE, policy_system.PROBE, class_map.PROBE, version.PROBE)
"""What `qos_of` reads: part of `needs` of every rule that calls it."""
Family = Literal["8q", "4q", "5000"]
"""Eight or four queues with classes of fixed names, or a Nexus 5000, whose classes are the user's own."""
MATCH_ANY_RELEASE = "7."
"""Its guide for the Nexus 9000: `match-all` yields the same results as `match-any`."""
HIGHEST_GROUP: dict[Family, int] = {"8q": 7, "4q": 3, "5000": 5}
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
        """The QoS group for RDMA: the one that is no-drop already, else the one with the priority's number."""
        return self.no_drop_group or min(self.policy.priority, HIGHEST_GROUP[self.family]) or 1

    @property
    def wanted_strict_group(self) -> int:
        """The QoS group for congestion notifications, if no policy has a strict queue yet."""
        highest = HIGHEST_GROUP[self.family]
        return highest if highest != self.wanted_group else highest - 1

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

"""What is expected of addresses and marks: from the cluster file, or nothing for files taken elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address

from railbed.model.cluster import Cluster

SOFTWARE = ("rxe", "siw")
"""How software devices are usually named; people may name them differently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPort:
    """The port that an address belongs to."""

    node: str
    port: str = ""
    rail: str = ""
    speed: float | None = None
    """Of the link, in Gb/s; None if unknown."""
    mtu: int | None = None
    """Of the interface; None if unknown."""
    software: bool | None = False
    """Soft-RoCE or another software device: it neither sends nor obeys notifications. None if that is not known."""

    @property
    def name(self) -> str:
        """`node/port`, or the node."""
        return f"{self.node}/{self.port}" if self.port else self.node


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Expectations; None or empty if there are none."""

    places: Mapping[str, KnownPort] = field(default_factory=dict)
    """By address."""
    dscp: int | None = None
    """Of RDMA packets."""
    ecn: bool | None = None
    """Whether RDMA packets are expected to be ECN-capable."""
    priority: int | None = None
    """The lossless priority."""
    cnp_dscp: int | None = None
    cnp_priority: int | None = None

    @classmethod
    def of(cls, cluster: Cluster, software: Mapping[tuple[str, str], bool] | None = None) -> Context:
        """Return what a cluster file expects; `software` is what the nodes show of their ports' devices.

        Without that, only the kernel's names for software devices show one, and no name shows a card.
        """
        shown = software or {}
        places = {}
        for node, port in cluster.ports():
            places[plain_address(str(port.address))] = KnownPort(
                node=node,
                port=port.netdev,
                rail=port.rail,
                speed=cluster.rails[port.rail].speed,
                mtu=cluster.mtu_of(port.rail),
                software=shown.get((node, port.netdev), (port.rdma or "").startswith(SOFTWARE) or None),
            )
        policy = cluster.policy
        return cls(
            places=places,
            dscp=policy.dscp,
            ecn=policy.ecn,
            priority=policy.priority,
            cnp_dscp=policy.cnp_dscp,
            cnp_priority=policy.cnp_priority,
        )

    def place(self, address: str) -> KnownPort | None:
        """Return the port that has an address; None if the cluster file has none."""
        return self.places.get(plain_address(address))

    def node(self, address: str) -> str:
        """Return the node that has an address, or the address."""
        place = self.place(address)
        return place.node if place else address

    def port(self, address: str) -> str:
        """Return `node/port` of an address, or the address."""
        place = self.place(address)
        return place.name if place else address

    def rail(self, address: str) -> str:
        """Return the rail that an address is on; empty if unknown."""
        place = self.place(address)
        return place.rail if place else ""


def plain_address(address: str) -> str:
    """Return an address in its usual spelling; an IPv4 address inside a GID as IPv4."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return str(mapped or parsed)

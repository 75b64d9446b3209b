"""TCAM regions: how much memory each kind of access list has, which only a reload changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from switchlab.nexus.model.config import Config, Interface
from switchlab.nexus.model.platform import Platform

LINE = "hardware access-list tcam region"


@dataclass(frozen=True, slots=True)
class Region:
    """A region as it comes out of the box."""

    label: str
    name: str
    size: int


CLOUD_SCALE = (
    Region("NAT ACL", "nat", 0),
    Region("Ingress PACL", "ing-ifacl", 0),
    Region("VACL", "vacl", 0),
    Region("Ingress RACL", "ing-racl", 1536),
    Region("Ingress L2 QOS", "ing-l2-qos", 512),
    Region("Ingress L3/VLAN QOS", "ing-l3-vlan-qos", 512),
    Region("Ingress SUP", "ing-sup", 512),
    Region("Egress RACL", "egr-racl", 512),
    Region("Egress SUP", "egr-sup", 256),
)
ALE = (
    Region("IPV4 PACL", "ifacl", 0),
    Region("IPV4 Port QoS", "qos", 256),
    Region("IPV4 RACL", "racl", 1536),
    Region("IPV4 L3 QoS", "l3qos", 0),
    Region("SPAN", "span", 256),
    Region("Ingress COPP", "copp", 256),
    Region("Redirect", "redirect", 256),
)


def regions_of(platform: Platform) -> tuple[Region, ...]:
    """Return the regions of a model; a Nexus 5000 shows none in this form."""
    if platform.family == "n5k":
        return ()
    return ALE if platform.layout == "ale" else CLOUD_SCALE


def qos_region(platform: Platform, interface: Interface) -> str | None:
    """Return the region that a qos policy at an interface needs."""
    if platform.family == "n5k":
        return None
    if platform.layout == "ale":
        return "l3qos" if interface.routed else "qos"
    return "ing-l3-vlan-qos" if interface.routed else "ing-l2-qos"


def region_sizes(platform: Platform, config: Config) -> dict[str, int]:
    """Return the sizes after a boot with a configuration."""
    sizes = {region.name: region.size for region in regions_of(platform)}
    for key, line in config.settings.items():
        if key.startswith(LINE):
            sizes[key.split()[-1]] = int(line.split()[-1])
    return sizes


def describe(platform: Platform, sizes: Mapping[str, int]) -> str:
    """Return `show hardware access-list tcam region`."""
    lines = [
        (f"{region.label} [{region.name}]", sizes.get(region.name, region.size)) for region in regions_of(platform)
    ]
    lines.insert(-1, ("Ingress System", 256))
    return "".join(f"{label:>54} size = {size:>4} \n" for label, size in lines)

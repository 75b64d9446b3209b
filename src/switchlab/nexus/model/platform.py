"""The switch models that can be emulated: ports, queues, and how each model formats its queuing table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Layout = Literal["ale", "cloudscale-9.2", "cloudscale", "n5k"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PortGroup:
    """Consecutive front-panel ports of one kind."""

    first: int
    last: int
    mbps: int
    hardware: str
    transceiver: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Platform:
    """One switch model running one NX-OS release."""

    name: str
    layout: Layout
    model: str
    chassis: str
    release: str
    bios: str
    image: str
    module: str
    queues: Literal[4, 8]
    ports: tuple[PortGroup, ...]
    family: Literal["n9k", "n5k"] = "n9k"
    features: tuple[str, ...] = ()
    internal_ports: int = 0

    @property
    def port_names(self) -> tuple[str, ...]:
        return tuple(f"Ethernet1/{number}" for group in self.ports for number in range(group.first, group.last + 1))

    def port_group(self, number: int) -> PortGroup:
        return next(group for group in self.ports if group.first <= number <= group.last)


_SFP28 = PortGroup(
    first=1, last=48, mbps=25_000, hardware="100/1000/10000/25000 Ethernet", transceiver="SFP-H25GB-CU3M"
)
_QSFP28 = PortGroup(
    first=49,
    last=54,
    mbps=100_000,
    hardware="1000/10000/25000/40000/50000/100000 Ethernet",
    transceiver="QSFP-100G-CR4",
)

_C93180YC = Platform(
    name="n9k",
    layout="cloudscale",
    model="N9K-C93180YC-FX3",
    chassis="Nexus9000 C93180YC-FX3 Chassis",
    release="10.4(3)",
    bios="01.10",
    image="nxos64-cs.10.4.3.F.bin",
    module="48x10/25G/32G + 6x40/100G Ethernet/FC Module",
    queues=8,
    ports=(_SFP28, _QSFP28),
)

PLATFORMS: dict[str, Platform] = {
    platform.name: platform
    for platform in (
        _C93180YC,
        replace(
            _C93180YC,
            name="n9k-400g",
            model="N9K-C9332D-GX2B",
            chassis="Nexus9000 C9332D-GX2B Chassis",
            module="32x400G + 2x1/10G Ethernet Module",
            ports=(
                PortGroup(first=1, last=32, mbps=400_000, hardware="400000 Ethernet", transceiver="QDD-400-CU3M"),
                PortGroup(first=33, last=34, mbps=10_000, hardware="1000/10000 Ethernet", transceiver="SFP-10G-SR"),
            ),
        ),
        replace(
            _C93180YC,
            name="n9k-9.2",
            layout="cloudscale-9.2",
            model="N9K-C93180YC-EX",
            chassis="Nexus9000 C93180YC-EX chassis",
            release="9.2(3)",
            bios="07.65",
            image="nxos.9.2.3.bin",
            module="48x10/25G + 6x40/100G Ethernet Module",
        ),
        Platform(
            name="n9k-ale",
            layout="ale",
            model="N9K-C9332PQ",
            chassis="Nexus9000 C9332PQ Chassis",
            release="7.0(3)I7(10)",
            bios="07.69",
            image="nxos.7.0.3.I7.10.bin",
            module="32x40G Ethernet Module",
            queues=4,
            ports=(
                PortGroup(
                    first=1, last=32, mbps=40_000, hardware="1000/10000/40000 Ethernet", transceiver="QSFP-H40G-CU3M"
                ),
            ),
            internal_ports=6,
        ),
        Platform(
            name="n5k",
            layout="n5k",
            model="N5K-C5548UP-SUP",
            chassis='Nexus5548 Chassis ("O2 32X10GE/Modular Universal Platform Supervisor")',
            release="7.3(2)N1(1)",
            bios="3.6.0",
            image="n5000-uk9.7.3.2.N1.1.bin",
            module="O2 32X10GE/Modular Universal Platform Supervisor",
            queues=8,
            ports=(
                PortGroup(first=1, last=32, mbps=10_000, hardware="1000/10000 Ethernet", transceiver="SFP-H10GB-CU3M"),
            ),
            family="n5k",
            features=("lldp",),
        ),
    )
}

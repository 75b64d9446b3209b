"""The cluster as it should be. These classes are the cluster file; their texts become its reference and schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv6Address
from pathlib import PurePath
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from railbed.model.cluster.bmc import Bmc, BmcAccess, bmc_name
from railbed.model.cluster.login import Login
from railbed.model.cluster.part import Part
from railbed.model.cluster.values import (
    Address,
    Dscp,
    Fingerprint,
    Host,
    Kilobytes,
    Mtu,
    Name,
    Netdev,
    Number,
    Priority,
    Program,
    RailMtu,
    RdmaDevice,
    Subnet,
    SwitchPortName,
    TcpPort,
    Text,
    Whole,
    _launcher,
)

NO_ADDRESS = IPv6Address("::")
LOCAL_HOST = "local"
"""The `host` that means this machine, without SSH."""

DeviceKind = Literal["node", "switch", "bmc"]
"""What can be reached, probed and judged."""


class Policy(Part):
    """The lossless policy that hosts and switches must agree on."""

    pfc: bool = True
    """Priority flow control on `priority`."""
    ecn: bool = True
    """ECN marking on the switch, and DCQCN on the cards."""
    priority: Priority = 3
    """The only no-drop priority, used by RDMA."""
    dscp: Dscp = 26
    """DSCP of RDMA traffic; it maps to `priority`."""
    cnp_priority: Priority = 6
    """Priority of congestion notification packets."""
    cnp_dscp: Dscp = 48
    """DSCP of congestion notification packets."""
    host_mtu: Mtu = 9000
    """MTU of the nodes' interfaces on rails that do not set `mtu`."""
    switch_mtu: Mtu = 9216
    """MTU of the switch ports."""
    ecn_low_kbytes: Kilobytes | None = None
    """Length of a switch's queue from which packets are marked with ECN; when not given, it depends on the speed."""
    ecn_high_kbytes: Kilobytes | None = None
    """Length from which every packet is marked; when not given, it depends on the speed."""
    ecn_probability: Annotated[Whole, Field(ge=1, le=100)] | None = None
    """Percentage of packets that is marked just below `ecn_high_kbytes`; when not given, 7."""

    @model_validator(mode="after")
    def _thresholds_in_order(self) -> Policy:
        if self.ecn_low_kbytes and self.ecn_high_kbytes and self.ecn_low_kbytes > self.ecn_high_kbytes:
            raise ValueError("ecn_low_kbytes must not be greater than ecn_high_kbytes")
        return self

    @property
    def traffic_class(self) -> int:
        """Return the traffic class byte of RDMA packets: DSCP, and ECT(0) if ECN is on (26 gives 106)."""
        return self.dscp << 2 | (2 if self.ecn else 0)


class Rail(Part):
    """One network that connects a port of every node: a subnet, a cable between two nodes, or an InfiniBand fabric."""

    subnet: Subnet | None = None
    """Network address with its prefix, for example `10.1.0.0/24`."""
    point_to_point: bool = False
    """A cable between exactly two ports, without a switch."""
    infiniband: bool = False
    """An InfiniBand fabric; its `hcas` need neither interface nor address."""
    speed: Annotated[Number, Field(gt=0)] | None = None
    """Speed of every link in Gb/s; if not set, all links of the rail must be equal."""
    mtu: RailMtu | None = None
    """MTU of the nodes' interfaces on this rail; if not set, the policy's `host_mtu`."""

    @model_validator(mode="after")
    def _has_a_form(self) -> Rail:
        if self.subnet is None and not self.point_to_point and not self.infiniband:
            raise ValueError("needs a subnet, point_to_point: true or infiniband: true")
        return self


class Port(Part):
    """One network port of a node, on a rail."""

    netdev: Netdev
    """Network interface, as `ip link` names it."""
    rdma: RdmaDevice | None = None
    """RDMA device, as `rdma link` names it; leave it out if there is no RDMA."""
    rdma_port: Annotated[Whole, Field(ge=1, le=255)] = 1
    """Port of the RDMA device."""
    rail: Name
    """Rail that the port belongs to."""
    address: Address
    """Address of the port on the rail."""

    @property
    def is_hca(self) -> bool:
        """Whether it stands for one of `hcas`, which has no interface and no address."""
        return self.address == NO_ADDRESS


class Hca(Part):
    """One InfiniBand port without a network interface (IPoIB)."""

    rdma: RdmaDevice
    """RDMA device, as `rdma link` names it."""
    rdma_port: Annotated[Whole, Field(ge=1, le=255)] = 1
    """Port of the RDMA device."""
    rail: Name
    """InfiniBand fabric that the port belongs to: a rail with `infiniband: true`."""

    @property
    def as_port(self) -> Port:
        """The port that rules about RDMA devices judge: named like its device, without an address."""
        return Port.model_construct(
            netdev=self.rdma, rdma=self.rdma, rdma_port=self.rdma_port, rail=self.rail, address=NO_ADDRESS
        )


class Gpu(Part):
    """One GPU of a node."""

    name: Text
    """Model, as the driver names it."""
    memory_gb: Annotated[Number, Field(gt=0)] | None = None
    """Memory in GB."""


class Node(Part):
    """One machine that trains."""

    host: Host
    """Address or name for SSH; `local` is this machine, without SSH."""
    login: Login = Login()
    """Login of this node, if it differs from the cluster's."""
    ports: tuple[Port, ...] = ()
    """Ports on rails."""
    hcas: tuple[Hca, ...] = ()
    """InfiniBand ports that have no network interface."""
    gpus: tuple[Gpu, ...] = ()
    """GPUs."""
    python: Program | None = None
    """The Python to train with on this node, if it differs from the one in `training`."""
    bmc: Bmc | None = None
    """Its BMC: power, sensors and the event log, also while the node is dead."""

    @property
    def rdma_ports(self) -> tuple[Port, ...]:
        """Its ports on rails, whether or not they have an RDMA device, and what stands for its HCAs."""
        return (*self.ports, *(hca.as_port for hca in self.hcas))


class SwitchPort(Part):
    """One port of a switch and the node port cabled to it."""

    name: SwitchPortName
    """Port, as the switch names it, for example `Ethernet1/1`."""
    node: Name
    """Node at the other end."""
    netdev: Netdev
    """Interface at the other end."""


class Nxapi(Part):
    """Where a switch serves NX-API, and which certificate to accept.

    Without `ca` and `fingerprint`, an authority that this machine trusts must have signed the certificate.
    """

    port: TcpPort = 443
    """HTTPS port of NX-API."""
    ca: Text | None = None
    """File with the certificates of the authorities to trust, in place of this machine's."""
    fingerprint: Fingerprint | None = None
    """Fingerprint of the only certificate to accept, whoever signed it."""

    @model_validator(mode="after")
    def _one_way_to_trust(self) -> Nxapi:
        if self.ca is not None and self.fingerprint is not None:
            raise ValueError("give ca or fingerprint, not both")
        return self

    @property
    def open_port(self) -> int:
        """The port that it listens on."""
        return self.port


class Switch(Part):
    """One switch."""

    host: Host | None = None
    """Address or name; leave it out for a switch that cannot be logged in to."""
    os: Literal["nxos"] = "nxos"
    """Its operating system."""
    access: Literal["ssh", "nxapi"] = "ssh"
    """How the switch is read; it is always changed over SSH."""
    login: Login = Login()
    """Login of this switch, if it differs from the cluster's; NX-API uses its `user`, `password` and `jump`."""
    nxapi: Nxapi = Nxapi()
    """Port and certificate of NX-API."""
    ports: tuple[SwitchPort, ...] = ()
    """Ports that nodes are cabled to."""


class Training(Part):
    """What training needs on the nodes."""

    rendezvous_port: TcpPort | None = None
    """TCP port on which the ranks meet, if a firewall requires a certain one; otherwise they take any free port."""
    min_disk_gb: Annotated[Number, Field(ge=0)] = 20.0
    """Free disk space every node must have for checkpoints and logs, in GB."""
    workdir: Text = "~"
    """Folder on the nodes for code, checkpoints and logs."""
    python: Program = "python3"
    """The Python to train with: a command, or the path of a virtual environment's interpreter."""
    launcher: Annotated[tuple[Text, ...], AfterValidator(_launcher)] = ()
    """Words before that Python, which run it in a container or with other settings: `[apptainer, exec, image.sif]`."""


class Cluster(Part):
    """The cluster file."""

    name: Name
    """Name of the cluster."""
    login: Login = Login()
    """Login for all devices that do not set their own."""
    bmc: BmcAccess = BmcAccess()
    """How the BMCs of nodes are reached, as far as a node's own `bmc` does not set it; never the cluster's login."""
    policy: Policy = Policy()
    """The lossless policy."""
    rails: Mapping[Name, Rail] = {}
    """Rails by name."""
    nodes: Annotated[Mapping[Name, Node], Field(min_length=1)]
    """Nodes by name."""
    switches: Mapping[Name, Switch] = {}
    """Switches by name."""
    training: Training = Training()
    """Port, disk space and folder that training needs."""

    @property
    def lab(self) -> str | None:
        """Name of the lab whose key and host keys log in to the nodes (`…/labs/NAME/key`); None for a real cluster."""
        key, known_hosts = PurePath(self.login.key or ""), PurePath(self.login.known_hosts or "")
        is_lab = key.parts[-3::2] == ("labs", "key") and known_hosts == key.with_name("known_hosts")
        return key.parent.name if is_lab else None

    def bmcs(self) -> Mapping[str, tuple[str, Bmc]]:
        """Return every BMC by its name as a device, with its node and completed from the cluster's `bmc`."""
        return {
            bmc_name(name): (name, node.bmc.over(self.bmc)) for name, node in self.nodes.items() if node.bmc is not None
        }

    def python_of(self, node: str) -> str:
        """Return the Python that trains on a node."""
        return self.nodes[node].python or self.training.python

    def interpreter_of(self, node: str) -> tuple[str, ...]:
        """Return the words that start the Python that trains on a node: the launcher's, and then Python."""
        return (*self.training.launcher, self.python_of(node))

    def ports(self) -> Iterator[tuple[str, Port]]:
        """Yield every port with the name of its node."""
        for name, node in self.nodes.items():
            for port in node.ports:
                yield name, port

    def mtu_of(self, rail: str) -> int:
        """Return the MTU of the nodes' interfaces on a rail."""
        return self.rails[rail].mtu or self.policy.host_mtu

    def peers(self, node: str, port: Port) -> Iterator[tuple[str, Port]]:
        """Yield the ports of other nodes on the same rail."""
        for other, peer in self.ports():
            if other != node and peer.rail == port.rail:
                yield other, peer

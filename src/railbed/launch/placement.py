"""Where the ranks of a job run: participating nodes, their addresses, interfaces, environment, files and agents.

A verb runs its job in five steps:

    deployment = Deployment(cluster, {node: number of ranks}, folder="runs/NAME", parcels=[…])
    shipped = await deployment.ship(fleet)          # code and parcels on the nodes; failures by node
    async for record in deployment.pass_on(fleet)   # large parcels, from node to node; failures join the others
    placements = deployment.placements(fabric)      # the nodes that have everything, in the order of the cluster file
    Supervisor(fleet, job, placements, minimum)     # starts their agents, and through them the ranks
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from railbed.fleet import Fleet
from railbed.launch.fabric import NodeFabric
from railbed.launch.files.distribute import Distribution
from railbed.launch.files.ship import ARCHIVE, Parcel, Shipped, module_command, own_code, ship
from railbed.model.cluster import LOCAL_HOST, Cluster, Node
from railbed.model.record import Record

AGENT = "railbed.launch.node.agent"
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A participating node: how its ranks are started, and how the others reach them."""

    node: str
    address: str
    """Its address on the rail that the ranks use, or on another network if no rail reaches all nodes."""
    ranks: int = 1
    interface: str = "lo"
    """The network interface that has the address."""
    interpreter: Sequence[str] = ("python3",)
    """The words that start its Python: those of a launcher, and the interpreter itself."""
    base: str = ""
    """railbed's folder on the node."""
    code: str = ""
    """The archive of railbed's code on the node."""
    folder: str = ""
    """The job's own folder on this node; two nodes that share a disk have two."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Settings of NCCL, UCX and Gloo for the fabric here."""
    no_rdma: str = ""
    """Why there is no RDMA here; empty if there is."""

    def path_of(self, parcel: Parcel) -> str:
        """Return the folder of a parcel on the node."""
        return f"{self.base}/{parcel.name}"

    def command(self, module: str, *arguments: str) -> str:
        """Return the command that runs a module of railbed on the node."""
        return module_command(self.interpreter, self.code, module, arguments)

    def agent_command(self, preload: Sequence[str]) -> str:
        """Return the command that starts the node's agent, with the modules that its fork server loads."""
        return self.command(AGENT, self.folder, *preload)


class Deployment:
    """A job's files on the participating nodes, and the resulting placements."""

    def __init__(
        self, cluster: Cluster, ranks: Mapping[str, int], *, folder: str, parcels: Sequence[Parcel] = ()
    ) -> None:
        self._cluster = cluster
        self._ranks = ranks
        self._folder = folder
        self._code = own_code()
        self._parcels = (self._code, *(parcel for parcel in parcels if not parcel.pieces))
        self._large = [parcel for parcel in parcels if parcel.pieces]
        self.shipped = Shipped()
        """What is on the nodes."""

    @property
    def size(self) -> int:
        """Return the bytes for a node that has none of the files yet."""
        return sum(sum(parcel.sizes.values()) for parcel in (*self._parcels, *self._large))

    async def ship(self, fleet: Fleet) -> Shipped:
        """Copy the code and the small parcels to the nodes."""
        interpreters = {name: self._cluster.interpreter_of(name) for name in self._ranks}
        workdir = self._cluster.training.workdir
        self.shipped = await ship(fleet, interpreters, workdir, self._parcels, folder=self._folder)
        return self.shipped

    async def pass_on(self, fleet: Fleet) -> AsyncGenerator[Record, None]:
        """Bring the large parcels to the nodes that have the small ones; others are moved to those that failed."""
        for parcel in self._large:
            distribution = Distribution(fleet, self._cluster, parcel, self.shipped.bases)
            async with aclosing(distribution.run()) as records:
                async for record in records:
                    yield record
            self.shipped.failed.update(distribution.failed)
            for name in distribution.failed:
                del self.shipped.bases[name]

    def placements(self, fabric: Mapping[str, NodeFabric]) -> list[Placement]:
        """Return the placements of the nodes that have everything; their order decides which has rank 0."""
        return [self._placement(name, fabric[name]) for name in self._ranks if name in self.shipped.bases]

    def _placement(self, name: str, fabric: NodeFabric) -> Placement:
        node, base, place = self._cluster.nodes[name], self.shipped.bases[name], fabric.meeting
        return Placement(
            node=name,
            address=place.address if place else rank_address(node) or LOOPBACK,
            ranks=self._ranks[name],
            interface=place.interface if place else node.ports[0].netdev if node.ports else "lo",
            interpreter=self._cluster.interpreter_of(name),
            base=base,
            code=f"{base}/{self._code.name}/{ARCHIVE}",
            folder=f"{base}/{self._folder}/{name}",
            environment=fabric.environment,
            no_rdma=fabric.obstacle,
        )


def rank_address(node: Node) -> str | None:
    """Return an address of a node on a rail, by which its ranks meet the others unless a cluster needs another network.

    A node with InfiniBand alone is reached as it is logged in to. None if it has no port.
    """
    if node.ports:
        return str(node.ports[0].address)
    if node.host == LOCAL_HOST:
        return LOOPBACK
    return node.host if node.hcas else None


def ranks_by_default(node: Node) -> int:
    """Return how many ranks a node gets: one for each GPU, or one."""
    return max(1, len(node.gpus))


def rendezvous_port(cluster: Cluster) -> int:
    """Return the port that rank 0 has to listen on, because firewalls allow it; 0 for any free one.

    If all ranks are on this machine, there is no firewall between them: any free port allows several runs at once.
    """
    if any(node.ports or node.host != LOCAL_HOST for node in cluster.nodes.values()):
        return cluster.training.rendezvous_port or 0
    return 0

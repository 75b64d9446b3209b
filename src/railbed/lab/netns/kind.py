"""The kind of lab made of namespaces."""

from __future__ import annotations

import platform
import sys
from collections.abc import AsyncGenerator, Iterable, Mapping
from importlib.util import find_spec

from railbed.errors import ToolMissing, UsageError
from railbed.lab.host import make_keys, need_programs, need_root, run, together, write_known_hosts
from railbed.lab.model import SWITCH, LabNode, Spec, StoredLab, SwitchDoor, management_address, rail_name
from railbed.lab.netns import cabling, machine, slurm
from railbed.lab.netns.machine import switch_namespace
from railbed.lab.steps import Signs, no_signs
from railbed.model import events
from railbed.model.cluster import Node, Port
from railbed.model.events.general import progress
from railbed.model.record import Event
from railbed.model.requirements import install_extra

MOST_NODES = 64
MOST_RAILS = 8
SSH_PORT, NXAPI_PORT = 22, 443
CARD_MBPS = 10_000
"""Speed that a virtual cable reports, regardless of how it is shaped."""
PACKAGES = {
    "ip": "iproute2",
    "tc": "iproute2",
    "nft": "nftables",
    "ethtool": "ethtool",
    "ping": "iputils-ping",
    "sshd": "openssh-server",
    "ssh-keygen": "openssh-client",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setsid": "util-linux",
    "mount": "mount",
    "hostname": "hostname",
}


class NetnsKind:
    """See `railbed.lab.kind.LabKind`."""

    def admit(self, spec: Spec) -> None:
        """Refuse what the address range or this machine cannot hold."""
        if spec.nodes > MOST_NODES:
            raise UsageError(f"a netns lab has at most {MOST_NODES} nodes", hint="choose fewer")
        if spec.rails > MOST_RAILS:
            raise UsageError(f"a netns lab has at most {MOST_RAILS} rails", hint="choose fewer")
        if spec.arch not in (None, platform.machine()):
            raise UsageError(
                f"the nodes of a netns lab share this machine's processor, which is {platform.machine()}",
                hint=f"--kind vm emulates {spec.arch}",
            )
        if spec.accelerator:
            raise UsageError("the nodes of a netns lab need no accelerator", hint="omit it, or add --kind vm")
        need_root("a netns lab")
        need_programs({**PACKAGES, **slurm.PACKAGES} if spec.scheduler else PACKAGES)
        if spec.scheduler:
            slurm.need_settings()
        if spec.training and find_spec("torch") is None:
            raise ToolMissing(
                "the nodes of a netns lab train with the Python of railbed, which has no torch",
                hint=f"`{install_extra('train')}` installs what training needs",
            )

    async def taken_numbers(self) -> set[int]:
        """Return numbers whose management network overlaps with one that this machine is on or has a route to."""
        addresses, routes = await run(["ip", "-j", "addr"]), await run(["ip", "-j", "route"])
        return set(cabling.numbers_in_use(addresses, routes))

    async def claim(self, lab: StoredLab) -> None:
        """Give this machine its address on the lab's management network."""
        await cabling.lay_uplink(lab)

    async def build(self, lab: StoredLab) -> AsyncGenerator[Event, None]:
        """Create keys, cables and nodes."""
        yield progress("laying cables", subject=lab.spec.name)
        machine.write_files(lab)
        if lab.spec.scheduler:
            slurm.write_files(lab)
        await together([make_keys(lab), cabling.lay_cables(lab)])
        doors = {each.name: (self._host(each), SSH_PORT) for each in lab.machines}
        write_known_hosts(lab, doors | ({SWITCH: (self.switch_door(lab).host, SSH_PORT)} if lab.spec.switch else {}))
        await cabling.shape_nodes(lab)
        await cabling.settle_rails(lab)
        yield events.LabCabled(subject=lab.spec.name, message="cables laid, keys made")
        yield progress("starting the nodes", subject=lab.spec.name)
        await together(machine.start(lab, each) for each in lab.machines)

    def signs(self, lab: StoredLab) -> Signs:  # noqa: ARG002
        """Namespaces start within seconds."""
        return no_signs

    async def destroy(self, lab: StoredLab) -> None:
        """End what runs on the nodes, then remove their networks."""
        await machine.stop(lab, lab.machines)
        await cabling.remove_cables(lab)

    def describe(self, lab: StoredLab, node: LabNode) -> Node:
        """Return a node; it trains with the Python that runs railbed, since it sees the same disk."""
        ports = (
            Port(netdev=rail_name(rail), rail=rail_name(rail), address=node.rail_address(rail))
            for rail in range(lab.spec.rails)
        )
        return Node(host=self._host(node), ports=tuple(ports), python=sys.executable)

    def switch_door(self, lab: StoredLab) -> SwitchDoor:
        """Return the switch's address on the management network, which its namespace is in."""
        return SwitchDoor(
            host=str(management_address(lab.number, cabling.THIS_SWITCH)),
            ssh_port=SSH_PORT,
            nxapi_port=NXAPI_PORT,
            enter=("ip", "netns", "exec", switch_namespace(lab)),
        )

    async def rail_macs(self, lab: StoredLab) -> Mapping[tuple[LabNode, int], str]:
        """Return the addresses that the kernel gave the cards."""
        addresses = await together(cabling.card_addresses(lab, node) for node in lab.nodes)
        by_node = dict(zip(lab.nodes, addresses, strict=True))
        return {(node, rail): by_node[node][rail_name(rail)] for node, rail in lab.ports()}

    def link_mbps(self, lab: StoredLab) -> int | None:  # noqa: ARG002
        """Return the speed of virtual cables."""
        return CARD_MBPS

    async def settle(self, lab: StoredLab, targets: Iterable[str]) -> None:
        """Apply the faults to all rails and to the named nodes."""
        await cabling.settle_rails(lab)
        for each in lab.machines:
            if each.name in targets:
                if each in lab.nodes:
                    await cabling.settle_mtu(lab, each)
                    await cabling.settle_cards(lab, each)
                await machine.settle(lab, each)

    async def states(self, lab: StoredLab) -> Mapping[str, str]:
        """Return the state of each machine."""
        return {each.name: machine.state(lab, each) for each in lab.machines}

    def _host(self, node: LabNode) -> str:
        return str(management_address(node.lab, node.number))

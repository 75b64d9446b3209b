"""The firewall of every node admits its peers.

What
----
On every rail interface, new connections from the peers are accepted: TCP to the ports that the kernel gives to the
ranks, Gloo and NCCL (32768 to 60999), TCP to `training.rendezvous_port` if it is set, and UDP 4791 if the port has
RDMA. The result is derived from the filter's rules; if they are too complex for that and packets may be dropped, the
rule warns.

Why
---
Ranks, NCCL and Gloo use ports that are not known in advance. With a firewall that allows only certain ports, the ranks
do not meet, or they meet and then hang in the first collective. RDMA in hardware bypasses the firewall: blocking UDP
4791 stops only Soft-RoCE, and is a warning for other cards.

Fix
---
Accept everything from the rail's subnet on the rail's interface, and nothing else: `ufw prepend allow in on IF from
SUBNET`; `firewall-cmd --permanent --zone=ZONE --add-rich-rule='rule family="ipv4" source address="SUBNET" accept'`, the
same without `--permanent`; or `nft insert rule inet filter input 'iifname "IF" ip saddr SUBNET accept'`, which must be
repeated at boot. `configure` uses what manages the firewall.

Source
------
nft(8), iptables(8), ufw(8), firewalld.richlanguage(5); Linux kernel documentation, `ip_local_port_range`; UDP 4791 is
RoCEv2's port at IANA.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from railbed.check.advice import fill_in
from railbed.check.shared.firewall import BlockedPort, admit_peers
from railbed.check.shared.port import no_port, some
from railbed.parsing.firewall.rules import Packet
from railbed.probes import firewall
from railbed.rules.judgement import Judgement, fail, ok, warn
from railbed.rules.rule import HandStep, Rule
from railbed.rules.site import NodeView, PortView

ROCE_PORT = 4791
EPHEMERAL = (32768, 45000, 60999)
"""The ends and the middle of the range from which Linux chooses ports."""
EXPECTED = "peers may connect on the rails"
SOFT_ROCE = "rxe"


def judge(node: NodeView) -> Iterator[Judgement]:
    """Evaluate the rules for packets from a peer of each port."""
    facts = node.read(firewall.PROBE)
    hard: dict[str, str] = {}
    soft: dict[str, str] = {}
    blocked: list[BlockedPort] = []
    for port in node.ports:
        chains: dict[str, None] = {}
        count = len(hard) + len(soft)
        for packet, name, needed in _packets(port):
            verdict = facts.verdict(packet)
            if verdict == "drop":
                (hard if needed else soft).setdefault(f"{name} dropped on {packet.netdev}", packet.netdev)
            elif verdict is None:
                soft.setdefault(f"{name} on {packet.netdev} unclear", packet.netdev)
            chains |= dict.fromkeys(facts.blocking(packet))
        if len(hard) + len(soft) > count:
            blocked.append(BlockedPort(port=port, chains=tuple(chains)))
    working = [name for name, at_work in facts.managers.items() if at_work]
    who = ", ".join((*facts.backends, *working)) or "no firewall"
    if wrong := hard or soft:
        fix = admit_peers(node, facts, blocked)
        # The rule for the first interface; those for others are made like it.
        remedy = "" if fix else fill_in(RULE.fix, node.site.cluster, f"{node.name}/{next(iter(wrong.values()))}")
        evidence = "\n".join((who, *hard, *soft))
        judge_as = fail if hard else warn
        yield judge_as(expected=EXPECTED, observed=some(wrong, 2), fix=fix, remedy=remedy, evidence=evidence)
    else:
        yield ok(expected=EXPECTED, observed=f"accepted ({who})")


def _packets(port: PortView) -> Iterator[tuple[Packet, str, bool]]:
    """Yield a packet of each kind from a peer of the port, its name, and whether training requires it."""
    cluster = port.site.cluster
    peer = next(cluster.peers(port.node.name, port.port), None)
    if peer is None:
        return
    rendezvous = cluster.training.rendezvous_port
    kinds: list[tuple[Literal["tcp", "udp"], int, str, bool]] = []
    if rendezvous:
        kinds.append(("tcp", rendezvous, f"TCP {rendezvous}", True))
    kinds += [("tcp", number, "TCP 32768-60999", True) for number in EPHEMERAL]
    if port.port.rdma:
        kinds.append(("udp", ROCE_PORT, f"UDP {ROCE_PORT}", port.port.rdma.startswith(SOFT_ROCE)))
    for protocol, number, name, needed in kinds:
        yield Packet(protocol=protocol, port=number, netdev=port.port.netdev, source=peer[1].address), name, needed


def _by_hand(node: NodeView) -> Iterator[HandStep]:
    rails = " and ".join(dict.fromkeys(_rail_of(port) for port in node.ports))
    yield HandStep(node.name, f"if it has a firewall, admit everything from {rails}")


def _rail_of(port: PortView) -> str:
    return str(port.rail.subnet or port.port.rail)


RULE = Rule(
    name="firewall",
    title="the firewall admits the peers",
    scope="node",
    needs=(firewall.PROBE,),
    judge=judge,
    by_hand=_by_hand,
    unless=no_port,
    doc=__doc__,
    at_restart=True,
    rank=105,
)

"""The fix that lets the peers of a rail through a node's firewall: what comes from its subnet, on its interface.

A rule goes where the firewall is managed: ufw and firewalld store their own. Rules of nftables or iptables that neither
of them manages are set again at boot by railbed's unit.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from shlex import quote

from railbed.model.fix import Fix, Persistence, RunStep
from railbed.probes.firewall import Firewall
from railbed.rules.site import NodeView, PortView

Source = IPv4Network | IPv6Network
PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.@-]*")
"""Names that nft, ufw and firewalld read as one word. They come from the device: no others become part of a command."""
IPTABLES = {"ip iptables INPUT": "iptables", "ip6 iptables INPUT": "ip6tables"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """One rule that accepts what comes from a rail, and how it is taken back."""

    apply: RunStep
    undo: RunStep
    lasts: bool = False
    """The service that manages the firewall stores it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedPort:
    """A port whose peers may not get through, and the base chains that stop them."""

    port: PortView
    chains: Collection[str]


def admit_peers(node: NodeView, facts: Firewall, blocked: Sequence[BlockedPort]) -> Fix | None:
    """Return the fix; None if a name in it is not plain, or it is not known what manages the firewall."""
    openings: list[Opening] = []
    for entry in blocked:
        made = list(_openings(facts, entry))
        if None in made or not made:
            return None
        openings += [opening for opening in made if opening]
    unique = list(dict.fromkeys(openings))
    return Fix(
        device=node.name,
        apply=tuple(opening.apply for opening in unique),
        undo=tuple(opening.undo for opening in reversed(unique)),
        persistence=Persistence.KEPT if all(opening.lasts for opening in unique) else Persistence.BOOT,
    )


def _openings(facts: Firewall, blocked: BlockedPort) -> Iterator[Opening | None]:
    netdev = blocked.port.port.netdev
    if not PLAIN.fullmatch(netdev):
        yield None
        return
    for source in _sources(blocked.port):
        # Without a listing, only the manager is known.
        for chain in blocked.chains or ("",):
            yield _opening(facts, chain, netdev, source)


def _opening(facts: Firewall, chain: str, netdev: str, source: Source) -> Opening | None:
    is_iptables = chain in IPTABLES or not chain
    if facts.managers.get("ufw") and is_iptables:
        return _ufw(netdev, source)
    if facts.managers.get("firewalld") and (is_iptables or " firewalld " in chain):
        zone = facts.zones.get(netdev) or facts.zones.get("", "")
        return _firewalld(zone, source) if PLAIN.fullmatch(zone) else None
    if chain in IPTABLES:
        return _iptables(IPTABLES[chain], netdev, source)
    names = chain.split(" ")
    return _nft(chain, netdev, source) if len(names) == 3 and all(map(PLAIN.fullmatch, names)) else None


def _sources(port: PortView) -> list[Source]:
    """Return the rail's subnet, or the addresses of the peers on a cable without one."""
    if port.rail.subnet:
        return [port.rail.subnet]
    return [ip_network(peer.address) for _, peer in port.node.site.cluster.peers(port.node.name, port.port)]


def _ufw(netdev: str, source: Source) -> Opening:
    rule = f"allow in on {netdev} from {_short(source)}"
    return Opening(
        # Before all others: one of them may deny it.
        apply=RunStep(command=f"ufw prepend {rule}", verify=_ufw_has(rule)),
        undo=RunStep(command=f"ufw delete {rule}", only_if=_ufw_has(rule)),
        lasts=True,
    )


def _ufw_has(rule: str) -> str:
    return f"ufw show added | grep -qx {quote(f'ufw {rule}')}"


def _firewalld(zone: str, source: Source) -> Opening:
    rule = f'rule family="ipv{source.version}" source address="{_short(source)}" accept'
    add, remove = (
        f"firewall-cmd -q --permanent --zone={zone} --{verb}-rich-rule={quote(rule)}"
        f" && firewall-cmd -q --zone={zone} --{verb}-rich-rule={quote(rule)}"
        for verb in ("add", "remove")
    )
    present = f"firewall-cmd -q --permanent --zone={zone} --query-rich-rule={quote(rule)}"
    return Opening(apply=RunStep(command=add), undo=RunStep(command=remove, only_if=present), lasts=True)


def _iptables(tool: str, netdev: str, source: Source) -> Opening:
    rule = f"INPUT -i {netdev} -s {source} -j ACCEPT"
    return Opening(
        apply=RunStep(command=f"{tool} -I {rule}"),
        undo=RunStep(command=f"{tool} -D {rule}", only_if=f"{tool} -C {rule} 2>/dev/null"),
    )


def _nft(chain: str, netdev: str, source: Source) -> Opening:
    """Insert a rule at the head of a chain; its comment finds it again, and however often it was inserted."""
    comment = f'comment "railbed: {netdev} from {source}"'
    family = "ip" if source.version == 4 else "ip6"
    rule = f'iifname "{netdev}" {family} saddr {source} accept {comment}'
    handles = f"nft -a list chain {chain} | sed -n {quote(f's|.* {comment} # handle ||p')}"
    return Opening(
        apply=RunStep(command=f"nft insert rule {chain} {quote(rule)}"),
        undo=RunStep(
            command=f"{handles} | xargs -r -n 1 nft delete rule {chain} handle",
            only_if=f"nft list chain {chain} 2>/dev/null | grep -qF {quote(comment)}",
        ),
    )


def _short(source: Source) -> str:
    """Return an address without the prefix that it needs nowhere, as the tools show it."""
    return str(source.network_address) if source.num_addresses == 1 else str(source)

"""The packet filter: what it does with new connections (nft, else iptables; ufw and firewalld by name)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.firewall.listings import read_iptables, read_nft, without_iptables
from railbed.parsing.firewall.rules import Chain, Packet, Verdict, Walk
from railbed.parsing.lines import Lines, TextFacts

ZONE = re.compile(r"(?P<name>[\w./-]+)(?: \(default\))?")
MANAGERS = {
    "Status: active": True,
    "Status: inactive": False,
    "running": True,
    "not running": False,
    "failed": True,
}
"""firewalld is `failed` if it runs but could not apply all its rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Firewall(TextFacts):
    """The packet filter of a machine."""

    backends: tuple[str, ...]
    """What was read: `nft`, `iptables`, `ip6tables`."""
    managers: dict[str, bool]
    """`ufw` and `firewalld`, and whether they are active."""
    chains: dict[str, Chain]
    """Chains by family, table and name."""
    zones: dict[str, str] = field(default_factory=dict)
    """firewalld's zones by interface; the default zone is that of the empty name."""

    @property
    def input_policy(self) -> Verdict | None:
        """What happens to incoming packets that match no rule; None if no filter was read."""
        policies = {chain.policy for chain in self.chains.values() if chain.policy}
        if not policies:
            return "accept" if self.backends or not any(self.managers.values()) else None
        return "drop" if "drop" in policies else "accept"

    def verdict(self, packet: Packet) -> Verdict | None:
        """Return what happens to the first packet of a connection; None if that cannot be determined."""
        if not self.backends and any(self.managers.values()):
            return None
        return Walk(self.chains, packet).verdict()

    def blocking(self, packet: Packet) -> list[str]:
        """Return the base chains that drop the first packet of a connection, or may drop it."""
        return Walk(self.chains, packet).blocking()


def parse(text: str) -> Firewall:
    """Read the listings of the filters; a saved listing without sections is recognised by its form."""
    lines = Lines(text)
    parts = {name or _looks_like(part): part for name, part in lines.sections()}
    chains = read_nft(parts["nft"].json or parts["nft"].text) if "nft" in parts else {}
    for backend, family in (("iptables", "ip"), ("ip6tables", "ip6")):
        if backend in parts:
            chains = without_iptables(chains) | read_iptables(parts[backend], family)
    return Firewall(
        backends=tuple(name for name in ("nft", "iptables", "ip6tables") if name in parts),
        managers={name: _at_work(parts[name]) for name in ("ufw", "firewalld") if name in parts},
        chains=chains,
        zones=_zones(parts.get("zones")) | _default_zone(parts.get("default_zone")),
        not_understood=lines.not_understood,
    )


def _zones(lines: Lines | None) -> dict[str, str]:
    """Read `firewall-cmd --get-active-zones`: a zone, and its interfaces and sources indented below it."""
    zones: dict[str, str] = {}
    zone = ""
    for line in lines or ():
        key, colon, names = line.strip().partition(":")
        if ZONE.fullmatch(line):
            zone = line.split()[0]
        elif colon and key == "interfaces" and zone:
            zones |= dict.fromkeys(names.split(), zone)
        elif lines and not colon:
            lines.unknown(line)
    return zones


def _default_zone(lines: Lines | None) -> dict[str, str]:
    match = lines.first(ZONE) if lines else None
    return {"": match["name"]} if match else {}


def _looks_like(lines: Lines) -> str:
    if lines.json:
        return "nft"
    for line in lines.text.splitlines():
        if line.startswith("-P "):
            return "iptables"
        if line.strip() in MANAGERS:
            return "ufw" if line.startswith("Status") else "firewalld"
    raise ParseError("no listing of a packet filter", line=lines.text.strip().partition("\n")[0])


def _at_work(lines: Lines) -> bool:
    """Return the first state; ufw lists its rules below it."""
    state: bool | None = None
    for line in lines:
        if state is None and line.strip() in MANAGERS:
            state = MANAGERS[line.strip()]
        elif state is None:
            lines.unknown(line)
    if state is None:
        lines.refuse("expected active or inactive")
    return state


# `iptables -S` would load its old kernel modules, so it is used only if there is no nft, if those modules are in use
# already, or if nft shows rules that only iptables can read.
COMMAND = """\
has() { command -v "$1" >/dev/null 2>&1; }
rules=; if has nft; then rules=$(nft -j list ruleset 2>&1); printf '==> nft <==\\n%s\\n' "$rules"; fi
case $rules in '') old=yes;; *'"xt"'*) old=yes;; *) old=$(cat /proc/net/ip_tables_names 2>/dev/null);; esac
for tool in iptables ip6tables; do
if [ -n "$old" ] && has $tool; then echo "==> $tool <=="; $tool -S 2>&1; fi
done
if has ufw; then echo '==> ufw <=='; ufw status 2>&1; fi
if has firewall-cmd; then
  echo '==> firewalld <=='; if firewall-cmd --state 2>&1; then
    echo '==> zones <=='; firewall-cmd --get-active-zones 2>/dev/null
    echo '==> default_zone <=='; firewall-cmd --get-default-zone 2>/dev/null
  fi
fi
echo '==> none <=='"""

PROBE = Probe(
    name="firewall",
    title="packet filter: what it does with new connections",
    command=COMMAND,
    parse=parse,
    facts=Firewall,
    needs_root=True,
    one_line=True,
)

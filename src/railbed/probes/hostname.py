"""The hostname, and the addresses it resolves to on the machine itself (`/proc`, `getent ahosts`).

The order of the addresses is preserved: a program that binds to "its" address takes the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.text import sections

COMMAND = r"""
read -r name </proc/sys/kernel/hostname
printf '==> hostname <==\n%s\n' "$name"
if command -v getent >/dev/null 2>&1; then
  printf '==> addresses <==\n'; getent ahosts "$name"
fi
if [ -r /etc/hosts ]; then printf '==> hosts <==\n'; cat /etc/hosts; fi
exit 0
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hostname:
    """A machine's own name."""

    name: str
    addresses: tuple[str, ...] | None = None
    """Addresses that the name resolves to, in order; empty if there are none, None if not read."""

    hosts: str | None = None
    """The content of /etc/hosts, if it was read."""

    @property
    def resolves_to_loopback_first(self) -> bool:
        """A program that binds to the first address binds to loopback."""
        return _address(self.addresses[0]).is_loopback if self.addresses else False


def parse(text: str) -> Hostname:
    """Read both sections; text without sections is a saved `hostname` followed by `getent ahosts`."""
    parts = dict(sections(text))
    name, _, rest = parts.get("hostname", parts.get("", "")).strip().partition("\n")
    if not name or len(name.split()) != 1:
        raise ParseError("no hostname", line=name)
    addresses = parts.get("addresses", rest.strip() or None)
    return Hostname(
        name=name.strip(), addresses=None if addresses is None else _addresses(addresses), hosts=parts.get("hosts")
    )


def _addresses(text: str) -> tuple[str, ...]:
    """Return each address once, though getent lists it for every kind of socket."""
    lines = [line for line in text.splitlines() if line.strip()]
    return tuple(dict.fromkeys(str(_address(line.split()[0])) for line in lines))


def _address(text: str) -> IPv4Address | IPv6Address:
    try:
        return ip_address(text)
    except ValueError:
        raise ParseError("expected an address", line=text) from None


PROBE = Probe(
    name="hostname",
    title="hostname and the addresses it resolves to",
    command=COMMAND,
    parse=parse,
    facts=Hostname,
)

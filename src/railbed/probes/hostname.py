"""The hostname, and the addresses it resolves to on the machine itself (`/proc`, `getent ahosts`).

The order of the addresses is preserved: a program that binds to "its" address takes the first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts

NAME = re.compile(r"[\w.-]+")
COMPLAINT = re.compile(r"getent: ")
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
class Hostname(TextFacts):
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
    lines = Lines(text)
    parts = dict(lines.sections())
    name, addresses, failed = "", dict[str, None](), False
    for line in (line for part in ("", "hostname", "addresses") for line in parts.get(part, ())):
        with lines.reading(line):
            words = line.split()
            failed = failed or (name != "" and COMPLAINT.match(line) is not None)
            if not name and len(words) == 1 and NAME.fullmatch(words[0]):
                name = words[0]
            else:
                # getent lists an address for every kind of socket.
                addresses[str(_address(words[0]))] = None
    lines.require(name, "no hostname")
    return Hostname(
        name=name,
        addresses=tuple(addresses) if addresses or ("addresses" in parts and not failed) else None,
        hosts=parts["hosts"].text if "hosts" in parts else None,
        not_understood=lines.not_understood,
    )


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

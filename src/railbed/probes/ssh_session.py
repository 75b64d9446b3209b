"""The address that this SSH session arrived at (`SSH_CONNECTION`): it shows which network carries SSH.

It has to be read on the machine: from outside, a jump host, a name or address translation hides it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from ipaddress import ip_address

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts

WORDS = 4
"""The client's address and port, then the server's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SshSession(TextFacts):
    """The machine's end of the session; all None if there is no session."""

    address: str | None = None
    """As Python's `ipaddress` writes it, without the interface."""
    netdev: str | None = None
    """The interface, which is part of a link-local address."""
    port: int | None = None


def parse(text: str) -> SshSession:
    """Read the variable's value; empty text means no session."""
    lines = Lines(text)
    session: SshSession | None = None
    for line in lines:
        with lines.reading(line):
            read = _session(line.split())
            session = session or read
    lines.require_known("expected two addresses with their ports")
    return replace(session or SshSession(), not_understood=lines.not_understood)


def _session(words: list[str]) -> SshSession:
    if len(words) != WORDS or not (words[3].isascii() and words[3].isdigit()) or len(words[3]) > 5:
        raise ParseError("expected two addresses with their ports", line=" ".join(words))
    address, _, netdev = words[2].partition("%")
    try:
        parsed = ip_address(address)
    except ValueError:
        raise ParseError("expected an address", line=words[2]) from None
    mapped = parsed.ipv4_mapped if parsed.version == 6 else None
    return SshSession(address=str(mapped or parsed), netdev=netdev or None, port=int(words[3]))


PROBE = Probe(
    name="ssh_session",
    title="address that the SSH session arrived at",
    command="printf '%s\\n' \"${SSH_CONNECTION-}\"",
    parse=parse,
    facts=SshSession,
)

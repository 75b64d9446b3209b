"""Ports and networks as packet filters write them."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_network

from railbed.errors import ParseError
from railbed.parsing.text import integer


def port_range(text: str) -> tuple[int, int]:
    """Read `22` or `8000:9000`."""
    low, _, high = text.partition(":")
    return integer(low), integer(high or low)


def networks(texts: Iterable[str]) -> tuple[str, ...]:
    """Return networks as Python's `ipaddress` writes them."""
    result = []
    for text in texts:
        try:
            result.append(str(ip_network(text, strict=False)))
        except ValueError:
            raise ParseError("expected a network", line=text) from None
    return tuple(result)

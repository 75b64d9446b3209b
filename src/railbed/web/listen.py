"""Listening on an address, before anything is loaded or stored for it."""

from __future__ import annotations

import errno
import socket

from railbed.errors import UsageError, os_reason

BACKLOG = 64


def listen(address: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 takes a free one. Raises UsageError if that is not possible."""
    try:
        family, *_, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(where[:2], family=family, backlog=BACKLOG)
    except socket.gaierror as error:
        raise UsageError(
            f"{address} is not an address of this machine", hint="`ip addr` lists the addresses of this machine"
        ) from error
    except OSError as error:
        raise UsageError(f"cannot serve on {address} port {port}: {_reason(error)}", hint=_hint(error)) from error


def _reason(error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return "the port is in use"
        case errno.EADDRNOTAVAIL:
            return "it is not an address of this machine"
        case errno.EACCES:
            return "ports below 1024 need root"
    return os_reason(error)


def _hint(error: OSError) -> str:
    if error.errno == errno.EADDRNOTAVAIL:
        return "`ip addr` lists the addresses of this machine"
    return "choose another --port, or leave it out for a free one"

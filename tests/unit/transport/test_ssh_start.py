"""Starting a program on a connection that breaks at that moment."""

from __future__ import annotations

from typing import Any

import asyncssh
import pytest

from railbed.errors import DeviceError, ProgramRefused, Unreachable
from railbed.transport.ssh.connection import _start


class Connection:
    def __init__(self, error: Exception, *, closed: bool) -> None:
        self._error = error
        self._closed = closed

    async def create_process(self, *_: object, **__: object) -> None:
        raise self._error

    def is_closed(self) -> bool:
        return self._closed


@pytest.mark.parametrize(
    ("error", "closed", "kind"),
    [
        (AttributeError("'NoneType' object has no attribute 'session_started'"), False, Unreachable),
        (asyncssh.ChannelOpenError(4, "no more sessions"), False, ProgramRefused),
        (asyncssh.ChannelOpenError(2, "connection lost"), True, Unreachable),
    ],
)
async def test_a_start_that_fails_is_a_failure_of_the_device(
    error: Exception, closed: bool, kind: type[DeviceError]
) -> None:
    connection: Any = Connection(error, closed=closed)
    with pytest.raises(kind, match="no program could be started"):
        await _start(connection, "true")

"""What an opcode does, as tables of 256 entries: a whole column is looked up at once."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

TRANSPORTS = {0: "RC", 1: "UC", 2: "RD", 3: "UD", 5: "XRC"}
"""The upper three bits of an opcode."""
CNP_OPCODE = 0x81


class Role(IntEnum):
    """What a packet is for a flow."""

    OTHER = 0
    REQUEST = 1
    DATA = 2
    """A response with the data of a READ."""
    ACK = 3
    """An acknowledgement or a refusal."""
    NOTICE = 4
    """A congestion notification."""


class Operation(IntEnum):
    """What a request asks for."""

    NONE = 0
    SEND = 1
    WRITE = 2
    READ = 3
    ATOMIC = 4
    FLUSH = 5


_SEND, _WRITE = (0, 1, 2, 3, 4, 5, 22, 23), (6, 7, 8, 9, 10, 11)
_READ, _ATOMIC, _FLUSH = (12,), (19, 20, 29), (28,)
_DATA, _ACKS = (13, 14, 15, 16), (17, 18)


def _table(lows: Iterable[int], tops: Iterable[int] = TRANSPORTS) -> NDArray[np.bool_]:
    table = np.zeros(256, np.bool_)
    for top in tops:
        table[[top << 5 | low for low in lows]] = True
    return table


OPERATION = np.zeros(256, np.uint8)
for _operation, _lows in ((1, _SEND), (2, _WRITE), (3, _READ), (4, _ATOMIC), (5, _FLUSH)):
    OPERATION[_table(_lows)] = _operation
ROLE = np.zeros(256, np.uint8)
ROLE[OPERATION > 0] = Role.REQUEST
ROLE[_table(_DATA)] = Role.DATA
ROLE[_table(_ACKS)] = Role.ACK
ROLE[CNP_OPCODE] = Role.NOTICE
STARTS = _table((0, 4, 5, 23, 6, 10, 11, 12, 19, 20, 28, 29))
"""The first packet of a message."""
ENDS = _table((2, 3, 4, 5, 22, 23, 8, 9, 10, 11, 12, 19, 20, 28, 29))
"""The last packet of a message."""
FULL = _table((0, 1, 6, 7, 13, 14))
"""A packet that another one of the same message follows: its payload is as large as the path allows."""
ANSWERS_FIRST = _table((13, 16, 17, 18))
"""An answer with the sequence number of a request."""
ORDERED = _table(range(32), tops=(0, 1, 2, 5))
"""A connection whose sequence numbers have no gaps; datagrams of a queue pair go to many."""


def transport(opcode: int) -> str:
    """Return the transport of an opcode."""
    return "CNP" if opcode == CNP_OPCODE else TRANSPORTS.get(opcode >> 5, "unknown")

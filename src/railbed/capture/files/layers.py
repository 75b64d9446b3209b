"""What both engines decode alike: numbers of protocols, sizes of headers, reasons to leave a packet out."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from railbed.capture.opcodes import OPCODES


class Reason(IntEnum):
    """Why a packet is not among the decoded ones; the first that applies, from the outside in."""

    NONE = 0
    NOT_ROCE = 1
    CUT_OFF = 2
    FRAGMENT = 3
    MALFORMED = 4
    OTHER_LINK = 5


REASON_TEXT = {
    Reason.NOT_ROCE: "not RoCE",
    Reason.CUT_OFF: "cut off before the transport header",
    Reason.FRAGMENT: "a later fragment of an IP packet",
    Reason.MALFORMED: "malformed headers",
    Reason.OTHER_LINK: "recorded on an interface whose link type is not read",
}

IPV4, IPV6, ROCE1, FLOW_CONTROL = 0x0800, 0x86DD, 0x8915, 0x8808
VLAN_TAGS = (0x8100, 0x88A8, 0x9100, 0x9200)
MOST_TAGS = 4
MOST_EXTENSIONS = 8
EXTENSIONS = (0, 43, 44, 51, 60, 139, 140)
"""Headers of IPv6 between its own and the transport's, which say where the next begins."""
FRAGMENT_HEADER, AUTHENTICATION_HEADER = 44, 51
UDP, GRE = 17, 47
ROCE_PORT = 4791
IB_TRANSPORT = 0x1B
ERSPAN2, ERSPAN3 = 0x88BE, 0x22EB
PFC_OPCODE, PAUSE_OPCODE = 0x0101, 0x0001
BTH_BYTES, ICRC_BYTES = 12, 4
MORE_FRAGMENTS, FRAGMENT_OFFSET = 0x2000, 0x1FFF

ETHERNET_HEADER = np.dtype([("destination", "V6"), ("source", "V6"), ("kind", ">u2")])
IPV4_HEADER = np.dtype(
    [
        *(("version", "u1"), ("tos", "u1"), ("total", ">u2"), ("identification", ">u2"), ("fragment", ">u2")),
        *(("ttl", "u1"), ("protocol", "u1"), ("checksum", ">u2"), ("addresses", ">u8")),
    ]
)
IPV6_HEADER = np.dtype(
    [
        *(("version", ">u4"), ("payload", ">u2"), ("following", "u1"), ("hops", "u1")),
        *(("source", "V16"), ("destination", "V16")),
    ]
)
"""Also the global route header of RoCEv1."""
UDP_HEADER = np.dtype([("source", ">u2"), ("destination", ">u2"), ("length", ">u2"), ("checksum", ">u2")])
BTH = np.dtype([("opcode", "u1"), ("flags", "u1"), ("key", ">u2"), ("qp", ">u4"), ("psn", ">u4")])
PAUSE = np.dtype([("opcode", ">u2"), ("classes", ">u2"), ("quanta", ">u2", 8)])
PAUSE_BYTES = 4
GRE_HEADER = np.dtype([("flags", ">u2"), ("kind", ">u2")])


def _offsets(header: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return for each opcode where a header begins behind the base transport header; -1 if it has none."""
    offsets = np.full(256, -1, np.int64)
    for code, opcode in OPCODES.items():
        offset = opcode.offset(header)
        offsets[code] = -1 if offset is None else offset
    return offsets


HEADER_BYTES = np.zeros(256, np.int64)
for _code, _opcode in OPCODES.items():
    HEADER_BYTES[_code] = _opcode.header_bytes
TRANSPORT_BYTES = (HEADER_BYTES + BTH_BYTES).astype(np.int32)
"""With the base transport header."""
OFFSETS = AETH_OFFSET, RETH_OFFSET, DETH_OFFSET = _offsets("AETH"), _offsets("RETH"), _offsets("DETH")

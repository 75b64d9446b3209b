"""Find the transport header of a packet: the first half of what numba compiles."""

from __future__ import annotations

from numba import njit

from railbed.capture.files import layers
from railbed.capture.files.compiled.memory import Address, big2, read1, read8, write8
from railbed.capture.files.layers import LinkType, Reason
from railbed.capture.packets import NO_VLAN, Kind

POSITION, KIND, NETWORK, CONTENT, PAYLOAD, TOS, SOURCE_PORT, VLAN = 0, 1, 2, 3, 4, 5, 6, 7
PLAIN, FRAGMENTED, MIRRORED, SENDER, VERSION, NEXT, STATE_SIZE = 8, 9, 10, 11, 12, 13, 14
"""Places in the state of a packet. NEXT is the ethertype, the protocol or the link type that comes next."""

NONE, NOT_ROCE, CUT_OFF = int(Reason.NONE), int(Reason.NOT_ROCE), int(Reason.CUT_OFF)
LATER_FRAGMENT, MALFORMED, OTHER_LINK = int(Reason.FRAGMENT), int(Reason.MALFORMED), int(Reason.OTHER_LINK)
UNSUPPORTED, ETHERNET, RAW, COOKED = (
    int(LinkType.UNSUPPORTED),
    int(LinkType.ETHERNET),
    int(LinkType.RAW),
    int(LinkType.COOKED),
)
ROCE2, ROCE1, PFC, PAUSE = int(Kind.ROCE2), int(Kind.ROCE1), int(Kind.PFC), int(Kind.PAUSE)
VLAN_TAGS, EXTENSIONS = layers.VLAN_TAGS, layers.EXTENSIONS
MOST_TAGS, MOST_EXTENSIONS = layers.MOST_TAGS, layers.MOST_EXTENSIONS
FRAGMENT_HEADER, AUTHENTICATION_HEADER = layers.FRAGMENT_HEADER, layers.AUTHENTICATION_HEADER
MORE_FRAGMENTS, FRAGMENT_OFFSET = layers.MORE_FRAGMENTS, layers.FRAGMENT_OFFSET
IPV4, IPV6, ROCE1_TYPE, FLOW_CONTROL = layers.IPV4, layers.IPV6, layers.ROCE1, layers.FLOW_CONTROL
UDP, GRE, IB_TRANSPORT = layers.UDP, layers.GRE, layers.IB_TRANSPORT
ROCE_PORT, ERSPAN2, ERSPAN3 = layers.ROCE_PORT, layers.ERSPAN2, layers.ERSPAN3
PFC_OPCODE, PAUSE_OPCODE, PFC_BYTES = layers.PFC_OPCODE, layers.PAUSE_OPCODE, layers.PAUSE.itemsize
BTH_BYTES, ICRC_BYTES = layers.BTH_BYTES, layers.ICRC_BYTES
UNWRAP = -1
"""Not a reason: a mirrored packet follows."""


@njit(cache=True, nogil=True)
def get(state: Address, field: int) -> int:
    return read8(state + 8 * field)


@njit(cache=True, nogil=True)
def put(state: Address, field: int, value: int) -> None:
    write8(state + 8 * field, value)


@njit(cache=True, nogil=True)
def _link(stop: Address, link: int, state: Address) -> int:
    """Read the header of the link; the ethertype comes next."""
    position = get(state, POSITION)
    if link == UNSUPPORTED:
        return OTHER_LINK
    if link == RAW:
        if stop - position < 1:
            return CUT_OFF
        version = read1(position) >> 4
        put(state, NEXT, IPV4 if version == 4 else IPV6 if version == 6 else 0)
        return NONE
    size, place, sender = 20, 0, 12
    if link == ETHERNET:
        size, place, sender = 14, 12, 6
    elif link == COOKED:
        size, place, sender = 16, 14, 6
    if stop - position < size:
        return CUT_OFF
    put(state, SENDER, position + sender)
    put(state, NEXT, big2(position + place))
    put(state, POSITION, position + size)
    return int(_tags(stop, state))


@njit(cache=True, nogil=True)
def _tags(stop: Address, state: Address) -> int:
    """Skip VLAN tags; the first is kept."""
    ethertype, position = get(state, NEXT), get(state, POSITION)
    for _ in range(MOST_TAGS):
        if ethertype not in VLAN_TAGS:
            break
        if stop - position < 4:
            return CUT_OFF
        if get(state, VLAN) == NO_VLAN:
            put(state, VLAN, big2(position))
        ethertype = big2(position + 2)
        position += 4
    put(state, NEXT, ethertype)
    put(state, POSITION, position)
    return NONE


@njit(cache=True, nogil=True)
def _ipv4(stop: Address, state: Address) -> int:
    """Read an IPv4 header; the protocol comes next."""
    position = get(state, POSITION)
    if stop - position < 20:
        return CUT_OFF
    version, protocol = read1(position), read1(position + 9)
    if version < 0x45 or version > 0x4F:
        return MALFORMED
    if protocol not in (UDP, GRE):
        return NOT_ROCE
    fragment = big2(position + 6)
    if fragment & FRAGMENT_OFFSET:
        return LATER_FRAGMENT
    size = (version & 15) * 4
    put(state, VERSION, 4)
    put(state, NETWORK, position)
    put(state, TOS, read1(position + 1))
    put(state, CONTENT, big2(position + 2) - size)
    put(state, FRAGMENTED, fragment & MORE_FRAGMENTS)
    put(state, PLAIN, 1 if size == 20 and not fragment & MORE_FRAGMENTS else 0)
    put(state, NEXT, protocol)
    put(state, POSITION, position + size)
    return NONE


@njit(cache=True, nogil=True)
def _ipv6(stop: Address, state: Address) -> int:
    """Read an IPv6 header and its extensions; the protocol comes next."""
    position = get(state, POSITION)
    if stop - position < 40:
        return CUT_OFF
    if read1(position) >> 4 != 6:
        return MALFORMED
    put(state, VERSION, 6)
    put(state, NETWORK, position)
    put(state, TOS, big2(position) >> 4 & 0xFF)
    put(state, CONTENT, big2(position + 4))
    put(state, FRAGMENTED, 0)
    put(state, PLAIN, 1)
    put(state, POSITION, position + 40)
    protocol = read1(position + 6)
    for _ in range(MOST_EXTENSIONS):
        if protocol not in EXTENSIONS:
            break
        if stop - get(state, POSITION) < 8:
            return CUT_OFF
        following = read1(get(state, POSITION))
        if not _skip_extension(protocol, state):
            return LATER_FRAGMENT
        protocol = following
    put(state, NEXT, protocol)
    return NONE


@njit(cache=True, nogil=True)
def _skip_extension(kind: int, state: Address) -> bool:
    """Skip an extension header; return False for a later fragment."""
    position = get(state, POSITION)
    size = read1(position + 1) * 8 + 8
    if kind == AUTHENTICATION_HEADER:
        size = read1(position + 1) * 4 + 8
    if kind == FRAGMENT_HEADER:
        size = 8
        fragment = big2(position + 2)
        if fragment >> 3:
            return False
        put(state, FRAGMENTED, get(state, FRAGMENTED) | fragment & 1)
    put(state, PLAIN, 0)
    put(state, CONTENT, get(state, CONTENT) - size)
    put(state, POSITION, position + size)
    return True


@njit(cache=True, nogil=True)
def _udp(stop: Address, state: Address) -> int:
    """Read a UDP header; the base transport header comes next."""
    position = get(state, POSITION)
    if stop - position < 8:
        return CUT_OFF
    if big2(position + 2) != ROCE_PORT:
        return NOT_ROCE
    length = big2(position + 4)
    if length < 8 + BTH_BYTES + ICRC_BYTES or (length > get(state, CONTENT) and not get(state, FRAGMENTED)):
        return MALFORMED
    put(state, KIND, ROCE2)
    put(state, SOURCE_PORT, big2(position))
    put(state, CONTENT, length - 8)
    put(state, POSITION, position + 8)
    return NONE


@njit(cache=True, nogil=True)
def _roce1(stop: Address, state: Address) -> int:
    """Read a global route header; the base transport header comes next."""
    position = get(state, POSITION)
    if stop - position < 40:
        return CUT_OFF
    payload = big2(position + 4)
    if read1(position) >> 4 != 6 or read1(position + 6) != IB_TRANSPORT or payload < BTH_BYTES + ICRC_BYTES:
        return MALFORMED
    put(state, KIND, ROCE1)
    put(state, VERSION, 6)
    put(state, NETWORK, position)
    put(state, TOS, big2(position) >> 4 & 0xFF)
    put(state, CONTENT, payload)
    put(state, SOURCE_PORT, 0)
    put(state, PLAIN, 1)
    put(state, POSITION, position + 40)
    return NONE


@njit(cache=True, nogil=True)
def _flow_control(stop: Address, state: Address) -> int:
    position = get(state, POSITION)
    if stop - position < 4:
        return CUT_OFF
    opcode = big2(position)
    if opcode not in (PFC_OPCODE, PAUSE_OPCODE):
        return NOT_ROCE
    if opcode == PFC_OPCODE and stop - position < PFC_BYTES:
        return CUT_OFF
    put(state, KIND, PFC if opcode == PFC_OPCODE else PAUSE)
    return NONE


@njit(cache=True, nogil=True)
def _gre(stop: Address, state: Address) -> int:
    """Unwrap what a switch mirrored; the link type comes next."""
    position = get(state, POSITION)
    if get(state, MIRRORED):
        return NOT_ROCE
    if stop - position < 4:
        return CUT_OFF
    flags, kind = big2(position), big2(position + 2)
    if kind not in (ERSPAN2, ERSPAN3) or flags & 0x4007:
        return NOT_ROCE
    position += 4 + 4 * (flags >> 15) + 4 * (flags >> 13 & 1) + 4 * (flags >> 12 & 1)
    link = ETHERNET
    if kind == ERSPAN3:
        if stop - position < 12:
            return CUT_OFF
        last = big2(position + 10)
        if last >> 10 & 31 not in (0, 2):
            return NOT_ROCE
        link = RAW if last >> 10 & 31 == 2 else ETHERNET
        position += 12 + 8 * (last & 1)
    elif flags & 0x1000:
        position += 8
    put(state, NEXT, link)
    put(state, POSITION, position)
    put(state, MIRRORED, 1)
    put(state, VLAN, NO_VLAN)
    return UNWRAP


@njit(cache=True, nogil=True)
def _inside(stop: Address, state: Address) -> int:
    """Read everything between the link and the transport."""
    ethertype = get(state, NEXT)
    if ethertype == ROCE1_TYPE:
        return int(_roce1(stop, state))
    if ethertype == FLOW_CONTROL:
        return int(_flow_control(stop, state))
    if ethertype == IPV4:
        reason = _ipv4(stop, state)
    elif ethertype == IPV6:
        reason = _ipv6(stop, state)
    else:
        return NOT_ROCE
    if reason != NONE:
        return int(reason)
    if get(state, NEXT) == UDP:
        return int(_udp(stop, state))
    return int(_gre(stop, state)) if get(state, NEXT) == GRE else NOT_ROCE


@njit(cache=True, nogil=True)
def find_transport(start: Address, stop: Address, link: int, sizes: Address, state: Address) -> int:
    """Find the base transport header of a packet, or its flow control; return a Reason.

    `sizes` are the lengths of the extended headers by opcode.
    """
    put(state, POSITION, start)
    put(state, VLAN, NO_VLAN)
    put(state, MIRRORED, 0)
    put(state, NEXT, link)
    reason = UNWRAP
    while reason == UNWRAP:
        reason = _link(stop, get(state, NEXT), state)
        if reason == NONE:
            reason = _inside(stop, state)
    if reason != NONE or get(state, KIND) >= PFC:
        return reason
    position = get(state, POSITION)
    if stop - position < BTH_BYTES:
        return CUT_OFF
    pad = read1(position + 1) >> 4 & 3
    payload = get(state, CONTENT) - read8(sizes + 8 * read1(position)) - pad - BTH_BYTES - ICRC_BYTES
    put(state, PAYLOAD, payload)
    return MALFORMED if payload < 0 else NONE

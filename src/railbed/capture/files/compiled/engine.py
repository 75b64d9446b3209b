"""Find where records begin, and decode them, one after another: the first half of what numba compiles."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from railbed.capture.files import layers
from railbed.capture.files.addresses import AddressTable, TooManyAddresses
from railbed.capture.files.compiled import headers, transport
from railbed.capture.files.compiled.headers import get
from railbed.capture.files.compiled.memory import Address, big2, big4, little4, write1, write2, write4, write8
from railbed.capture.files.compiled.transport import DECODED, DESTINATION, ROW, SOURCE, write_transport
from railbed.capture.files.decode import Decoded
from railbed.capture.files.formats.blocks import SECTION, SHORTEST_BLOCK, BlockChain
from railbed.capture.files.formats.lanes import Positions, RecordChain
from railbed.capture.files.formats.pcap import LONGEST_PACKET, RECORD, PcapChain, PcapHeader
from railbed.capture.files.source import Buffer
from railbed.capture.packets import COLUMNS, Kind


@njit(cache=True, nogil=True)
def word(address: Address, is_big: bool) -> int:
    return big4(address) if is_big else little4(address)


@njit(cache=True, nogil=True)
def walk_pcap(data: Address, position: int, end: int, is_big: bool, starts: NDArray[np.int64]) -> tuple[int, int]:
    """Write where records begin; return how many, and where the walk ended."""
    count = 0
    while position + RECORD <= end:
        captured = word(data + position + 8, is_big)
        following = position + RECORD + captured
        if captured > LONGEST_PACKET or following > end:
            break
        starts[count] = position
        count += 1
        position = following
    return count, position


@njit(cache=True, nogil=True)
def walk_blocks(data: Address, position: int, end: int, is_big: bool, starts: NDArray[np.int64]) -> tuple[int, int]:
    """Write where blocks begin; return how many, and where the walk ended."""
    count = 0
    while position + SHORTEST_BLOCK <= end:
        length = word(data + position + 4, is_big)
        following = position + length
        if length < SHORTEST_BLOCK or length & 3 or following > end or big4(data + position) == SECTION:
            break
        if word(data + following - 4, is_big) != length:
            break
        starts[count] = position
        count += 1
        position = following
    return count, position


@njit(cache=True, nogil=True)
def pcap_fields(
    data: Address,
    starts: NDArray[np.int64],
    is_big: bool,
    unit: int,
    time: NDArray[np.int64],
    captured: NDArray[np.int64],
    length: NDArray[np.uint32],
) -> None:
    """Write the times, captured bytes and lengths of records."""
    for index in range(len(starts)):
        record = data + starts[index]
        time[index] = word(record, is_big) * 1_000_000_000 + word(record + 4, is_big) * unit
        captured[index] = word(record + 8, is_big)
        length[index] = word(record + 12, is_big)


PFC = int(Kind.PFC)
PAUSES = {"sender": "u8", "per_class": "?", "vlan": "u2", "classes": "u1"}


@njit(cache=True, nogil=True)
def _write_pause(state: Address, row: int, columns: Address, index: int) -> None:
    """Write a pause frame: its row, sender, whether it is PFC, tag, classes and times."""
    position, sender = get(state, headers.POSITION), get(state, headers.SENDER)
    per_class = get(state, headers.KIND) == PFC
    write8(get(columns, 0) + 8 * index, row)
    write8(get(columns, 1) + 8 * index, big4(sender) << 16 | big2(sender + 4))
    write1(get(columns, 2) + index, 1 if per_class else 0)
    write2(get(columns, 3) + 2 * index, get(state, headers.VLAN))
    write1(get(columns, 4) + index, big2(position + 2) & 0xFF if per_class else 0xFF)
    for priority in range(8):
        place = position + 4 + 2 * priority if per_class else position + 2
        write2(get(columns, 5) + 16 * index + 2 * priority, big2(place))


@njit(cache=True, nogil=True)
def _decode(
    data: Address,
    start: NDArray[np.int64],
    captured: NDArray[np.int64],
    link: NDArray[np.uint8],
    reasons: NDArray[np.uint8],
    places: NDArray[np.int64],
) -> tuple[int, int, int]:
    """Decode the packets at these positions; return how many packets, pause frames and mirrored ones there are."""
    state, sizes, known, columns, pause_columns = places[0], places[1], places[2], places[3], places[4]
    count = pauses = mirrored = 0
    for row in range(len(start)):
        begin = data + start[row]
        stop = begin + captured[row]
        reason = headers.find_transport(begin, stop, int(link[row]), sizes, state)
        reasons[row] = reason
        if reason:
            continue
        mirrored += get(state, headers.MIRRORED)
        if get(state, headers.KIND) >= PFC:
            _write_pause(state, row, pause_columns, pauses)
            pauses += 1
            continue
        version, network = get(state, headers.VERSION), get(state, headers.NETWORK)
        source = transport.source_number(known, version, network)
        destination = transport.destination_number(known, version, network)
        if transport.OVERFULL in (source, destination):
            return transport.OVERFULL, 0, 0
        write8(get(columns, ROW) + 8 * count, row)
        write4(get(columns, SOURCE) + 4 * count, source)
        write4(get(columns, DESTINATION) + 4 * count, destination)
        write_transport(state, stop, columns, count)
        count += 1
    return count, pauses, mirrored


class CompiledEngine:
    """Reads one file."""

    def __init__(self, addresses: AddressTable) -> None:
        self.addresses = addresses
        self.known = transport.KnownAddresses()
        self.state = np.zeros(headers.STATE_SIZE, np.int64)
        self._make_room(0)

    def _make_room(self, count: int) -> None:
        """Allocate the columns of a chunk, which the next chunk uses again."""
        self.room = count
        self.columns = [*(np.empty(count, COLUMNS[name]) for name in DECODED), np.empty(count, np.int64)]
        self.pauses = [np.empty(count, kind) for kind in ("i8", *PAUSES.values())]
        self.pauses.append(np.empty((count, 8), np.uint16))
        self.pointers = np.array([column.ctypes.data for column in self.columns])
        self.pause_pointers = np.array([column.ctypes.data for column in self.pauses])

    def walk(self, chain: RecordChain, position: int, end: int, *, alone: bool = False) -> tuple[Positions, int]:
        """Return where the records begin, and where the walk ended; it is always sequential."""
        del alone
        assert isinstance(chain, PcapChain | BlockChain)
        walk, shortest = (walk_pcap, RECORD) if isinstance(chain, PcapChain) else (walk_blocks, SHORTEST_BLOCK)
        starts = np.empty(max(0, end - position) // shortest + 1, np.int64)
        count, reached = walk(chain.window.buffer.bytes.ctypes.data, position, end, chain.order == ">", starts)
        return starts[:count].copy(), reached

    def pcap_fields(
        self, buffer: Buffer, header: PcapHeader, starts: Positions
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint32]]:
        """Return the times, captured bytes and lengths of records."""
        time, captured = np.empty(len(starts), np.int64), np.empty(len(starts), np.int64)
        length = np.empty(len(starts), np.uint32)
        data = buffer.bytes.ctypes.data
        pcap_fields(data, starts, header.order == ">", header.unit, time, captured, length)
        return time, captured, length

    def decode(
        self, buffer: Buffer, start: NDArray[np.int64], captured: NDArray[np.int64], link: NDArray[np.uint8]
    ) -> Decoded:
        """Decode the packets that begin at these positions; what is returned is valid until the next call."""
        decoded = Decoded(np.zeros(len(start), np.uint8))
        if len(start) > self.room:
            self._make_room(len(start))
        parts = (self.state, layers.HEADER_BYTES, self.known.places, self.pointers, self.pause_pointers)
        places = np.array([part.ctypes.data for part in parts])
        count, pause_count, decoded.mirrored = _decode(
            buffer.bytes.ctypes.data, start, captured, link, decoded.reasons, places
        )
        if count == transport.OVERFULL:
            raise TooManyAddresses
        self.known.name(self.addresses)
        if count:
            *values, row = (column[:count] for column in self.columns)
            decoded.groups.append((row, dict(zip(DECODED, values, strict=True))))
        if pause_count:
            row, *values = (column[:pause_count].copy() for column in self.pauses)
            decoded.pauses.append((row, dict(zip((*PAUSES, "quanta"), values, strict=True))))
        return decoded

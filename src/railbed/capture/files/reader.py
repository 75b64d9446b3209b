"""Read a capture file: formats give records, an engine decodes them, and the columns collect the result."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np

from railbed.capture.files.addresses import MOST_ADDRESSES, AddressTable, TooManyAddresses
from railbed.capture.files.columns import Columns, Engine, EngineName, make_engine
from railbed.capture.files.formats import pcap, pcapng
from railbed.capture.files.formats.pcap import FileState, Records
from railbed.capture.files.layers import READABLE, SUPPORTED, link_name
from railbed.capture.files.source import ENDS_EARLY, Buffer, FileWindow, open_source
from railbed.capture.packets import Recording
from railbed.errors import CaptureFileError
from railbed.model.text import plural

CHUNK = 1 << 15
"""Records that are decoded at once: enough for numpy, few enough for the processor's cache."""
SHORTEST_RECORD = 74
"""An acknowledgement in a pcap file: there are not many more packets than so many bytes."""
OTHER_FORMATS = {
    b"\xa1\xb2\xcd\x34": "the modified pcap format of old Linux kernels (Kuznetzov's)",
    b"\xa1\xe2\xcb\x12": "another modified pcap format (Navtel's)",
    b"snoop": "the format of Solaris snoop",
    b"XCP\0": "the format of a NetXRay or Sniffer capture",
    b"RTSS": "the format of a NetMon capture",
    b"GMBU": "the format of a NetMon capture",
}
"""By how they begin."""


def read_recording(
    path: Path,
    *,
    name: str = "",
    device: str = "",
    port: str = "",
    addresses: tuple[str, ...] = (),
    engine: EngineName = "auto",
) -> Recording:
    """Return the packets of a capture file: pcap or pcapng, as it is or compressed with gzip or zstd.

    What is not a capture file, or is damaged from its beginning, is refused with a CaptureFileError. If the damage
    comes later, the packets before it are returned, and `damage` has the reason.
    """
    source = open_source(path)
    try:
        state, columns, table = FileState(), Columns(source.size // SHORTEST_RECORD), AddressTable()
        reading, window = make_engine(engine, table, path), FileWindow(source)
        try:
            with closing(_ahead(window, file_records(window, path, state, reading))) as windows:
                for buffer, records in windows:
                    _decode(buffer, records, reading, columns)
        except TooManyAddresses:
            state.damage = f"{path} contains more than {MOST_ADDRESSES:,} addresses: it is read up to there"
    finally:
        source.close()
    if source.problem and not state.damage:
        defect = "cut" if source.problem == ENDS_EARLY else "incomplete"
        state.damage = f"{path} is {defect}: {source.problem}, after {plural(columns.total, 'packet')}"
    if state.damage and not columns.total:
        raise CaptureFileError(state.damage)
    return Recording(
        name=name or path.name,
        packets=columns.packets(table),
        device=device,
        port=port,
        addresses=addresses,
        snap_length=state.snap_length,
        total=columns.total,
        other=columns.other(),
        mirrored=columns.mirrored,
        truncated=state.truncated,
        damage=state.damage,
        dropped=state.dropped,
    )


def _ahead(window: FileWindow, every: Iterator[Records]) -> Generator[tuple[Buffer, Records], None, None]:
    """Yield records with their buffer, and find the next ones in a thread while the caller decodes.

    numpy, numba and the decompressors let both threads run. The other buffer is filled meanwhile, and not more: the
    thread stops until the caller wants what it found.
    """

    def step() -> tuple[Buffer, Records | None]:
        records = next(every, None)
        return window.buffer, records

    if window.complete:
        yield from ((window.buffer, records) for records in every)
        return
    with ThreadPoolExecutor(1) as executor:
        pending = executor.submit(step)
        while True:
            buffer, records = pending.result()
            if records is None:
                return
            pending = executor.submit(step)
            yield buffer, records


def _decode(buffer: Buffer, records: Records, engine: Engine, columns: Columns) -> None:
    for begin in range(0, len(records), CHUNK):
        chunk = records.part(begin, begin + CHUNK)
        columns.add(chunk, engine.decode(buffer, chunk.start, chunk.captured, chunk.link))


def file_records(window: FileWindow, path: Path, state: FileState, engine: Engine) -> Iterator[Records]:
    """Yield the records of a file, window by window; each is valid until the next is requested."""
    start = window.copy(0, min(pcap.HEADER, window.end))
    if start[:4] == pcapng.MAGIC:
        return pcapng.PcapngFile(window, path, state, engine.walk).records()
    if start[:4] in pcap.MAGIC:
        if len(start) < pcap.HEADER:
            raise CaptureFileError(f"{path} ends within the header of the file")
        return _pcap_records(window, path, state, engine)
    raise _explain_refusal(path, start, window.source.problem)


def _explain_refusal(path: Path, start: bytes, problem: str) -> CaptureFileError:
    if not start:
        return CaptureFileError(f"{path} cannot be read: {problem}" if problem else f"{path} is empty")
    for magic, name in OTHER_FORMATS.items():
        if magic in (start[: len(magic)], start[: len(magic)][::-1]):
            return CaptureFileError(f"{path} has {name}", hint=f"Convert it: editcap -F pcap {path} new.pcap")
    return CaptureFileError(f"{path} is neither pcap nor pcapng", hint="tcpdump -w and Wireshark write such files.")


def _pcap_records(window: FileWindow, path: Path, state: FileState, engine: Engine) -> Iterator[Records]:
    header = pcap.read_header(window.copy(0, pcap.HEADER))
    link = SUPPORTED.get(header.link)
    if link is None:
        raise CaptureFileError(f"{path} was recorded with {link_name(header.link)}", hint=f"railbed reads {READABLE}.")
    state.snap_length = header.snap_length
    position = pcap.HEADER
    while True:
        chain = pcap.PcapChain(window, header)
        starts, position = engine.walk(chain, position, window.end)
        time, captured, length = engine.pcap_fields(window.buffer, header, starts)
        yield Records(starts + pcap.RECORD, captured, length, time, np.full(len(starts), link, np.uint8))
        if pcap.is_damaged(chain, position):
            state.damage = f"{path} is damaged at byte {window.before + position}"
            return
        if window.complete:
            state.truncated = position < window.end
            return
        window.advance(position)
        position = 0
